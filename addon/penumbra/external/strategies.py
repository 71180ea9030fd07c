"""This module has the strategies that a setting may name: the first words of a text, a compression service, a
provider's model.

A compression service is Compresr's, or any that speaks the same contract:

    POST {endpoint}          X-API-Key: {api_key}
    {"tool_output": text, "tool_name": name, "compression_model_name": model,
     "query": question and intent, "target_compression_ratio": share to take away}

    200 {"success": true, "data": {"compressed_output": text,
         "original_tokens": n, "compressed_tokens": n}}

A query-agnostic service gets no `query`. If no ratio is wanted, none is sent. The service's ratio is a
strength from 0 to 1, so it gets the share to remove. A response with `success` false or an error status is a
failure. Relative endpoints are Compresr's own.

Calls to a provider use the operator's key or, if the operator allows it, the credential of the client whose
result is shortened. A client's credential is sent only to the host to which the client has sent it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
import secrets
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

import certifi
import httpx
import orjson

from penumbra import rules
from penumbra.compress import token_estimate
from penumbra.config.settings import CompressionService, Provider, Settings, provider, service
from penumbra.wire import content_encoding, request_path
from penumbra.wire.request_path import is_this_machine

# Calls go through the operator's proxies unless one of them is this proxy. A call may still reach this proxy,
# for example through a transparent proxy. A header with a random number then identifies the call, which
# passes unchanged. The number is valid only during the call.
Listening = Callable[[], Collection[int]]
"""A function that returns the ports on which this process listens."""
# Messages of these libraries contain addresses and keys.
for _name in ("httpx", "httpcore", "hpack", "h2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class Http:
    """An `Http` is the HTTP client for all calls. `listening` returns the ports of this process."""

    def __init__(self, listening: Listening = tuple) -> None:
        self._listening = listening
        self._client: httpx.AsyncClient | None = None
        self._ports: frozenset[int] = frozenset()

    async def post(self, url: str, headers: Mapping[str, str], body: Any, timeout: float, limit: int) -> Any:
        """Return the decoded JSON of a response. Raises NoResponse if its status is not 200, if it has more
        than `limit` bytes, or after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                content = await self._post(url, headers, body, limit)
        except TimeoutError:
            raise NoResponse("timeout", f"{timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise NoResponse("connection", type(error).__name__) from None
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError:
            raise NoResponse("malformed", "not JSON") from None

    async def _post(self, url: str, headers: Mapping[str, str], body: Any, limit: int) -> bytes:
        number = secrets.token_hex(16)
        accepted = {"accept": "application/json", "accept-encoding": ", ".join(content_encoding.SUPPORTED)}
        headers = {**headers, request_path.HEADER: number, **accepted}
        client = self._connected()
        request = client.build_request("POST", url, json=body, headers=headers)
        request_path.under_way.add(number)
        try:
            return await self._received(await client.send(request, stream=True), limit)
        finally:
            request_path.under_way.discard(number)

    async def _received(self, response: httpx.Response, limit: int) -> bytes:
        try:
            if response.status_code != 200:
                raise NoResponse("status", str(response.status_code))
            # `aiter_raw` does not decode, since httpx would decode a small piece into any amount of memory.
            decoder = content_encoding.Decoder(response.headers.get("content-encoding", ""), limit)
            body, received = bytearray(), 0
            async for piece in response.aiter_raw():
                received += len(piece)
                if received > limit:
                    raise content_encoding.OverLimit("before decoding")
                body += decoder.feed(piece)
            return bytes(body)
        except content_encoding.OverLimit:
            raise NoResponse("larger", f"over {limit} bytes") from None
        except content_encoding.NotDecodable:
            raise NoResponse("malformed", "content coding") from None
        finally:
            await response.aclose()

    def _connected(self) -> httpx.AsyncClient:
        ports = frozenset(self._listening())
        if self._client is None or ports != self._ports:
            ours = leads_here(getproxies().values(), ports)
            self._client = httpx.AsyncClient(
                http2=True,
                verify=trust(),
                trust_env=not ours,
                timeout=None,
                # The dispatcher bounds the number of concurrent calls.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=60),
            )
            self._ports = ports
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@cache
def trust() -> ssl.SSLContext:
    """Return a context that trusts the public CAs and those of `SSL_CERT_FILE`."""
    context = ssl.create_default_context(cafile=certifi.where())
    extra = os.environ.get("SSL_CERT_FILE")
    if extra and os.path.isfile(extra):
        context.load_verify_locations(extra)
    return context


def leads_here(proxies: Collection[str], ports: Collection[int]) -> bool:
    """Return whether one of these proxy URLs has an address on which this process listens."""
    for url in proxies:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            continue
        if port in ports and is_this_machine(parts.hostname or ""):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Credential:
    """A `Credential` is the credential of a client's request, valid for the host of that request."""

    host: str
    """The name and port, such as `api.example.com:443`."""
    headers: Mapping[str, str] = field(repr=False)
    """The headers by name in lower case."""
    owner: bytes = b""
    """Keyed hash of the account. Other accounts never get responses that this account paid for."""


@dataclass(frozen=True, slots=True)
class Task:
    """A `Task` is a text to be shortened. Only the credential may contain a secret."""

    text: str
    tool: str = ""
    """The name of the tool that printed the text; empty if unknown."""
    intent: str = ""
    """Purpose of the call: its arguments, in one line."""
    question: str = ""
    """The user's question; empty if unknown."""
    ratio: float | None = None
    """The wanted size of the response as a fraction of the text's size; None for any size."""
    scope: bytes = b""
    """Scope of the caller. Other callers never get the response."""
    credential: Credential | None = None
    """The credential of the client's request; None unless the operator allows its use."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An `Answer` is a shorter text, with the tokens that the service counted (0 if unknown)."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class NoResponse(Exception):
    """A `NoResponse` is raised if there is no response. `kind` is one of a few constant words, for counting.
    The message quotes neither the text nor the service."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind} ({detail})" if detail else kind)
        self.kind = kind


