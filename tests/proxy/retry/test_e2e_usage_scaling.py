"""What clients are told of their requests' size, once a refusal has shown that less fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.refused import JSON, Client, chat, claude
from support.upstream import Raw, Text, ToolCall, turn

# What is known of windows


# Figures of every API


# Through the proxy


def refusal(have: int, limit: int) -> Raw:
    words = f"prompt is too long: {have} tokens > {limit} maximum"
    return Raw(400, JSON, json.dumps({"type": "error", "error": {"message": words}}).encode())


USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 60_000}


def usages(answer: Any, stream: bool) -> list[dict[str, int]]:
    """The usage objects of an answer, in order."""
    if not stream:
        return [answer.json()["usage"]]
    events = [json.loads(line[6:]) for line in answer.text.split("\n") if line.startswith("data: ")]
    return [
        one.get("usage") or one["message"]["usage"]
        for one in events
        if one["type"] in ("message_start", "message_delta")
    ]


def inputs(usage: Any) -> list[int]:
    return [usage.get(name) for name in USAGE]


@pytest.mark.parametrize("stream", [True])
def test_a_recovered_conversation_is_told_in_parts_of_what_it_believes_in(
    stream: bool, own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    proxy = own_proxy()
    client = Client(clients, proxy, api_key)
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE), turn("Next.", usage=USAGE))
    first = client.post(claude(9, stream=stream), "api.anthropic.com")
    # 85,000 is what Penumbra keeps to, 200,000 what the client believes in.
    scaled = [-(-n * 200_000 // 85_000) for n in USAGE.values()]
    assert [inputs(usage) for usage in usages(first, stream)] == [scaled] * (1 + stream)
    assert b"Taken." in first.content
    proxy.restart()
    client = Client(clients, proxy, api_key)
    second = client.post(claude(10, stream=stream), "api.anthropic.com")
    assert [inputs(usage) for usage in usages(second, stream)] == [scaled] * (1 + stream)
    flow = proxy.flows()[-1]
    assert flow["metadata"]["penumbra_context_guard"]["told"]["cache_read_input_tokens"] == [
        60_000,
        scaled[2],
    ]
    assert "told 2.35 times the input tokens" in flow["comment"]
    # Compacted: nothing is cut any more, and the window itself is the measure.
    upstream.answers(turn("Fresh.", usage=USAGE))
    fresh = client.post({**claude(0, stream=stream)}, "api.anthropic.com")
    assert inputs(usages(fresh, stream)[0]) == [2 * n for n in USAGE.values()]


@pytest.mark.parametrize("stream", [False, True])
def test_hidden_turns_are_told_once_and_output_is_true(
    stream: bool, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    """A refusal, then a turn that asks for an original, then words."""

    def ask(received: Any) -> Any:
        ref = json.dumps(received.json).split("<<<SHADOW:")[1][:39]
        return turn(ToolCall("expand_context", {"id": ref}), usage={**USAGE, "output_tokens": 30})

    steps = [
        lambda received: refusal(110_000, 100_000),
        ask,
        lambda received: turn(Text("Read it."), usage={**USAGE, "output_tokens": 12}),
    ]
    upstream.script(lambda received: steps.pop(0)(received))
    answer = Client(clients, proxy(), api_key).post(claude(9, stream=stream), "api.anthropic.com")
    last = usages(answer, stream)[-1]
    assert inputs(last) == [-(-n * 200_000 // 85_000) for n in USAGE.values()]
    assert last["output_tokens"] == 42


@pytest.mark.parametrize("stream", [False, True])
def test_chat_without_a_tool_of_ours(
    stream: bool, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    usage = {"prompt_tokens": 50_000, "completion_tokens": 5, "total_tokens": 50_005}
    upstream.answers(refusal(70_000, 64_000), turn("Taken.", usage=usage))
    more = {"stream_options": {"include_usage": True}} if stream else {}
    answer = Client(clients, proxy(), api_key).post(chat(9, stream=stream, **more) | {"model": "gpt-4o"})
    assert answer.status_code == 200
    said = answer.json() if not stream else json.loads(answer.text.split("data: ")[-2])
    told_ = -(-50_000 * 128_000 // 54_400)
    assert (said["usage"]["prompt_tokens"], said["usage"]["total_tokens"]) == (told_, told_ + 5)


def test_it_can_be_switched_off_and_nothing_changes_without_a_lesson(
    proxy: Any, clients: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE))
    off = Client(clients, proxy(penumbra_context_guard="off"), api_key)
    assert inputs(usages(off.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())
    upstream.answers(turn("Fine.", usage=USAGE))
    on = Client(clients, proxy(), api_key)
    assert inputs(usages(on.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())
