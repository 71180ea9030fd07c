"""The official SDKs, through a real mitmdump, in every way in which a client can reach it."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from support.agents.agent import SESSION, THINKING_SESSION, agent
from support.agents.requests import result_bytes, result_texts
from support.upstream import Fault, Hangup, turn

WAYS = [("regular", False), ("regular", True), ("reverse", False), ("reverse-tls", True)]


def play(api: str, clients: Any, proxy: Any, upstream: Any, script: Any = SESSION, **more: Any) -> Any:
    """A whole conversation; the agent that had it, and the requests that arrived."""
    upstream.reset()
    upstream.answers(*script)
    made = agent(api, clients, proxy, **more)
    made.say("Why does the total test fail?")
    return made, upstream.asked()


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize(("mode", "http2"), WAYS)
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_same_conversation_in_fewer_bytes(
    api: str, mode: str, http2: bool, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    plain, sent = play(api, clients, proxy(mode, addon=False), upstream, http2=http2, stream=stream)
    ours, arrived = play(api, clients, proxy(mode), upstream, http2=http2, stream=stream)
    assert ours.messages == plain.messages
    assert [request.status for request in arrived] == [200] * len(SESSION)
    assert {request.http_version for request in arrived} == {"2" if http2 else "1.1"}
    assert len(arrived[-1].raw_body) < 0.7 * len(sent[-1].raw_body)
    assert result_bytes(arrived) < 0.7 * result_bytes(sent)


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_only_results_change(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    _, sent = play(api, clients, proxy("regular", addon=False), upstream)
    _, arrived = play(api, clients, proxy("regular"), upstream)
    before, after = sent[-1].json, arrived[-1].json
    changed = 0
    for old, new in zip(result_texts(before), result_texts(after), strict=True):
        changed += old != new
    assert changed >= 5
    # Behind the client's tools stands the one that asks for originals.
    assert len(after["tools"]) == len(before["tools"]) + 1
    after["tools"].pop()
    assert blank(before) == blank(after)


def blank(body: Any) -> Any:
    """The body with every tool result's text taken out."""
    for message in body["messages"]:
        if message["role"] == "tool":
            message["content"] = ""
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if block.get("type") == "tool_result":
                block["content"] = (
                    ""
                    if isinstance(block["content"], str)
                    else [{**part, "text": ""} for part in block["content"]]
                )
    return body


def test_bound_thinking_stays_valid(clients: Any, proxy: Any, upstream: Any) -> None:
    for stream in (False, True):
        made, arrived = play(
            "anthropic", clients, proxy("regular"), upstream, THINKING_SESSION, stream=stream, thinking=True
        )
        assert [request.status for request in arrived] == [200, 200, 200]
        assert made.messages[1]["content"][0]["type"] == "thinking"
        assert arrived[-1].json["messages"][1]["content"][0] == made.messages[1]["content"][0]


def test_moving_cache_breakpoints(clients: Any, proxy: Any, upstream: Any) -> None:
    _, arrived = play("anthropic", clients, proxy("regular"), upstream, cache=True)
    marked = [
        [i for i, m in enumerate(request.json["messages"]) if "cache_control" in str(m["content"])]
        for request in arrived
    ]
    assert marked == [[0], [2], [4], [6], [8]]


def test_encoded_answers_reach_the_client(clients: Any, proxy: Any, upstream: Any) -> None:
    """In every encoding that the client says it can read."""
    caller = agent("anthropic", clients, proxy("regular"))
    encodings = clients.http(None).headers["accept-encoding"].split(", ")
    assert len(encodings) > 2
    for encoding in encodings:
        upstream.answers(turn("One and two.", encoding=encoding, split=11), turn("Three.", encoding=encoding))
        caller.stream = True
        assert caller.say("hi") == "One and two."
        caller.stream = False
        assert caller.say("more") == "Three."


def test_errors_of_the_provider_reach_the_client(clients: Any, proxy: Any, upstream: Any) -> None:

    upstream.answers(
        Fault(429, "slow down", (("retry-after", "7"),)),
        Fault(529, "Overloaded"),
        Fault(400, "bad"),
        Hangup(),
    )
    caller = agent("anthropic", clients, proxy("regular"))
    with pytest.raises(anthropic.RateLimitError) as limited:
        caller.say("hi")
    assert limited.value.response.headers["retry-after"] == "7"
    caller.messages.clear()
    with pytest.raises(anthropic.APIStatusError) as overloaded:
        caller.say("hi")
    assert overloaded.value.status_code == 529
    chat = agent("openai", clients, proxy("regular"))
    with pytest.raises(openai.BadRequestError, match="bad"):
        chat.say("hi")
    chat.messages.clear()
    with pytest.raises(openai.InternalServerError):
        chat.say("hi")


def test_a_stream_that_dies_dies_for_the_client_too(clients: Any, proxy: Any, upstream: Any) -> None:

    upstream.answers(turn("many words " * 9, cut_after=6))
    caller = agent("anthropic", clients, proxy("regular"), stream=True)
    with pytest.raises((clients.httpx.TransportError, anthropic.APIError)):
        caller.say("hi")
