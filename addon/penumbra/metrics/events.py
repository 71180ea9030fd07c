"""The outcome of one request: its results and totals, a summary in a line, and one JSON line for an event
file.

Names of tools and rules, sizes and counts are recorded, never content. docs/options.md describes every
field.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import orjson

from penumbra.compress.calls import tools
from penumbra.config.settings import Settings
from penumbra.errors import one_line
from penumbra.store.decisions import Facts


class ShownResult(Protocol):
    """Names, sizes and counts; never content."""

    @property
    def tool(self) -> str: ...

    @property
    def call_id(self) -> str: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def new(self) -> bool:
        """The result got its form in this request."""
        ...


SAME = ("kept", "adopted")
"""How results got their form."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the results of one request, as the client sent them and as they were forwarded."""

    results: int
    changed: int
    bytes_before: int
    bytes_after: int
    tokens_before: int
    tokens_after: int
    redactions: int

    @classmethod
    def of(cls, shown: Iterable[ShownResult]) -> Totals:
        """Sums over a request's results, with past decisions."""
        results = changed = bytes_before = bytes_after = tokens_before = tokens_after = redactions = 0
        for entry in shown:
            facts = entry.facts
            results += 1
            changed += facts.how not in SAME
            bytes_before += facts.bytes_before
            bytes_after += facts.bytes_after
            tokens_before += facts.tokens_before
            tokens_after += facts.tokens_after
            if facts.redactions:
                redactions += sum(facts.redactions.values())
        return cls(results, changed, bytes_before, bytes_after, tokens_before, tokens_after, redactions)


SEEN = "the provider had it already"
LATE = "out of time"
SKIPPED = "its tool is skipped"
OFF = "switched off"
SMALL = "small"
QUOTED = "quoted later: only what loses nothing"
NOTHING = "nothing to leave out"


def reason(tool: str, facts: Facts, settings: Settings) -> str:
    """The reason why a result is whole; empty if it was changed."""
    if facts.how == "adopted":
        return SEEN
    if facts.how != "kept":
        return ""
    if "request_budget" in facts.skipped:
        return LATE
    if not settings.shortens:
        return OFF
    if tools.skips(tool, settings.skip_tools):
        return SKIPPED
    if facts.bytes_before <= settings.min_bytes:
        return SMALL
    if tools.category(tool) in ("read", "edit"):
        return QUOTED
    return LATE if facts.skipped else NOTHING


