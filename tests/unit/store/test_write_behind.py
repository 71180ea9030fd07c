"""Background writes share one transaction, are visible at once, and are finished when a caller waits for
them."""

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penumbra.store import records
from penumbra.store.conversations import SCHEMA as CONVERSATIONS
from penumbra.store.conversations import Conversations
from penumbra.store.database import Database, DiskAway
from penumbra.store.database_file import WARNING_ID
from penumbra.store.decisions import SCHEMA, Decision, Facts
from penumbra.store.keyed_values import LATE, SOON, RecentValues
from penumbra.store.records import Originals
from penumbra.store.table import Table

KEPT = Decision("text", Facts())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "penumbra.sqlite", 1 << 26)
    yield made
    made.close()


def rows(database: Database) -> int:
    """Return the number of rows that another program finds."""
    with sqlite3.connect(f"file:{database.path}?mode=ro", uri=True) as other:
        found: int = other.execute("SELECT count(*) FROM decisions").fetchone()[0]
    return found


async def test_the_writes_of_a_turn_share_a_transaction(database: Database) -> None:
    said: list[str] = []
    decisions = Table(database, SCHEMA, 60)
    conversations = Conversations(Table(database, CONVERSATIONS, 60))
    kept = Originals(Table(database, records.ORIGINALS, 60))
    await database.run(lambda connection: connection.set_trace_callback(said.append))
    await conversations.sent(b"c", "tool")
    said.clear()
    assert await decisions.settle({b"a": KEPT})
    await kept.put(b"o" * 32, {"ref": "text"})
    await decisions.put({b"b": KEPT}, pause=SOON)
    assert "COMMIT" not in said
    assert (await decisions.get([b"a", b"b"])).keys() == {b"a", b"b"}
    await database.written()
    assert said.count("COMMIT") == 1
    assert rows(database) == 2
    await database.written()
    # The row is written without a waiting caller, too.
    await decisions.put({b"c": KEPT}, pause=LATE)
    for _ in range(6_000):
        if rows(database) == 3:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it is never written")


async def test_a_late_write_shares_the_transaction_of_another_write(database: Database) -> None:
    decisions = Table(database, SCHEMA, 60)
    await decisions.put({b"a": KEPT}, pause=LATE)
    assert (await decisions.get([b"a", b"unknown"])).keys() == {b"a"}
    await asyncio.wait_for(database.written(), 10)
    assert rows(database) == 0
    await decisions.put({b"b": KEPT})
    assert rows(database) == 2
    # Another engine, which does not have the value in memory, finds it at once.
    await decisions.put({b"c": KEPT}, pause=LATE)
    database.share(1 << 26)
    await decisions.put({b"d": KEPT}, pause=LATE)
    assert (await Table(database, SCHEMA, 60).get([b"c", b"d"])).keys() == {b"c", b"d"}
    database.close()


async def test_work_of_one_moment_shares_a_transaction_but_no_failure(database: Database) -> None:
    book = Table(database, SCHEMA, 60)
    insert = "INSERT INTO decisions VALUES (x'00', 9999999999, x'00')"
    inside = await asyncio.gather(
        database.run(lambda connection: connection.execute(insert).rowcount),
        database.run(lambda connection: connection.in_transaction),
    )
    assert inside == [1, True]
    assert not await database.run(lambda connection: connection.in_transaction)
    deleted, failed, found = await asyncio.gather(
        database.run(lambda connection: connection.execute("DELETE FROM decisions").rowcount),
        database.run(lambda connection: {}[connection]),
        book.get([b"a"]),
        return_exceptions=True,
    )
    assert (deleted, type(failed), found) == (1, KeyError, {})
    assert rows(database) == 0


async def test_a_closed_database_fails_at_once() -> None:
    closed = Database(None, 1 << 26)
    closed.close()
    with pytest.raises(RuntimeError):
        await asyncio.wait_for(closed.run(lambda connection: None), 5)


async def test_values_that_are_not_kept_in_memory_are_found_after_their_write(database: Database) -> None:
    kept = Originals(Table(database, records.ORIGINALS, 60))
    await kept.put(b"o" * 32, {"ref": "text"})
    assert await kept.get(b"o" * 32, "ref") == "text"


