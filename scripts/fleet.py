"""Conversations over several proxies with one store, fault after fault, as a table."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from support.fleet import balancer, redis_server
from support.fleet.conversations import Outcome
from support.fleet.fleet import Fleet, running

_COLUMNS = {"conversations": 14, "turns": 7, "sent again": 12, "asked": 7, "wrong": 7, "broken": 8}
_HEAD = f"{'fault':<28}" + "".join(f"{name:>{width}}" for name, width in _COLUMNS.items())


def main() -> int:
    """Prints the table. Exit code 1 if a prefix broke, or what it takes is not installed."""
    parser = argparse.ArgumentParser(prog="scripts/fleet")
    parser.add_argument("--proxies", type=int, default=4)
    parser.add_argument("--conversations", type=int, default=12)
    parser.add_argument("--turns", type=int, default=9)
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
        before = fleet.redis.info("commandstats")
        healthy = fleet.converse(given.conversations, given.turns)
        load = _load(fleet, healthy, before)
        outcomes = [_told("none", healthy)]
        for fault in Fleet.FAULTS:
            made = fleet.converse(given.conversations, given.turns, getattr(fleet, fault))
            outcomes.append(_told(fault.replace("_", " "), made))
        print(f"\n{load}")
    return int(any(outcome.broken or outcome.wrong for outcome in outcomes))


def _told(fault: str, made: Outcome) -> Outcome:
    print(
        f"{fault:<28}{made.conversations:>14}{made.turns:>7}{made.retried:>12}{made.expansions:>7}"
        f"{made.wrong:>7}{made.broken:>8}",
        flush=True,
    )
    return made


def _load(fleet: Fleet, made: Outcome, before: Mapping[str, Mapping[str, float]]) -> str:
    """What the store had to bear while nothing failed."""
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
        f"{used / fleet.begun / 1024:.1f} KB of the store's memory."
    )


if __name__ == "__main__":
    sys.exit(main())
