"""The usage that clients get after a refusal, over every API."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from penumbra.retry.refusals import table
from support.agents.apis import BY_NAME
from support.refused import JSON, SSE, Client, claude, notes
from support.upstream import Raw, Text, ToolCall, turn


def refusal(have: int, limit: int) -> Raw:
    words = f"prompt is too long: {have} tokens > {limit} maximum"
    return Raw(400, JSON, json.dumps({"type": "error", "error": {"message": words}}).encode())


USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 60_000}


def usages(answer: Any, stream: bool) -> list[dict[str, int]]:
    """Return the usage objects of an answer, in order."""
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


def test_usage_of_a_recovered_conversation_is_scaled_to_the_window_that_the_client_assumes(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    proxy = own_proxy()
    client = Client(clients, proxy, api_key)
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE), turn("Next.", usage=USAGE))
    first = client.post(claude(9, stream=True), "api.anthropic.com")
    # Penumbra keeps to 85,000 tokens, while the client assumes 200,000.
    scaled = [-(-n * 200_000 // 85_000) for n in USAGE.values()]
    assert [inputs(usage) for usage in usages(first, True)] == [scaled] * 2
    assert b"Taken." in first.content
    proxy.restart()
    client = Client(clients, proxy, api_key)
    second = client.post(claude(10, stream=True), "api.anthropic.com")
    assert [inputs(usage) for usage in usages(second, True)] == [scaled] * 2
    flow = proxy.flows()[-1]
    assert flow["metadata"]["penumbra_context_guard"]["told"]["cache_read_input_tokens"] == [
        60_000,
        scaled[2],
    ]
    assert "reports 2.35 times the input tokens" in flow["comment"]
    # After a compaction nothing is cut, and the window itself is the measure.
    upstream.answers(turn("Fresh.", usage=USAGE))
    fresh = client.post(claude(0, stream=True), "api.anthropic.com")
    assert inputs(usages(fresh, True)[0]) == [2 * n for n in USAGE.values()]


@pytest.mark.parametrize("stream", [False, True])
def test_usage_counts_hidden_turns_once_and_output_truly(
    stream: bool, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    """A refusal comes first, then a turn that asks for an original, then text."""

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


def test_usage_scaling_can_be_switched_off_and_changes_nothing_before_a_limit_is_learned(
    proxy: Any, clients: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    upstream.answers(refusal(110_000, 100_000), turn("Taken.", usage=USAGE))
    off = Client(clients, proxy(penumbra_context_guard="off"), api_key)
    assert inputs(usages(off.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())
    upstream.answers(turn("Fine.", usage=USAGE))
    on = Client(clients, proxy(), api_key)
    assert inputs(usages(on.post(claude(9), "api.anthropic.com"), False)[0]) == list(USAGE.values())


MODELS = {"anthropic": "claude-x", "chat": "gpt-4o", "responses": "gpt-5", "gemini": "gemini-2.5-pro"}
TOOLS = (("read_notes", "part"),)


def send(http: Any, key: str, name: str, stream: bool, count: int, model: str = "") -> Any:
    """Send a conversation with `count` results; return the answer."""
    client, model = BY_NAME[name], model or MODELS[name]
    more = {"stream_options": {"include_usage": True}} if name == "chat" and stream else {}
    body = json.loads(client.api.body(notes(count), **client.api.declares(TOOLS), **more))
    body |= {} if name == "gemini" else {"model": model, "stream": stream}
    url = f"{client.host}{client.path(stream)}".replace("/m:", f"/{model}:")
    return http.post(url, json=body, headers=client.headers(key))


def words(limit: int) -> bytes:
    message = f"prompt is too long: {limit * 3 // 2} tokens > {limit} maximum"
    return json.dumps({"error": {"message": message}}).encode()


USAGES = {
    "anthropic": ("input_tokens", {"input_tokens": 4_000}, 200_000, 100_000),
    "chat": ("prompt_tokens", {"prompt_tokens": 4_000, "completion_tokens": 5, "total_tokens": 4_005}, 128_000, 64_000),
    "responses": ("input_tokens", {"input_tokens": 4_000, "output_tokens": 5, "total_tokens": 4_005}, 272_000, 100_000),
    "gemini": ("promptTokenCount", {"promptTokenCount": 4_000, "candidatesTokenCount": 5, "totalTokenCount": 4_005}, 1_048_576, 400_000),
}  # fmt: skip


def metrics(text: str, name: str) -> set[int]:
    """Return every value that an answer gives for a figure."""
    return {
        int(piece.split(",")[0].split("}")[0]) for piece in text.replace('": ', '":').split(f'"{name}":')[1:]
    }


@pytest.mark.parametrize(
    ("api", "stream", "restarts"),
    [
        ("anthropic", True, False),
        ("chat", False, True),
        ("chat", True, False),
        ("responses", False, False),
        ("responses", True, True),
        ("gemini", False, False),
        ("gemini", True, False),
    ],
)
def test_a_refused_request_is_recovered_scaled_and_remembered(
    api: str,
    stream: bool,
    restarts: bool,
    own_proxy: Any,
    proxy: Any,
    clients: Any,
    upstream: Any,
    api_key: str,
) -> None:
    name, usage, believed, limit = USAGES[api]
    running = own_proxy() if restarts else proxy()
    upstream.answers(Raw(400, JSON, words(limit)), turn("Taken.", usage=usage), turn("Next.", usage=usage))
    first = send(clients.http(running), api_key, api, stream, 9)
    assert first.status_code == 200, first.text
    assert "Taken." in first.text
    refused, taken = (one.body for one in upstream.asked())
    assert len(taken) < len(refused)
    shown = -(-4_000 * believed // int(limit * 0.85))
    assert metrics(first.text, name) == {shown}
    if restarts:
        running.restart()
    second = send(clients.http(running), api_key, api, stream, 10)
    assert second.status_code == 200
    assert "Next." in second.text
    # The request is small at the first try, and begins with the accepted messages.
    assert len(upstream.asked()) == 3
    *_, last = (found.start() for found in re.finditer(rb"part\W+8\b", taken))
    assert last > len(taken) / 2
    assert upstream.asked()[2].body.startswith(taken[:last])
    assert metrics(second.text, name) == {shown}


STREAMED = [
    pytest.param(example["body"].encode(), id=f"{rule['id']}-{number}")
    for rule in table()["refusals"]
    for number, example in enumerate(rule["examples"])
    if example["status"] == 200 and example.get("kind") != "none"
]


@pytest.mark.parametrize("body", STREAMED)
@pytest.mark.parametrize("front", [b"", b": OPENROUTER PROCESSING\n\n"])
def test_refusals_that_come_as_streams(
    body: bytes, front: bytes, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    data = front + b"data: " + body + b"\n\n"
    upstream.answers(Raw(200, SSE, data), turn("Taken."))
    answer = send(clients.http(proxy()), api_key, "chat", True, 12, "of-which-nothing-is-known")
    assert "Taken." in answer.text
    assert b"error" not in answer.content
    assert [len(one.body) for one in upstream.asked()] == sorted(
        (len(one.body) for one in upstream.asked()), reverse=True
    )
    assert len(upstream.asked()) == 2
