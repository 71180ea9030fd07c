"""Two proxies and one store: turns land on any of the proxies, and faults happen in the middle."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis")

from penumbra.store.shared_store import WARNING_ID
from support import examples
from support.fleet import balancer, redis_server
from support.fleet.conversations import Outcome
from support.fleet.fleet import Fleet
from support.upstream import Upstream

pytestmark = [
    pytest.mark.skipif(not redis_server.program(), reason=redis_server.MISSING),
    pytest.mark.skipif(not balancer.program(), reason=balancer.MISSING),
]
CONVERSATIONS, TURNS = 6, 7
PATIENCE = 2.0


@pytest.fixture
def fleet(upstream: Upstream, starter: Any, tmp_path: Path) -> Iterator[Fleet]:
    count = 4 if examples.part.of == 1 else 2
    with Fleet(upstream, tmp_path, count, starter=starter, patience=PATIENCE) as running:
        yield running


def check(outcome: Outcome) -> None:
    assert outcome.turns >= CONVERSATIONS * TURNS
    assert outcome.broken == 0, outcome.where
    assert outcome.wrong == 0


def test_prefixes_hold_on_any_proxy_whatever_fails(fleet: Fleet) -> None:
    # Nothing new is shortened while the store answers late, as it may on a busy machine, so that more turns
    # follow.
    expansions = 0
    for _ in range(10):
        healthy = fleet.converse(CONVERSATIONS, TURNS)
        check(healthy)
        expansions += healthy.expansions
        put_back = [proxy for proxy in fleet.proxies if "hidden exchange put back" in proxy.log()]
        if expansions >= CONVERSATIONS and len(put_back) > 1:
            break
    else:
        raise AssertionError(f"{expansions} expansions, put back by {len(put_back)} proxies")
    faults = Fleet.FAULTS if examples.part.of == 1 else Fleet.FAULTS[:2]
    for fault in faults:
        check(fleet.converse(CONVERSATIONS, TURNS, getattr(fleet, fault)))


def test_no_request_fails_while_no_proxy_reaches_the_store(fleet: Fleet) -> None:
    parted = fleet.converse(CONVERSATIONS, TURNS, fleet.part_the_store_from_all, pause=0.5)
    check(parted)
    assert parted.retried == 0
    assert all(WARNING_ID in proxy.log() for proxy in fleet.proxies), "it was away for each"
