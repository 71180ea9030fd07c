"""The figures for the page and for export: names and numbers, ready for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penumbra.metrics import list_prices, tool_use
from penumbra.metrics.advice import advice
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.journal import SECONDS, Journal
from penumbra.metrics.sessions import Session
from penumbra.redaction.ruleset import in_words
from penumbra.store.history import added_up

Record = dict[str, Any]


def overview(journal: Journal) -> Record:
    """What was done since the start."""
    return {
        "amounts": amounts(journal.amounts),
        "advice": [each.record() for each in advice(journal)],
        "tools": _groups(journal.tools.items()),
        "families": _groups(journal.families.items()),
        "agents": _named(journal.agents),
        "projects": _named(journal.projects),
        "untouched": dict(journal.untouched),
        "seconds": seconds(journal),
        "sessions": len(journal.sessions),
        "prices": list_prices.as_of(),
        "timeline": {"step": journal.timeline.step, "points": journal.timeline.points},
        "kinds": {kind: in_words(kind) for kind in journal.amounts.secrets},
    }


def amounts(sums: Amounts) -> Record:
    """Sums, with what follows from them. A part whose whole is not known is null."""
    return {
        **sums.record(),
        "saved": sums.saved,
        "overhead": sums.overhead,
        "net": sums.net,
        "input": sums.input,
        "dollars_net": sums.dollars_net,
        "shares": {
            "results": _share(sums.net, sums.sent_before),
            "input": _share(sums.net, sums.input + sums.net) if sums.responses else None,
            "bill": _share(sums.dollars_net, sums.dollars + sums.dollars_net) if sums.dollars else None,
        },
    }


def sessions(journal: Journal) -> list[Record]:
    """The conversations since the start, the latest first, without their turns."""
    return [{**session.record(), "amounts": amounts(session.amounts)} for session in journal.sessions]


def session(journal: Journal, name: str) -> Record | None:
    """One of them, with its turns."""
    if (found := journal.sessions.get(name)) is None:
        return None
    return with_turns(found, [turn.record() for turn in found.turns])


def with_turns(found: Session, turns: list[Record]) -> Record:
    """A session, with what was said of its turns."""
    kinds = {kind: in_words(kind) for kind in found.amounts.secrets}
    return {**found.record(), "amounts": amounts(found.amounts), "turns": turns, "kinds": kinds}


def past(days: Mapping[str, Record]) -> list[Record]:
    """The days of the history, the latest last, with their conversations."""
    return [
        {
            "day": day,
            "amounts": amounts(Amounts.of(record.get("all", {}))),
            "conversations": [
                {
                    "id": name,
                    "agent": each.get("agent", ""),
                    "project": each.get("project", ""),
                    "amounts": amounts(Amounts.of(each)),
                }
                for name, each in record.get("conversations", {}).items()
            ],
        }
        for day, record in sorted(days.items())
    ]


def unused_tools(days: Mapping[str, Record]) -> list[Record]:
    """Return the tools that were declared and never called on some days of the history."""
    together: Record = {}
    for record in days.values():
        together = added_up(together, record.get("tools", {}))
    return [each.record() for each in tool_use.unused(together)]


def seconds(journal: Journal) -> Record:
    """What was added to requests: how many stayed below which time."""
    total, below = sum(journal.seconds.values()), 0
    quantiles: dict[str, float] = {}
    for end in SECONDS:
        below += journal.seconds[end]
        for part in (0.5, 0.95):
            if total and below >= total * part:
                quantiles.setdefault(str(part), end)
    return {"below": {str(end): journal.seconds[end] for end in SECONDS}, "quantiles": quantiles}


def _named(sums: Mapping[str, Amounts]) -> list[Record]:
    """The one with most requests first."""
    return [
        {"name": name, "amounts": amounts(each)}
        for name, each in sorted(sums.items(), key=lambda pair: -pair[1].requests)
    ]


def _groups(items: list[tuple[str, Any]]) -> list[Record]:
    return [{"name": name, **sums.record()} for name, sums in items]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
