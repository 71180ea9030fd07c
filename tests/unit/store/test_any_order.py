"""Two proxies, one store, and a way to it that fails at any moment: whether a prefix can change.

Each order is one conversation of some turns: which proxy gets which turn, at which command of the first one the
way fails and how, who is cut off with it, whether the other one hears what the first one told, and when all is
mended.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("redis")

from support.examples import examples
from support.fleet import redis_server
from support.fleet.redis_server import RedisServer
from support.fleet.two_proxies import STRIKES, TwoProxies

pytestmark = pytest.mark.skipif(not redis_server.program(), reason=redis_server.MISSING)
SET, PUBLISH = b"\r\nNX\r\n", b"PUBLISH"
TRIES, AT_ONCE = 3, 4


@dataclass(frozen=True)
class Order:
    """One conversation."""

    before: int
    """Turns before the one in which the way fails."""
    at: bytes
    strike: str
    both: bool
    """Nobody reaches the store from then on; else the first proxy alone, and if that is for longer than this
    one turn, it refuses."""
    heard: bool
    after: tuple[int, ...]
    """Which proxy gets the turns after that one."""
    mended: int
    """Before which of those."""
    settled: bool
    """They come when all know that it is over."""

    @property
    def is_open(self) -> bool:
        """Nobody can help it: the store had confirmed the form, and failed before the other one had heard of
        it."""
        return self.both and (self.at == PUBLISH or self.strike == "answered")


def orders() -> Iterator[Order]:
    yes_or_no = (True, False)
    for before, at, strike in itertools.product((1, 2), (SET, PUBLISH), STRIKES):
        for both, heard, settled in itertools.product(yes_or_no, repeat=3):
            for after, mended in itertools.product(itertools.product((0, 1), repeat=3), (0, 1, 2)):
                yield Order(before, at, strike, both, heard, after, mended, settled)


async def outcome(redis: RedisServer, number: int, order: Order) -> tuple[list[int], int, int]:
    """The turns that broke the prefix; results whose form was guessed; times that the store failed beside the
    one that was meant."""
    pair = TwoProxies(redis, number, "go_on" if order.both or not order.mended else "refuse")
    await pair.begin()
    try:
        for turn in range(order.before):
            await pair.turn(turn % 2)
        first, second = pair.ways
        second.deaf = not order.heard
        first.at, first.strike = order.at, order.strike
        pair.hurry(0)
        if order.both:
            pair.hurry(1)
            first.struck = lambda: second.set("cut")
        await pair.turn(0)
        for turn, where in enumerate(order.after):
            if turn == order.mended:
                await pair.mend(settled=order.settled)
            await pair.turn(where)
        guessed = sum(store.figures.guessed for store in pair.stores)
        counts = [store.outage.count for store in pair.stores]
        return pair.broken, guessed, sum(counts) - min(counts[0], 1) - min(counts[1], int(order.both))
    finally:
        await pair.close()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.close()


def tried(redis: RedisServer, wanted: list[Order]) -> Iterator[tuple[Order, list[int], int]]:
    """What came of each. Where a machine is so busy that a store seems to fail that does not, once more."""
    number = itertools.count(1)

    async def one(order: Order) -> tuple[Order, list[int], int]:
        for _ in range(TRIES):
            broken, guessed, more = await outcome(redis, next(number), order)
            if not more:
                break
        return order, broken, guessed

    async def some(part: list[Order]) -> list[tuple[Order, list[int], int]]:
        return await asyncio.gather(*map(one, part))

    for start in range(0, len(wanted), AT_ONCE):
        yield from asyncio.run(some(wanted[start : start + AT_ONCE]))


def sample(count: int, *, is_open: bool) -> list[Order]:
    some = [order for order in orders() if order.is_open is is_open]
    random.Random(count).shuffle(some)
    return some[: examples(count)]


def test_a_prefix_holds_in_any_order(redis: RedisServer) -> None:
    found = list(tried(redis, sample(90, is_open=False)))
    assert len(found) >= 15
    assert not [(order, broken) for order, broken, _ in found if broken]


def test_what_nobody_can_help_is_counted(redis: RedisServer) -> None:
    found = list(tried(redis, sample(45, is_open=True)))
    assert len(found) >= 5
    assert not [(order, broken) for order, broken, guessed in found if broken and not guessed]
