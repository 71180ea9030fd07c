"""Clients of the APIs: the official SDKs, and how answers are read."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
from botocore.eventstream import EventStreamBuffer

from support.agents.agent import AnthropicAgent, OpenAIAgent
from support.agents.callers import (
    HOST,
    ConverseAgent,
    GeminiAgent,
    GeminiArrayAgent,
    InvokeAgent,
    OllamaAgent,
    ResponsesAgent,
    boto,
)
from support.agents.requests import PHANTOM
from support.apis import BY_ID, Api

_httpx: Any = import_module("httpx2" if find_spec("httpx2") else "httpx")


@dataclass(frozen=True)
class Client:
    """A `Client` sends requests of one API and reads their answers."""

    name: str
    api: Api
    caller: Callable[..., Any]
    """(clients, proxy, key, http2, **fields) -> an agent that uses the official SDK."""
    events: Callable[[bytes], list[Any]]
    """(bytes of a stream) -> the values of its events."""
    says: Callable[[Any], str]
    """(event or document) -> its visible text."""
    error: Callable[[Any], str]
    """(event or document) -> the message of an error; empty if it is none."""
    ends: bytes
    """Bytes that only a complete stream has."""
    lead: int
    """The number of events before the first piece of the text that begins an answer."""
    keep_alive: bytes = b""
    """The bytes of a keep-alive; empty if the API has none."""
    forbids: Callable[[Any], bool] = lambda body: body.get("tool_choice") in ("none", {"type": "none"})
    """(request) -> whether calls are forbidden."""
    stream_path: str = ""
    """The path of requests for a stream; empty if all requests have one path."""
    more_headers: Mapping[str, str] = field(default_factory=dict)
    gap: str = ""
    """The separator between the texts of two turns, where the API has one text for both."""

    @property
    def host(self) -> str:
        return f"https://{self.api.host.removesuffix(':443')}"

    def path(self, stream: bool) -> str:
        return (stream and self.stream_path) or self.api.path

    def headers(self, key: str) -> dict[str, str]:
        return {**self.api.credential(key), **self.more_headers}

    def body(self, words: str, stream: bool) -> dict[str, Any]:
        """Return the first request of an agent."""
        body: dict[str, Any] = json.loads(self.api.body([("user", words)]))
        # The path says it in the other APIs.
        return body if self.stream_path else {**body, "stream": stream}

    def post(self, client: Any, key: str, stream: bool, words: str = "x", base: str = "") -> Any:
        """Send an agent's first request; return the answer."""
        url = (base or self.host) + self.path(stream)
        return client.post(url, json=self.body(words, stream), headers=self.headers(key))

    def opened(self, client: Any, key: str, words: str = "x") -> Any:
        """Send an agent's first request; return a context whose stream is read while it arrives."""
        request = {"json": self.body(words, True), "headers": self.headers(key)}
        return client.stream("POST", self.host + self.path(True), **request)

    def arrived(self, client: Any, key: str, **more: Any) -> tuple[bytes, bool]:
        """Send a first request for a stream with the members `more`; return the bytes that arrive, and
        whether the stream broke off."""
        content, body = b"", {**self.body("x", True), **more}
        with client.stream(
            "POST", self.host + self.path(True), json=body, headers=self.headers(key)
        ) as answer:
            assert answer.status_code == 200, answer.read()
            try:
                for chunk in answer.iter_raw():
                    content += chunk
            except _httpx.RemoteProtocolError:
                return content, True
        return content, False

    def values(self, content: bytes, stream: bool) -> list[Any]:
        """Return the events of a stream, or the document in a list."""
        return self.events(content) if stream else [json.loads(content)]

    def text(self, content: bytes, stream: bool = True) -> str:
        """Return the visible text of an answer."""
        return "".join(map(self.says, self.values(content, stream)))


def _sse(data: bytes) -> list[Any]:
    parts = [part for part in data.replace(b"\r\n", b"\n").split(b"\n\n") if b"data: {" in part]
    return [json.loads(part.split(b"data: ", 1)[1]) for part in parts]


def _lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.split(b"\n") if line.strip()]


def _array(data: bytes) -> list[Any]:
    # The end of the array is missing where the stream broke off.
    found: list[Any] = json.loads(data if data.rstrip().endswith(b"]") else data + b"]")
    return found


def _anthropic_says(value: Any) -> str:
    pieces = [value["delta"]] if "delta" in value else value.get("content", ())
    return "".join(piece.get("text", "") for piece in pieces)


def _error(value: Any) -> str:
    error = value.get("error") or {}
    return str(error["message"]) if error else ""


def _chat_says(value: Any) -> str:
    choices = value.get("choices", ())
    return "".join((one.get("delta") or one.get("message") or {}).get("content") or "" for one in choices)


def _responses_says(value: Any) -> str:
    if value.get("type") == "response.output_text.delta":
        return str(value["delta"])
    contents = (item.get("content", ()) for item in value.get("output", ()))
    return "".join(part.get("text", "") for content in contents for part in content)


def _responses_error(value: Any) -> str:
    if value.get("type") == "error":
        return str(value["message"])
    return _error(value.get("response") or value)


def _gemini_says(value: Any) -> str:
    contents = (candidate.get("content") or {} for candidate in value.get("candidates", ()))
    parts = (part for content in contents for part in content.get("parts", ()))
    return "".join(part.get("text", "") for part in parts if not part.get("thought"))


