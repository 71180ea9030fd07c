"""This module prepares figures and advice for the page and for export, ready for JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from penumbra.errors import counted
from penumbra.metrics import cache_miss, tool_use
from penumbra.metrics.amounts import Amounts, Groups, ResultSums, as_of
from penumbra.metrics.journal import SECONDS, Journal
from penumbra.metrics.sessions import Session
from penumbra.redaction.ruleset import in_words
from penumbra.store.history import added_up

_LEAST_RESULTS = 5
_ASKED_OFTEN = 0.1
"""There is advice about a tool or family if at least this fraction of its changed results was asked for or
fetched again."""
_SLOW = 1.0
"""Mean delay of requests, in seconds, above which there is advice about the delay."""
_WAYS = {
    cache_miss.EXPIRED: "The pause outlived the provider's cache: a longer cache time would keep it.",
    cache_miss.MODEL: "Each model has a cache of its own: stay with one within a conversation.",
    cache_miss.TOOLS: "Tools come first in the prompt: declare the same ones from the first request on.",
    cache_miss.SYSTEM: "The system prompt comes before all else: move changing parts after it.",
    cache_miss.MESSAGES: "The client has edited its history, as compaction does.",
    cache_miss.REWRITTEN: "Older results were made smaller because that pays over the turns to come.",
    cache_miss.BROKEN: "Penumbra changed a prefix that the provider had seen: please report it, with "
    "the places.",
    cache_miss.UNKNOWN: "The prompt was the same: the provider has let it go, or routed it elsewhere.",
}


@dataclass(frozen=True, slots=True)
class Advice:
    level: str
    """Urgency: `act` (something costs money or is lost), `look` or `note`."""
    about: str
    title: str
    text: str


def advice(journal: Journal) -> list[Advice]:
    """Return advice, the most urgent first."""
    order = ("act", "look", "note")
    return sorted(_all(journal), key=lambda each: order.index(each.level))


def _all(journal: Journal) -> Iterator[Advice]:
    sums = journal.amounts
    yield from _net(sums)
    yield from _misses(sums)
    yield from _asked_back(journal)
    yield from _troubles(sums)
    if sums.secrets:
        listed = sums.secrets.most_common(5)
        rest = sums.secrets.total() - sum(count for _, count in listed)
        listed += [("others", rest)] if rest else []
        top = ", ".join(f"{in_words(rule)} {count:,}" for rule, count in listed)
        yield Advice(
            "look",
            "secrets",
            f"{counted(sums.secrets.total(), 'secret')} taken out",
            f"{top}. Tools print them, so everybody who has that output has them, too.",
        )
    if sums.requests and sums.seconds / sums.requests > _SLOW:
        yield Advice(
            "look",
            "seconds",
            f"{sums.seconds / sums.requests:.1f} seconds are added to a request",
            "After 5 seconds of processor time the new results of a request are only redacted.",
        )
    if sums.unpriced:
        yield Advice(
            "note",
            "prices",
            f"{counted(sums.unpriced, 'request')} without a known price of the model",
            "Counted in tokens only; rules/dollars.yaml holds the prices.",
        )


def _net(sums: Amounts) -> Iterator[Advice]:
    if sums.requests and sums.net < 0:
        yield Advice(
            "act",
            "net",
            f"Penumbra has cost {-sums.net:,} tokens more than it saved",
            f"{sums.declared:,} for the tool's declaration, {sums.hidden_tokens + sums.put_back:,} for "
            f"originals that were asked for, {sums.read_again_tokens:,} for results that were fetched "
            "again. Small sessions do that; penumbra_enable_expand_context=false takes the tool away.",
        )


def _misses(sums: Amounts) -> Iterator[Advice]:
    for cause, count in sums.misses.most_common():
        level = "note" if cause in (cache_miss.REWRITTEN, cache_miss.UNKNOWN) else "act"
        title = f"{counted(count, 'miss', 'misses')} of the provider's cache: {cause}"
        yield Advice(level, "misses", title, _WAYS[cause])


def _asked_back(journal: Journal) -> Iterator[Advice]:
    yield from _often("tool", journal.tools, "penumbra_skip_tools leaves its results alone.")
    yield from _often("family", journal.families, "A rule of its family can keep more.")
    missing = sum(sums.missing for _, sums in journal.tools.items())
    if missing:
        yield Advice(
            "act",
            "asked",
            f"{counted(missing, 'original')} asked for and not there any more",
            "penumbra_originals_ttl says how long they are kept.",
        )


def _often(what: str, groups: Groups[ResultSums], way: str) -> Iterator[Advice]:
    for name, sums in groups.items():
        again = sums.asked + sums.read_again
        if sums.changed >= _LEAST_RESULTS and again >= sums.changed * _ASKED_OFTEN:
            yield Advice(
                "act",
                "asked",
                f"{again:,} of {sums.changed:,} changed results of {what} {name} were asked for again",
                f"Too much is left out of them. {way}",
            )


def _troubles(sums: Amounts) -> Iterator[Advice]:
    if sums.refused:
        yield Advice(
            "act",
            "errors",
            f"{counted(sums.refused, 'request')} not sent",
            "They could not be searched for secrets. The log says why; penumbra_redaction_failure "
            "decides about such requests.",
        )
    for status, count in sums.errors.most_common(5):
        if status[:1].isdigit():
            text = f"{counted(count, 'response')} with status {status}"
            yield Advice("look", "errors", text, "Its own words went to the client as they came.")


Record = dict[str, Any]


def overview(journal: Journal) -> Record:
    return {
        "amounts": amounts(journal.amounts),
        "advice": [asdict(each) for each in advice(journal)],
        "tools": _groups(journal.tools),
        "families": _groups(journal.families),
        "agents": _named(journal.agents),
        "projects": _named(journal.projects),
        "untouched": dict(journal.untouched),
        "seconds": seconds(journal),
        "sessions": len(journal.sessions),
        "prices": as_of(),
        "timeline": {"step": journal.timeline.step, "points": journal.timeline.points},
        "kinds": {kind: in_words(kind) for kind in journal.amounts.secrets},
    }


def amounts(sums: Amounts) -> Record:
    """Return sums and derived figures. A share is null if the whole is unknown or not above 0."""
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
    """Return the conversations since the start, the latest first, without their turns."""
    return [{**session.record(), "amounts": amounts(session.amounts)} for session in journal.sessions]


def session(journal: Journal, name: str) -> Record | None:
    if (found := journal.sessions.get(name)) is None:
        return None
    return with_turns(found, [turn.record() for turn in found.turns])


def with_turns(found: Session, turns: list[Record]) -> Record:
    kinds = {kind: in_words(kind) for kind in found.amounts.secrets}
    return {**found.record(), "amounts": amounts(found.amounts), "turns": turns, "kinds": kinds}


def past(days: Mapping[str, Record]) -> list[Record]:
    """Return the days of the history with their conversations, the latest last."""
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
    """Return the tools of MCP servers that were declared and never called in the history."""
    together: Record = {}
    for record in days.values():
        together = added_up(together, record.get("tools", {}))
    return [asdict(each) for each in tool_use.unused(together)]


def seconds(journal: Journal) -> Record:
    """Return quantiles of the delay of requests, and the number of requests in each range of delays, by the
    upper end of the range."""
    total, below = sum(journal.seconds.values()), 0
    quantiles: dict[str, float] = {}
    for end in SECONDS:
        below += journal.seconds[end]
        for part in (0.5, 0.95):
            if total and below >= total * part:
                quantiles.setdefault(str(part), end)
    return {"below": {str(end): journal.seconds[end] for end in SECONDS}, "quantiles": quantiles}


def _named(groups: Groups[Amounts]) -> list[Record]:
    return [{"name": name, "amounts": amounts(sums)} for name, sums in groups.items()]


def _groups(groups: Groups[ResultSums]) -> list[Record]:
    return [{"name": name, **sums.record()} for name, sums in groups.items()]


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
