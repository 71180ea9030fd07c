"""This module describes the outcome of a request: as sums, as a line for the log, and as a line of JSON. The
line has names, sizes and counts, but no content. docs/options.md describes the fields."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol

import msgspec
import orjson
from msgspec import Struct, structs

from penumbra.compress.calls import tools
from penumbra.config.settings import Settings
from penumbra.errors import counted, one_line
from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics.amounts import Rates
from penumbra.metrics.cache_miss import Prompt
from penumbra.metrics.tool_use import DeclaredTool
from penumbra.store.decisions import Facts


class ShownResult(Protocol):
    """A `ShownResult` has the facts about a tool result that may be shown: names, sizes and counts."""

    @property
    def tool(self) -> str: ...

    @property
    def call_id(self) -> str: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def new(self) -> bool:
        """Return whether Penumbra decided about the result in this request."""
        ...


SAME = ("kept", "adopted")
"""Values of `Facts.how` that mean that a result was not changed."""
_LATE = "out of time"


def reason(tool: str, facts: Facts, settings: Settings) -> str:
    """Return why a result is unchanged; empty if it was changed."""
    if facts.how == "adopted":
        return "the provider had it already"
    if facts.how != "kept":
        return ""
    if "request_budget" in facts.skipped:
        return _LATE
    if not settings.shortens:
        return "switched off"
    if tools.skips(tool, settings.skip_tools):
        return "its tool is skipped"
    if facts.bytes_before <= settings.min_bytes:
        return "small"
    if tools.category(tool) in ("read", "edit"):
        return "quoted later: lossless stages only"
    return _LATE if facts.skipped else "nothing to leave out"


_NONE: Mapping[str, int] = {}
_SIZES = tuple(map(attrgetter, ("bytes_before", "bytes_after", "tokens_before", "tokens_after")))
_REDACTIONS = attrgetter("redactions")
_MOST_NAMES = 8
_LONGEST_NAME = 60


class Summary(Struct, frozen=True):
    """A `Summary` adds up the results of a request, in the client's form and in the provider's."""

    results: int = 0
    changed: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    put_back: int = 0
    """The number of hidden exchanges that were put back into the request."""
    tools: Counter[str] = msgspec.field(default_factory=Counter)
    """Changed results by tool."""
    stages: Counter[str] = msgspec.field(default_factory=Counter)
    secrets: Counter[str] = msgspec.field(default_factory=Counter)
    """Redactions by rule, in results and elsewhere."""
    declared: str = ""
    """The name of the injected tool; empty if none was injected."""

    @classmethod
    def of(
        cls,
        shown: Collection[ShownResult],
        outside: Mapping[str, int] = _NONE,
        declared: str = "",
        put_back: int = 0,
    ) -> Summary:
        """Return the sums over all results of a request. `outside` counts the secrets found outside of tool
        results, by rule."""
        # A request of a long conversation has thousands of results, so the sums are made without a loop.
        facts = [entry.facts for entry in shown]
        before, after, tokens_before, tokens_after = (sum(map(size, facts)) for size in _SIZES)
        changed = [entry for entry in shown if entry.facts.how not in SAME]
        secrets = Counter(outside)
        for each in filter(_REDACTIONS, facts):
            secrets.update(each.redactions)
        named: Counter[str] = Counter()
        for name, count in Counter([entry.tool for entry in changed]).items():
            named[_name(name) or "(unknown)"] += count
        # Decisions about whole calls have no stage and are counted by `how`.
        stages = Counter(chain.from_iterable([each.facts.stages or (each.facts.how,) for each in changed]))
        stages.pop("shortened", None)
        sizes = before, after, tokens_before, tokens_after
        return cls(len(facts), len(changed), *sizes, put_back, named, stages, secrets, _name(declared))

    def __add__(self, other: Summary) -> Summary:
        added: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in _ADDED}
        return structs.replace(self, **added, declared=other.declared or self.declared)

    def line(self, new: Summary | None = None) -> str:
        """Return a line such as `2 of 5 results changed (Bash 2), about 8,000 -> 2,000 tokens (-75%), by
        terminal 2, 3 secrets redacted (password 3)`. With `new`, the line names only the tools, stages and
        secrets in `new`."""
        named, mark = (self, "") if new is None else (new, "new: ")
        parts = []
        if self.results:
            parts.append(f"{self.changed:,} of {self.results:,} results changed{_names(named.tools, mark)}")
        if self.tokens_after < self.tokens_before:
            share = (self.tokens_before - self.tokens_after) / self.tokens_before
            parts.append(f"about {self.tokens_before:,} -> {self.tokens_after:,} tokens (-{share:.0%})")
        # Redactions are counted below, by rule.
        if stages := Counter({name: count for name, count in named.stages.items() if name != "redaction"}):
            parts.append(f"by {_counted(stages)}")
        if self.secrets:
            parts.append(f"{counted(self.secrets.total(), 'secret')} redacted{_names(named.secrets, mark)}")
        if self.put_back:
            parts.append(f"{counted(self.put_back, 'hidden exchange')} put back")
        if self.declared and not self.changed:
            parts.append(f"tool {self.declared} declared")
        return ", ".join(parts) or "changed"

    def metadata(self) -> dict[str, object]:
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


_ADDED = tuple(name for name in Summary.__struct_fields__ if name != "declared")


def _name(text: str) -> str:
    """Return a client's name on one line in a form that is safe for a terminal."""
    text = one_line(text)
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"


