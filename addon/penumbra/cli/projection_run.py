"""This module has the common parts of `discover` and `replay`: the engine, the progress line, the output."""

from __future__ import annotations

import asyncio
import logging
import sys
import textwrap
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from penumbra.cli import html_page
from penumbra.cli.command import WRONG, Failure, Parser, print_json, print_left_out, use_rules
from penumbra.cli.command import settings as read_settings
from penumbra.errors import counted, one_line
from penumbra.projection.figures import Figures, LargeResult, Requests, Sums, summary
from penumbra.projection.projector import Projector, settings_of
from penumbra.redaction import RuleError, ruleset

_MOST_TEXT_ROWS, _MOST_LARGEST = 20, 8
_LIMITS = (
    "Tokens are estimates. System prompts and declarations of tools are in recorded requests, not in session "
    "logs; requests of the model for originals are not known. Prices: list prices, with prompt caching."
)
_NAME, _CALL = 38, 50
"""Widths of columns in characters."""


def lines(figures: Figures, read: list[str]) -> Iterator[str]:
    """Yield all lines of the output. `read` are the lines about the files that were read."""
    results, requests = figures.results, figures.requests
    yield "A projection of the savings with Penumbra. Nothing was changed, nothing was sent."
    yield ""
    yield from read
    if not requests.count:
        return
    yield from headline(figures)
    if results.results:
        yield ""
        yield from _text_table(figures)
        yield ""
        yield from _largest_texts(figures)
    yield ""
    yield from textwrap.wrap(_LIMITS, 100)


def headline(figures: Figures) -> Iterator[str]:
    results, requests = figures.results, figures.requests
    shortened = f"{results.changed:,} of {counted(results.results, 'result')} would be shorter"
    share = _share(results.after - results.before, results.before)
    tokens = f"{results.before:,} → {results.after:,} ({share})"
    yield f"results    {shortened}: {tokens} of the tokens of results"
    yield f"input      {_input(results, requests)}"
    yield f"money      {_money(results, requests)}"
    yield f"secrets    {secrets(figures)}"


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
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.2f}"


def secrets(figures: Figures) -> str:
    """Return a text with the number of secrets that were sent, by rule."""
    total = figures.secrets.total()
    if not total:
        return "none found"
    by_rule = sorted(figures.secrets.items(), key=lambda each: (-each[1], each[0]))
    words = ", ".join(f"{rule} {count:,}" for rule, count in by_rule)
    values = counted(len(figures.values), "different value")
    return f"{counted(total, 'time')} a secret went out, {values}: {words}"


_HEADS = ("results", "tokens", "would be", "share", "with resends", "dollars")


def _rows(figures: Figures, most: int) -> Iterator[tuple[str, str, Sums, tuple[str, ...]]]:
    """Yield the rows with the largest savings: tool, command family, sums, and the cells of the table."""
    for (tool, kind), sums in figures.ranked[:most]:
        yield (
            tool or "(unknown)",
            kind,
            sums,
            (
                f"{sums.results:,}",
                f"{sums.before:,}",
                f"{sums.after:,}",
                _share(sums.after - sums.before, sums.before) if sums.before else "",
                f"{-sums.saved:,}",
                dollars(-sums.dollars) if sums.dollars else "",
            ),
        )


def _text_table(figures: Figures) -> Iterator[str]:
    row = f"{{:<{_NAME}}}{{:>9}}{{:>13}}{{:>13}}{{:>9}}{{:>15}}{{:>11}}"
    yield row.format("tool: family", *_HEADS).rstrip()
    for tool, kind, _, cells in _rows(figures, _MOST_TEXT_ROWS):
        yield row.format(short(f"{tool}: {kind}" if kind else tool, _NAME - 1), *cells)
    if (left := len(figures.ranked) - _MOST_TEXT_ROWS) > 0:
        yield f"… and {left:,} more rows: --json or --html"


def _largest_texts(figures: Figures) -> Iterator[str]:
    yield "The largest results, and their short forms:"
    for large in figures.largest[:_MOST_LARGEST]:
        sizes = f"{large.facts.tokens_before:>9,} → {large.facts.tokens_after:>8,}"
        yield f"{sizes}  {short(f'{large.tool}: {large.call}', _CALL):<{_CALL}}  {_how(large)}"


def _how(large: LargeResult) -> str:
    return ", ".join(large.facts.stages) or ("as it came" if large.facts.how == "kept" else large.facts.how)


