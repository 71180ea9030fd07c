"""The strategies that a setting may name: the first words of a text, a compression service, a provider's
model.

A compression service is Compresr's, or any that speaks the same contract:

    POST {endpoint}          X-API-Key: {api_key}
    {"tool_output": text, "tool_name": name, "compression_model_name": model,
     "query": question and intent, "target_compression_ratio": share to take away}

    200 {"success": true, "data": {"compressed_output": text,
         "original_tokens": n, "compressed_tokens": n}}

`query` is left out where the service is query-agnostic, and the ratio where none is wanted. The service's
ratio is a strength from 0 to 1, so it gets what is to go, not what is to stay. A response with `success`
false, or with an error's status, is a failure. Relative endpoints are Compresr's own.

A provider's key is the operator's, or, where the operator allows it, the credential of the very client whose
result it is; that one goes to no host but the one that the client itself sent it to.
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
from functools import cache
from typing import Any, Protocol
from urllib.parse import urljoin, urlsplit
from urllib.request import getproxies

import certifi
import httpx
import orjson

from penumbra import rules
from penumbra.compress import token_estimate
from penumbra.config.settings import Api as ApiSettings
from penumbra.config.settings import Provider, Settings, provider, service
from penumbra.wire import content_encoding, request_path
from penumbra.wire.request_path import is_this_machine

# Calls go through the operator's proxies but never through this one. Every call carries a header with a
# number of its own, so that a call that comes back to us over any way (a transparent proxy, a proxy in front)
# is recognised and left alone. The number means nothing as soon as the call is over.
Listening = Callable[[], Collection[int]]
"""The ports that this process listens on."""
# They would write addresses and keys into the log.
for _name in ("httpx", "httpcore", "hpack", "h2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Call:
    """A POST with a JSON body."""

    url: str
    headers: Mapping[str, str]
    body: Any


class Http:
    """One client for all calls, made when the first one is. `listening` is asked for every new client."""

    def __init__(self, listening: Listening = tuple) -> None:
        self._listening = listening
        self._client: httpx.AsyncClient | None = None
        self._ports: frozenset[int] = frozenset()

    async def post(self, call: Call, timeout: float, limit: int) -> Any:
        """The decoded JSON of a 200 response of at most `limit` bytes, within `timeout` seconds.

        Raises Failure.
        """
        try:
            async with asyncio.timeout(timeout):
                body = await self._post(call, limit)
        except TimeoutError:
            raise Failure("timeout", f"{timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise Failure("connection", type(error).__name__) from None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise Failure("malformed", "not JSON") from None

    async def _post(self, call: Call, limit: int) -> bytes:
        number = secrets.token_hex(16)
        accepted = {"accept": "application/json", "accept-encoding": ", ".join(content_encoding.SUPPORTED)}
        headers = {**call.headers, request_path.HEADER: number, **accepted}
        client = self._connected()
        request = client.build_request("POST", call.url, json=call.body, headers=headers)
        request_path.under_way.add(number)
        try:
            return await self._received(await client.send(request, stream=True), limit)
        finally:
            request_path.under_way.discard(number)

    async def _received(self, response: httpx.Response, limit: int) -> bytes:
        try:
            if response.status_code != 200:
                raise Failure("status", str(response.status_code))
            # Raw: httpx would decode a small piece into as much memory as it takes.
            decoder = content_encoding.Decoder(response.headers.get("content-encoding", ""), limit)
            body, received = bytearray(), 0
            async for piece in response.aiter_raw():
                received += len(piece)
                if received > limit:
                    raise content_encoding.TooLarge("before decoding")
                body += decoder.feed(piece)
            return bytes(body)
        except content_encoding.TooLarge:
            raise Failure("larger", f"over {limit} bytes") from None
        except content_encoding.NotDecodable:
            raise Failure("malformed", "content coding") from None
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
                # How many calls there are at once is bounded before they come here.
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
    """Public CAs, and those of `SSL_CERT_FILE`."""
    context = ssl.create_default_context(cafile=certifi.where())
    extra = os.environ.get("SSL_CERT_FILE")
    if extra and os.path.isfile(extra):
        context.load_verify_locations(extra)
    return context


def leads_here(proxies: Collection[str], ports: Collection[int]) -> bool:
    """Return whether one of these proxy URLs is an address that this process listens on."""
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
    """Credential of a client's own request, good for the host that the client sent it to."""

    host: str
    """Name and port, `api.example.com:443`."""
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    owner: bytes = b""
    """Keyed hash of the account: responses paid with it are nobody else's."""


