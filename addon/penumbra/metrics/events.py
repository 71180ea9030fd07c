"""One JSON line per request with results, per expansion, per recovery: what was decided, not what was said.

Every field stands in docs/options.md.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson

from penumbra.metrics.request_totals import Totals
from penumbra.metrics.shown import ShownResult

WriteEvent = Callable[[Callable[[], dict[str, Any]]], None]
"""Takes what makes an event, which is asked where events are written."""
_log = logging.getLogger(__name__)


def request_event(
    *,
    flow_id: str,
    is_observed: bool,
    arm: str,
    host: str,
    api: str,
    model: str,
    mode: str,
    strategy: str,
    note: str,
    totals: Totals,
    shown: Sequence[ShownResult],
    outside: Mapping[str, int],
    body_before: int,
    body_after: int,
    milliseconds: float,
) -> dict[str, Any]:
    """The event of one request; of its results only the new ones are listed.

    `outside`: secrets newly found outside of tool results, by rule; `note`: what was done about the
    conversation as a whole.
    """
    return {
        "event": "request",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "observed": is_observed,
        "arm": arm,
        "host": host,
        "api": api,
        "model": model,
        "mode": mode,
        "strategy": strategy,
        "note": note,
        "results": totals.results,
        "changed": totals.changed,
        "body_bytes": [body_before, body_after],
        "result_bytes": [totals.bytes_before, totals.bytes_after],
        "result_tokens": [totals.tokens_before, totals.tokens_after],
        "milliseconds": round(milliseconds, 2),
        "redactions_outside": dict(outside),
        "new": [_result(entry) for entry in shown if entry.new],
    }


def _result(entry: ShownResult) -> dict[str, Any]:
    facts = entry.facts
    return {
        "call": entry.call_id,
        "tool": entry.tool,
        "asked": facts.asked,
        "cache_hit": facts.asked == "hit",
        "how": facts.how,
        "family": facts.family,
        "stages": facts.stages,
        "skipped": facts.skipped,
        "loss": facts.loss,
        "ref": facts.ref,
        "bytes": [facts.bytes_before, facts.bytes_after],
        "tokens": [facts.tokens_before, facts.tokens_after],
        "characters": facts.characters_before,
        "lines": facts.lines_before,
        "token_mark": facts.token_mark,
        # As the logs of compression gateways name them.
        "tool_name": entry.tool,
        "shadow_id": facts.ref,
        "original_bytes": facts.bytes_before,
        "compressed_bytes": facts.bytes_after,
        "compression_ratio": round(facts.bytes_after / facts.bytes_before, 4) if facts.bytes_before else 1.0,
        "redactions": dict(facts.redactions),
    }


def recovery_event(*, flow_id: str, host: str, rule: str, level: int) -> dict[str, Any]:
    """The event of a request that was refused as too large and then taken, in its `level`-th form."""
    return {
        "event": "recovery",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "host": host,
        "rule": rule,
        "level": level,
    }


class EventLog:
    """A file that grows by a line per event, written outside of the event loop; mode 0600.

    It is opened once at the start, so that what is wrong with it is said there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-events")
        self._failed = False
        self._append(b"")

    def write(self, event: dict[str, Any]) -> None:
        """Append an event; a failing disk is told once and never disturbs a request."""
        self._thread.submit(self._append, orjson.dumps(event) + b"\n")

    def close(self) -> None:
        """Write what is waiting."""
        self._thread.shutdown(wait=True)

    def _append(self, line: bytes) -> None:
        try:
            path = Path(self.path).expanduser()
            descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line)
        except OSError as error:
            if not self._failed:
                self._failed = True
                _log.warning("PENUMBRA_EVENTS_UNAVAILABLE: %s: %s", self.path, error.strerror)
