"""Schema of `providers.yaml`, which describes the requests that are LLM calls."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from penumbra.rule_schemas.schema import Regex, Size, Strict

Member = Literal["string", "array", "object", "string or array", "array or object"]


class ApiRule(Strict, frozen=True):
    """A kind of LLM call."""

    format: str
    """The name of the format that reads the request."""
    kind: Literal["messages", "count_tokens", "compact"]
    """`messages` asks the model, `count_tokens` only counts, `compact` asks for a summary."""
    path: Regex
    """A pattern for the whole path, in upper or lower case, without query, escapes and final slash."""
    method: str = "POST"
    body: dict[str, Member] = field(default_factory=dict)
    """Members that the body must have, with their JSON types."""


class CacheRule(Strict, frozen=True):
    """The facts about a provider's prompt cache."""

    kind: Literal["explicit", "automatic"]
    minimum_tokens: Size
    marker: str = ""


class RequestExample(Strict, frozen=True):
    """A request, and the API as which it must be recognised."""

    host: str
    path: str
    """The path with its query."""
    body: str
    """The body as sent."""
    api: str | None = field(name="is")
    """The name of the API; null if the request is no LLM call."""
    method: str = "POST"


class Providers(Strict, frozen=True):
    """`providers.yaml`. A user's file may have `apis`, `providers`, `errors`, `local` and `examples`."""

    apis: dict[str, ApiRule] = field(default_factory=dict)
    """The kinds of calls to LLM hosts. The first kind that fits counts."""
    providers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Globs of the hosts of LLM APIs, by provider."""
    local: tuple[str, ...] = ()
    """Hosts that count as LLM hosts if path and body fit a call."""
    errors: dict[str, str] = field(default_factory=dict)
    """The format of errors by provider; `openai_chat` for all other providers."""
    signed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The requests that have a signature over their bodies. `providers` names the providers that check
    signatures; on hosts of no known provider, `formats` names the formats of signed requests."""
    caches: dict[str, CacheRule] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    sockets: dict[str, Any] = field(default_factory=dict)
    deviations: tuple[Any, ...] = ()
    examples: tuple[RequestExample, ...] = ()
    """Requests with their APIs. Tests check Penumbra's examples, and Penumbra checks the user's."""
