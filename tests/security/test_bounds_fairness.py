"""The order in which work of several callers begins, counted in pieces of work. No caller waits for all work
of another one."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest

from penumbra.conversation.workers import Workers, WorkOwner


class Log:
    """A `Log` makes pieces of work that note when they begin; the first ones wait until all have arrived."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.gate = threading.Event()
        self.most = 0
        self.ended = 0
        self._now = 0
        self._lock = threading.Lock()

    def piece(self, name: str, wait: Callable[[], object] | None = None):
        wait = wait or partial(self.gate.wait, 60)

        def work() -> str:
            with self._lock:
                self._now += 1
                self.most = max(self.most, self._now)
                self.order.append(name)
            wait()
            with self._lock:
                self._now -= 1
                self.ended += 1
            return name

        return work

    async def all_wait(self, workers: Workers) -> None:
        """Wait until each piece is handed over, and the first ones have begun."""
        await asyncio.sleep(0)
        while self._now < sum(peer.busy for peer in workers.peers.values()):
            await asyncio.sleep(0.001)


def _run(given: list[tuple[WorkOwner, str]], threads: int = 3) -> tuple[Log, list[str]]:
    log, workers = Log(), Workers(threads)

    async def all_of_it() -> list[str]:
        tasks = [asyncio.ensure_future(workers.run(caller, log.piece(name))) for caller, name in given]
        await log.all_wait(workers)
        log.gate.set()
        return await asyncio.gather(*tasks)

    try:
        return log, asyncio.run(all_of_it())
    finally:
        workers.close()


def test_a_caller_with_little_to_do_does_not_wait_for_one_with_a_lot():
    heavy, light = WorkOwner("192.0.2.1", b"a"), WorkOwner("192.0.2.2", b"b")
    log, results = _run([(heavy, f"a{n}") for n in range(50)] + [(light, "b")])
    assert results == [f"a{n}" for n in range(50)] + ["b"]
    assert log.order.index("b") <= 3
    assert [one for one in log.order if one != "b"] == [f"a{n}" for n in range(50)]


def test_credentials_that_are_made_up_take_no_turns_of_other_addresses():
    given = [(WorkOwner("192.0.2.1", str(n).encode()), f"a{n}") for n in range(200)]
    log, _ = _run([*given, (WorkOwner("192.0.2.2", b"b"), "b")])
    assert log.order.index("b") <= 3


def test_callers_at_one_address_take_turns():
    one, other = WorkOwner("192.0.2.1", b"a"), WorkOwner("192.0.2.1", b"b")
    given = [(one, f"a{n}") for n in range(30)] + [(other, f"b{n}") for n in range(3)]
    # This address has one of the two threads, so its pieces begin one after the other.
    log, _ = _run(given, threads=2)
    assert log.order[:7] == ["a0", "a1", "b0", "a2", "b1", "a3", "b2"]
    assert log.most == 1


def test_a_caller_has_one_thread_and_no_address_takes_all():
    log, _ = _run([(WorkOwner("192.0.2.1", b"a"), f"a{n}") for n in range(9)])
    assert log.most == 1
    log, _ = _run([(WorkOwner("192.0.2.1", str(n).encode()), f"a{n}") for n in range(9)])
    assert log.most == 2


async def test_abandoned_work_is_not_begun():
    log, workers = Log(), Workers()
    caller = WorkOwner("192.0.2.1", b"a")
    first = asyncio.ensure_future(workers.run(caller, log.piece("first")))
    gone = [asyncio.ensure_future(workers.run(caller, log.piece("gone"))) for _ in range(20)]
    last = asyncio.ensure_future(workers.run(caller, log.piece("last")))
    await log.all_wait(workers)
    for task in gone:
        task.cancel()
    log.gate.set()
    assert await asyncio.gather(first, last) == ["first", "last"]
    workers.close()
    assert log.order == ["first", "last"]
    assert not workers.peers


async def test_an_error_comes_back_to_its_caller_and_others_go_on():
    workers, caller = Workers(), WorkOwner("192.0.2.1", b"a")

    def fails() -> None:
        raise KeyError("here")

    with pytest.raises(KeyError, match="here"):
        await workers.run(caller, fails)
    assert await workers.run(caller, lambda: 1) == 1
    workers.close()


