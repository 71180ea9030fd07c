"""Keys of responses are the same with remembered messages and without them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from penumbra.apis import prefix_hash, recognise
from penumbra.expand import hidden_exchanges
from penumbra.wire.document import Document
from penumbra.wire.prefix_memory import PrefixMemory
from support import work_counts

MESSAGES = [{"role": role, "content": f"{role} {n}"} for n in range(3) for role in ("user", "assistant")]


def keys(memory: PrefixMemory | None, start: bytes = prefix_hash.START, **more: Any) -> tuple[bytes, ...]:
    api = recognise.by_request_line("POST", "/v1/messages")
    assert api is not None
    document = Document(json.dumps({"model": "m", "messages": MESSAGES, **more}).encode())
    array = document.members(document.root)["messages"]
    if memory is not None:
        document.remember(array, memory, b"scope")
    chain = prefix_hash.read(document, array, start)
    return hidden_exchanges.read(api.wire, document, b"owner", b"", chain).keys


def test_names_depend_on_the_start_of_the_chain_and_its_counted_members() -> None:
    memory = PrefixMemory()
    for _ in range(2):
        plain = keys(memory)
        assert plain == keys(None)
        other_start = keys(memory, b"start")
        assert other_start == keys(None, b"start") != plain
        referable = keys(memory, input=[])
        assert referable == keys(None, input=[]) != plain


def gemini(number: int) -> list[Any]:
    call = {"functionCall": {"name": "read", "args": {"path": f"{number}.py"}}}
    result = {"functionResponse": {"name": "read", "response": {"output": f"text {number}"}}}
    texts = [{"role": "model", "parts": [part]} for part in ({"text": f"Step {number}."}, call)]
    return [*texts, {"role": "user", "parts": [result]}]


def responses(number: int) -> list[Any]:
    call = {"type": "function_call", "call_id": f"call_{number}", "name": "read", "arguments": "{}"}
    reference = {"type": "item_reference", "id": f"msg_{number}"}
    said = {"type": "message", "role": "assistant", "content": f"Step {number}."}
    reasoning = {"type": "reasoning", "id": f"rs_{number}", "encrypted_content": f"sealed {number}"}
    result = {"type": "function_call_output", "call_id": f"call_{number}", "output": f"text {number}"}
    return [reasoning, reference if number % 3 == 1 else said, *([call] if number % 3 else []), result]


@pytest.mark.parametrize(
    ("path", "member", "turn"),
    [
        ("/v1beta/models/gemini-2.5-pro:generateContent", "contents", gemini),
        ("/v1/responses", "input", responses),
    ],
    ids=["gemini", "responses"],
)
def test_responses_of_several_messages_continue_after_the_known_ones(
    path: str, member: str, turn: Callable[[int], list[Any]]
) -> None:
    api = recognise.by_request_line("POST", path)
    assert api is not None
    messages, memory = [{"role": "user", "parts": [{"text": "go"}], "content": "go"}], PrefixMemory()
    counts: list[int] = []
    for number in range(60):
        messages += turn(number)
        found = []
        # The last message may also be the model's.
        body = json.dumps({member: messages[: len(messages) - number % 2]}).encode()
        for kept in (None, memory):
            document = Document(body)
            if kept is not None:
                document.remember(document.top[member], kept, b"scope")
            chain = prefix_hash.of(document)
            history = hidden_exchanges.read(api.wire, document, b"owner", b"", chain)
            found.append((history, api.wire.reasoning(document)))
        counts.append(work_counts.calls(api.wire.visible, document))
        assert found[0] == found[1]
        assert len(found[0][0].visible) == number + 1
    assert counts[-2] < 2 * counts[10]