@dataclass(frozen=True, slots=True)
class Task:
    """One text to be shortened. Every text in it is without secrets already."""

    text: str
    tool: str = ""
    """Name of the tool that printed the text; empty if unknown."""
    intent: str = ""
    """Purpose of the call: its arguments, in one line."""
    question: str = ""
    """The user's question; empty if unknown."""
    ratio: float | None = None
    """Wanted size of the response, relative to the text."""
    scope: bytes = b""
    """Scope of the caller; no other caller gets the response."""
    credential: Credential | None = None
    """Credential of the client whose request it is; None unless the operator allows its use."""


@dataclass(frozen=True, slots=True)
class Response:
    """A shorter text, and the tokens that it cost as the service counts them (0: not told)."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class Failure(Exception):
    """No response. `kind` is one of a few constant words for figures; nothing in it quotes anybody."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind} ({detail})" if detail else kind)
        self.kind = kind


class Strategy(Protocol):
    """Shortens texts."""

    @property
    def name(self) -> str:
        """As the settings spell it."""
        ...

    @property
    def model(self) -> str:
        """Whose price it has; empty: it costs nothing."""
        ...

    @property
    def identity(self) -> str:
        """All that its responses depend on beside the task."""
        ...

    @property
    def protects(self) -> bool:
        """Reads are left whole and critical lines are put back."""
        ...

    def fits(self, task: Task) -> bool:
        """Return whether it may be asked about this task at all: it has what it needs."""
        ...

    async def shorten(self, task: Task) -> Response:
        """The shorter text. Raises Failure."""
        ...


WORDS = 50
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Simple:
    """Keeps the first `words` words with the blanks between them, and says so with three dots."""

    words: int = WORDS
    name: str = "simple"
    model: str = ""
    protects: bool = False

    @property
    def identity(self) -> str:
        return f"{self.words} words"

    def fits(self, task: Task) -> bool:
        return True

    async def shorten(self, task: Task) -> Response:
        return Response(first_words(task.text, self.words))


def first_words(text: str, count: int = WORDS) -> str:
    """The text up to its word number `count`; the whole text if it has no more."""
    for number, found in enumerate(_WORD.finditer(text)):
        if number == count:
            return f"{text[: found.start()].rstrip()}..."
    return text


HOME = "https://api.compresr.ai"
PATH = "/api/compress/tool-output/"
MODEL = "toc_latte_v1"
_ANSWERS = ("compressed_output", "compressed_context")


@dataclass(frozen=True, slots=True)
class Api:
    """The service that the settings name."""

    settings: ApiSettings
    http: Http
    name: str = "api"
    protects: bool = True

    @property
    def model(self) -> str:
        return self.settings.model or MODEL

    @property
    def identity(self) -> str:
        return f"{service_address(self.settings.endpoint)} {self.model} {self.settings.query_agnostic}"

    def fits(self, task: Task) -> bool:
        return True

    async def shorten(self, task: Task) -> Response:
        headers = {"x-api-key": self.settings.api_key} if self.settings.api_key else {}
        call = Call(service_address(self.settings.endpoint), headers, self._body(task))
        limit = 6 * len(task.text) + 65_536
        return read_service(await self.http.post(call, self.settings.timeout, limit))

    def _body(self, task: Task) -> dict[str, Any]:
        body: dict[str, Any] = {
            "tool_output": task.text,
            "tool_name": task.tool or "unknown",
            "compression_model_name": self.model,
        }
        if not self.settings.query_agnostic:
            body["query"] = "\n".join(filter(None, (task.question, task.intent))) or "What does it say?"
        if task.ratio is not None:
            body["target_compression_ratio"] = round(1 - task.ratio, 6)
        return body


def service_address(endpoint: str) -> str:
    """Return where the calls go: a base URL without a path gets the contract's own."""
    url = urljoin(HOME, endpoint)
    return urljoin(url, PATH) if urlsplit(url).path in ("", "/") else url


