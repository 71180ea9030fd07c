"""A search of one body, without a proxy."""

from __future__ import annotations

from typing import Any

from penumbra.config.settings import Settings
from penumbra.redaction import default
from penumbra.redaction.other_bodies import Body, Elsewhere, Searched
from penumbra.workers import Caller


async def _redact(settings: Settings) -> Any:
    return default().redact


async def _work(caller: Caller, heavy: bool, work: Any) -> Searched:
    done: Searched = work()
    return done


def search(data: bytes, elsewhere: Elsewhere | None = None, *, kind: str = "", **more: Any) -> Searched:
    settings = more.pop("settings", Settings())
    steps = (elsewhere or Elsewhere(_redact, _work)).search(
        Body(data, kind, **more), settings, Caller("", b"")
    )
    try:
        steps.send(None)
    except StopIteration as done:
        found: Searched = done.value
        return found
    raise AssertionError
