"""The light rows of `scripts/faults`: every request is answered or fails as without Penumbra, every prefix
stays, no response is mixed up, and nothing is left."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.faults import departures, resets, stores
from support.faults.arena import Arena
from support.faults.counted import Counted
from support.upstream import Upstream


@pytest.fixture
def arena(upstream: Upstream, starter: Any, confdir: Path, proxy: Any, tmp_path: Path) -> Iterator[Arena]:
    with Arena(upstream, tmp_path, starter, confdir, proxy) as running:
        yield running


ROWS: dict[str, tuple[Callable[[Arena], Counted], tuple[int, int, int]]] = {
    # The numbers are of requests that were answered, that failed as without Penumbra, and whose clients left.
    "provider-dies": (resets.provider_dies, (22, 22, 0)),
    "hidden-turn-dies": (resets.hidden_turn_dies, (22, 22, 0)),
    "half-closed": (departures.client_half_closes, (0, 2, 0)),
    # The system's buffers hold some 13 MB of the stream on its two ways through the machine, which is less
    # than half.
    "slow-reader": (partial(departures.client_reads_slowly, megabytes=48), (1, 0, 0)),
    "twenty-streams": (partial(departures.many_at_once, streams=20), (18, 0, 2)),
    "two-on-one-file": (partial(stores.two_on_one_file, count=4, turns=3), (24, 0, 0)),
}


@pytest.mark.parametrize("row", ROWS)
def test_row(row: str, arena: Arena) -> None:
    run, (answered, failed, gone) = ROWS[row]
    counted = run(arena)
    assert counted.is_good, counted.notes
    assert (counted.answered, counted.failed, counted.gone) == (answered, failed, gone), counted.notes


def test_a_proxy_that_is_killed_while_it_writes(arena: Arena) -> None:
    counted = stores.is_killed(arena, kills=2, count=3)
    assert counted.is_good, counted.notes
    assert counted.answered == 12