def read_service(response: Any) -> Response:
    """Return what a decoded response says. Raises Failure."""
    if not isinstance(response, dict):
        raise Failure("malformed", "no object")
    if response.get("success") is False:
        raise Failure("refused")
    data = response.get("data", response)
    text = next((data[key] for key in _ANSWERS if key in data), None) if isinstance(data, dict) else None
    if not isinstance(text, str):
        raise Failure("malformed", "no text")
    return Response(text, count(data.get("original_tokens")), count(data.get("compressed_tokens")))


def count(value: Any) -> int:
    """A number of tokens as a response tells it; 0 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question to a model."""

    model: str
    instruction: str
    text: str
    tokens: int
    """Most tokens of the response, thinking included."""


@dataclass(frozen=True, slots=True)
class Contract:
    """One provider's API."""

    path: str
    """Behind the base URL; `{model}` stands for the model's name."""
    key: Callable[[str], dict[str, str]]
    """The headers that carry a key."""
    headers: Mapping[str, str]
    body: Callable[[Prompt], dict[str, Any]]
    read: Callable[[Any], Response]
    """Reads a decoded response. Raises Failure, or LookupError, TypeError where it is none."""

    def call(self, endpoint: str, headers: Mapping[str, str], prompt: Prompt) -> Call:
        """The request to an endpoint: a base URL, or the whole address."""
        url = provider_address(endpoint, self.path, prompt.model)
        return Call(url, {**self.headers, **headers}, self.body(prompt))


def provider_address(endpoint: str, path: str, model: str) -> str:
    """A base URL with the contract's path behind it, as much of it as is missing."""
    base = endpoint.rstrip("/")
    version, operation = path.split("/")[1], path.rsplit("/", 1)[1]
    base_path = urlsplit(base).path
    if base_path.endswith(operation.replace("{model}", model).rpartition(":")[2] or operation):
        return base
    if base_path.endswith(f"/{version}"):
        base = base.removesuffix(f"/{version}")
    return base + path.replace("{model}", model)


def _finished(reason: Any, *good: Any) -> None:
    """A response that was cut off, or that is a refusal, is none."""
    if reason not in good:
        raise Failure("unfinished", str(reason)[:40] if isinstance(reason, str) else "")


def _anthropic_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_tokens": prompt.tokens,
        "system": prompt.instruction,
        "messages": [{"role": "user", "content": prompt.text}],
    }


def _anthropic_response(response: Any) -> Response:
    text = "".join(block["text"] for block in response["content"] if block["type"] == "text")
    _finished(response["stop_reason"], "end_turn", "stop_sequence")
    usage = response.get("usage") or {}
    return Response(text, count(usage.get("input_tokens")), count(usage.get("output_tokens")))


def _openai_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "model": prompt.model,
        "max_completion_tokens": prompt.tokens,
        "messages": [
            {"role": "system", "content": prompt.instruction},
            {"role": "user", "content": prompt.text},
        ],
    }


def _openai_response(response: Any) -> Response:
    choice = response["choices"][0]
    _finished(choice["finish_reason"], "stop")
    usage = response.get("usage") or {}
    tokens = count(usage.get("prompt_tokens")), count(usage.get("completion_tokens"))
    return Response(choice["message"]["content"], *tokens)


def _gemini_body(prompt: Prompt) -> dict[str, Any]:
    return {
        "systemInstruction": {"parts": [{"text": prompt.instruction}]},
        "contents": [{"role": "user", "parts": [{"text": prompt.text}]}],
        "generationConfig": {"maxOutputTokens": prompt.tokens},
    }


def _gemini_response(response: Any) -> Response:
    candidate = response["candidates"][0]
    _finished(candidate["finishReason"], "STOP")
    parts = candidate["content"]["parts"]
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    usage = response.get("usageMetadata") or {}
    spent = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
    return Response(text, count(usage.get("promptTokenCount")), spent)


