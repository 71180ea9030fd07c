"""Limits of the process: tokens and breaker, by the calls that they let through."""

from __future__ import annotations

import asyncio
import time

import pytest

from penumbra.external.dispatch import Breaker, Limits


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_bucket_never_gives_more_than_it_holds_and_gets() -> None:
    rate, burst = 100.0, 10

    async def run() -> list[float]:
        limits = Limits(1_000, rate=rate, burst=burst)
        given: list[float] = []

        async def call() -> None:
            async with limits.places:
                await limits.token()
                given.append(time.monotonic())

        await asyncio.gather(*(call() for _ in range(60)))
        return given

    given = asyncio.run(run())
    assert len(given) == 60
    start = given[0]
    for number, moment in enumerate(given):
        # Sleeping may take longer than asked for, and never less than the clock's grain.
        assert number < burst + rate * (moment - start + 0.05)


async def test_a_cancelled_token_is_put_back() -> None:
    clock = Clock()
    limits = Limits(5, rate=1.0, burst=1, clock=clock)
    await limits.token()
    waiting = asyncio.create_task(limits.token())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    clock.now += 1.0
    await asyncio.wait_for(limits.token(), 0.5)


def admitted(breaker: Breaker) -> int:
    admission = breaker.admit()
    assert admission is not None
    return admission


def opened(clock: Clock) -> tuple[Breaker, int]:
    """A breaker that is open, and the admission of a call that began before and still runs."""
    breaker = Breaker(clock=clock)
    old = admitted(breaker)
    for _ in range(5):
        breaker.failed(admitted(breaker))
    assert breaker.admit() is None
    return breaker, old


def test_the_breaker_opens_tries_once_and_opens_again() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(4):
        breaker.failed(admitted(breaker))
    breaker.succeeded(admitted(breaker))
    for _ in range(5):
        breaker.failed(admitted(breaker))
    for opened in (1, 2, 3):
        assert breaker.times == opened
        clock.now += 29
        assert breaker.admit() is None
        clock.now += 1.5
        trial = admitted(breaker)
        assert breaker.admit() is None
        breaker.failed(trial)
    clock.now += 31
    breaker.succeeded(admitted(breaker))
    assert all(breaker.admit() is not None for _ in range(20))


def test_failures_of_calls_that_began_together_open_it_once() -> None:
    breaker = Breaker(clock=Clock())
    for admission in [admitted(breaker) for _ in range(12)]:
        breaker.failed(admission)
    assert breaker.times == 1


@pytest.mark.parametrize("outcome", ["succeeded", "failed", "abandoned"])
@pytest.mark.parametrize("when", ["open", "trial", "closed"])
def test_an_old_calls_outcome_changes_nothing(outcome: str, when: str) -> None:
    clock = Clock()
    breaker, old = opened(clock)
    trial = None
    if when != "open":
        clock.now += 31
        trial = admitted(breaker)
        if when == "closed":
            breaker.succeeded(trial)
            for _ in range(4):
                breaker.failed(admitted(breaker))
    getattr(breaker, outcome)(old)
    if when == "closed":
        # Neither a failure more than the four nor one that is forgiven.
        breaker.failed(admitted(breaker))
        assert breaker.times == 2
    else:
        assert breaker.admit() is None
        assert breaker.times == 1
    if when == "trial":
        assert trial is not None
        breaker.succeeded(trial)
        assert breaker.admit() is not None


def test_a_trial_that_says_nothing_is_followed_by_another() -> None:
    clock = Clock()
    breaker, _ = opened(clock)
    clock.now += 31
    first = admitted(breaker)
    breaker.abandoned(first)
    second = admitted(breaker)
    breaker.failed(first)
    assert breaker.admit() is None
    breaker.succeeded(second)
    assert breaker.admit() is not None
