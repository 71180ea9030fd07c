"""`penumbra stats` prints the figures of the proxies that run here and of the last week."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from penumbra import __version__
from penumbra.cli import html_report
from penumbra.cli.command import Failure, Parser, print_json, settings
from penumbra.config.settings import database_path
from penumbra.errors import counted, one_line
from penumbra.metrics import amounts, overview, running
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.totals import expiry_lines
from penumbra.store import history
from penumbra.store.key_file import existing_key

HISTORY_DAYS = 30
USAGE = """\
usage: penumbra stats [--tools | --report FILE] [--json]

Prints the figures of the proxies that run here since their start, and those of the last seven days from the
store: saved tokens and money (minus costs), cache misses, requested originals, secrets.

  --tools        print only unused tools of MCP servers, with their tokens and the setting that removes them.
                 A tool is unused if at least ten requests of a project declared it in the last 30 days and
                 no model called it
  --report FILE  write instead the last 30 days as one HTML file: savings with intervals, broken prefixes,
                 originals asked for, secrets, time; counts only, no content
  --json         print the figures for programs

Exit code 0, or 1 if no proxy runs here and neither --tools nor --report is used.
"""


def main(arguments: Sequence[str]) -> int:
    """Print the figures or write the report, and return the exit code. Raises Failure."""
    parser = Parser("stats")
    parser.add_argument("--tools", action="store_true")
    parser.add_argument("--report", metavar="FILE")
    parser.add_argument("--json", action="store_true")
    options = parser.read(arguments)
    store = database_path(settings())
    if options.tools:
        return _print_unused(store, is_json=options.json)
    if options.report:
        days = _days(store, HISTORY_DAYS)
        try:
            Path(options.report).write_text(html_report.html(days, __version__), encoding="utf-8")
        except OSError as error:
            raise Failure(f"stats --report: {options.report}: {error.strerror}") from None
        print(f"Penumbra: {counted(len(days), 'day')} written to {options.report}")
        return 0
    # The links to pages contain a token, so they are left out.
    processes = [{**each, "page": ""} for each in running.running(running.folder())]
    days = _days(store, 7)
    if options.json:
        print_json({"proxies": processes, "days": overview.past(days)})
        return 0 if processes else 1
    parts = ["\n".join(_lines(process)) for process in processes] or ["Penumbra: no proxy is running here."]
    week = list(_week(days)) if days else []
    # The history is written every few seconds.
    if requests := sum(process.get("not_in_history", 0) for process in processes):
        week.append(f"{counted(requests, 'request')} of these processes still to be added to the days")
    if week:
        parts.append("\n".join(week))
    print("\n\n".join(parts))
    return 0 if processes else 1


def _print_unused(store: Path | None, *, is_json: bool) -> int:
    found = overview.unused_tools(_days(store, HISTORY_DAYS))
    if is_json:
        print_json(found)
        return 0
    if not found:
        print("Penumbra: no MCP tool was declared in ten requests of a project without being called.")
    for row in found:
        several = len(row["names"]) > 1
        names = f"{row['server']}: {counted(len(row['names']), 'tool')}" if several else row["names"][0]
        money = f", about ${row['dollars']:,.2f} as cached input" if row["dollars"] else ""
        print(one_line(f"{names} ({row['agent'] or 'unknown agent'}, project {row['project'] or 'unknown'})"))
        print(f"  {counted(row['requests'], 'request')}, {row['tokens']:,} tokens of declarations{money}")
        print(one_line(f"  {row['file']}: {row['setting']}"))
    return 0


def _days(path: Path | None, count: int) -> dict[str, Any]:
    """Return the last days in the database; none if the database can't be read or is not on this machine."""
    try:
        if path is None or not path.exists() or (key := existing_key(path.with_suffix(".key"))) is None:
            return {}
        return history.read_file(path, key, count)
    except (sqlite3.Error, OSError):
        return {}


def _week(days: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "day             requests   tokens saved, net   of input   money, net   misses   asked   secrets"
    week = Amounts()
    for day, record in sorted(days.items()):
        sums = Amounts.of(record.get("all", {}))
        week.add(sums.parts())
        yield _day(one_line(day), sums)
    yield _day("together", week)
    yield from expiry_lines(week)
    left_out = f", without {counted(week.unpriced, 'request')} to models whose price is not known"
    yield f"money       at {amounts.as_of()}{left_out if week.unpriced else ''}"


def _day(name: str, sums: Amounts) -> str:
    whole = sums.input + sums.net
    share = f"{sums.net / whole:.1%}" if sums.responses and whole > 0 else "unknown"
    money = (
        f"{'-' * (sums.dollars_net < 0)}${abs(sums.dollars_net):,.2f}"
        if sums.dollars or sums.dollars_saved
        else "unknown"
    )
    return (
        f"{name:<12}{sums.requests:>12,}{sums.net:>20,}{share:>11}{money:>13}"
        f"{sums.misses.total():>9,}{sums.asked:>8,}{sums.secrets.total():>10,}"
    )


def _lines(found: dict[str, Any]) -> list[str]:
    minutes = max(0, int(time.time() - found.get("started", 0)) // 60)
    ports = ", ".join(str(port) for port in found.get("ports", ())) or "none"
    mode = "paused" if found.get("is_paused") else f"mode {found.get('mode')}"
    mode += ", only observed" if found.get("is_observing") else ""
    head = f"process     {found.get('pid')}, port {ports}, {mode}, for {counted(minutes, 'minute')}"
    if written := found.get("written"):
        head += f", latest change {time.strftime('%H:%M:%S', time.localtime(written))}"
    return [head, *(one_line(line) for key in ("figures", "expansions") for line in found.get(key, ()))]
