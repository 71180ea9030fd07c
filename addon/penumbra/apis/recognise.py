"""This module recognises LLM calls: by host, method and path, then by members of the body.

`rules/providers.yaml` describes the calls, the other paths of LLM hosts, WebSockets, and the formats of
errors. Requests to the other paths are sent on unchanged or searched for secrets.

After a refusal with status 426, Codex changes from WebSocket to HTTP at once. After other refusals, it first
tries the WebSocket again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from penumbra import rules
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.formats import REQUESTS
from penumbra.linear import LinearText
from penumbra.rule_schemas.providers import Providers
from penumbra.short_texts import remembered
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode
from penumbra.wire.request_path import host_name, is_loopback, normal

_FIRST_BYTES = {
    "string": b'"',
    "array": b"[",
    "object": b"{",
    "string or array": b'"[',
    "array or object": b"[{",
}
_MODEL = LinearText(r"/models?/(?:(arn:.+)/[a-z-]+$|([^/]+?)(?::[a-zA-Z]+)?(?:/|$))")
"""The id of a model in a path. On Amazon Bedrock, the id may be an ARN with an unescaped slash."""


class Cache(Struct, frozen=True):
    """A `Cache` describes how a provider caches prompts."""

    explicit: bool
    """True if a prefix is cached only up to a cache breakpoint in the request."""
    marker: bytes
    """Bytes that each request with cache breakpoints has."""
    minimum_tokens: int
    """A prefix with fewer tokens is not cached."""


@dataclass(frozen=True, slots=True)
class Api:
    """An `Api` is one kind of LLM call."""

    id: str
    format: str
    kind: str
    """`messages`, `count_tokens` or `compact`."""
    method: str
    path: Any
    body: tuple[tuple[str, bytes], ...]
    wire: ApiFormat
    cache: Cache

    def fits(self, document: Document) -> bool:
        """Return whether a body has the members of this kind of call."""
        top = document.top
        return all(name in top and memoryview(top[name])[0] in first_bytes for name, first_bytes in self.body)


@rules.cached
def apis() -> tuple[Api, ...]:
    providers = rules.load_as("providers.yaml", Providers)
    caches = {
        name: Cache(rule.kind == "explicit", rule.marker.encode(), rule.minimum_tokens)
        for name, rule in providers.caches.items()
    }
    return tuple(
        Api(
            id=name,
            format=rule.format,
            kind=rule.kind,
            method=rule.method,
            path=LinearText(f"(?i){rule.path}"),
            body=tuple((key, _FIRST_BYTES[kind]) for key, kind in rule.body.items()),
            wire=REQUESTS[rule.format],
            cache=caches[rule.format],
        )
        for name, rule in providers.apis.items()
    )


@rules.cached
def _hosts() -> tuple[tuple[str, ...], tuple[str, ...]]:
    providers = rules.load_as("providers.yaml", Providers)
    return tuple(host for hosts in providers.providers.values() for host in hosts), providers.local


def is_llm_host(host: str, extra: tuple[str, ...] = ()) -> bool:
    """Return whether LLM calls to a host are read. `extra` has the operator's further globs."""
    return is_provider(host, extra) or is_loopback(host) or _is_one(host, _hosts()[1])


def is_provider(host: str, extra: tuple[str, ...] = ()) -> bool:
    """Return whether a host is a provider's, or matches one of the operator's globs (`extra`)."""
    return _is_one(host, (*_hosts()[0], *extra))


def provider(host: str) -> str:
    """Return the name of a host's provider in the rule file; empty if unknown."""
    named = rules.load_as("providers.yaml", Providers).providers
    return next((name for name, hosts in named.items() if _is_one(host, tuple(hosts))), "")


def is_signed(host: str, api: Api | None) -> bool:
    """Return whether a host checks signatures of requests. `api` is None if the request is no LLM call."""
    signed, owner = rules.load_as("providers.yaml", Providers).signed, provider(host)
    return owner in signed["providers"] or (not owner and api is not None and api.format in signed["formats"])