_MOST_NAMES = 8
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts that can be added up."""

    results: int = 0
    changed: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    tools: Counter[str] = field(default_factory=Counter)
    """Tools of changed results."""
    stages: Counter[str] = field(default_factory=Counter)
    secrets: Counter[str] = field(default_factory=Counter)
    """Redactions by rule, in results and elsewhere."""
    declared: str = ""
    put_back: int = 0

    @classmethod
    def of(
        cls,
        shown: Iterable[ShownResult],
        outside: Mapping[str, int],
        declared: str = "",
        put_back: int = 0,
        totals: Totals | None = None,
    ) -> Summary:
        """`outside`: secrets that were found outside of tool results, by rule; `totals`: of these results, if
        they are known."""
        shown = list(shown)
        totals = totals or Totals.of(shown)
        # A long conversation has thousands of results, which are counted with every request.
        changed = [entry for entry in shown if entry.facts.how not in SAME]
        tools = Counter([entry.tool for entry in changed])
        # What was decided about whole calls has no stage.
        stages = Counter(chain.from_iterable([each.facts.stages or (each.facts.how,) for each in changed]))
        secrets = Counter(outside)
        for redactions in [entry.facts.redactions for entry in shown if entry.facts.redactions]:
            secrets.update(redactions)
        stages.pop("shortened", None)
        named: Counter[str] = Counter()
        for name, count in tools.items():
            named[_name(name) or "(unknown)"] += count
        return cls(
            totals.results,
            totals.changed,
            totals.tokens_before,
            totals.tokens_after,
            named,
            stages,
            secrets,
            _name(declared),
            put_back,
        )

    def __add__(self, other: Summary) -> Summary:
        return Summary(
            self.results + other.results,
            self.changed + other.changed,
            self.tokens_before + other.tokens_before,
            self.tokens_after + other.tokens_after,
            self.tools + other.tools,
            self.stages + other.stages,
            self.secrets + other.secrets,
            other.declared or self.declared,
            self.put_back + other.put_back,
        )

    def line(self, new: Summary | None = None) -> str:
        """A line such as `2 of 5 results changed (Bash 2), about 8,000 -> 2,000 tokens (-75%), by terminal 2,
        3 secrets redacted (password 3)`. With `new`, only new results are summed up."""
        named, mark = (self, "") if new is None else (new, "new: ")
        parts = []
        if self.results:
            parts.append(f"{self.changed:,} of {self.results:,} results changed{_names(named.tools, mark)}")
        if self.tokens_after < self.tokens_before:
            share = (self.tokens_before - self.tokens_after) / self.tokens_before
            parts.append(f"about {self.tokens_before:,} -> {self.tokens_after:,} tokens (-{share:.0%})")
        # Of secrets it is said below.
        if stages := Counter({name: count for name, count in named.stages.items() if name != "redaction"}):
            parts.append(f"by {_counted(stages)}")
        if self.secrets:
            count = self.secrets.total()
            noun = "secret" if count == 1 else "secrets"
            parts.append(f"{count:,} {noun} redacted{_names(named.secrets, mark)}")
        if self.put_back:
            noun = "exchange" if self.put_back == 1 else "exchanges"
            parts.append(f"{self.put_back:,} hidden {noun} put back")
        if self.declared and not self.changed:
            parts.append(f"tool {self.declared} declared")
        return ", ".join(parts) or "changed"

    def metadata(self) -> dict[str, object]:
        """Metadata for mitmproxy's filters and saved flows."""
        return {
            "results": self.results,
            "results_changed": self.changed,
            "result_tokens": [self.tokens_before, self.tokens_after],
            "tools": dict(self.tools),
            "stages": dict(self.stages),
            "secrets": dict(self.secrets),
            "declared": self.declared,
            "put_back": self.put_back,
        }


def _name(text: str) -> str:
    """A client's name on one line, safe for a terminal."""
    text = one_line(text)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _names(counts: Counter[str], mark: str = "") -> str:
    return f" ({mark}{_counted(counts)})" if counts else ""


def _counted(counts: Counter[str]) -> str:
    """Counts, the most frequent first, then by name, so that equal requests read alike."""
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    parts = [f"{name} {count:,}" for name, count in ordered[:_MOST_NAMES]]
    if len(ordered) > _MOST_NAMES:
        parts.append(f"{len(ordered) - _MOST_NAMES} more")
    return ", ".join(parts)


WriteEvent = Callable[[Callable[[], dict[str, Any]]], None]
"""Takes a function that makes an event; it is called where events are written."""
_log = logging.getLogger(__name__)


def request_event(
    *,
    flow_id: str,
    is_observed: bool,
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
    """The event of a request that was refused as too large, and then taken in its `level`-th form."""
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


class EventFile:
    """The file of events that the settings in force name. State: the one that is open."""

    def __init__(self, path: Callable[[], str]) -> None:
        """`path` is the setting; empty: nothing is written."""
        self._path = path
        self._log: EventLog | None = None

    def write(self, make: Callable[[], dict[str, Any]]) -> None:
        """One line, if any are written."""
        self.follow()
        if self._log is not None:
            self._log.write(make())

    def follow(self) -> None:
        """Open what the setting names now."""
        path = self._path()
        if self._log is not None and self._log.path != path:
            self.close()
        if self._log is None and path:
            self._log = EventLog(path)

    def close(self) -> None:
        """Write what is waiting."""
        log, self._log = self._log, None
        if log is not None:
            log.close()