def short(text: str, most: int) -> str:
    text = one_line(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


_MOST_ROWS = 200


def _html(figures: Figures, read: Sequence[str]) -> str:
    note = f"A projection: the results as a proxy would have sent them. {_LIMITS}"
    words = [*read, *(headline(figures) if figures.requests.count else ())]
    body = html_page.terms(line.split(None, 1) for line in words)
    return html_page.page("Projected savings", note, [*body, *_html_table(figures), *_html_largest(figures)])


def _html_table(figures: Figures) -> Iterator[str]:
    if not figures.ranked:
        return
    most = max(1, figures.ranked[0][1].saved)
    rows = (
        ((tool, kind, *cells), sums.saved / most) for tool, kind, sums, cells in _rows(figures, _MOST_ROWS)
    )
    heads = ("tool", "family", *_HEADS)
    yield from html_page.table("By tool and command family", heads, rows, heads.index("with resends"))
    if (left := len(figures.ranked) - _MOST_ROWS) > 0:
        yield f"<p>… and {left:,} more.</p>"


def _html_largest(figures: Figures) -> Iterator[str]:
    if figures.largest:
        yield "<h2>The largest results, and their short forms</h2>"
    for large in figures.largest:
        facts = large.facts
        head = f"{facts.tokens_before:,} → {facts.tokens_after:,} tokens, {large.tool}: {large.call}"
        yield f"<details><summary>{html_page.escaped(head)}</summary>"
        yield f"<p>{html_page.escaped(f'{_how(large)}; {large.source}')}</p>"
        yield f"<pre>{escape(large.form)}</pre></details>"


_SECONDS = 0.2
"""Shortest time in seconds between two updates of the progress line."""


def projector(command: str, *, adopts: bool) -> Projector:
    """Return a projector with the user's settings and rules. Raises Failure."""
    settings = read_settings()
    print_left_out(use_rules(settings.rules))
    logging.getLogger("penumbra").setLevel(logging.ERROR)
    try:
        loaded = ruleset.user_rules(settings.gitleaks_config, only=settings.gitleaks_only)
    except RuleError as error:
        raise Failure(f"{command}: {error}", code=WRONG) from None
    return Projector(settings_of(settings, adopts=adopts), loaded)


def parser(command: str) -> Parser:
    """Return a parser with the arguments that both commands have."""
    made = Parser(command)
    made.add_argument("--json", action="store_true")
    made.add_argument("--html", type=Path, metavar="FILE")
    return made


def worked_out(work: Coroutine[Any, Any, None], progress: Progress) -> bool:
    """Run the work and return whether it was completed. A user may stop the work with Ctrl-C."""
    try:
        asyncio.run(work)
    except KeyboardInterrupt:
        return False
    finally:
        progress.end()
    return True


def writable(command: str, page: Path | None) -> Path | None:
    """Return the file for a page, if one is named. Raises Failure if the file's folder does not exist."""
    if page is not None and not page.expanduser().absolute().parent.is_dir():
        raise Failure(f"{command}: --html: {page}: its folder does not exist", code=WRONG)
    return page.expanduser() if page is not None else None


class Progress:
    """A `Progress` shows a progress line on standard error, if that is a terminal."""

    def __init__(self, total: int) -> None:
        """Make a progress line. `total` is the sum of all numbers that `advance` will get."""
        self._total = max(1, total)
        self._done = 0
        self._shown = 0.0
        self._is_on = sys.stderr.isatty()

    def advance(self, done: int) -> None:
        self._done += done

    def show(self, words: str) -> None:
        """Show the completed percentage and `words`, unless the line was updated recently."""
        if self._is_on and time.monotonic() - self._shown >= _SECONDS:
            self._shown = time.monotonic()
            share = min(99, 100 * self._done // self._total)
            print(f"\r\x1b[Kpenumbra: {share} %, {one_line(words)}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._is_on and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def show(
    figures: Figures, read: Sequence[str], counts: Mapping[str, int], page: Path | None, *, as_json: bool
) -> None:
    """Print the figures, and write the HTML page if `page` names a file. Raises Failure."""
    if page is not None:
        try:
            page.write_text(_html(figures, read), encoding="utf-8", errors="replace")
        except OSError as error:
            raise Failure(f"--html: {page}: {error.strerror}") from None
    if as_json:
        print_json(summary(figures, dict(counts)))
        return
    for line in lines(figures, list(read)):
        print(line)
    if page is not None:
        print(f"\nThe page: {page}")
