"""Refusals of every API, in both kinds of call: recovered, remembered over a restart, told in the answer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from penumbra.retry.refusals import table
from support.apis import BY_ID
from support.refused import JSON, SSE, chat, claude, notes
from support.upstream import Raw, turn

SCHEMA = {"type": "object", "properties": {"part": {"type": "integer"}}}


class Caller:
    """Sends one conversation of one API."""

    def __init__(
        self, clients: Any, proxy: Any, key: str, api: str, stream: bool, model: str = "gpt-4o"
    ) -> None:
        self._http = clients.http(proxy)
        self._api, self._stream, self._model = api, stream, model
        self._headers = {
            "authorization": f"Bearer {key}",
            "x-api-key": key,
            "x-goog-api-key": key,
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
        }

    def send(self, count: int) -> Any:
        """A conversation with so many results."""
        url, body = getattr(self, f"_{self._api}")(count)
        return self._http.post(url, content=json.dumps(body).encode(), headers=self._headers)

    def _anthropic(self, count: int) -> tuple[str, dict[str, Any]]:
        return "https://api.anthropic.com/v1/messages", claude(count, stream=self._stream)

    def _chat(self, count: int) -> tuple[str, dict[str, Any]]:
        tools = [{"type": "function", "function": {"name": "read_notes", "parameters": SCHEMA}}]
        options = {"stream_options": {"include_usage": True}} if self._stream else {}
        body = chat(count, model=self._model, tools=tools, stream=self._stream, **options)
        return "https://api.openai.com/v1/chat/completions", body

    def _responses(self, count: int) -> tuple[str, dict[str, Any]]:
        tools = [{"type": "function", "name": "read_notes", "parameters": SCHEMA}]
        items = BY_ID["openai-responses"].written(notes(count))
        body = {"model": "gpt-5", "input": items, "tools": tools, "stream": self._stream, "store": False}
        return "https://api.openai.com/v1/responses", body

    def _gemini(self, count: int) -> tuple[str, dict[str, Any]]:
        contents = BY_ID["gemini"].written(notes(count))
        tools = [{"functionDeclarations": [{"name": "read_notes", "parametersJsonSchema": SCHEMA}]}]
        way = "streamGenerateContent?alt=sse" if self._stream else "generateContent"
        url = f"https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-pro:{way}"
        return url, {"contents": contents, "tools": tools}


def words(limit: int) -> bytes:
    message = f"prompt is too long: {limit * 3 // 2} tokens > {limit} maximum"
    return json.dumps({"error": {"message": message}}).encode()


USAGE = {
    "anthropic": ("input_tokens", {"input_tokens": 4_000}, 200_000, 100_000),
    "chat": ("prompt_tokens", {"prompt_tokens": 4_000, "completion_tokens": 5, "total_tokens": 4_005}, 128_000, 64_000),
    "responses": ("input_tokens", {"input_tokens": 4_000, "output_tokens": 5, "total_tokens": 4_005}, 272_000, 100_000),
    "gemini": ("promptTokenCount", {"promptTokenCount": 4_000, "candidatesTokenCount": 5, "totalTokenCount": 4_005}, 1_048_576, 400_000),
}  # fmt: skip


def metrics(text: str, name: str) -> set[int]:
    """Every value that an answer gives for a figure."""
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
def test_refused_recovered_told_and_remembered(
    api: str,
    stream: bool,
    restarts: bool,
    own_proxy: Any,
    proxy: Any,
    clients: Any,
    upstream: Any,
    api_key: str,
) -> None:
    name, usage, believed, limit = USAGE[api]
    running = own_proxy() if restarts else proxy()
    caller = Caller(clients, running, api_key, api, stream)
    upstream.answers(Raw(400, JSON, words(limit)), turn("Taken.", usage=usage), turn("Next.", usage=usage))
    first = caller.send(9)
    assert first.status_code == 200, first.text
    assert "Taken." in first.text
    refused, taken = (one.body for one in upstream.asked())
    assert len(taken) < len(refused)
    told = -(-4_000 * believed // int(limit * 0.85))
    assert metrics(first.text, name) == {told}
    if restarts:
        running.restart()
    second = Caller(clients, running, api_key, api, stream).send(10)
    assert second.status_code == 200
    assert "Next." in second.text
    # Small at once, and what stands in front of the last result is what was taken.
    assert len(upstream.asked()) == 3
    *_, last = (found.start() for found in re.finditer(rb"part\W+8\b", taken))
    assert last > len(taken) / 2
    assert upstream.asked()[2].body.startswith(taken[:last])
    assert metrics(second.text, name) == {told}


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
    caller = Caller(clients, proxy(), api_key, "chat", True, "of-which-nothing-is-known")
    data = front + b"data: " + body + b"\n\n"
    upstream.answers(Raw(200, SSE, data), turn("Taken."))
    answer = caller.send(12)
    assert "Taken." in answer.text
    assert b"error" not in answer.content
    assert [len(one.body) for one in upstream.asked()] == sorted(
        (len(one.body) for one in upstream.asked()), reverse=True
    )
    assert len(upstream.asked()) == 2