CONTRACTS: Mapping[str, Contract] = {
    "anthropic": Contract(
        path="/v1/messages",
        key=lambda key: {"x-api-key": key},
        headers={"anthropic-version": "2023-06-01"},
        body=_anthropic_body,
        read=_anthropic_response,
    ),
    "openai": Contract(
        path="/v1/chat/completions",
        key=lambda key: {"authorization": f"Bearer {key}"},
        headers={},
        body=_openai_body,
        read=_openai_response,
    ),
    "gemini": Contract(
        path="/v1beta/models/{model}:generateContent",
        key=lambda key: {"x-goog-api-key": key},
        headers={},
        body=_gemini_body,
        read=_gemini_response,
    ),
}


_LEAST, _MOST = 256, 8192
"""Tokens of a response."""


@cache
def strategy_rules() -> Mapping[str, Any]:
    """The content of rules/strategies.yaml."""
    loaded: dict[str, Any] = rules.load("strategies.yaml")
    return loaded


@dataclass(frozen=True, slots=True)
class ExternalProvider:
    """One entry of `providers`; `timeout` is in seconds."""

    entry: str
    provider: Provider
    timeout: float
    http: Http
    name: str = "external_provider"
    protects: bool = True

    @property
    def model(self) -> str:
        return self.provider.model or str(self._rules().get("model", ""))

    @property
    def identity(self) -> str:
        return f"{self._contract()} {self._endpoint()} {self.model}"

    @property
    def captures(self) -> bool:
        """True if it is asked with the clients' own credentials."""
        return self.provider.auth == "oauth"

    def fits(self, task: Task) -> bool:
        if not self.captures:
            return True
        return task.credential is not None and task.credential.host.lower() == self.host

    @property
    def host(self) -> str:
        """Return where it is asked: name and port."""
        parts = urlsplit(self._endpoint())
        return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"

    async def shorten(self, task: Task) -> Response:
        name = self._contract()
        contract = CONTRACTS[name]
        prompt = self._prompt(task, int(strategy_rules()["reserve"][name]))
        call = contract.call(self._endpoint(), self._authorisation(contract, task), prompt)
        response = await self.http.post(call, self.timeout, 6 * len(task.text) + 262_144)
        try:
            read = contract.read(response)
        except (LookupError, TypeError, AttributeError):
            raise Failure("malformed", "not the provider's response") from None
        if not isinstance(read.text, str):
            raise Failure("malformed", "no text")
        return read

    def _rules(self) -> Mapping[str, Any]:
        rules: Mapping[str, Any] = strategy_rules()["providers"].get(self.entry, {})
        return rules

    def _contract(self) -> str:
        return str(self._rules().get("contract", strategy_rules()["other"]))

    def _endpoint(self) -> str:
        return self.provider.endpoint or str(self._rules().get("endpoint", ""))

    def _authorisation(self, contract: Contract, task: Task) -> Mapping[str, str]:
        if not self.captures:
            return contract.key(self.provider.api_key) if self.provider.api_key else {}
        if not self.fits(task) or task.credential is None:
            raise Failure("no credential")
        return task.credential.headers

    def _prompt(self, task: Task, reserve: int) -> Prompt:
        share = task.ratio if task.ratio is not None else 0.5
        wanted = min(max(int(token_estimate.estimate(task.text) * share), _LEAST), _MOST)
        instruction = str(strategy_rules()["instruction"]).strip().replace("{tokens}", str(wanted))
        # The estimate and the provider's count differ.
        return Prompt(self.model, instruction, frame(task), wanted * 3 // 2 + reserve)


def frame(task: Task) -> str:
    """The text between tags that nothing in it can close, and what it is about in front of them."""
    digest = hashlib.blake2b(task.text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    about = [
        f"{title}: {value}"
        for title, value in (("Question", task.question), ("Tool", task.tool), ("Call", task.intent))
        if value
    ]
    return "\n".join([*about, f"<output-{digest}>", task.text, f"</output-{digest}>"])


def chosen(settings: Settings, http: Http) -> Strategy | None:
    """Return who is asked beside the pipeline or instead of it; None: nobody."""
    name = settings.external_strategy
    if name == "simple":
        return Simple()
    if name == "api":
        return Api(service(settings), http)
    if name == "external_provider":
        entry, asked = provider(settings)
        return None if asked is None else ExternalProvider(entry, asked, settings.api.timeout, http)
    return None
