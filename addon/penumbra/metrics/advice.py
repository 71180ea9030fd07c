"""What should be acted on now: the few things in the figures that somebody can change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penumbra.metrics import cache_miss
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.groups import Groups
from penumbra.metrics.journal import Journal
from penumbra.redaction.ruleset import in_words

_LEAST_RESULTS = 5
_ASKED_OFTEN = 0.1
"""Part of a tool's shortened results from which on asking back means that too much is left out."""
_SLOW = 1.0
"""Seconds a request."""
_WAYS = {
    cache_miss.EXPIRED: "The pause outlived the provider's cache: a longer cache time would keep it.",
    cache_miss.MODEL: "Each model has a cache of its own: stay with one within a conversation.",
    cache_miss.TOOLS: "The tools stand first in the prompt: declare the same ones from the first request on.",
    cache_miss.SYSTEM: "The system prompt stands in front of all else: what changes belongs behind it.",
    cache_miss.MESSAGES: "The client has edited its history, as compaction does.",
    cache_miss.REWRITTEN: "Older results were made smaller because that pays over the turns to come.",
    cache_miss.BROKEN: "Penumbra changed what the provider had seen: please report it, with the places.",
    cache_miss.UNKNOWN: "The prompt was the same: the provider has let it go, or routed it elsewhere.",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing."""

    level: str
    """`act` (it costs or loses something), `look` or `note`."""
    about: str
    title: str
    text: str

    def record(self) -> dict[str, str]:
        """For JSON."""
        return {"level": self.level, "about": self.about, "title": self.title, "text": self.text}


def advice(journal: Journal) -> list[Advice]:
    """The most pressing first."""
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
            f"{top}. They stand where tools print them: whoever has that output has them.",
        )
    if sums.requests and sums.seconds / sums.requests > _SLOW:
        yield Advice(
            "look",
            "seconds",
            f"{sums.seconds / sums.requests:.1f} seconds are added to a request",
            "penumbra_stage_budget and penumbra_request_budget bound them.",
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
            "penumbra_originals_ttl and penumbra_carried_originals_ttl say how long they are kept.",
        )


def _often(what: str, groups: Groups, way: str) -> Iterator[Advice]:
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
            "They could not be searched for secrets. The log says why, and penumbra_redaction_failure what "
            "becomes of such requests.",
        )
    for status, count in sums.errors.most_common(5):
        if status[:1].isdigit():
            text = f"{counted(count, 'response')} with status {status}"
            yield Advice("look", "errors", text, "Its own words went to the client as they came.")


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
