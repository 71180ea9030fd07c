"""Work that nobody waits for lets others go on between its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from penumbra.flow.report import do_afterwards


def steps(done: list[str], error: bool = False) -> Iterator[None]:
    for number in range(3):
        done.append(f"step {number}")
        yield
    if error:
        raise ValueError


def test_others_go_on_between_two_steps() -> None:
    done: list[str] = []

    async def run() -> None:
        do_afterwards(steps(done))
        assert not done
        for number in range(3):
            await asyncio.sleep(0)
            done.append(f"other {number}")

    asyncio.run(run())
    assert done == ["step 0", "other 0", "step 1", "other 1", "step 2", "other 2"]


def test_without_a_loop_all_is_done_at_once() -> None:
    done: list[str] = []
    do_afterwards(steps(done))
    assert len(done) == 3


def test_what_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    do_afterwards(steps([], error=True))
    assert "can't be shown: ValueError" in caplog.text
