"""A projection as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from penumbra.cli.counts import counted
from penumbra.errors import one_line
from penumbra.projection.figures import Figures, Requests, Sums

_MOST_ROWS, _MOST_LARGEST = 20, 8
_NAME, _CALL = 38, 50
"""Characters of a column."""


def lines(figures: Figures, read: list[str]) -> Iterator[str]:
    """All that is said. `read`: lines about the files."""
    results, requests = figures.results, figures.requests
    yield "A projection of what Penumbra would have saved. Nothing was changed, nothing was sent."
    yield ""
    yield from read
    if not requests.count:
        return
    yield from headline(figures)
    if results.results:
        yield ""
        yield from _table(figures)
        yield ""
        yield from _largest(figures)
    yield ""
    yield "Tokens are estimates. System prompts and declarations of tools are in recorded requests, not in"
    yield "session logs; what the model would have asked back is not known."
    yield "Prices: list prices, with prompt caching."


def headline(figures: Figures) -> Iterator[str]:
    """The sums, each with what it is a share of."""
    results, requests = figures.results, figures.requests
    shortened = f"{results.changed:,} of {counted(results.results, 'result')} would be shorter"
    yield f"results    {shortened}: {change(results.before, results.after)} of the tokens of results"
    yield f"input      {_input(results, requests)}"
    yield f"money      {_money(results, requests)}"
    yield f"secrets    {secrets(figures)}"


def change(before: int, after: int) -> str:
    """`1,000 → 400 tokens (-60.0 %)`."""
    return f"{before:,} → {after:,} ({_share(after - before, before)})"


def _share(part: float, whole: float) -> str:
    return (
        f"{100 * part / whole:+.1f} %".replace("+0.0", "0.0").replace("-0.0", "0.0") if whole else "no share"
    )


def _input(results: Sums, requests: Requests) -> str:
    saved = results.saved - requests.declared
    counted_by = "estimated"
    if requests.counted_input:
        share = 100 * requests.counted_input / requests.input
        counted_by = f"{share:.0f} % of them counted by the provider"
    whole = f"{requests.input:,} tokens in {counted(requests.count, 'request')}"
    less = f"{-saved:+,} tokens ({_share(-saved, requests.input)} of them)"
    return f"{whole}, {counted_by}: {less}, the injected tool's {requests.declared:,} included"


def _money(results: Sums, requests: Requests) -> str:
    if requests.unpriced == requests.count:
        return "no price is known of these models"
    saved = results.dollars - requests.declared_dollars
    unpriced = f"; {counted(requests.unpriced, 'request')} of unknown price" if requests.unpriced else ""
    whole = f"${requests.dollars:,.2f} for input"
    return f"{whole}: {dollars(-saved)} ({_share(-saved, requests.dollars)} of it){unpriced}"


def dollars(amount: float) -> str:
    """With its sign."""
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.2f}"


def secrets(figures: Figures) -> str:
    """How many went out, by rule."""
    total = figures.secrets.total()
    if not total:
        return "none found"
    by_rule = sorted(figures.secrets.items(), key=lambda each: (-each[1], each[0]))
    told = ", ".join(f"{rule} {count:,}" for rule, count in by_rule)
    values = counted(len(figures.values), "different value")
    return f"{counted(total, 'time')} a secret went out, {values}: {told}"


def _table(figures: Figures) -> Iterator[str]:
    row = f"{{:<{_NAME}}}{{:>9}}{{:>13}}{{:>13}}{{:>9}}{{:>15}}{{:>11}}"
    yield row.format(
        "tool: family", "results", "tokens", "would be", "share", "with resends", "dollars"
    ).rstrip()
    ranked = figures.ranked
    for (tool, kind), sums in ranked[:_MOST_ROWS]:
        yield row.format(
            short(f"{tool or '(unknown)'}: {kind}" if kind else tool or "(unknown)", _NAME - 1),
            f"{sums.results:,}",
            f"{sums.before:,}",
            f"{sums.after:,}",
            _share(sums.after - sums.before, sums.before) if sums.before else "",
            f"{-sums.saved:,}",
            dollars(-sums.dollars) if sums.dollars else "",
        )
    if len(ranked) > _MOST_ROWS:
        yield f"… and {len(ranked) - _MOST_ROWS:,} more rows: --json or --html"


def _largest(figures: Figures) -> Iterator[str]:
    yield "The largest results, and what they would be:"
    for large in figures.largest[:_MOST_LARGEST]:
        sizes = f"{large.facts.tokens_before:>9,} → {large.facts.tokens_after:>8,}"
        how = ", ".join(large.facts.stages) or {"kept": "as it came"}.get(large.facts.how, large.facts.how)
        yield f"{sizes}  {short(f'{large.tool}: {large.call}', _CALL):<{_CALL}}  {how}"


def short(text: str, most: int) -> str:
    """One line of at most so many characters, with nothing that a terminal would obey."""
    text = one_line(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"