def _gemini_caller(clients: Any, proxy: Any, key: str, http2: bool, **more: Any) -> Any:
    from google import genai

    base = clients.base(proxy, "https://generativelanguage.googleapis.com", http2=http2)
    options = genai.types.HttpOptions(base_url=base, httpx_client=clients.http(proxy, http2=http2))
    return GeminiAgent(genai.Client(api_key=key, http_options=options), **more)


def _gemini_array_caller(clients: Any, proxy: Any, key: str, http2: bool, **more: Any) -> Any:
    base = clients.base(proxy, "https://generativelanguage.googleapis.com", http2=http2)
    return GeminiArrayAgent(clients.http(proxy, http2=http2), base=base, key=key, **more)


def _gemini_forbids(body: Any) -> bool:
    config = body.get("toolConfig") or {}
    return bool(config.get("functionCallingConfig", {}).get("mode") == "NONE")


def _ollama_says(value: Any) -> str:
    return str(value.get("message", {}).get("content", ""))


def _ollama_caller(clients: Any, proxy: Any, key: str, http2: bool, **more: Any) -> Any:
    import ollama

    way = {"verify": proxy.trust(), "proxy": None if proxy.is_reverse else proxy.url, "http2": http2}
    base = clients.base(proxy, "https://ollama.com", http2=http2)
    client = ollama.Client(host=base, headers={"authorization": f"Bearer {key}"}, trust_env=False, **way)
    return OllamaAgent(client, **more)


def _messages_of_stream(data: bytes) -> list[Any]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [json.loads(message.payload) for message in buffer]


def _converse_says(value: Any) -> str:
    content = value.get("output", {}).get("message", {}).get("content", ())
    return "".join(piece.get("text", "") for piece in [value.get("delta", {}), *content])


def _converse_caller(clients: Any, proxy: Any, key: str, http2: bool, **more: Any) -> Any:
    # The SDK speaks HTTP/1.1 only, and sends keys over TLS only.
    base = clients.base(proxy, f"https://{HOST}", http2=True)
    return ConverseAgent(boto(proxy, base, key), token=key, **more)


def _invoke_caller(clients: Any, proxy: Any, key: str, http2: bool, **more: Any) -> Any:
    base = clients.base(proxy, f"https://{HOST}", http2=True)
    return InvokeAgent(boto(proxy, base, key), token=key, **more)


_GEMINI: dict[str, Any] = {
    "api": BY_ID["gemini"],
    "says": _gemini_says,
    "error": _error,
    "ends": b"finishReason",
    "lead": 0,
    "forbids": _gemini_forbids,
    "gap": "\n\n",
}

CLIENTS = (
    Client(
        name="anthropic",
        api=BY_ID["anthropic-messages"],
        more_headers={"anthropic-version": "2023-06-01"},
        caller=lambda clients, proxy, key, http2, **more: AnthropicAgent(clients.anthropic(proxy, http2=http2), **more),
        events=_sse,
        says=_anthropic_says,
        error=_error,
        ends=b"message_stop",
        # message_start, ping and content_block_start
        lead=3,
        keep_alive=b"event: ping",
    ),
    Client(
        name="chat",
        api=BY_ID["openai-chat"],
        caller=lambda clients, proxy, key, http2, **more: OpenAIAgent(clients.openai(proxy, http2=http2), **more),
        events=_sse,
        says=_chat_says,
        error=_error,
        ends=b"[DONE]",
        # The role comes first.
        lead=1,
        keep_alive=b": keep-alive",
        gap="\n\n",
    ),
    Client(
        name="responses",
        api=BY_ID["openai-responses"],
        caller=lambda clients, proxy, key, http2, **more: ResponsesAgent(clients.openai(proxy, http2=http2), **more),
        events=_sse,
        says=_responses_says,
        error=_responses_error,
        ends=b"response.completed",
        # created, in_progress, output_item.added and content_part.added
        lead=4,
        keep_alive=b": keep-alive",
    ),
    Client(name="gemini", stream_path="/v1beta/models/m:streamGenerateContent?alt=sse", caller=_gemini_caller, events=_sse, **_GEMINI),
    Client(
        name="gemini-array",
        stream_path="/v1beta/models/m:streamGenerateContent",
        caller=_gemini_array_caller,
        events=_array,
        **_GEMINI,
    ),
    Client(
        name="ollama",
        api=BY_ID["ollama-chat"],
        caller=_ollama_caller,
        events=_lines,
        says=_ollama_says,
        error=lambda value: str(value.get("error") or ""),
        ends=b'"done": true',
        lead=0,
        # The only way to forbid calls is to name no tools.
        forbids=lambda body: not body["tools"],
        gap="\n\n",
    ),
    Client(
        name="converse",
        api=BY_ID["bedrock-converse"],
        stream_path="/model/m/converse-stream",
        caller=_converse_caller,
        events=_messages_of_stream,
        says=_converse_says,
        error=lambda value: str(value.get("message") or ""),
        ends=b"messageStop",
        # The role comes first.
        lead=1,
        # The API can't forbid calls, so that the tool is missing instead.
        forbids=lambda body: PHANTOM not in str(body["toolConfig"]),
    ),
)  # fmt: skip

SDKS = (*CLIENTS, replace(CLIENTS[0], name="invoke", caller=_invoke_caller))
"""Clients of all SDKs. Bedrock's InvokeModel wraps Anthropic's events, so that only its SDK is tried."""
BY_NAME = {client.name: client for client in SDKS}

every_sdk = pytest.mark.parametrize("api", SDKS, ids=lambda api: api.name)
every_api = pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.name)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
