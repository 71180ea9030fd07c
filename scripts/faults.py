"""Count for each fault the requests that were answered, that failed as without Penumbra, and that failed
otherwise."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from support.faults import departures, resets, stores
from support.faults.arena import Arena
from support.faults.counted import Counted
from support.mitm.starter import POSSIBLE, Starter
from support.upstream import Upstream

Row = Callable[[Arena], Counted]
_COLUMNS = ("requests", "answered", "failed", "gone", "otherwise", "broken", "mixed", "left")
_HEAD = f"{'row':<44}" + "".join(f"{name:>10}" for name in _COLUMNS)
_LEGEND = """
failed: as without a proxy, or as through mitmproxy alone. gone: the client went away. These must be 0:
otherwise: failed in another way. broken: requests that do not repeat the earlier prefix byte for byte.
mixed: responses with content of another conversation. left: threads, files, flows and streams not closed."""


def _on_a_small_disk(arena: Arena, fault: stores.Fault) -> Counted:
    with stores.small_disk(arena.folder / f"disk-{fault.__name__}") as disk:
        if disk is None:
            return Counted(notes=("no small disk may be made here",))
        return stores.goes_on(arena, fault, database=disk / "penumbra.sqlite")


def _with_a_wrong_clock(arena: Arena) -> Counted:
    folder = arena.folder / "wrong"
    more = {"environment": stores.wrong_clock(folder), "forked": False}
    return stores.goes_on(arena, stores.clock_jumps, database=folder / "penumbra.sqlite", **more)


ROWS: dict[str, Row] = {
    "provider dies, every phase": resets.provider_dies,
    "provider dies, every phase, HTTP/2": lambda arena: resets.provider_dies(arena, http2=True),
    "provider dies in a hidden turn": resets.hidden_turn_dies,
    "provider dies in a hidden turn, HTTP/2": lambda arena: resets.hidden_turn_dies(arena, http2=True),
    "client half-closes": departures.client_half_closes,
    "client reads slowly, 48 MB": departures.client_reads_slowly,
    "20 streams, a tenth goes away": lambda arena: departures.many_at_once(arena, 20),
    "20 streams, a tenth goes away, HTTP/2": lambda arena: departures.many_at_once(arena, 20, 1),
    "200 streams, a tenth goes away": lambda arena: departures.many_at_once(arena, 200),
    "200 streams, a tenth goes away, HTTP/2": lambda arena: departures.many_at_once(arena, 200, 4),
    "200 requests on one connection": lambda arena: departures.one_after_the_other(arena, 200),
    "200 requests on one connection, HTTP/2": lambda arena: departures.one_after_the_other(arena, 200, True),
    "disk full": lambda arena: _on_a_small_disk(arena, stores.full),
    "start on a full disk": lambda arena: _on_a_small_disk(arena, stores.full_at_the_start),
    "no file may grow": lambda arena: stores.goes_on(arena, stores.cannot_grow),
    "store locked by another program": lambda arena: stores.goes_on(arena, stores.locked),
    "store removed": lambda arena: stores.goes_on(arena, stores.removed),
    "store damaged, one page in sixteen": lambda arena: stores.goes_on(arena, stores.damaged),
    "store of an older release": lambda arena: stores.goes_on(arena, stores.of_an_older_release),
    "store of a newer release": lambda arena: stores.goes_on(arena, stores.of_a_newer_release),
    "clock 40 days ahead, then 400 back": _with_a_wrong_clock,
    "proxy killed 8 times in mid-write": stores.is_killed,
    "two proxies on one file": stores.two_on_one_file,
    "options and rules change under load": lambda arena: stores.goes_on(arena, stores.settings_change),
}


def main() -> int:
    """Print the table. Exit code 1 if a count is not as expected."""
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows with one of these in their names")
    parser.add_argument("--list", action="store_true", help="only the names")
    given = parser.parse_args()
    rows = {
        name: row
        for name, row in ROWS.items()
        if not given.words or any(word in name for word in given.words)
    }
    if given.list:
        print("\n".join(rows))
        return 0
    starter = Starter() if POSSIBLE else None
    folder = Path(tempfile.mkdtemp(prefix="penumbra-faults-"))
    (folder / "upstream").mkdir()
    print(_HEAD)
    with Upstream(folder / "upstream") as upstream, Arena(upstream, folder, starter) as arena:
        good = [_told(name, row(arena)) for name, row in rows.items()]
    if starter is not None:
        starter.close()
    print(_LEGEND)
    return int(not all(good))


def _told(name: str, counted: Counted) -> bool:
    print(f"{name:<44}" + "".join(f"{getattr(counted, column):>10}" for column in _COLUMNS))
    for note in counted.notes[:8]:
        print(f"    {note}")
    sys.stdout.flush()
    return counted.is_good


if __name__ == "__main__":
    sys.exit(main())