def test_closing_writes_waiting_rows(tmp_path: Path) -> None:
    database = Database(tmp_path / "penumbra.sqlite", 1 << 26)
    decisions = Table(database, SCHEMA, 60)
    asyncio.run(decisions.put({b"a": KEPT}, pause=SOON))
    database.close()
    assert rows(database) == 1


async def test_a_failing_write_leaves_the_others(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        raise ValueError("with somebody's text")

    with caplog.at_level(logging.ERROR):
        decisions = Table(database, SCHEMA, 60)
        database.later(fail)
        await decisions.put({b"a": KEPT}, pause=SOON)
        await database.written()
    assert rows(database) == 1
    assert "ValueError" in caplog.text
    assert "somebody" not in caplog.text


async def test_putting_does_not_wait_and_waiting_for_the_write_does(database: Database) -> None:
    free = threading.Event()
    try:
        decisions = Table(database, SCHEMA, 60)
        database.submit(lambda connection: free.wait(30))
        await asyncio.wait_for(decisions.settle({b"a": KEPT}), 10)
        written = asyncio.ensure_future(database.written())
        await asyncio.sleep(0.05)
        assert not written.done()
        free.set()
        await asyncio.wait_for(written, 10)
    finally:
        free.set()
    assert rows(database) == 1


async def test_a_cancelled_wait_does_not_disturb_others(database: Database) -> None:
    """The other callers still wait for the write, and the rows are written."""
    free = threading.Event()
    try:
        decisions = Table(database, SCHEMA, 60)
        database.submit(lambda connection: free.wait(30))
        await decisions.settle({b"a": KEPT})
        gone, stays = (asyncio.ensure_future(database.written()) for _ in range(2))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.wait([gone])
        free.set()
        await asyncio.wait_for(stays, 10)
    finally:
        free.set()
    assert rows(database) == 1


async def test_an_answer_in_time_is_not_lost_while_the_event_loop_is_busy(database: Database) -> None:
    def be_busy() -> None:
        database.submit(lambda connection: None).result(30)
        time.sleep(0.1)

    database.patience = 0.05
    asked = asyncio.ensure_future(database.run(lambda connection: "answer"))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(be_busy)
    assert await asked == "answer"
    assert not database.failures
    assert not database.hangs


async def test_a_disk_that_does_not_answer_is_not_waited_for(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    free = threading.Event()
    try:
        with caplog.at_level(logging.WARNING):
            decisions = Table(database, SCHEMA, 60)
            database.submit(lambda connection: free.wait(30))
            database.patience = 0.05
            await decisions.settle({b"a": KEPT})
            await asyncio.wait_for(database.written(), 10)
            # Later callers don't even wait that long.
            database.patience = 60.0
            assert not await decisions.settle({b"b": KEPT})
            assert await decisions.settle({b"b": KEPT}, unasked=True)
            await asyncio.wait_for(database.written(), 10)
            assert await asyncio.wait_for(decisions.get([b"b", b"unknown"]), 10) == {b"b": KEPT}
            with pytest.raises(DiskAway):
                await database.run(lambda connection: None)
            free.set()
            while database.hangs:
                await asyncio.sleep(0.001)
            await database.run(lambda connection: None)
            await decisions.settle({b"c": KEPT})
            await database.written()
    finally:
        free.set()
    assert rows(database) == 3
    assert caplog.text.count(WARNING_ID) == 2


def test_the_least_recently_used_values_are_dropped() -> None:
    kept: RecentValues[str] = RecentValues(10, len)
    for name in "abc":
        kept.put(name.encode(), name * 3, 1.0)
    assert kept.get(b"a") is not None
    kept.put(b"d", "ddd", 1.0)
    assert list(kept) == [b"c", b"a", b"d"]
    assert list(kept.find([b"a", b"x", b"c"])) == [b"a", b"c"]
    kept.put(b"e", "e" * 99, 1.0)
    assert list(kept) == [b"e"]
    kept.put(b"e", "e", 2.0)
    kept.put(b"f", "f" * 9, 2.0)
    assert list(kept) == [b"e", b"f"]
    kept.pop(b"e")
    kept.pop(b"e")
    assert len(kept) == 1
    nothing: RecentValues[str] = RecentValues(0, len)
    nothing.put(b"a", "", 1.0)
    assert b"a" not in nothing
