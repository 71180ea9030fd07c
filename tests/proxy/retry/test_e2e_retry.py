"""Refused requests through a real proxy: sent again smaller, or the provider's own words."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from penumbra.retry.refusals import table
from support.refused import (
    JSON,
    SSE,
    TOO_LONG,
    Client,
    asks_for_an_original,
    chat,
    claude,
    prose,
    sizes,
    tool_texts,
)
from support.upstream import Raw, Text, ToolCall, turn

ERROR = b'{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"ERROR","provider_name":"Together"}},"user_id":"u"}'


EXAMPLES = [
    pytest.param(rule, example, id=f"{rule['id']}-{number}")
    for rule in table()["refusals"]
    for number, example in enumerate(rule["examples"])
]


def is_recovered(rule: dict[str, Any], example: dict[str, Any]) -> bool:
    kind = example.get("kind", rule["kind"])
    left = rule.get("leave") and kind == "reserve"
    too_long = kind == "field" and rule.get("most") is None
    # These requests declare no tool within their messages.
    passed_on = kind in ("none", "binding", "declaration")
    return not (passed_on or left or too_long or rule.get("least_tokens"))


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_every_refusal_is_recovered_or_passed_on_to_the_byte(
    rule: Any, example: Any, client: Client, upstream: Any
) -> None:
    body = example["body"].encode()
    upstream.answers(Raw(example["status"], JSON, body), turn("Taken."), turn("Late."))
    answer = client.post(chat(9), example.get("host", "openrouter.ai"))
    if not is_recovered(rule, example):
        assert (answer.status_code, answer.content) == (example["status"], body)
        assert answer.headers["x-request-id"] == "req_7"
        assert len(upstream.asked()) == 1
        return
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "Taken."
    before, after = sizes(upstream)
    assert after < before


@pytest.mark.parametrize("body", [entry["body"] for rule in table()["deny"] for entry in rule["examples"]])
def test_denied_requests_are_passed_on(body: str, client: Client, upstream: Any) -> None:
    upstream.answers(Raw(429, JSON, body.encode()))
    answer = client.post(chat(9))
    assert (answer.status_code, answer.content) == (429, body.encode())
    assert len(upstream.asked()) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_error_without_words_shortens_every_tool_message(stream: bool, client: Client, upstream: Any) -> None:
    def model(received: Any) -> Any:
        return (
            Raw(400, JSON, ERROR) if any(len(text) > 512 for text in tool_texts(received)) else turn("Taken.")
        )

    upstream.script(model)
    body = chat(6, stream=stream)
    body["messages"][2]["content"] = json.dumps({"status": "ok", "summary": prose(5)})
    body["messages"][4]["content"] = "short"
    answer = client.post(body)
    assert answer.status_code == 200
    assert b"Taken." in answer.content
    _, sent = upstream.asked()
    texts = tool_texts(sent)
    assert texts[1] == "short"
    assert all(len(text) <= 512 for text in texts)
    first = json.loads(texts[0])
    assert (first["status"], first["truncated"], first["originalLength"]) == (
        "ok",
        True,
        len(body["messages"][2]["content"]),
    )
    assert "chars due to provider limits]" in first["summary"]
    assert [message.get("tool_call_id") for message in sent.json["messages"]] == [
        message.get("tool_call_id") for message in body["messages"]
    ]
    # The next turn is not refused, since its new result is shortened enough.
    grown = chat(7, stream=stream)
    grown["messages"][:13] = body["messages"]
    assert client.post(grown).status_code == 200
    assert len(upstream.asked()) == 3
    assert tool_texts(upstream.asked()[2])[:6] == texts


def test_a_second_refusal_is_tried_once_more_and_then_the_first_one_is_passed_on(
    client: Client, upstream: Any
) -> None:
    upstream.script(
        lambda received: Raw(
            400,
            JSON,
            TOO_LONG
            if not received.number
            else b'{"error":{"message":"prompt is too long: 25000 tokens > 20000 maximum"}}',
        )
    )
    answer = client.post(claude(9), "api.anthropic.com")
    assert (answer.status_code, answer.content) == (400, TOO_LONG)
    first, second, third = sizes(upstream)
    assert first > second > third


def test_another_failure_of_the_second_request_shows_the_first_one(client: Client, upstream: Any) -> None:
    upstream.answers(Raw(400, JSON, TOO_LONG), Raw(503, JSON, b'{"error":{"message":"overloaded"}}'))
    answer = client.post(claude(9), "api.anthropic.com")
    assert (answer.status_code, answer.content) == (400, TOO_LONG)
    assert len(upstream.asked()) == 2


@pytest.mark.parametrize("stream", [False, True])
def test_old_results_become_references_first_and_the_next_turn_sends_the_same(
    stream: bool, client: Client, upstream: Any
) -> None:
    upstream.answers(
        Raw(400, JSON, TOO_LONG), turn(Text("Taken."), ToolCall("read_notes", {"part": 9})), turn("Next.")
    )
    body = claude(9, stream=stream)
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Taken." in answer.content
    _, sent = upstream.asked()
    results = [
        message["content"][0]["content"]
        for message in sent.json["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
    ]
    references = [text.startswith("<<<SHADOW:") for text in results]
    assert any(references)
    assert not references[-1]
    assert any(tool["name"] == "expand_context" for tool in sent.json["tools"])
    grown = claude(10, stream=stream)
    assert client.post(grown, "api.anthropic.com").status_code == 200
    assert len(upstream.asked()) == 3
    later = [
        message["content"][0]["content"]
        for message in upstream.asked()[2].json["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
    ]
    assert later[:9] == results


def answers_the_second_request(client: Client, upstream: Any, body: dict[str, Any]) -> None:
    """A refusal comes first, then a turn that asks for an original, then text."""
    steps = [
        lambda received: Raw(400, JSON, TOO_LONG),
        asks_for_an_original,
        lambda received: turn("Read it."),
    ]
    upstream.script(lambda received: steps.pop(0)(received))
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Read it." in answer.content
    assert b"expand_context" not in answer.content
    assert len(upstream.asked()) == 3


def test_the_answer_to_the_second_request_is_spliced(client: Client, upstream: Any) -> None:
    answers_the_second_request(client, upstream, claude(9, stream=True))


def test_retrying_can_be_switched_off(clients: Any, proxy: Any, upstream: Any, api_key: str) -> None:
    for options in ({"penumbra_recover": "off"}, {"penumbra_lossy": "off"}):
        upstream.reset()
        upstream.answers(Raw(400, JSON, TOO_LONG))
        answer = Client(clients, proxy(**options), api_key).post(claude(9), "api.anthropic.com")
        assert (answer.status_code, answer.content) == (400, TOO_LONG)
        assert len(upstream.asked()) == 1


def test_events_and_figures_have_a_recovery_with_its_level(
    clients: Any, own_proxy: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    running = own_proxy(penumbra_events=str(events))

    def model(received: Any) -> Any:
        return Raw(400, JSON, ERROR) if any(len(text) > 512 for text in tool_texts(received)) else turn("Ok.")

    upstream.script(model)
    assert Client(clients, running, api_key).post(chat(6)).status_code == 200
    assert "recovered   " in (figures := running.command("penumbra.expansions"))
    assert " at level 1 1" in figures
    running.stop()
    found = [json.loads(line) for line in events.read_text().split("\n") if line]
    assert [event["event"] for event in found] == ["request", "recovery"]
    assert (found[1]["level"], found[1]["flow"]) == (1, found[0]["flow"])
    assert found[1]["rule"] in {rule["id"] for rule in table()["refusals"]}


EVENT = b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 30000 tokens > 20000 maximum"}}\n\n'
START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'


@pytest.mark.parametrize(
    ("count", "events", "model"),
    [(12, START + EVENT, "m"), (24, EVENT, "m"), (200, START + EVENT, "claude-x")],
)
def test_a_stream_that_begins_with_a_refusal_is_another_stream(
    count: int, events: bytes, model: str, client: Client, upstream: Any
) -> None:
    """The request is close to a limit: a small one is assumed for an unknown model."""
    upstream.answers(Raw(200, SSE, events), turn("Taken."))
    answer = client.post(claude(count, stream=True, model=model), "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Taken." in answer.content
    assert b"error" not in answer.content
    assert answer.content.count(b"event: message_start") == 1
    before, after = sizes(upstream)
    assert after < before


@pytest.mark.parametrize("events", [START + EVENT, EVENT])
def test_streams_for_small_requests_wait_for_nothing(events: bytes, client: Client, upstream: Any) -> None:
    """The request is far below the limit of its model, so each byte is forwarded at once."""
    upstream.answers(Raw(200, SSE, events))
    answer = client.post(claude(12, stream=True), "api.anthropic.com")
    assert (answer.status_code, answer.content) == (200, events)
    assert len(upstream.asked()) == 1


def test_a_learned_limit_is_in_reach_again(client: Client, upstream: Any) -> None:
    upstream.answers(Raw(400, JSON, TOO_LONG), turn("Taken."), Raw(200, SSE, START + EVENT), turn("Next."))
    assert client.post(claude(60), "api.anthropic.com").status_code == 200
    answer = client.post(claude(61, stream=True), "api.anthropic.com")
    assert b"Next." in answer.content
    assert len(upstream.asked()) == 4


def test_a_stream_that_can_not_be_saved_is_the_first_one_to_the_byte(client: Client, upstream: Any) -> None:
    upstream.script(lambda received: Raw(200, SSE, EVENT + b": %d\n\n" % received.number))
    answer = client.post(claude(24, stream=True, model="m"), "api.anthropic.com")
    assert (answer.status_code, answer.content) == (200, EVENT + b": 0\n\n")
    assert len(upstream.asked()) == 3


def test_an_announcement_does_not_wait_for_ever(
    clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    """The content comes only once the client has got the event before it."""
    more = threading.Event()
    upstream.answers(turn("Here it is.", hold={2: more}))
    client = clients.anthropic(proxy())
    with client.messages.create(**claude(9), stream=True) as stream:
        kinds = []
        for event in stream:
            kinds.append(event.type)
            more.set()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"


def test_an_error_of_another_kind_in_a_stream_goes_on(client: Client, upstream: Any) -> None:
    event = (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    upstream.answers(Raw(200, SSE, event))
    answer = client.post(claude(24, stream=True), "api.anthropic.com")
    assert (answer.status_code, answer.content) == (200, event)
    assert len(upstream.asked()) == 1


LLAMA = b'{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192,"id":%d}}'


def documents_with_status_200(client: Client, upstream: Any) -> None:
    """Some providers refuse with status 200, and may do it for the second request, too."""
    upstream.reset()
    upstream.answers(Raw(200, JSON, LLAMA % 1), turn("Taken."))
    first, second = chat(9, 70), chat(9, 80)
    first["messages"][0]["content"] = "look at the first part"
    second["messages"][0]["content"] = "look at the second part"
    assert client.post(first).json()["choices"][0]["message"]["content"] == "Taken."
    upstream.reset()
    upstream.script(lambda received: Raw(200, JSON, LLAMA % received.number))
    answer = client.post(second)
    assert (answer.status_code, answer.content) == (200, LLAMA % 0)
    assert len(upstream.asked()) > 1


PLAIN = """\
from penumbra.flow import splice
splice.incompatible = lambda: "this is a test"
from penumbra.addon import Penumbra
addons = [Penumbra()]
"""


@pytest.mark.parametrize("stream", [False, True])
def test_where_responses_can_not_be_spliced_the_answer_comes_in_one_piece(
    stream: bool, own_proxy: Any, clients: Any, upstream: Any, api_key: str, tmp_path: Path
) -> None:
    script = tmp_path / "plain.py"
    script.write_text(PLAIN)
    client = Client(clients, own_proxy(script=script), api_key)
    upstream.answers(
        Raw(400, JSON, TOO_LONG), turn("Taken."), Raw(400, JSON, TOO_LONG), Raw(503, JSON, b"{}")
    )
    answer = client.post(claude(9, stream=stream), "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Taken." in answer.content
    assert len(upstream.asked()) == 2
    answer = client.post(chat(9, stream=stream))
    assert (answer.status_code, answer.content) == (400, TOO_LONG)
    assert len(upstream.asked()) == 4
    if not stream:
        documents_with_status_200(client, upstream)
    upstream.reset()
    body = claude(9, 70, stream=stream)
    body["messages"][0]["content"] = "look at it once more"
    answers_the_second_request(client, upstream, body)


def test_a_document_with_status_200_may_be_a_refusal(client: Client, upstream: Any) -> None:
    documents_with_status_200(client, upstream)


COMPACT = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."


def test_a_compaction_request_that_does_not_fit_is_bounded(client: Client, upstream: Any) -> None:
    upstream.answers(Raw(400, JSON, TOO_LONG), turn("<summary>all of it</summary>"))
    body = claude(30)
    body["messages"].append({"role": "assistant", "content": "That was all."})
    body["messages"].append({"role": "user", "content": COMPACT})
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    first, second = (received.json["messages"] for received in upstream.asked())
    assert len(second) < len(first)
    assert second[0]["content"].startswith("[Compact input budget applied]")
    assert second[-1] == first[-1] == body["messages"][-1]


def test_codex_own_endpoint_for_compaction_is_bounded_too(
    clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    path = "/v1/responses/compact"
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
    ]
    for n in range(20):
        items += [
            {"type": "function_call", "call_id": f"c{n}", "name": "read_notes", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"c{n}", "output": prose(n + 3)},
        ]
    refusal = b'{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window of this model.","type":"invalid_request_error"}}'
    upstream.pages[path] = Raw(400, JSON, refusal)
    body = json.dumps({"model": "gpt-5", "input": items}).encode()
    headers = {"authorization": f"Bearer {api_key}", "content-type": "application/json"}
    answer = clients.http(proxy()).post(f"https://api.openai.com{path}", content=body, headers=headers)
    assert (answer.status_code, answer.content) == (400, refusal)
    sent = [json.loads(received.raw_body)["input"] for received in upstream.requests if received.path == path]
    assert len(sent) == 3
    assert [len(json.dumps(one)) for one in sent] == sorted(
        (len(json.dumps(one)) for one in sent), reverse=True
    )
    assert sent[1][0]["content"][0]["text"].startswith("[Compact input budget applied]")
    assert sent[1][-1] == sent[0][-1]
