"""A search of one body, without a proxy."""

from typing import Any

from penumbra.config.settings import Settings
from penumbra.redaction import default
from penumbra.redaction.other_bodies import Body, OtherBodies, Searched
from penumbra.redaction.redact_calls import Redact


def search(data: bytes, redact: Redact | None = None, *, kind: str = "", **more: Any) -> Searched:
    settings = more.pop("settings", Settings())
    return OtherBodies().search(
        Body(data, kind, **more),
        redact or default().redact,
        with_calls=settings.redact_scope == "all",
        policy=settings.redaction_failure,
    )
