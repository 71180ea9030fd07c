"""Refusals that come with status 200: in a stream, or as a document."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from support.refused import JSON, SSE, TOO_LONG, Client, asks_for_an_original, chat, claude, sizes
from support.upstream import Raw, turn

EVENT = b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 30000 tokens > 20000 maximum"}}\n\n'


START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'


@pytest.mark.parametrize(
    ("count", "events", "model"),
    [(12, START + EVENT, "m"), (24, EVENT, "m"), (200, START + EVENT, "claude-x")],
)
def test_a_stream_that_begins_with_a_refusal_is_another_stream(
    count: int, events: bytes, model: str, client: Client, upstream: Any
) -> None:
    """Where the request is within reach of a limit: of an unknown model, a small one is assumed."""
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
    """Far from what the model's clients believe that it takes: every byte goes out when it comes."""
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
    """The content comes only once the client has got what stands in front of it."""
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
    """Some refuse so, and may do it for the second request too."""
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
    # The model asks for an original in the answer to the second request.
    steps = [
        lambda received: Raw(400, JSON, TOO_LONG),
        asks_for_an_original,
        lambda received: turn("Read it."),
    ]
    upstream.script(lambda received: steps.pop(0)(received))
    body = claude(9, 70, stream=stream)
    body["messages"][0]["content"] = "look at it once more"
    answer = client.post(body, "api.anthropic.com")
    assert answer.status_code == 200
    assert b"Read it." in answer.content
    assert b"expand_context" not in answer.content
    assert len(upstream.asked()) == 3


def test_a_document_with_status_200_may_be_a_refusal(client: Client, upstream: Any) -> None:
    documents_with_status_200(client, upstream)
