"""The official SDKs through a real mitmdump, in every way in which a client can reach it."""

import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from support.agents.agent import SESSION, AnthropicAgent, OpenAIAgent, agent
from support.agents.requests import result_bytes, result_texts
from support.mitm import eventually
from support.upstream import Text, turn


def play(api: str, clients: Any, proxy: Any, upstream: Any, script: Any = SESSION, **more: Any) -> Any:
    """Play a whole conversation; return the agent, and the requests that arrived."""
    upstream.reset()
    upstream.answers(*script)
    made = agent(api, clients, proxy, **more)
    made.say("Why does the total test fail?")
    return made, upstream.asked()


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_only_results_change(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    _, sent = play(api, clients, proxy("regular", addon=False), upstream)
    _, arrived = play(api, clients, proxy("regular"), upstream)
    before, after = sent[-1].json, arrived[-1].json
    changed = 0
    for old, new in zip(result_texts(before), result_texts(after), strict=True):
        changed += old != new
    assert changed >= 5
    # The injected tool stands after the client's tools.
    assert len(after["tools"]) == len(before["tools"]) + 1
    after["tools"].pop()
    assert blank(before) == blank(after)


def blank(body: Any) -> Any:
    """Return the body without the texts of its tool results."""
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


def test_moving_cache_breakpoints(clients: Any, proxy: Any, upstream: Any) -> None:
    _, arrived = play("anthropic", clients, proxy("regular"), upstream, cache=True)
    marked = [
        [i for i, m in enumerate(request.json["messages"]) if "cache_control" in str(m["content"])]
        for request in arrived
    ]
    assert marked == [[0], [2], [4], [6], [8]]


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_another_proxy_upstream(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    behind = proxy("regular", addon=False)
    ours = proxy(f"upstream:{behind.url}", ssl_insecure="true")
    upstream.answers(*SESSION)
    caller = agent(api, clients, ours, stream=True)
    caller.say("Why does the total test fail?")
    theirs = sum(len(text.encode()) for text in result_texts({"messages": caller.messages}))
    last = upstream.asked()[-1]
    assert result_bytes([last]) < 0.7 * theirs
    assert upstream.statuses() == {200}


def test_plain_http_to_a_gateway(clients: Any, proxy: Any, upstream: Any) -> None:
    """A base URL on localhost without TLS is recognised by path and body."""
    upstream.answers(*SESSION)
    client = openai.OpenAI(
        api_key="k",
        base_url="http://localhost:80/v1",
        http_client=clients.http(proxy("regular")),
        max_retries=0,
    )
    caller = OpenAIAgent(client)
    caller.say("Why does the total test fail?")
    theirs = sum(len(text.encode()) for text in result_texts({"messages": caller.messages}))
    assert result_bytes(upstream.asked()[-1:]) < 0.7 * theirs


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_words_of_a_request_without_tools_arrive_while_the_model_still_writes(
    api: str, http2: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    """The test provider sends each word after the client has read the word before it."""
    words = [f"word{number} " for number in range(6)]
    begun = 3 if api == "anthropic" else 1
    gates = {begun + number: threading.Event() for number in range(1, len(words))}
    upstream.answers(turn(Text("".join(words), deltas=tuple(words)), hold=gates))
    caller = agent(api, clients, proxy("regular"), http2=http2)
    heard: list[str] = []
    proxy("regular").command("tests.forget")
    for text in spoken(caller):
        heard.append(text)
        if begun + len(heard) in gates:
            gates[begun + len(heard)].set()
    assert heard == words
    # The last word may be heard before the answer has ended.
    assert eventually(lambda: all(word in proxy("regular").flows()[0]["answer"] for word in words))


def spoken(caller: Any) -> Iterator[str]:
    """Yield the pieces of a streamed answer, as they come."""
    hello = [{"role": "user", "content": "hi"}]
    if isinstance(caller, AnthropicAgent):
        with caller.client.messages.stream(model="m", max_tokens=9, messages=hello) as stream:
            yield from stream.text_stream
        return
    for chunk in caller.client.chat.completions.create(model="m", messages=hello, stream=True):
        if text := chunk.choices[0].delta.content:
            yield text