def _is_one(host: str, patterns: tuple[str, ...]) -> bool:
    name = host_name(host)
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


def model_in(path: str) -> str:
    """Return the model that a path names; empty if it names none. In some APIs, only the path does."""
    match = _MODEL.search(normal(path))
    return (match[1] or match[2]) if match else ""


@rules.until_changed
@remembered(1_024)
def by_request_line(method: str, path: str) -> Api | None:
    """Return the API that a request to an LLM host may call, by method and path; None if there is none.
    `path` may contain a query. The content type is ignored, because `curl -d` sends JSON as a form, and many
    servers accept that."""
    bare, method = normal(path), method.upper()
    return next((api for api in apis() if api.method == method and api.path.fullmatch(bare)), None)


def claims_json(content_type: str) -> bool:
    """Return whether a body of this content type should be JSON; True for an empty content type."""
    return not content_type or "json" in content_type.lower()


class Other(Struct, frozen=True):
    """An `Other` is one kind of request that is no LLM call."""

    id: str
    path: Any
    passes: bool
    """True if bodies are sent on unchanged."""
    files: bool
    """True if bodies are files. Only batches of requests in them are then searched for secrets."""


class SocketKind(Struct, frozen=True):
    """A `SocketKind` is one kind of WebSocket whose frames are searched for secrets."""

    id: str
    path: Any
    error: str

    def refusal(self, message: str) -> bytes:
        """Return the frame that tells the client why its frame was not sent."""
        return self.error.replace("{message}", encode(message).decode("utf-8")).encode("utf-8")


UNKNOWN_SOCKET = SocketKind("unknown", None, '{"type":"error","error":{"message":{message}}}')


@rules.cached
def _providers() -> Any:
    return rules.load("providers.yaml")


@rules.cached
def others() -> tuple[Other, ...]:
    return tuple(
        Other(name, LinearText(f"(?i){entry['path']}"), entry["does"] == "pass", entry.get("files", False))
        for name, entry in _providers()["others"].items()
    )


@rules.cached
def sockets() -> tuple[SocketKind, ...]:
    return tuple(
        SocketKind(name, LinearText(f"(?i){entry['path']}"), entry["error"])
        for name, entry in _providers()["sockets"].items()
    )


def by_path(path: str) -> Other | None:
    """Return the kind of a request by its path on an LLM host; None if unknown."""
    bare = normal(path)
    return next((path for path in others() if path.path.fullmatch(bare)), None)


def socket_by_path(path: str) -> SocketKind | None:
    """Return the kind of a WebSocket by its path on an LLM host; None if unknown."""
    bare = normal(path)
    return next((path for path in sockets() if path.path.fullmatch(bare)), None)


def error_body(host: str, status: int, message: str) -> bytes:
    """Return an error body as the host's provider writes it; for unknown hosts, as in Chat Completions."""
    shape = _providers()["errors"].get(provider(host), "openai_chat")
    return REQUESTS[shape].error(status, message)


REFUSAL_STATUS = 426
_MESSAGE = "WebSocket is not supported here; use HTTP."


def asks_for(method: str, path: str, headers: Mapping[str, str]) -> Api | None:
    """Return the API of a WebSocket's frames if a request opens a WebSocket of Responses; otherwise None.
    Header names are in lower case."""
    if not is_socket(method, headers):
        return None
    api = by_request_line("POST", path)
    return api if api is not None and api.id == "openai-responses" else None


def is_socket(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request asks for a WebSocket. Header names are in lower case, or case is ignored."""
    if method.upper() != "GET":
        return False
    asked = {name.strip().lower() for name in headers.get("upgrade", "").split(",")}
    return "websocket" in asked


def upgrade_refusal() -> bytes:
    error = {"message": _MESSAGE, "type": "invalid_request_error", "param": None, "code": "upgrade_required"}
    return encode({"error": error})
