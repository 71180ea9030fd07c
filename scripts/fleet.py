"""Play conversations over several proxies with one store, one fault after the other, and print a table."""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from support.fleet import balancer, redis_server
from support.fleet.conversations import Outcome
from support.fleet.fleet import Fleet, running

_PARTED = "part the store from all"
_PARTED_SECONDS = 30.0
_COLUMNS = {"conversations": 14, "turns": 7, "sent again": 12, "asked": 7, "wrong": 7, "broken": 8}
_HEAD = f"{'fault':<32}" + "".join(f"{name:>{width}}" for name, width in _COLUMNS.items())


def main() -> int:
    """Print the table. Exit code 1 if a prefix broke, or if a needed program is not installed."""
    parser = argparse.ArgumentParser(prog="scripts/fleet", description=__doc__)
    parser.add_argument("--proxies", type=int, default=4, help="proxies on the store (default: %(default)s)")
    parser.add_argument(
        "--conversations", type=int, default=12, help="conversations for each fault (default: %(default)s)"
    )
    parser.add_argument(
        "--turns", type=int, default=9, help="turns of each conversation (default: %(default)s)"
    )
    parser.add_argument(
        "--parted",
        type=float,
        default=_PARTED_SECONDS,
        help="seconds without the store in the last row (default: %(default)s)",
    )
    parser.add_argument("words", nargs="*", help="only faults with one of these in their names")
    given = parser.parse_args()
    for program, missing in (
        (redis_server.program(), redis_server.MISSING),
        (balancer.program(), balancer.MISSING),
    ):
        if not program:
            print(missing, file=sys.stderr)
            return 1
    folder = Path(tempfile.mkdtemp(prefix="penumbra-fleet-"))
    with running(folder, given.proxies) as fleet:
        print(f"{given.proxies} proxies, one store\n\n{_HEAD}")
        before, busy = fleet.redis.info("commandstats"), fleet.busy()
        healthy = fleet.converse(given.conversations, given.turns)
        load = _load(fleet, healthy, before, fleet.busy() - busy)
        outcomes = [_told("none", healthy)]
        for fault in Fleet.FAULTS:
            if _is_asked(fault, given.words):
                made = fleet.converse(given.conversations, given.turns, getattr(fleet, fault))
                outcomes.append(_told(fault.replace("_", " "), made))
        if _is_asked(_PARTED, given.words):
            outcomes.append(_parted(fleet, given.conversations, given.turns, given.parted))
        print(f"\n{load}")
    return int(any(outcome.broken or outcome.wrong for outcome in outcomes))


def _told(fault: str, made: Outcome) -> Outcome:
    print(
        f"{fault:<32}{made.conversations:>14}{made.turns:>7}{made.retried:>12}{made.expansions:>7}"
        f"{made.wrong:>7}{made.broken:>8}",
        flush=True,
    )
    if made.broken:
        print(f"    {', '.join(made.where[:8])}")
    return made


def _is_asked(fault: str, words: Sequence[str]) -> bool:
    return not words or any(word in fault.replace("_", " ") for word in words)


def _parted(fleet: Fleet, conversations: int, turns: int, seconds: float) -> Outcome:
    """Let conversations go on while the store is away for longer than the pause after a failure."""
    times = [0.0, 0.0]

    def fault() -> None:
        times[0] = time.perf_counter()
        fleet.part_the_store_from_all(seconds)
        times[1] = times[0] + seconds

    made = _told(f"{_PARTED}, {seconds:.0f} s", fleet.converse(conversations, turns, fault, pause=1.0))
    parts = {
        "before": [wait for begun, wait in made.waits if begun < times[0]],
        "then": [wait for begun, wait in made.waits if times[0] <= begun < times[1]],
        "after": [wait for begun, wait in made.waits if begun >= times[1]],
    }
    for name, waits in parts.items():
        cuts = statistics.quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
        print(
            f"    {name + ':':<8}{len(waits):>5} turns; half answered within {cuts[49] * 1000:.0f} ms, "
            f"99 of 100 within {cuts[98] * 1000:.0f} ms"
        )
    return made


def _load(fleet: Fleet, made: Outcome, before: Mapping[str, Mapping[str, float]], seconds: float) -> str:
    """Print the store's load while nothing failed, and the proxies' load in `seconds` of processor time."""
    after = fleet.redis.info("commandstats")
    calls = {
        name.removeprefix("cmdstat_"): each["calls"] - before.get(name, {}).get("calls", 0)
        for name, each in after.items()
    }
    busy = sum(each["usec"] - before.get(name, {}).get("usec", 0) for name, each in after.items())
    commands = ", ".join(
        f"{name} {count / made.turns:.1f}"
        for name, count in sorted(calls.items())
        if name in ("set", "getex", "pexpire", "publish") and count
    )
    rows = list(fleet.redis.client.scan_iter("penumbra:*"))
    used = sum(int(fleet.redis.client.memory_usage(name) or 0) for name in rows)
    return (
        f"A turn, nothing failing: {commands}; {busy / made.turns:.0f} µs of the store's processor.\n"
        f"Rows of a conversation at the end of all: {len(rows) / fleet.begun:.0f}, "
        f"{used / fleet.begun / 1024:.1f} KB of the store's memory.\n"
        f"A proxy: {seconds / made.turns * 1000:.1f} ms of its processor for a turn, "
        f"{made.turns / seconds:.0f} turns a second and core ({made.requests} requests, {made.turns} turns)."
    )


if __name__ == "__main__":
    sys.exit(main())
