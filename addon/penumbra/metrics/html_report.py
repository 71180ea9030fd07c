"""A report of the history as one HTML file: sums and shares, with intervals. No content, no names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from math import sqrt
from statistics import variance
from typing import Any

from penumbra.metrics.amounts import Amounts
from penumbra.store.history import OTHERS

_LEAST = 10
"""Conversations for which an interval is given."""
_Z = 1.96
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
body { color: #1b1b22; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
td { padding: .35rem 0; border-bottom: 1px solid #ddd; vertical-align: top; }
td:last-child { text-align: right; white-space: nowrap; padding-left: 1rem; }
small, figcaption { color: #5b5b66; font-size: .8rem; }
figure { margin: 1rem 0; } svg text { font: 11px system-ui, sans-serif; fill: #5b5b66; }
"""
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Penumbra, {period}</title>
<style>{style}</style>
<h1>Penumbra, {period}</h1>
<table>{rows}</table>
<h2>Tokens of tool results, each day</h2>
{chart}
<p><small>Made by Penumbra {version} from the sums that it keeps on this machine. Counts only: no text, path,
name or address of any request. Tokens of tool results are estimated; input tokens, the cache and comparisons
of prompts are the provider's own figures; money is at list prices.</small></p>
</html>
"""


def html(days: Mapping[str, Mapping[str, Any]], version: str) -> str:
    """Return the report of days (name, YYYY-MM-DD -> record of the history); `version` is Penumbra's."""
    sums = Amounts()
    by_day = {day: Amounts.of(record.get("all", {})) for day, record in sorted(days.items())}
    for each in by_day.values():
        sums.add(each.parts())
    period = f"{min(by_day)} to {max(by_day)}" if by_day else "no days yet"
    rows = "".join(
        f"<tr><td>{escape(name)}<br><small>{escape(words)}</small></td><td>{escape(value)}</td></tr>"
        for name, value, words in _rows(sums, list(_conversations(days)))
    )
    return _PAGE.format(period=period, style=_STYLE, rows=rows, chart=_chart(by_day), version=escape(version))


def _conversations(days: Mapping[str, Mapping[str, Any]]) -> Iterator[Amounts]:
    """Return the sums of each conversation over all days."""
    found = defaultdict[str, Amounts](Amounts)
    for record in days.values():
        for name, each in record.get("conversations", {}).items():
            if name != OTHERS:
                found[name].add(Amounts.of(each).parts())
    yield from found.values()


def _rows(sums: Amounts, conversations: Sequence[Amounts]) -> Iterator[tuple[str, str, str]]:
    """Return name, value and explanation of each figure."""
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
    """Return the sum of parts over the sum of wholes, in percent, with a 95 % interval over conversations.

    The interval is that of a ratio of means (linearised variance); `_LEAST` conversations are needed for it.
    """
    whole = sum(each for _, each in parts)
    if whole <= 0:
        return "not known"
    ratio = sum(part for part, _ in parts) / whole
    if len(parts) < _LEAST:
        return f"{ratio:.1%} (too few conversations for an interval)"
    spread = sqrt(variance([part - ratio * each for part, each in parts]) * len(parts)) / whole
    return f"{ratio:.1%} ({ratio - _Z * spread:.1%} to {ratio + _Z * spread:.1%})"


def _chart(days: Mapping[str, Amounts]) -> str:
    """Draw a bar for each day: tokens sent, and above them tokens saved."""
    width, height, left = 720, 200, 70
    most = max((each.sent_before for each in days.values()), default=0) or 1
    step = (width - left) / max(len(days), 7)
    drawn = []
    for share_of in (0, 0.5, 1):
        y = height - 24 - share_of * (height - 40)
        drawn.append(
            f'<line x1="{left}" x2="{width}" y1="{y}" y2="{y}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{most * share_of:,.0f}</text>'
        )
    for index, (day, sums) in enumerate(days.items()):
        x, y = left + index * step, height - 24.0
        for tokens, colour in ((sums.sent_after, "#d9822b"), (max(sums.saved, 0), "#7c74e0")):
            tall = tokens / most * (height - 40)
            y -= tall
            place = f'x="{x:.1f}" y="{y:.1f}" width="{step * 0.8:.1f}" height="{tall:.1f}"'
            drawn.append(f'<rect {place} fill="{colour}"/>')
        if (len(days) - 1 - index) % max(1, len(days) // 8) == 0:
            drawn.append(f'<text x="{x:.1f}" y="{height - 8}">{escape(day[5:])}</text>')
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="Tokens sent and saved each day">'
        f"{''.join(drawn)}</svg><figcaption>orange: sent, violet: saved; in all requests that carried them"
        "</figcaption></figure>"
    )
