"""`penumbra discover` shows what Penumbra would have saved in the sessions that agents have logged here."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from penumbra.cli.command import WRONG, Failure, settings, word_of
from penumbra.cli.projection_run import Progress, parser, projector, show, worked_out, writable
from penumbra.config.parsers import SettingsError, read_duration
from penumbra.errors import counted
from penumbra.projection.figures import Figures
from penumbra.projection.from_logs import LogProjection
from penumbra.session_logs import agents
from penumbra.session_logs.agents import AGENTS, Agent
from penumbra.session_logs.log_entries import LogCounts

USAGE = f"""\
usage: penumbra discover [--since TIME] [--agent NAME] [--json] [--html FILE] [PATH …]

Reads the session logs of coding agents and prints what Penumbra would have saved, by tool and command family,
in tokens and at the prices of prompt caching; the kinds of secrets that were sent; and the largest results.
Nothing is changed, and nothing is sent. Ctrl-C shows the figures so far.

  --since TIME   only requests of the last days or hours: 7d, 12h …
  --agent NAME   only {", ".join(agents.NAMES)}
  --json         print the figures for programs
  --html FILE    also write a page, without secrets, but with the beginning of the largest results
  PATH           logs, or folders of them (default: where the agents keep them)

Settings and rules count as in the proxy. Exit code 0, or 1 if there is no log.
"""


@dataclass(frozen=True, slots=True)
class _Log:
    agent: Agent
    path: Path
    written: float
    size: int


def main(arguments: Sequence[str]) -> int:
    """Print the figures and return the exit code, which is 1 if there is no log. Raises Failure."""
    arguments_of = parser("discover")
    arguments_of.add_argument("--since", type=_age, default=0.0, metavar="TIME")
    arguments_of.add_argument("--agent", type=word_of(*agents.NAMES), metavar="NAME")
    arguments_of.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    options = arguments_of.read(arguments)
    page = writable("discover", options.html)
    settings()
    since = time.time() - options.since if options.since else 0.0
    named = [Path(path).expanduser() for path in options.paths]
    logs = sorted(set(_logs(named, options.agent or "")), key=lambda log: (-log.written, log.path))
    logs = [log for log in logs if log.written >= since]
    if not logs:
        print(_nothing(named, options.agent or "", since), file=sys.stderr)
        return 1
    counts = LogCounts()
    with closing(projector("discover", adopts=False)) as engine:
        projection = LogProjection(engine, Figures(), since)
        progress = Progress(sum(log.size for log in logs))
        is_whole = worked_out(_project(projection, logs, counts, progress), progress)
    show(
        projection.figures,
        _read(logs, counts, projection.figures.failed, is_whole),
        asdict(counts),
        page,
        as_json=options.json,
    )
    return 0


def _age(word: str) -> float:
    try:
        return read_duration(word)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(f"got {word!r}, allowed: {error}") from None


def _logs(named: Sequence[Path], agent: str) -> Iterator[_Log]:
    chosen = [each for each in AGENTS if agent in ("", each.name)]
    if not named:
        for each in chosen:
            for root in each.roots(Path.home(), os.environ):
                yield from _described(each, each.logs(root))
    for path in named:
        if path.is_dir():
            for log in sorted({log for each in chosen for log in each.logs(path)}):
                if (owner := _owner(log)) is not None and owner in chosen:
                    yield from _described(owner, [log])
            continue
        try:
            owner = agents.of_log(path) if not agent else chosen[0]
        except OSError as error:
            raise Failure(f"discover: {path}: {error.strerror}", code=WRONG) from None
        if owner is None:
            raise Failure(f"discover: {path} is no session log of {', '.join(agents.NAMES)}", code=WRONG)
        yield from _described(owner, [path])


def _owner(path: Path) -> Agent | None:
    try:
        return agents.of_log(path)
    except OSError:
        return None


def _described(agent: Agent, paths: Iterator[Path] | list[Path]) -> Iterator[_Log]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        yield _Log(agent, path.resolve(), status.st_mtime, status.st_size)


async def _project(
    projection: LogProjection, logs: Sequence[_Log], counts: LogCounts, progress: Progress
) -> None:
    for number, log in enumerate(logs, 1):
        progress.show(f"log {number:,} of {len(logs):,}, {log.agent.name}")
        try:
            for conversation in log.agent.read(log.path, counts):
                try:
                    await projection.add(conversation, log.path.name, log.written)
                except Exception:
                    # An error in one conversation must not stop the others.
                    projection.figures.failed += 1
            counts.files += 1
        except OSError:
            counts.unreadable += 1
        progress.advance(log.size)


def _nothing(named: Sequence[Path], agent: str, since: float) -> str:
    new = "new enough " if since else ""
    where = "there" if named else f"where {agent or 'an agent'} keeps its logs"
    return f"penumbra: no {new}session log {where}; name a log or a folder"


def _read(logs: Sequence[_Log], counts: LogCounts, failed: int, is_whole: bool) -> list[str]:
    done = Counter(log.agent.name for log in logs[: counts.files + counts.unreadable])
    whose = ", ".join(f"{name} {count:,}" for name, count in done.most_common()) or "none"
    lines = [f"logs       {counted(counts.files, 'log')} read ({whose})"]
    missing = [
        counted(count, noun)
        for count, noun in (
            (counts.broken, "broken line"),
            (counts.too_long, "line too long"),
            (counts.unreadable, "log that can't be read"),
            (counts.cut, "log cut off"),
            (failed, "conversation that could not be worked out"),
        )
        if count
    ]
    if missing:
        lines.append(f"not read   {', '.join(missing)}")
    if not is_whole:
        left = len(logs) - counts.files - counts.unreadable
        lines.append(f"stopped    {counted(left, 'log')} left out, or read in part")
    return lines