def _requests(callers: list[WorkOwner], each: int) -> list[str]:
    """Return the order of work for simultaneous requests of two pieces each."""
    log, workers = Log(), Workers(2)

    async def request(caller: WorkOwner, name: str) -> None:
        await workers.run(caller, log.piece(f"{name} read"))
        await workers.run(caller, log.piece(f"{name} rewritten"), begun=True)

    async def all_of_it() -> None:
        tasks = [
            asyncio.ensure_future(request(caller, f"{caller.credential.decode()}{number}"))
            for caller in callers
            for number in range(each)
        ]
        await log.all_wait(workers)
        log.gate.set()
        await asyncio.gather(*tasks)

    try:
        asyncio.run(all_of_it())
    finally:
        workers.close()
    return log.order


def test_a_request_that_is_begun_goes_on_before_others_begin():
    order = _requests([WorkOwner("192.0.2.1", name.encode()) for name in "abcdef"], 1)
    ends = [order.index(f"{name}0 rewritten") for name in "abcdef"]
    # Each request ends two pieces after the one before, but for one that begins meanwhile.
    assert all(end <= 2 * number + 2 for number, end in enumerate(ends))


def test_going_on_takes_no_turns_of_other_callers():
    many, few = WorkOwner("192.0.2.1", b"a"), WorkOwner("192.0.2.1", b"b")
    log = _requests([many, few], 20)
    # Both callers have had about as many of their twenty requests at any time.
    for count in range(4, 40):
        shares = [sum(one.startswith(name) for one in log[:count]) for name in "ab"]
        assert abs(shares[0] - shares[1]) <= 4


def _in_turn(given: list[tuple[WorkOwner, str, int]]) -> list[str]:
    """Return the order of requests of so many bytes, the first of which is under way when the others come."""
    log, workers, ends = Log(), Workers(2), threading.Semaphore(0)
    wait = partial(ends.acquire, timeout=60)

    async def all_of_it() -> None:
        tasks = [
            asyncio.ensure_future(workers.run(caller, log.piece(name, wait), size=size))
            for caller, name, size in given
        ]
        await log.all_wait(workers)
        # One piece ends at a time, so that threads cannot change the order.
        for count in range(1, len(given) + 1):
            ends.release()
            while log.ended < count:
                await asyncio.sleep(0.001)
            await log.all_wait(workers)
        await asyncio.gather(*tasks)

    try:
        asyncio.run(all_of_it())
    finally:
        workers.close()
    return log.order


@pytest.mark.parametrize("peers", [1, 41])
def test_a_small_request_does_not_wait_for_larger_ones_of_others(peers: int) -> None:
    large = [(WorkOwner(f"192.0.2.{n % peers}", b"%d" % n), f"large {n}", 100_000) for n in range(40)]
    order = _in_turn([*large, (WorkOwner(f"192.0.2.{40 % peers}", b"40"), "small", 40_000)])
    # The small request is third; from two addresses, two requests begin at the same moment.
    assert order.index("small") <= (2 if peers == 1 else 3)
    if peers == 1:
        # Equal requests begin in the order in which they came.
        assert [one for one in order if one != "small"] == [name for _, name, _ in large]


@pytest.mark.parametrize("peers", [1, 41])
def test_a_large_request_comes_to_its_turn_among_small_ones(peers: int) -> None:
    """The large request is processed beside any number of small ones."""
    small = [(WorkOwner(f"192.0.2.{n % peers}", b"%d" % n), f"small {n}", 40_000) for n in range(40)]
    order = _in_turn([small[0], (WorkOwner("192.0.2.200", b"l"), "large", 1_000_000), *small[1:]])
    assert order.index("large") <= 6


async def test_one_large_piece_of_work_runs_at_a_time_and_small_ones_beside_it() -> None:
    log, workers = Log(), Workers(3)
    large = [(WorkOwner(f"192.0.2.{n}", b"l"), f"large {n}", 4_000_000) for n in range(6)]
    small = [(WorkOwner(f"192.0.2.{n}", b"s"), f"small {n}", 40_000) for n in range(6, 8)]
    tasks = [
        asyncio.ensure_future(workers.run(caller, log.piece(name), size=size, begun=name == "large 5"))
        for caller, name, size in (*large, *small)
    ]
    await log.all_wait(workers)
    begun = log.order.copy()
    log.gate.set()
    await asyncio.gather(*tasks)
    begun = begun
    workers.close()
    assert sorted(name.partition(" ")[0] for name in begun) == ["large", "small", "small"]
    assert len(log.order) == len(large) + len(small)
