"""This module has the arguments and results of an engine. `EngineSettings` make an engine, and an `Incoming`
becomes an `Accepted` or a `Refused`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from penumbra.apis.identity import Credentials
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings, database_path, shared_place
from penumbra.conversation.context_windows import NOT_KNOWN, Bounds, UsageScale
from penumbra.conversation.model import Plan, Request, Rewritten, Shown
from penumbra.errors import one_line
from penumbra.expand.hidden_exchanges import Find, Prepared
from penumbra.expand.query import page_bytes
from penumbra.metrics.cache_miss import ColdTurn
from penumbra.redaction import RedactionError
from penumbra.redaction.redact_calls import ShowName
from penumbra.redaction.ruleset import Loaded
from penumbra.store.decisions import Decision
from penumbra.store.key_file import SharedPlace

if TYPE_CHECKING:
    from penumbra.conversation.restored_values import Restoration


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """An `EngineSettings` has the settings of an engine. If a setting changes, a new engine is made. Sizes
    are bytes, times are seconds."""

    database: Path | None
    """The file of the database; None to keep everything in memory."""
    shared: SharedPlace | None
    """The store that several proxies share; None if there is no such store."""
    database_max_bytes: int
    ledger_ttl: float
    originals_ttl: float
    page_bytes: int
    """The size of a page of an original that the model asks for."""
    user_rules: Loaded | None
    """The rules in the user's own file; None without a file."""
    gitleaks_only: bool
    secrets_allow: tuple[str, ...]
    rules: str
    """The path of the user's folder of rules."""
    redaction_max_bytes: int
    redaction_failure: str
    offload_bytes: int

    @classmethod
    def of(cls, settings: Settings, user_rules: Loaded | None = None) -> EngineSettings:
        """Return the settings of an engine, out of all settings."""
        return cls(
            database=database_path(settings),
            shared=shared_place(settings),
            database_max_bytes=settings.database_max_bytes,
            ledger_ttl=settings.ledger_ttl,
            originals_ttl=settings.originals_ttl,
            page_bytes=page_bytes(settings.max_output_bytes),
            user_rules=user_rules,
            gitleaks_only=settings.gitleaks_only,
            secrets_allow=settings.secrets_allow,
            rules=settings.rules,
            redaction_max_bytes=settings.redaction_max_bytes,
            redaction_failure=settings.redaction_failure,
            offload_bytes=settings.offload_bytes,
        )


class Incoming(Struct, frozen=True, dict=True):
    """An `Incoming` is a recognised request from a client."""

    api: Api
    body: bytes
    """The decoded body."""
    headers: Mapping[str, str]
    """The headers by their names in lower case."""
    query: Mapping[str, str]
    peer: str
    """The address of the client, which distinguishes callers without credentials."""
    host: str = ""
    """Name and port of the server."""
    path: str = ""
    """The path with its query."""
    threshold: str | None = None
    """The value of an `X-Compression-Threshold` header; None without the header."""
    socket: bool = False
    """True if the request is a message of a WebSocket."""

    @cached_property
    def credentials(self) -> Credentials:
        return Credentials.of(self.host, self.peer, self.headers, self.query)


class Accepted(Struct, frozen=True):
    """An `Accepted` is a request that is sent, changed or not."""

    request: Request
    rewritten: Rewritten
    milliseconds: float
    prepared: Prepared | None = None
    """The state of the injected tool; None if the model can't ask for originals in its response."""
    find: Find | None = None
    """The function that finds the originals of results in this request."""
    decided: Mapping[bytes, Decision] = {}
    """The decisions about texts of the request, by key."""
    line: str = ""
    """Changes to the conversation as a whole, for a log."""
    cold_turn: ColdTurn | None = None
    """The size of the unchanged prefix, if a cold cache let forms or tools change; otherwise None."""
    hidden: Mapping[str, int] = {}
    """Secrets newly found outside of tool results, by rule."""
    betas: str = ""
    """New value of the header `anthropic-beta`; empty if the header stays."""
    restoration: Restoration | None = None
    """Secrets that may replace their placeholders in the response; None if there are none."""
    bounds: Bounds = NOT_KNOWN
    """The limits for originals that the model gets after this turn."""
    usage_scale: UsageScale | None = None
    """Scale of the usage that the client gets; None if the client gets the provider's own figures."""
    model: str = ""
    """The name of the model, without secrets."""
    show: ShowName = one_line
    """The function that removes secrets from names before they are shown, such as the names of tools."""
    project: str = ""
    """A short name of the conversation's folder; empty if no request has named one."""
    plan: Plan | None = None
    """The forms of a retry, recorded after the provider has accepted it; None for other requests."""

    @property
    def conversation(self) -> bytes:
        return self.request.caller.conversation

    def sent(self, entry: Shown) -> str:
        decision = self.decided.get(entry.item.key)
        return entry.item.text if decision is None or decision.text is None else decision.text


class Refused(Struct, frozen=True):
    """A `Refused` is Penumbra's own response to a request that is not sent."""

    status: int
    body: bytes
    reason: str


def unsearched(api: Api, error: RedactionError) -> Refused:
    """Return the response to a request that could not be searched for secrets."""
    message = message_of(error)
    return Refused(error.status, api.wire.error(error.status, message), message)


def message_of(error: RedactionError) -> str:
    """Return the error message for the client."""
    return f"Penumbra could not search this request for secrets and did not send it: {error}"
