"""What LLM hosts take beside LLM calls, by path: what passes, what is searched for secrets, which sockets
there are, and how an error looks there.

The knowledge is `rules/providers.yaml`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penumbra import rules
from penumbra.apis.formats import REQUESTS
from penumbra.apis.recognise import provider
from penumbra.linear import LinearText
from penumbra.wire.json_values import encode
from penumbra.wire.request_path import normal


@dataclass(frozen=True, slots=True)
class Other:
    """One kind of request that is no LLM call."""

    id: str
    path: Any
    passes: bool
    """Its bodies go on as they are."""
    files: bool
    """Its bodies are files, of which batches of requests are searched alone."""


@dataclass(frozen=True, slots=True)
class SocketKind:
    """One kind of WebSocket whose frames are searched."""

    id: str
    path: Any
    error: str

    def refusal(self, message: str) -> bytes:
        """The frame that tells a client why another was not sent."""
        return self.error.replace("{message}", encode(message).decode("utf-8")).encode("utf-8")


UNKNOWN_SOCKET = SocketKind("unknown", None, '{"type":"error","error":{"message":{message}}}')


@rules.cached
def _providers() -> Any:
    return rules.load("providers.yaml")


@rules.cached
def others() -> tuple[Other, ...]:
    """Every kind of the rule file, in its order."""
    return tuple(
        Other(name, LinearText(f"(?i){entry['path']}"), entry["does"] == "pass", entry.get("files", False))
        for name, entry in _providers()["others"].items()
    )


@rules.cached
def sockets() -> tuple[SocketKind, ...]:
    """Every kind of socket of the rule file."""
    return tuple(
        SocketKind(name, LinearText(f"(?i){entry['path']}"), entry["error"])
        for name, entry in _providers()["sockets"].items()
    )


def by_path(path: str) -> Other | None:
    """What a request to this path of an LLM host is; None: nobody knows."""
    bare = normal(path)
    return next((path for path in others() if path.path.fullmatch(bare)), None)


def socket_by_path(path: str) -> SocketKind | None:
    """What a WebSocket at this path of an LLM host is; None: nobody knows."""
    bare = normal(path)
    return next((path for path in sockets() if path.path.fullmatch(bare)), None)


def error(host: str, status: int, message: str) -> bytes:
    """An error body as the provider at a host writes it."""
    shape = _providers()["errors"].get(provider(host), "openai_chat")
    return REQUESTS[shape].error(status, message)
