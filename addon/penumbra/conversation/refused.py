"""Requests that are answered here, and what their clients are told."""

from __future__ import annotations

from dataclasses import dataclass

from penumbra.apis.recognise import Api
from penumbra.redaction import RedactionError


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that is answered here and not sent."""

    status: int
    body: bytes
    reason: str


def unsearched(api: Api, error: RedactionError) -> Refused:
    """The response to a request that could not be searched for secrets."""
    message = message_of(error)
    return Refused(error.status, api.wire.error(error.status, message), message)


def message_of(error: RedactionError) -> str:
    """What a client is told."""
    return f"Penumbra could not search this request for secrets and did not send it: {error}"