WORDS = 50
_WORD = re.compile(r"\S+")


def first_words(text: str) -> str:
    """Return the first `WORDS` words of a text with three dots. A text with no more words is returned
    unchanged."""
    for number, found in enumerate(_WORD.finditer(text)):
        if number == WORDS:
            return f"{text[: found.start()].rstrip()}..."
    return text


HOME = "https://api.compresr.ai"
PATH = "/api/compress/tool-output/"
MODEL = "toc_latte_v1"
_ANSWERS = ("compressed_output", "compressed_context")


@dataclass(frozen=True, slots=True)
class Question:
    """A `Question` is a task for a service."""

    task: Task
    model: str
    is_aware: bool
    """True if the service gets the user's question."""
    reserve: int = 0
    """Tokens for thinking, in addition to those of the response."""

    @property
    def wanted(self) -> int:
        """Return the wanted number of tokens in the response."""
        share = self.task.ratio if self.task.ratio is not None else 0.5
        return min(max(int(token_estimate.estimate(self.task.text) * share), _LEAST), _MOST)

    @property
    def most(self) -> int:
        """Return the limit in tokens for thinking and response, with a margin for the error of estimates."""
        return self.wanted * 3 // 2 + self.reserve

    @property
    def instruction(self) -> str:
        words = str(strategy_rules()["instruction"]).strip()
        return words.replace("{tokens}", str(self.wanted))

    @property
    def prompt(self) -> str:
        """Return the question, the tool, the call, and the text between tags that do not occur in it."""
        task = self.task
        digest = hashlib.blake2b(task.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        titles = (("Question", task.question), ("Tool", task.tool), ("Call", task.intent))
        about = [f"{title}: {value}" for title, value in titles if value]
        return "\n".join([*about, f"<output-{digest}>", task.text, f"</output-{digest}>"])


_LEAST, _MOST = 256, 8192
"""The smallest and the greatest number of tokens that a response should have."""


@dataclass(frozen=True, slots=True)
class Contract:
    """A `Contract` is the API of a compression service or of a provider."""

    path: str
    """The path after a base URL. `{model}` is replaced by the model's name."""
    key: Callable[[str], dict[str, str]]
    """A function that returns the headers for a key."""
    body: Callable[[Question], dict[str, Any]]
    read: Callable[[Any], Answer]
    """A function that reads a decoded response. Raises NoResponse, LookupError, TypeError or
    AttributeError."""
    headers: Mapping[str, str] = field(default_factory=dict)


def service_address(endpoint: str) -> str:
    """Return the URL for calls. A base URL without a path gets the path of the contract."""
    url = urljoin(HOME, endpoint)
    return urljoin(url, PATH) if urlsplit(url).path in ("", "/") else url


def _service_body(question: Question) -> dict[str, Any]:
    task = question.task
    body: dict[str, Any] = {
        "tool_output": task.text,
        "tool_name": task.tool or "unknown",
        "compression_model_name": question.model,
    }
    if question.is_aware:
        body["query"] = "\n".join(filter(None, (task.question, task.intent))) or "What does it say?"
    if task.ratio is not None:
        body["target_compression_ratio"] = round(1 - task.ratio, 6)
    return body


def _service_response(response: Any) -> Answer:
    if not isinstance(response, dict):
        raise NoResponse("malformed", "no object")
    if response.get("success") is False:
        raise NoResponse("refused")
    data = response.get("data", response)
    text = next((data[key] for key in _ANSWERS if key in data), None) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise NoResponse("malformed", "no text")
    return Answer(text, count(data.get("original_tokens")), count(data.get("compressed_tokens")))


def count(value: Any) -> int:
    """Return a number of tokens in a response; 0 for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def provider_address(endpoint: str, path: str, model: str) -> str:
    """Return the URL for calls: a base URL, completed by the missing part of `path`."""
    base = endpoint.rstrip("/")
    version, operation = path.split("/")[1], path.rsplit("/", 1)[1]
    base_path = urlsplit(base).path
    if base_path.endswith(operation.replace("{model}", model).rpartition(":")[2] or operation):
        return base
    if base_path.endswith(f"/{version}"):
        base = base.removesuffix(f"/{version}")
    return base + path.replace("{model}", model)


def _finished(reason: Any, *good: Any) -> None:
    """Raise NoResponse for a response that was cut off or refused."""
    if reason not in good:
        raise NoResponse("unfinished", str(reason)[:40] if isinstance(reason, str) else "")


def _anthropic_body(question: Question) -> dict[str, Any]:
    return {
        "model": question.model,
        "max_tokens": question.most,
        "system": question.instruction,
        "messages": [{"role": "user", "content": question.prompt}],
    }


def _anthropic_response(response: Any) -> Answer:
    text = "".join(block["text"] for block in response["content"] if block["type"] == "text")
    _finished(response["stop_reason"], "end_turn", "stop_sequence")
    usage = response.get("usage") or {}
    return Answer(text, count(usage.get("input_tokens")), count(usage.get("output_tokens")))


def _openai_body(question: Question) -> dict[str, Any]:
    return {
        "model": question.model,
        "max_completion_tokens": question.most,
        "messages": [
            {"role": "system", "content": question.instruction},
            {"role": "user", "content": question.prompt},
        ],
    }


def _openai_response(response: Any) -> Answer:
    choice = response["choices"][0]
    _finished(choice["finish_reason"], "stop")
    usage = response.get("usage") or {}
    tokens = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    return Answer(choice["message"]["content"], *tokens)


def _gemini_body(question: Question) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": question.instruction}]},
        "contents": [{"role": "user", "parts": [{"text": question.prompt}]}],
        "generationConfig": {"maxOutputTokens": question.most},
    }


def _gemini_response(response: Any) -> Answer:
    candidate = response["candidates"][0]
    _finished(candidate["finishReason"], "STOP")
    parts = candidate["content"]["parts"]
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    usage = response.get("usageMetadata") or {}
    spent = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
    return Answer(text, count(usage.get("promptTokenCount")), spent)


CONTRACTS: Mapping[str, Contract] = {
    "anthropic": Contract(
        "/v1/messages",
        lambda key: {"x-api-key": key},
        _anthropic_body,
        _anthropic_response,
        {"anthropic-version": "2023-06-01"},
    ),
    "openai": Contract(
        "/v1/chat/completions", lambda key: {"authorization": f"Bearer {key}"}, _openai_body, _openai_response
    ),
    "gemini": Contract(
        "/v1beta/models/{model}:generateContent",
        lambda key: {"x-goog-api-key": key},
        _gemini_body,
        _gemini_response,
    ),
}
_SERVICE = Contract(PATH, lambda key: {"x-api-key": key}, _service_body, _service_response)
strategy_rules = partial(rules.table, "strategies.yaml")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A `Strategy` shortens texts by a service, or to their first words."""

    name: str
    """The name in the settings."""
    identity: str
    """A text for the keys of stored responses. Strategies with different responses have different texts."""
    contract: Contract | None = None
    """The API of the service; None if no service is called."""
    address: str = ""
    model: str = ""
    """The name of the model, which determines the price. An empty name means that calls cost nothing."""
    key: str = field(default="", repr=False)
    entry: str = ""
    """The name in `providers`."""
    captures: bool = False
    """True if the clients' own credentials pay for the calls."""
    is_aware: bool = True
    """True if the service gets the user's question."""
    reserve: int = 0
    limit: int = 65_536
    """A response may have this number of bytes, and six more for each character of the text."""
    timeout: float = 30.0
    """The time limit of a call in seconds."""
    http: Http | None = None

    @property
    def protects(self) -> bool:
        """Return whether reads stay whole and critical lines are put back: True for services, False for first
        words."""
        return self.contract is not None

    @property
    def host(self) -> str:
        """Return the name and port of the address."""
        parts = urlsplit(self.address)
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    def fits(self, task: Task) -> bool:
        """Return whether the task has the credential that the strategy needs."""
        if not self.captures:
            return True
        return task.credential is not None and task.credential.host.lower() == self.host

    async def shorten(self, task: Task) -> Answer:
        """Return the shorter text. Raises NoResponse."""
        if self.contract is None or self.http is None:
            return Answer(first_words(task.text))
        headers = {**self.contract.headers, **self._authorisation(self.contract, task)}
        body = self.contract.body(Question(task, self.model, self.is_aware, self.reserve))
        limit = 6 * len(task.text) + self.limit
        response = await self.http.post(self.address, headers, body, self.timeout, limit)
        try:
            read = self.contract.read(response)
        except (LookupError, TypeError, AttributeError):
            raise NoResponse("malformed", "another shape") from None
        if not isinstance(read.text, str):
            raise NoResponse("malformed", "no text")
        return read

    def _authorisation(self, contract: Contract, task: Task) -> Mapping[str, str]:
        if not self.captures:
            return contract.key(self.key) if self.key else {}
        if not self.fits(task) or task.credential is None:
            raise NoResponse("no credential")
        return task.credential.headers


SIMPLE = Strategy("simple", f"{WORDS} words")


def of_service(settings: CompressionService, http: Http) -> Strategy:
    """Return the strategy that asks a compression service."""
    address, model = service_address(settings.endpoint), settings.model or MODEL
    return Strategy(
        "api",
        f"{address} {model} {settings.query_agnostic}",
        _SERVICE,
        address,
        model,
        settings.api_key,
        is_aware=not settings.query_agnostic,
        timeout=settings.timeout,
        http=http,
    )


def of_provider(entry: str, provider: Provider, timeout: float, http: Http) -> Strategy:
    """Return the strategy that asks a provider's model. `entry` is the provider's name in `providers`."""
    known: Mapping[str, Any] = strategy_rules()["providers"].get(entry, {})
    name = str(known.get("contract", strategy_rules()["other"]))
    endpoint = provider.endpoint or str(known.get("endpoint", ""))
    model = provider.model or str(known.get("model", ""))
    return Strategy(
        "external_provider",
        f"{name} {endpoint} {model}",
        CONTRACTS[name],
        provider_address(endpoint, CONTRACTS[name].path, model),
        model,
        provider.api_key,
        entry=entry,
        captures=provider.auth == "oauth",
        reserve=int(strategy_rules()["reserve"][name]),
        limit=262_144,
        timeout=timeout,
        http=http,
    )


def chosen(settings: Settings, http: Http) -> Strategy | None:
    """Return the strategy that runs after or instead of the pipeline; None if there is none."""
    name = settings.external_strategy
    if name == "simple":
        return SIMPLE
    if name == "api":
        return of_service(service(settings), http)
    if name == "external_provider":
        entry, asked = provider(settings)
        return None if asked is None else of_provider(entry, asked, settings.api.timeout, http)
    return None
