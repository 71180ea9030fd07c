"""Refused requests through a real proxy: sent again smaller, or the provider's own words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penumbra.retry.refusals import table
from support.refused import (
    JSON,
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


# Every shape


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
def test_what_is_denied_is_passed_on(body: str, client: Client, upstream: Any) -> None:
    upstream.answers(Raw(429, JSON, body.encode()))
    answer = client.post(chat(9))
    assert (answer.status_code, answer.content) == (429, body.encode())
    assert len(upstream.asked()) == 1


# The words ERROR, in both kinds of call


@pytest.mark.parametrize("stream", [False, True])
def test_error_without_words_shortens_every_tool_message(stream: bool, client: Client, upstream: Any) -> None:
    def model(received: Any) -> Any:
        return (
            Raw(400, JSON, ERROR) if any(len(text) > 512 for text in tool_texts(received)) else turn("Taken.")
        )

    upstream.script(model)
    body = chat(6, stream=stream)
    body["messages"][2]["content"] = json.dumps({"status": "ok", "result": prose(5)})
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
    assert "chars due to provider limits]" in first["result"]
    assert [message.get("tool_call_id") for message in sent.json["messages"]] == [
        message.get("tool_call_id") for message in body["messages"]
    ]
    # The next turn is not refused, and what is new in it is small enough at once.
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


# The model can ask for what was left out, and later turns remember


@pytest.mark.parametrize("stream", [False, True])
def test_old_results_go_first_the_rest_is_shadows_and_the_next_turn_sends_the_same(
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


def test_a_restart_in_between_forgets_nothing(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    proxy = own_proxy()
    upstream.answers(Raw(400, JSON, TOO_LONG), turn("Taken."), turn("Next."))
    assert Client(clients, proxy, api_key).post(claude(9), "api.anthropic.com").status_code == 200
    first = upstream.asked()[1].json["messages"]
    proxy.restart()
    assert Client(clients, proxy, api_key).post(claude(10), "api.anthropic.com").status_code == 200
    assert len(upstream.asked()) == 3
    assert upstream.asked()[2].json["messages"][: len(first)] == first


def test_the_whole_answer_of_the_second_request_is_spliced_as_ever(client: Client, upstream: Any) -> None:
    """A refusal, then a turn that asks for an original, then words."""
    steps = [
        lambda received: Raw(400, JSON, TOO_LONG),
        asks_for_an_original,
        lambda received: turn("Read it."),
    ]
    upstream.script(lambda received: steps.pop(0)(received))
    answer = client.post(claude(9, stream=True), "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Read it." in answer.content
    assert b"expand_context" not in answer.content
    assert len(upstream.asked()) == 3


# Errors that come with status 200


# Off, and compaction


def test_it_can_be_switched_off(clients: Any, proxy: Any, upstream: Any, api_key: str) -> None:
    for options in ({"penumbra_recover": "off"}, {"penumbra_lossy": "off"}):
        upstream.reset()
        upstream.answers(Raw(400, JSON, TOO_LONG))
        answer = Client(clients, proxy(**options), api_key).post(claude(9), "api.anthropic.com")
        assert (answer.status_code, answer.content) == (400, TOO_LONG)
        assert len(upstream.asked()) == 1


def test_a_small_request_whose_only_result_is_too_long_for_the_provider(
    client: Client, upstream: Any
) -> None:
    def model(received: Any) -> Any:
        too_long = any(len(text) > 512 for text in tool_texts(received))
        return Raw(400, JSON, ERROR) if too_long else turn("Taken.")

    upstream.script(model)
    assert client.post(chat(1, 24)).status_code == 200
    assert [len(tool_texts(one)[0]) > 512 for one in upstream.asked()] == [True, False]


def test_a_recovery_is_told_in_events_and_figures_with_its_level(
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
    told = [json.loads(line) for line in events.read_text().split("\n") if line]
    assert [event["event"] for event in told] == ["request", "recovery"]
    assert (told[1]["level"], told[1]["flow"]) == (1, told[0]["flow"])
    assert told[1]["rule"] in {rule["id"] for rule in table()["refusals"]}
