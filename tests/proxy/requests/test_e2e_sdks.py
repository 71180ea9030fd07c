"""The official SDKs through a real mitmdump, in every way in which a client can reach it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from support.agents.agent import PRINTS, SESSION, THINKING_SESSION, AnthropicAgent, OpenAIAgent, agent, bash
from support.agents.requests import result_bytes, result_texts
from support.mitm import eventually
from support.upstream import Fault, Hangup, Received, Text, turn

WAYS = [("regular", False), ("regular", True), ("reverse", False), ("reverse-tls", True)]


def play(api: str, clients: Any, proxy: Any, upstream: Any, script: Any = SESSION, **more: Any) -> Any:
    """Play a whole conversation; return the agent, and the requests that arrived."""
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
    """The client can read each of these encodings."""
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
    assert {request.status for request in upstream.asked()} == {200}


@pytest.mark.parametrize("http2", [False, True])
def test_many_conversations_at_once(
    http2: bool, clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    """Every conversation gets its own answers, and keeps its own results."""
    commands = ["pytest -v", "docker compose logs worker", "curl -s localhost:8000/users", "npm install"]

    def model(received: Received) -> Any:
        time.sleep(0.01)
        command = received.json["messages"][0]["content"]
        texts = list(result_texts(received.json))
        return (
            turn(f"{command}: {len(texts)}")
            if texts
            else turn(bash(command, id=f"toolu_{command[:3]}_{api_key}"))
        )

    upstream.script(model)
    running = proxy("regular")
    said = asyncio.run(talk(clients, running, http2, api_key, [commands[number % 4] for number in range(24)]))
    assert said == [f"{commands[n % 4]}: 1" for n in range(24)]
    shortened: dict[str, set[str]] = {}
    for request in upstream.asked():
        for text in result_texts(request.json):
            shortened.setdefault(request.json["messages"][0]["content"], set()).add(text)
    assert {command: len(texts) for command, texts in shortened.items()} == dict.fromkeys(commands, 1)


async def talk(clients: Any, proxy: Any, http2: bool, api_key: str, prompts: list[str]) -> list[str]:
    """Run a conversation for each prompt, all at once, with HTTP/2 on one connection; return the last
    answers."""
    async with clients.httpx.AsyncClient(
        proxy=proxy.url, verify=proxy.trust(), http2=http2, trust_env=False, timeout=60
    ) as http:
        client = anthropic.AsyncAnthropic(api_key=api_key, http_client=http, max_retries=0)

        async def converse(prompt: str) -> str:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            request = {
                "model": "m",
                "max_tokens": 99,
                "tools": AnthropicAgent.API.rest["tools"],
                "messages": messages,
            }
            first = await client.messages.create(**request)
            [call] = [block.model_dump(exclude_none=True) for block in first.content]
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": PRINTS[prompt]}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
            async with client.messages.stream(**request) as stream:
                return str((await stream.get_final_message()).content[0].text)

        return list(await asyncio.gather(*map(converse, prompts)))


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
@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_words_arrive_while_the_model_still_writes(
    api: str, tools: bool, http2: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    """The test provider holds every word back until the client has read the one before it."""
    words = [f"word{number} " for number in range(6)]
    begun = 3 if api == "anthropic" else 1
    gates = {begun + number: threading.Event() for number in range(1, len(words))}
    upstream.answers(turn(Text("".join(words), deltas=tuple(words)), hold=gates))
    caller = agent(api, clients, proxy("regular"), http2=http2)
    heard: list[str] = []
    proxy("regular").command("tests.forget")
    for text in spoken(caller, caller.declared if tools else {}):
        heard.append(text)
        if begun + len(heard) in gates:
            gates[begun + len(heard)].set()
    assert heard == words
    # The last word may be heard before the answer has ended.
    assert eventually(lambda: all(word in proxy("regular").flows()[0]["answer"] for word in words))


def spoken(caller: Any, more: dict[str, Any]) -> Iterator[str]:
    """Yield the pieces of a streamed answer, as they come."""
    hello = [{"role": "user", "content": "hi"}]
    if isinstance(caller, AnthropicAgent):
        with caller.client.messages.stream(model="m", max_tokens=9, messages=hello, **more) as stream:
            yield from stream.text_stream
        return
    for chunk in caller.client.chat.completions.create(model="m", messages=hello, stream=True, **more):
        if text := chunk.choices[0].delta.content:
            yield text
