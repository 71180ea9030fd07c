"""The size limit of the database: the oldest rows are deleted first, decisions last, and the file stays below
it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penumbra.apis.base import Hidden
from penumbra.store import decisions, exchanges, records
from penumbra.store.database import Database
from penumbra.store.database_file import VERSION, Eviction, Lifetime
from penumbra.store.decisions import Decision, Facts
from penumbra.store.exchanges import PastResponse
from penumbra.store.records import Originals
from penumbra.store.stores import Stores
from penumbra.store.table import Table
from support.clock import Clock

MEGABYTE = 1024 * 1024
DAY = 86_400.0
DECISIONS = {b"decision %d" % number: Decision(f"form {number}", Facts()) for number in range(50)}


def size_on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir() if file.suffix != ".key")


def run(path: Path | None, max_bytes: int, work: Callable[[Stores], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        database = Database(path, max_bytes, b"k" * 32)
        stores = Stores(database, 30 * DAY, DAY)
        database.begin()
        try:
            await work(stores)
        finally:
            database.close()

    asyncio.run(go())


async def decided(stores: Stores) -> None:
    """Store decisions that are older than all other rows."""
    await stores.decisions.put(DECISIONS)
    await stores.database.run(
        lambda connection: connection.execute("UPDATE decisions SET used = used - 9000")
    )


def exchange(size: int) -> PastResponse:
    return PastResponse("expand_context", "", hidden=Hidden((os.urandom(size),), None))


def test_large_exchanges_cost_no_decision_and_the_file_stays_below_the_cap(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    keys = [b"exchange %d" % number for number in range(40)]

    async def fill(stores: Stores) -> None:
        await decided(stores)
        for key in keys:
            await stores.exchanges.put({key: exchange(50_000)})
            assert path.stat().st_size <= MEGABYTE

    async def read(stores: Stores) -> None:
        assert await stores.decisions.get(DECISIONS) == DECISIONS
        # All rows have the same age to the second, so their number is known, but not which ones are left.
        left = await stores.exchanges.get(keys)
        assert 15 <= len(left) <= 20

    run(path, MEGABYTE, fill)
    assert size_on_disk(path) <= MEGABYTE
    run(path, MEGABYTE, read)


async def test_the_oldest_of_all_tables_leave_first(tmp_path: Path) -> None:
    path, clock = tmp_path / "p.sqlite", Clock()
    database = Database(path, MEGABYTE)
    kept = Table(database, decisions.SCHEMA, DAY, clock)
    exchanged = Table(database, exchanges.SCHEMA, DAY, clock)
    texts = Originals(Table(database, records.ORIGINALS, DAY, clock))
    answers = Table(database, records.COMPRESSED, DAY, clock)
    await kept.put(DECISIONS)
    for number in range(30):
        clock.now += 10
        await exchanged.put({b"%d" % number: exchange(20_000)})
        await texts.put(b"scope", {str(number): os.urandom(10_000).hex()})
        await answers.add({b"%d" % number: os.urandom(5_000).hex()})
        assert path.stat().st_size <= MEGABYTE
    fresh = Table(database, exchanges.SCHEMA, DAY, clock)
    numbers = {int(key) for key in await fresh.get(b"%d" % number for number in range(30))}
    with_text = {number for number in range(30) if await texts.get(b"scope", str(number)) is not None}
    with_answer = {int(key) for key in await answers.get(b"%d" % number for number in range(30))}
    for left in (numbers, with_text, with_answer):
        assert left == set(range(min(left), 30))
        assert 0 < min(left) < 29
    assert max(map(min, (numbers, with_text, with_answer))) - min(numbers) <= 1
    assert await Table(database, decisions.SCHEMA, DAY, clock).get(DECISIONS) == DECISIONS
    database.close()


async def test_decisions_leave_when_nothing_else_is_left(tmp_path: Path) -> None:
    path, clock = tmp_path / "p.sqlite", Clock()
    database = Database(path, MEGABYTE)
    exchanged = Table(database, exchanges.SCHEMA, DAY, clock)
    book = Table(database, decisions.SCHEMA, DAY, clock)
    await exchanged.put({b"e": exchange(50_000)})
    for number in range(100):
        clock.now += 10
        await book.put({b"%d" % number: Decision(os.urandom(10_000).hex(), Facts())})
        assert path.stat().st_size <= MEGABYTE
    left = {int(key) for key in await Table(database, decisions.SCHEMA, DAY, clock).get(
        b"%d" % number for number in range(100)
    )}  # fmt: skip
    assert left == set(range(min(left), 100))
    assert 0 < min(left) < 50
    assert await Table(database, exchanges.SCHEMA, DAY, clock).get([b"e"]) == {}
    database.close()


def test_a_file_that_is_too_large_shrinks_in_steps_between_other_work(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"
    keys = [b"exchange %d" % number for number in range(300)]

    async def fill(stores: Stores) -> None:
        await stores.decisions.put(DECISIONS)
        for start in range(0, len(keys), 20):
            await stores.exchanges.put({key: exchange(50_000) for key in keys[start : start + 20]})

    async def shrink(stores: Stores) -> None:
        assert await stores.decisions.get(DECISIONS) == DECISIONS
        assert size_on_disk(path) > 2 * MEGABYTE
        for _ in range(100):
            await asyncio.sleep(0.01)
            await stores.database.run(
                lambda connection: connection.execute("PRAGMA wal_checkpoint").fetchall()
            )
            if path.stat().st_size <= MEGABYTE:
                break

    run(path, 64 * MEGABYTE, fill)
    assert size_on_disk(path) > 14 * MEGABYTE
    run(path, MEGABYTE, shrink)
    assert size_on_disk(path) <= MEGABYTE


def test_a_row_larger_than_the_cap_costs_no_decision(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"

    async def work(stores: Stores) -> None:
        await decided(stores)
        await stores.exchanges.put({b"huge": exchange(3 * MEGABYTE)})

    async def read(stores: Stores) -> None:
        assert await stores.decisions.get(DECISIONS) == DECISIONS
        assert await stores.exchanges.get([b"huge"]) == {}

    run(path, MEGABYTE, work)
    run(path, MEGABYTE, read)
    assert size_on_disk(path) <= MEGABYTE


def test_unused_tables_count_too(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"

    async def fill(stores: Stores) -> None:
        unused = Table(stores.database, records.COMPRESSED, DAY)
        await unused.add({b"%d" % number: os.urandom(20_000).hex() for number in range(30)})

    async def grow(stores: Stores) -> None:
        for number in range(30):
            await stores.exchanges.put({b"%d" % number: exchange(20_000)})
            assert path.stat().st_size <= MEGABYTE
        assert await stores.exchanges.get([b"29"])

    run(path, MEGABYTE, fill)
    run(path, MEGABYTE, grow)


async def test_any_write_deletes_expired_rows(tmp_path: Path) -> None:
    path, clock = tmp_path / "p.sqlite", Clock()
    database = Database(path, MEGABYTE)
    texts = Originals(Table(database, records.ORIGINALS, 100, clock))
    book = Table(database, decisions.SCHEMA, DAY, clock)
    await texts.put(b"scope", {"a": "text", "b": "text"})
    clock.now += 80
    assert await texts.get(b"scope", "b") == "text"
    clock.now += 80
    await book.put(DECISIONS)
    rows = await database.run(lambda connection: connection.execute("SELECT used FROM originals").fetchall())
    assert rows == [(int(clock.now) - 80,)]
    database.close()


@pytest.mark.parametrize("path", [None, "p.sqlite"])
def test_memory_has_the_cap_too(tmp_path: Path, path: str | None) -> None:
    async def work(stores: Stores) -> None:
        for number in range(40):
            await stores.exchanges.put({b"%d" % number: exchange(50_000)})

            def pages(connection: sqlite3.Connection) -> int:
                return int(connection.execute("PRAGMA page_count").fetchone()[0])

            assert await stores.database.run(pages) * 4_096 <= MEGABYTE

    run(tmp_path / path if path else None, MEGABYTE, work)


def test_readable_rows_of_an_earlier_release_stay(tmp_path: Path) -> None:
    path = tmp_path / "p.sqlite"

    async def fill(stores: Stores) -> None:
        await stores.decisions.put(DECISIONS)

    async def read(stores: Stores) -> None:
        assert await stores.decisions.get(DECISIONS) == DECISIONS
        assert await stores.originals.get(b"scope", "a") is None
        await stores.originals.put(b"scope", {"a": "text"})
        assert await stores.originals.get(b"scope", "a") == "text"

    run(path, MEGABYTE, fill)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE originals")
        connection.execute(
            "CREATE TABLE originals (scope BLOB NOT NULL, ref TEXT NOT NULL, used INTEGER NOT NULL, size INTEGER"
            " NOT NULL, text BLOB NOT NULL, PRIMARY KEY (scope, ref)) WITHOUT ROWID"
        )
        connection.execute("INSERT INTO originals VALUES (x'00', 'a', 9, 9, x'00')")
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")
    connection.close()
    run(path, MEGABYTE, read)


def test_old_rows_are_looked_for_once_a_minute_and_to_the_last() -> None:
    """Nothing finds expired rows meanwhile, and a scan costs as much as a write."""
    connection, now, looks = sqlite3.connect(":memory:"), Clock(), list[str]()
    connection.execute("CREATE TABLE t (key BLOB PRIMARY KEY, used INTEGER, record BLOB)")
    eviction = Eviction(MEGABYTE)
    eviction.add("t", Lifetime(lambda: now() - DAY))

    def left(*, age: float, count: int) -> int:
        rows = [(f"{now()} {number}", now() - age, b"") for number in range(count)]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        while eviction.run(connection):
            pass
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])

    connection.set_trace_callback(lambda sql: looks.append(sql) if sql.startswith("DELETE") else None)
    assert left(age=DAY + 1, count=1_200) == 0
    assert len(looks) == 3
    for seconds in (1, 58):
        now.now += seconds
        assert left(age=DAY + 1, count=1) > 0
    assert len(looks) == 3
    now.now += 60
    assert left(age=0, count=1) == 1
    assert len(looks) == 4
    now.now -= DAY
    assert left(age=DAY + 1, count=1) == 1, "also behind a clock that was put back"
    connection.close()
