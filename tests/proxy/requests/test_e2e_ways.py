"""Further ways through: a proxy behind the proxy, many requests at once, and the demo."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from support.agents.agent import PRINTS, SESSION, AnthropicAgent, OpenAIAgent, agent, bash
from support.agents.requests import result_bytes, result_texts
from support.mitm import ROOT, eventually
from support.upstream import Received, Text, turn


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_proxy_behind_the_proxy(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
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
    """A conversation for each prompt, all at once; with HTTP/2 on one connection."""
    async with clients.httpx.AsyncClient(
        proxy=proxy.url, verify=proxy.trust(), http2=http2, trust_env=False, timeout=60
    ) as http:
        client = anthropic.AsyncAnthropic(api_key=api_key, http_client=http, max_retries=0)

        async def converse(prompt: str) -> str:
            messages: list[Any] = [{"role": "user", "content": prompt}]
            request = {
                "model": "m",
                "max_tokens": 99,
                "tools": list(AnthropicAgent.TOOLS),
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
    """A base URL on localhost without TLS, through the regular proxy: known by path and body."""
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
    """The stand-in holds every word back until the client has read the one before it."""
    words = [f"word{number} " for number in range(6)]
    begun = 3 if api == "anthropic" else 1
    gates = {begun + number: threading.Event() for number in range(1, len(words))}
    upstream.answers(turn(Text("".join(words), deltas=tuple(words)), hold=gates))
    caller = agent(api, clients, proxy("regular"), http2=http2)
    heard: list[str] = []
    proxy("regular").command("tests.forget")
    for text in spoken(caller, {"tools": list(caller.TOOLS)} if tools else {}):
        heard.append(text)
        if begun + len(heard) in gates:
            gates[begun + len(heard)].set()
    assert heard == words
    # The last word may be heard before the answer has ended.
    assert eventually(lambda: all(word in proxy("regular").flows()[0]["answer"] for word in words))


def spoken(caller: Any, more: dict[str, Any]) -> Iterator[str]:
    """The pieces of a streamed answer, as they come."""
    hello = [{"role": "user", "content": "hi"}]
    if isinstance(caller, AnthropicAgent):
        with caller.client.messages.stream(model="m", max_tokens=9, messages=hello, **more) as stream:
            yield from stream.text_stream
        return
    for chunk in caller.client.chat.completions.create(model="m", messages=hello, stream=True, **more):
        if text := chunk.choices[0].delta.content:
            yield text


def test_the_demo() -> None:
    """In the other mode; in its own it is played by the tests of the command."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py"), "--mode", "aggressive"],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT / 'tests'}:{ROOT / 'addon'}", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "Prefix kept for the provider's cache: in 10 of 10 requests." in said
    assert "Secrets in the session: 7; that reached the provider: 0." in said
    assert "Refused by the stand-in: 0." in said
    assert "\x1b" not in said
    saved = [line for line in said.split("\n") if line.startswith("results, each once")]
    assert int(saved[0].split()[-1].removesuffix("%")) >= 50
