"""Schema of `providers.yaml`, which describes the requests that are calls of LLMs."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from penumbra.rule_schemas.schema import Regex, Size, Strict

Member = Literal["string", "array", "object", "string or array", "array or object"]


class ApiRule(Strict, frozen=True):
    """One kind of LLM call."""

    format: str
    """The module of `penumbra/apis` that reads the request."""
    kind: Literal["messages", "count_tokens", "compact"]
    """`messages` asks the model, `count_tokens` only counts, `compact` asks for a summary."""
    path: Regex
    """A full match, in any case, of the path without query, escapes and closing slash."""
    method: str = "POST"
    """The method."""
    body: dict[str, Member] = field(default_factory=dict)
    """Members that the body must have, with their JSON types."""


class CacheRule(Strict, frozen=True):
    """A provider's cache of prompts."""

    kind: Literal["explicit", "automatic"]
    minimum_tokens: Size
    marker: str = ""


class RequestExample(Strict, frozen=True):
    """A request, and the API that must be recognised, or null."""

    host: str
    """The host of the request."""
    path: str
    """The path with its query."""
    body: str
    """The body as sent."""
    api: str | None = field(name="is")
    """The API, or null."""
    method: str = "POST"
    """The method."""


class Providers(Strict, frozen=True):
    """`providers.yaml`. In the user's folder: `apis`, `providers`, `errors`, `local` and `examples`."""

    apis: dict[str, ApiRule] = field(default_factory=dict)
    """The calls, which are recognised at LLM hosts; the first that fits counts."""
    providers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Hosts of LLM APIs (globs), by provider."""
    local: tuple[str, ...] = ()
    """Hosts that are LLM hosts if path and body fit."""
    errors: dict[str, str] = field(default_factory=dict)
    """The format of errors at a provider's hosts; `openai_chat` at all others."""
    signed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """`providers` whose requests carry a signature over their bodies, and `formats` of their calls, which
    count at hosts of no known provider."""
    caches: dict[str, CacheRule] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    sockets: dict[str, Any] = field(default_factory=dict)
    deviations: tuple[Any, ...] = ()
    examples: tuple[RequestExample, ...] = ()
    """Requests, and the APIs that they must be recognised as."""
