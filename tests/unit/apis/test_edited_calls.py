"""Arguments of calls are edited on their way to the client, in every API and for any division of bytes."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec import structs

from penumbra.apis.formats import FORMATS
from support.streams import anthropic_streams as anthropic
from support.streams.drive import chunks
from support.streams.provider_turns import Case, every_case
from support.upstream.script import ToolCall, turn

ARGUMENTS = {"p": 'a "b" <x>', "q": ["<x", "é<x><x>"]}
TEXT = json.dumps(ARGUMENTS, ensure_ascii=False)
VALUE = 'long \\"value\\" \\\\ ü'
"""The new value as it stands in JSON."""
EDITED = TEXT.replace("<x>", VALUE)
FREE = "+ <x> \\ <"
FREE_EDITED = FREE.replace("<x>", "VALUE")
TURN = turn("<x> 1.10", *(ToolCall(name, ARGUMENTS) for name in ("Edit", "Bash", "Edit")), delta=2)


class Angles:
    """An editor that replaces `<x>`, and delays a text that may become one, and the end of an object."""

    def __init__(self, value: str) -> None:
        self._value = value
        self._held = ""

    def feed(self, fragment: str) -> str:
        text = (self._held + fragment).replace("<x>", self._value)
        keep = 2 if text.endswith("<x") else text.endswith(("<", "}"))
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def opened(tool: str, *, freeform: bool = False) -> Angles | None:
    return Angles("VALUE" if freeform else VALUE) if tool == "Edit" else None


def untouched(tool: str, *, freeform: bool = False) -> None:
    return None


def passed(format_name: str, pieces: Iterable[bytes], open_: Any = opened, *, stream: bool = True) -> bytes:
    api = FORMATS[format_name].responses
    edited = api.passed([api.arguments(open_)], stream=stream)
    return b"".join([*(edited.feed(piece) for piece in pieces), edited.close()])


def read(message: Any, edits: dict[str, Any]) -> Any:
    """Return a message with decoded arguments of calls. `edits` has the new arguments by tool."""
    if isinstance(message, list):
        return [read(one, edits) for one in message]
    if not isinstance(message, dict):
        return message
    members = {key: read(value, edits) for key, value in message.items()}
    for key in members.keys() & {"input", "arguments", "args"}:
        value = members[key]
        members[key] = edits.get(message["name"], json.loads(value) if isinstance(value, str) else value)
    return members


@every_case
def test_the_client_gets_other_arguments_and_nothing_else_changes(case: Case) -> None:
    data = case.begin().written(TURN)
    out = passed(case.format, [data], stream=case.is_stream)
    got, plain = case.read(out), case.read(data)
    assert got == structs.replace(plain, message=got.message, made=got.made, tokens=got.tokens)
    before, after = (json.loads(b"[%b]" % one.message) for one in (plain, got))
    assert read(after, {}) == read(before, {"Edit": json.loads(EDITED)}) != read(before, {})
    assert passed(case.format, [data], untouched, stream=case.is_stream) == data
    for at in range(0, len(data), len(data) // 20):
        assert passed(case.format, [data[:at], data[at:]], stream=case.is_stream) == out
    assert passed(case.format, chunks(data, 1), stream=case.is_stream) == out


@pytest.mark.parametrize("name", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_each_event_goes_at_once(name: str) -> None:
    """An event is delayed only by the part of its fragment that may still change."""
    data, api = Case(name, True).written(TURN), FORMATS[name].responses
    edited = api.passed([api.arguments(opened)], stream=True)
    for event in data.split(b"\n\n")[:-1]:
        assert edited.feed(event + b"\n\n").endswith(b"\n\n")


FRAGMENT = re.compile(rb'"(?:partial_json|arguments)": ?("(?:[^"\\]|\\.)*")')


def fragments(data: bytes) -> str:
    return "".join(json.loads(found) for found in FRAGMENT.findall(data))


@pytest.mark.parametrize("name", ["anthropic", "openai_chat"])
def test_a_broken_stream_releases_its_delayed_text(name: str) -> None:
    events = Case(name, True).written(turn("<x>", ToolCall("Edit", ARGUMENTS), delta=2)).split(b"\n\n")
    for count in range(1, len(events)):
        begun = b"".join(event + b"\n\n" for event in events[:count])
        assert fragments(passed(name, [begun])) == fragments(begun).replace("<x>", VALUE)


def sse(*values: Any) -> bytes:
    pieces = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return b": hello\n\n" + b"".join(b"data: %b\n\n" % piece for piece in pieces)


def events(data: bytes) -> list[Any]:
    return [json.loads(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {")]


def cut(text: str, size: int = 2) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def chat_stream() -> bytes:
    def chunk(calls: list[Any] | None = None, reason: str | None = None, **more: Any) -> Any:
        delta = {"tool_calls": calls} if calls else more
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    def call(index: int, text: str, name: str = "", given: str = "") -> Any:
        head = {"id": given, "type": "function"} if given else {}
        named = {"name": name} if name else {}
        return {"index": index, **head, "function": {**named, "arguments": text}}

    return sse(
        chunk(role="assistant", content="<x>"),
        chunk([call(0, "", "Edit", "a")]),
        *(chunk([call(0, piece)]) for piece in cut(TEXT[:-1] + "<")),
        chunk([call(1, "", "Bash", "b")]),
        *(chunk([call(1, piece)]) for piece in cut(TEXT)),
        # Two complete calls have one index.
        chunk([call(2, TEXT, "Edit", "d")]),
        chunk([call(2, TEXT + "<", "Edit", "e")]),
        # Two calls have one index and one id.
        chunk([call(2, TEXT, "Bash", "e")]),
        chunk([{"index": 3, "id": "f", "type": "custom", "custom": {"name": "Edit", "input": FREE[:5]}}]),
        chunk([{"index": 3, "custom": {"input": FREE[5:]}}], "tool_calls"),
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "model": "m",
            "choices": [],
            "usage": {"total_tokens": 1},
        },
        b"[DONE]",
    )


def chat_calls(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    current: dict[int, str] = {}
    for event in events(data):
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                if given := call.get("id"):
                    current[call["index"]] = given + "'" * (given in texts)
                key = current[call["index"]]
                given = call.get("function", {}).get("arguments") or call.get("custom", {}).get("input", "")
                texts[key] = texts.get(key, "") + given
    return texts


def responses_stream() -> bytes:
    function = {"type": "function_call", "id": "f", "call_id": "1", "name": "Edit", "arguments": TEXT + "<"}
    shell = {"type": "function_call", "id": "s", "call_id": "2", "name": "Bash", "arguments": TEXT}
    custom = {"type": "custom_tool_call", "id": "c", "call_id": "3", "name": "Edit", "input": FREE}
    values: list[Any] = [{"type": "response.created", "response": {"id": "r", "output": []}}]
    for place, item in enumerate((function, shell, custom)):
        member = "input" if "input" in item else "arguments"
        kind = "custom_tool_call_input" if "input" in item else "function_call_arguments"
        at = {"output_index": place, "item_id": item["id"]}
        values.append({"type": "response.output_item.added", **at, "item": {**item, member: ""}})
        values += [{"type": f"response.{kind}.delta", **at, "delta": piece} for piece in cut(item[member])]
        values.append({"type": f"response.{kind}.done", **at, member: item[member]})
        values.append({"type": "response.output_item.done", **at, "item": item})
    values.append({"type": "response.output_text.delta", "output_index": 3, "item_id": "m", "delta": "<x>"})
    whole = {"id": "r", "output": [function, shell, custom], "usage": {"output_tokens": 1}}
    values.append({"type": "response.completed", "response": whole})
    return sse(*({**value, "sequence_number": number} for number, value in enumerate(values)))


def responses_calls(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    found = events(data)
    for event in found:
        if event["type"].endswith(".delta"):
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
    for event in found:
        done = [event] if event["type"].endswith((".arguments.done", "input.done")) else []
        items = [*done, *([event["item"]] if event["type"].endswith("item.done") else ())]
        items += event["response"]["output"] if event["type"].endswith("completed") else []
        for item in items:
            known = texts[item.get("item_id") or item["id"]]
            assert (item.get("arguments") or item.get("input")) == known
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return texts


Calls = Callable[[bytes], dict[str, str]]
CHAT = {"a": EDITED[:-1] + "<", "b": TEXT, "d": EDITED, "e": EDITED + "<", "e'": TEXT, "f": FREE_EDITED}
RESPONSES = {"f": EDITED + "<", "s": TEXT, "c": FREE_EDITED, "m": "<x>"}


@pytest.mark.parametrize(
    ("name", "data", "calls", "expected"),
    [
        ("openai_chat", chat_stream(), chat_calls, CHAT),
        ("openai_responses", responses_stream(), responses_calls, RESPONSES),
    ],
    ids=["chat", "responses"],
)
def test_calls_of_other_shapes(name: str, data: bytes, calls: Calls, expected: dict[str, str]) -> None:
    out = passed(name, [data])
    assert calls(out) == expected
    assert passed(name, [data], untouched) == data
    for size in (1, 40, 300):
        assert passed(name, chunks(data, size)) == out


def test_lines_may_end_in_two_characters() -> None:
    data = Case("anthropic", True).written(TURN)
    out = passed("anthropic", [data])
    assert passed("anthropic", [data.replace(b"\n", b"\r\n")]) == out.replace(b"\n", b"\r\n")


SERVER_CALL = {"type": "server_tool_use", "id": "3", "name": "Edit", "input": {}}
DOCUMENTS: dict[str, Any] = {
    "anthropic": {"content": [{**SERVER_CALL, "input": {"a": "<x>"}}]},
    "openai_responses": {"output": [{"type": "mcp_call", "name": "Edit", "arguments": '{"a": "<x>"}'}]},
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_calls_that_the_provider_runs_stay(name: str) -> None:
    body = json.dumps(DOCUMENTS[name]).encode()
    assert passed(name, [body], stream=False) == body
    stream = anthropic.block(0, SERVER_CALL, {"type": "input_json_delta", "partial_json": TEXT})
    assert passed("anthropic", [stream]) == stream


def test_free_text_in_a_document_is_edited() -> None:
    for name, document in {
        "openai_chat": {
            "choices": [{"message": {"tool_calls": [{"custom": {"name": "Edit", "input": FREE}}]}}]
        },
        "openai_responses": {"output": [{"type": "custom_tool_call", "name": "Edit", "input": FREE}]},
    }.items():
        body = json.dumps(document).encode()
        assert passed(name, [body], stream=False) == body.replace(b"<x>", b"VALUE")


def test_an_answer_within_another_object_is_edited() -> None:
    call = {"functionCall": {"name": "Edit", "args": {"a": "<x>"}}, "thoughtSignature": "<x>"}
    data = sse({"response": {"candidates": [{"content": {"parts": [call]}}]}})
    assert passed("gemini", [data]) == data.replace(b"<x>", VALUE.encode(), 1)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"openai_responses_socket"}))
@pytest.mark.parametrize("stream", [False, True])
def test_bytes_that_are_no_response_pass(name: str, stream: bool) -> None:
    for body in (b"", b"no json", b"[]", b'{"choices": 3, "content": "x"}', b"data: {\n\n", b"data: []\n\n"):
        assert passed(name, [body], stream=stream) == body
