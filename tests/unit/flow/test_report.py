"""Reports: work that waits until a request is sent, and figures that are written when the disk answers."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penumbra.config.settings import Settings
from penumbra.conversation.incoming import EngineSettings
from penumbra.expand.hidden_exchanges import Answered
from penumbra.flow import report
from penumbra.flow.current_settings import EngineHandle, Engines
from penumbra.flow.report import HistoryWriter, do_afterwards
from penumbra.metrics.amounts import ExternalMetrics
from penumbra.metrics.journal import Journal
from support.engines import database


async def test_while_the_disk_hangs_nothing_piles_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "SECONDS", 0.01)
    settings = Settings(database=database(tmp_path))
    engines, journal, free = Engines(ExternalMetrics(), tuple), Journal(), threading.Event()
    written: list[None] = []
    tried: list[None] = []

    def handle() -> EngineHandle:
        tried.append(None)
        return engines.handle(settings, EngineSettings.of(settings))

    try:
        writer = HistoryWriter(journal, handle, lambda: written.append(None))
        with handle() as held:
            held.engine.database.patience = 0.01
            held.engine.database.submit(lambda connection: free.wait(30))
            held.engine.database.later(lambda connection: None)
            await held.engine.stores.written()
            journal.asked(None, [Answered("r", True, 5, "grep", "")])
            writer.changed()
            tried.clear()
            while len(tried) < 3:
                await asyncio.sleep(0.001)
            assert not written
            free.set()
            while not written:
                await asyncio.sleep(0.001)
            days = await asyncio.wrap_future(held.engine.history.last(1))
            assert days
    finally:
        free.set()
        engines.close(at_once=True)


# Work that no request waits for lets other work run between its steps.


def steps(done: list[str], error: bool = False) -> Iterator[None]:
    for number in range(3):
        done.append(f"step {number}")
        yield
    if error:
        raise ValueError


async def test_others_go_on_between_two_steps() -> None:
    done: list[str] = []
    do_afterwards(steps(done))
    assert not done
    for number in range(3):
        await asyncio.sleep(0)
        done.append(f"other {number}")
    assert done == ["step 0", "other 0", "step 1", "other 1", "step 2", "other 2"]


def test_without_a_loop_all_is_done_at_once() -> None:
    done: list[str] = []
    do_afterwards(steps(done))
    assert len(done) == 3


def test_a_failure_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    do_afterwards(steps([], error=True))
    assert "can't be shown: ValueError" in caplog.text