def _names(counts: Counter[str], mark: str = "") -> str:
    return f" ({mark}{_counted(counts)})" if counts else ""


def _counted(counts: Counter[str]) -> str:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    parts = [f"{name} {count:,}" for name, count in ordered[:_MOST_NAMES]]
    if len(ordered) > _MOST_NAMES:
        parts.append(f"{len(ordered) - _MOST_NAMES} more")
    return ", ".join(parts)


class NewResult(Struct, frozen=True):
    """A `NewResult` is a result about which Penumbra decided in this request."""

    shown: ShownResult
    call: bytes
    kept: str


class SentRequest(Struct, frozen=True):
    """A `SentRequest` has the facts about a request that was sent to the provider."""

    conversation: bytes
    model: str
    agent: str
    host: str
    api: str
    note: str
    summary: Summary
    new: Sequence[NewResult]
    secrets: Mapping[str, int]
    """New secrets outside of results, by rule."""
    changed: bool
    body: tuple[int, int]
    milliseconds: float
    prompt: Prompt
    rates: Rates
    dollars_saved: float | None
    """Dollars saved; None if the price is not known."""
    declared: int
    """Tokens of the injected tool's declaration."""
    put_back: int
    """The bytes of hidden exchanges that were put into the request again."""
    is_turn: bool = True
    """True if the request asks for a message, not for a count of tokens or a compaction."""
    project: str = ""
    """A short name of the project without its path; empty if unknown."""
    is_observed: bool = False
    """True if the request was sent unchanged. The figures are then about changes that were not made."""
    tools: tuple[DeclaredTool, ...] = ()
    called: frozenset[str] = frozenset()


WriteEvent = Callable[[Callable[[], dict[str, Any]]], None]
"""A `WriteEvent` writes the event that its argument returns. The argument is called only if events are
written."""
_log = logging.getLogger(__name__)


def request_event(
    flow_id: str, sent: SentRequest, shown: Iterable[ShownResult], mode: str, strategy: str
) -> dict[str, Any]:
    """Return the event of one request, which lists the new results only."""
    summary = sent.summary
    return {
        "event": "request",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "observed": sent.is_observed,
        "host": sent.host,
        "api": sent.api,
        "model": sent.model,
        "mode": mode,
        "strategy": strategy,
        "note": sent.note,
        "results": summary.results,
        "changed": summary.changed,
        "body_bytes": sent.body,
        "result_bytes": [summary.bytes_before, summary.bytes_after],
        "result_tokens": [summary.tokens_before, summary.tokens_after],
        "milliseconds": round(sent.milliseconds, 2),
        "redactions_outside": dict(sent.secrets),
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
        # The names below are those in many logs of compression gateways.
        "tool_name": entry.tool,
        "shadow_id": facts.ref,
        "original_bytes": facts.bytes_before,
        "compressed_bytes": facts.bytes_after,
        "compression_ratio": round(facts.bytes_after / facts.bytes_before, 4) if facts.bytes_before else 1.0,
        "redactions": dict(facts.redactions),
    }


def recovery_event(*, flow_id: str, host: str, rule: str, level: int) -> dict[str, Any]:
    """Return the event of a request that the provider refused, and accepted after `level` other requests."""
    return {
        "event": "recovery",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "host": host,
        "rule": rule,
        "level": level,
    }


def expansion_event(
    *,
    flow_id: str,
    conversation: bytes,
    answered: Sequence[Answered],
    calls: int,
    tokens: Sequence[Mapping[str, int]],
    sound: bool,
) -> dict[str, Any]:
    """Return the event of one response in which the model asked for originals."""
    return {
        "event": "expansion",
        "time": round(time.time(), 3),
        "flow": flow_id,
        "conversation": conversation.hex()[:8],
        "sound": sound,
        "extra_calls": calls,
        "extra_tokens": [dict(turn) for turn in tokens],
        "asked": [
            {
                "ref": each.ref,
                "found": each.found,
                "bytes": each.sent,
                "tool": each.tool,
                "family": each.family,
            }
            for each in answered
        ],
    }


class EventFile:
    """An `EventFile` appends a line to the event file (mode 0600) for each event. An error of the disk is
    logged once for a path. Requests continue after an error."""

    def __init__(self, path: Callable[[], str]) -> None:
        """Make an event file. `path` returns the current setting. If the setting is empty, no events are
        written."""
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-events")
        self._failed = ""
        """The path that could not be written."""

    def write(self, make: Callable[[], dict[str, Any]]) -> None:
        """Append an event in a thread, so that the event loop does not wait."""
        if path := self._path():
            self._thread.submit(self._append, path, orjson.dumps(make()) + b"\n")

    def follow(self) -> None:
        """Open the file in the current setting, so that errors are logged at once."""
        if path := self._path():
            self._append(path, b"")

    def close(self) -> None:
        self._thread.submit(lambda: None).result()

    def _append(self, path: str, line: bytes) -> None:
        try:
            descriptor = os.open(Path(path).expanduser(), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(line)
        except OSError as error:
            if self._failed != path:
                self._failed = path
                _log.warning("PENUMBRA_EVENTS_UNAVAILABLE: %s: %s", path, error.strerror)
