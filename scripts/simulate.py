"""Compute a store's load for a number of proxies: commands, bytes, memory, connections, waits."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from support.fleet import balancer, redis_server
from support.fleet.fleet import Fleet, running
from support.fleet.store_model import COMMANDS, CONNECTIONS, Asked, Turns, p99_wait, recorded, simulated

_RECORDING = Path(__file__).with_name("store_traffic.json")
_FACTOR = 1.5
"""Largest accepted ratio between the model and the real run."""
_CHECKED = (4, 12, 9)
"""Proxies, conversations and turns of the real run."""
_DAY = 86_400


def main() -> int:
    """Print a table. With --check, exit code 1 if the model differs too much from a real run."""
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument(
        "--proxies", type=int, nargs="*", default=[2, 10, 100, 1000], help="numbers of proxies, one row each"
    )
    parser.add_argument(
        "--turns-a-second", type=float, default=0.5, help="turns of one proxy (default: %(default)s)"
    )
    parser.add_argument(
        "--sticky",
        type=float,
        default=0.0,
        help="share of turns on the proxy of the turn before, 0 to 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--service", type=float, default=10.0, help="microseconds of a command (default: %(default)s)"
    )
    parser.add_argument(
        "--check", action="store_true", help="make a new recording and compare with a real run"
    )
    parser.add_argument("--record", metavar="FILE", type=Path, help="with --check: keep the recording there")
    parser.add_argument(
        "--recording",
        metavar="FILE",
        type=Path,
        default=_RECORDING,
        help="the recording (default: the one in scripts/)",
    )
    given = parser.parse_args()
    if given.check:
        return _check(given.record)
    made = read(given.recording)
    print(_HEAD)
    for proxies in given.proxies:
        print(_row(made, proxies, given.turns_a_second * proxies, given.sticky, given.service * 1e-6))
    print(f"\nturns/s: all proxies together; {sum(map(len, made)) / len(made):.0f} turns a conversation")
    return 0


_COLUMNS = ("proxies", "turns/s", "commands/s", "MB/s in", "MB/s out", "connections", "busy", "p99 wait")
_TTLS = (1, 7, 30)
_HEAD = "".join(f"{name:>12}" for name in _COLUMNS) + "".join(f"{f'GB, {days} d':>12}" for days in _TTLS)


def _row(made: Sequence[Turns], proxies: int, turns: float, sticky: float, service: float) -> str:
    load = simulated(made, 200, min(proxies, 1_000), sticky=sticky)
    rates = load.a_turn()
    commands = sum(rates[name] for name in COMMANDS) * turns
    wait = p99_wait(load, commands, service)
    cells = [
        f"{proxies}",
        f"{turns:g}",
        f"{commands:.0f}",
        f"{rates['bytes in'] * turns / 1e6:.2f}",
        f"{rates['bytes out'] * turns / 1e6:.2f}",
        f"{proxies * CONNECTIONS}",
        f"{commands * service:.1%}",
        "never" if wait == float("inf") else f"{wait * 1000:.2f} ms",
        *(f"{load.kept / load.turns * turns * _DAY * days / 1e9:.1f}" for days in _TTLS),
    ]
    return "".join(f"{cell:>12}" for cell in cells)


def read(file: Path) -> list[Turns]:
    return [[[Asked(*each) for each in turn] for turn in turns] for turns in json.loads(file.read_text())]


def _check(keep: Path | None) -> int:
    for program, missing in (
        (redis_server.program(), redis_server.MISSING),
        (balancer.program(), balancer.MISSING),
    ):
        if not program:
            print(missing, file=sys.stderr)
            return 1
    proxies, count, turns = _CHECKED
    with running(Path(tempfile.mkdtemp(prefix="penumbra-simulate-")), proxies) as fleet:
        made = recorded(fleet, 6, turns)
        measured = _measured(fleet, count, turns)
    if keep is not None:
        plain = [[[astuple(each) for each in turn] for turn in one] for one in made]
        keep.write_text(json.dumps(plain, separators=(",", ":")) + "\n")
    load = simulated(made, 30 * count, proxies)
    model = {**load.a_turn(), "memory": load.kept / load.turns, "connections": proxies * CONNECTIONS}
    print(f"{'a turn':<14}{'model':>10}{'measured':>10}{'factor':>8}")
    worst = 1.0
    for name, found in measured.items():
        factor = model[name] / found
        worst = max(worst, factor, 1 / factor)
        print(f"{name:<14}{model[name]:>10.1f}{found:>10.1f}{factor:>8.2f}")
    print(f"off by at most {worst:.2f}, allowed {_FACTOR}")
    return int(worst > _FACTOR)


def _measured(fleet: Fleet, count: int, turns: int) -> dict[str, float]:
    """Measure a turn's load at the store, without the messages between proxies."""
    fleet.redis.client.flushall()
    before = _figures(fleet)
    made = fleet.converse(count, turns)
    after = _figures(fleet)
    found = {name: (after[name] - before[name]) / made.turns for name in before}
    rows = list(fleet.redis.client.scan_iter("penumbra:*"))
    kept = sum(int(fleet.redis.client.memory_usage(name) or 0) for name in rows)
    clients: Sequence[Mapping[str, Any]] = fleet.redis.client.client_list()
    return {**found, "memory": kept / made.turns, "connections": len(clients) - 1.0}


def _figures(fleet: Fleet) -> dict[str, float]:
    calls = fleet.redis.info("commandstats")
    stats = fleet.redis.info("stats")
    counted = {name: float(calls.get(f"cmdstat_{name}", {}).get("calls", 0)) for name in COMMANDS}
    return {
        **counted,
        "bytes in": float(stats["total_net_input_bytes"]),
        "bytes out": float(stats["total_net_output_bytes"]),
    }


if __name__ == "__main__":
    sys.exit(main())
