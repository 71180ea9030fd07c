"""This module makes a report of the history as one HTML file: sums, and shares with confidence intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from statistics import variance
from typing import Any

from penumbra.cli import html_page
from penumbra.metrics.amounts import Amounts
from penumbra.store.history import OTHERS

_LEAST = 10
"""The smallest number of conversations for which a confidence interval is computed."""
_Z = 1.96
_NOTE = (
    "Made by Penumbra {} from the sums that it keeps on this machine. Counts only: no text, path, name or "
    "address of any request. Tokens of tool results are estimated; input tokens, the cache and comparisons "
    "of prompts are the provider's own figures; money is at list prices."
)


def html(days: Mapping[str, Mapping[str, Any]], version: str) -> str:
    """Return the report. `days` maps dates (YYYY-MM-DD) to records of the history. `version` is
    Penumbra's."""
    sums = Amounts()
    by_day = {day: Amounts.of(record.get("all", {})) for day, record in sorted(days.items())}
    for each in by_day.values():
        sums.add(each.parts())
    period = f"{min(by_day)} to {max(by_day)}" if by_day else "no days yet"
    rows = [(f"{name}: {value}", words) for name, value, words in _rows(sums, list(_conversations(days)))]
    each_day = (
        (
            (day, f"{sums.sent_before:,}", f"{sums.sent_after:,}", f"{sums.saved:,}"),
            sums.saved / sums.sent_before,
        )
        for day, sums in by_day.items()
        if sums.sent_before
    )
    heads = ("day", "before", "sent", "saved")
    chart = html_page.table("Tokens of tool results in all requests, each day", heads, each_day, 3)
    return html_page.page(period, _NOTE.format(version), [*html_page.terms(rows), *chart])


def _conversations(days: Mapping[str, Mapping[str, Any]]) -> Iterator[Amounts]:
    found = defaultdict[str, Amounts](Amounts)
    for record in days.values():
        for name, each in record.get("conversations", {}).items():
            if name != OTHERS:
                found[name].add(Amounts.of(each).parts())
    yield from found.values()


def _rows(sums: Amounts, conversations: Sequence[Amounts]) -> Iterator[tuple[str, str, str]]:
    yield "Requests", f"{sums.requests:,}", f"in {len(conversations):,} conversations"
    of_results = share([(each.net, each.sent_before) for each in conversations])
    yield (
        "Tool results, net",
        of_results,
        f"{sums.net:,} tokens fewer of {sums.sent_before:,}, overhead taken off",
    )
    billed = [(each.net, each.input + each.net) for each in conversations if each.responses]
    yield "Input tokens, net", share(billed), "part of the input tokens that there would have been"
    paid = [(each.dollars_net, each.dollars + each.dollars_net) for each in conversations if each.dollars]
    money = f"about ${sums.dollars_net:,.2f}; {sums.unpriced:,} requests without a known price are left out"
    yield "Bill, net", share(paid), money
    compared = f"{sums.broken:,} of {sums.compared:,}" if sums.compared else "not known"
    yield "Prefix broken by Penumbra", compared, "prompts that the provider itself compared with earlier ones"
    yield (
        "Cache misses",
        f"{sums.misses.total():,}",
        ", ".join(f"{name} {n:,}" for name, n in sums.misses.most_common()),
    )
    expired = f"{sums.expired:,} tokens read anew after pauses longer than the cache's life"
    yield "Caches that expired", f"{sums.pauses.total():,}", expired
    found = ", ".join(f"{n:,} {name}" for name, n in sums.cold_turns.most_common())
    found = f"requests that shortened earlier results; the cache was {found or 'never taken for cold'}"
    yield "Pauses used", f"{sums.cold_turns.total():,}", found
    yield "Originals asked for", f"{sums.asked:,}", f"of {sums.new_results:,} new results"
    yield (
        "Calls repeated",
        f"{sums.read_again:,}",
        "that gave the same result, of which something had been left out",
    )
    yield "Secrets kept in", f"{sums.secrets.total():,}", "newly found values that did not reach the provider"
    added = f"{sums.seconds * 1000 / sums.requests:.1f} ms" if sums.requests else "–"
    yield "Time added", added, "to a request, on average"


def share(parts: Sequence[tuple[float, float]]) -> str:
    """Return the sum of all parts divided by the sum of all wholes, in percent, with a 95 % confidence
    interval. Each pair is the part and the whole of one conversation. The interval is for a ratio of means
    (linearised variance) and needs `_LEAST` conversations."""
    whole = sum(each for _, each in parts)
    if whole <= 0:
        return "not known"
    ratio = sum(part for part, _ in parts) / whole
    if len(parts) < _LEAST:
        return f"{ratio:.1%} (too few conversations for an interval)"
    spread = sqrt(variance([part - ratio * each for part, each in parts]) * len(parts)) / whole
    return f"{ratio:.1%} ({ratio - _Z * spread:.1%} to {ratio + _Z * spread:.1%})"
