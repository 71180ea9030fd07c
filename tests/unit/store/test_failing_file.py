"""A file that can't be written for a while, is removed, or is damaged: its rows are still found, and new rows
are written later."""

import contextlib
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from penumbra.store import conversations, database_file, decisions, history
from penumbra.store.conversations import Conversations
from penumbra.store.database import Database
from penumbra.store.database_file import MOVED_ID, WARNING_ID
from penumbra.store.decisions import Decision, Facts
from penumbra.store.stores import Stores
from penumbra.store.table import SteadyTime, Table
from support.clock import Clock

DAY = 86_400.0
KEY = b"k" * 32
BEFORE = {b"before %d" % number: Decision(f"form {number}", Facts()) for number in range(40)}
DURING = {b"during %d" % number: Decision(os.urandom(2_000).hex(), Facts()) for number in range(40)}
AFTER = {b"after": Decision("later", Facts())}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make SQLite and the database try again at once, so that no test waits."""
    monkeypatch.setattr(database_file, "BUSY_MILLISECONDS", 1)
    monkeypatch.setattr(database_file, "BUSY_AWAY_MILLISECONDS", 1)
    monkeypatch.setattr(database_file, "FIRST_PAUSE", 0.0)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Stores]:
    """Yield the tables as a proxy has them after its start."""
    stores = Stores(Database(path, 10**8, KEY), 10**6, 10**6)
    stores.database.begin()
    stores.database.submit(lambda connection: None).result()
    yield stores
    stores.database.close()


@contextlib.contextmanager
def locked(stores: Stores, path: Path) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def _with_pragma(stores: Stores, begin: str, end: str) -> Iterator[None]:
    """Run a pragma on the connection to the file, and another one once the test has gone on."""
    file = stores.database.file.open
    assert file is not None
    stores.database.submit(lambda _: file.execute(f"PRAGMA {begin}").fetchall()).result()
    yield
    stores.database.submit(lambda _: file.execute(f"PRAGMA {end}").fetchall()).result()


@contextlib.contextmanager
def full(stores: Stores, path: Path) -> Iterator[None]:
    yield from _with_pragma(stores, "max_page_count = 1", "max_page_count = 1000000")


@contextlib.contextmanager
def read_only(stores: Stores, path: Path) -> Iterator[None]:
    yield from _with_pragma(stores, "query_only = on", "query_only = off")


Failure = Callable[[Stores, Path], AbstractContextManager[None]]


async def found(stores: Stores, *wanted: dict[bytes, Decision]) -> bool:
    together = {key: value for one in wanted for key, value in one.items()}
    return await stores.decisions.get(together) == together


@pytest.mark.parametrize("failure", [locked, full, read_only])
async def test_nothing_is_lost_while_it_cannot_be_written(
    failure: Failure, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p"
    with opened(path) as stores:
        await stores.decisions.put(BEFORE)
        await stores.originals.put(b"s", {"r": "original"})
    with opened(path) as stores:
        with failure(stores, path):
            # The first rows are in the file only.
            await stores.decisions.put(DURING)
            assert stores.database.file.failed
            assert await found(stores, BEFORE, DURING)
            assert await stores.originals.get(b"s", "r") == "original"
            assert not await stores.decisions.is_empty()
        await stores.decisions.put(AFTER)
        assert not stores.database.file.failed
        assert await found(stores, BEFORE, DURING, AFTER)
    with opened(path) as stores:
        assert await found(stores, BEFORE, DURING, AFTER)
        assert not stores.database.file.failed
    lines = [one.getMessage() for one in caplog.records]
    assert [line.startswith(f"{WARNING_ID}: {path}: ") for line in lines] == [True, True]
    assert "the file can be written again" in lines[1]


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """Keep the process from writing a byte into any file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


async def test_a_start_on_a_full_disk_finds_stored_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, killed = tmp_path / "p", tmp_path / "killed"
    with opened(path) as stores:
        await stores.decisions.put(BEFORE)
        for end in ("", "-wal"):
            # A killed proxy leaves such files.
            shutil.copy(f"{path}{end}", f"{killed}{end}")
    for file, knows in ((path, True), (killed, False)):
        with no_room():
            started = opened(file)
            stores = started.__enter__()
            assert await found(stores, BEFORE) is knows
            await stores.decisions.put(DURING)
            assert await found(stores, DURING)
            assert stores.database.file.failed
        await stores.decisions.put(AFTER)
        assert not stores.database.file.failed
        assert await found(stores, BEFORE, DURING, AFTER)
        started.__exit__(None, None, None)
        with opened(file) as stores:
            assert await found(stores, BEFORE, DURING, AFTER)
    lines = [one.getMessage() for one in caplog.records]
    assert len(lines) == 4, "it is said once that it can't be written, and once that it can"


async def test_new_rows_are_written_at_the_end_at_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "FIRST_PAUSE", 3600.0)
    with opened(tmp_path / "p") as stores:
        with locked(stores, tmp_path / "p"):
            await stores.decisions.put(DURING)
        assert stores.database.file.failed
    with opened(tmp_path / "p") as stores:
        assert await found(stores, DURING)


def test_days_add_up_over_a_failure(tmp_path: Path) -> None:
    def add(stores: Stores) -> None:
        stores.history.add({"requests": 1}, {"c": {"requests": 1}}).result()

    def sums(stores: Stores) -> tuple[object, ...]:
        (day,) = stores.history.last(1).result().values()
        return day["all"], day["conversations"]

    def expected(count: int) -> tuple[object, ...]:
        requests = {"requests": count}
        return requests, {"c": requests}

    with opened(tmp_path / "p") as stores:
        add(stores)
        with locked(stores, tmp_path / "p"):
            add(stores)
            assert stores.database.file.failed
            assert sums(stores) == expected(2)
            stores.database.forget({history.TABLE})
            assert sums(stores) == expected(2)
        add(stores)
        assert sums(stores) == expected(3)
    with opened(tmp_path / "p") as stores:
        assert sums(stores) == expected(3)


async def test_rows_forgotten_during_a_failure_do_not_come_back(tmp_path: Path) -> None:
    with opened(tmp_path / "p") as stores:
        await stores.decisions.put(BEFORE)
    with opened(tmp_path / "p") as stores:
        with locked(stores, tmp_path / "p"):
            await stores.decisions.put(DURING)
            stores.database.forget(())
            assert await stores.decisions.get(BEFORE) == {}
        await stores.decisions.put(AFTER)
        assert not stores.database.file.failed
    with opened(tmp_path / "p") as stores:
        assert await stores.decisions.get([*BEFORE, *AFTER]) == AFTER


async def test_a_removed_file_is_made_anew_and_used_rows_move_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p"
    with opened(path) as stores:
        await stores.decisions.put(BEFORE)
        await stores.originals.put(b"s", {"used": "original", "unused": "original"})
    with opened(path) as stores:
        await stores.decisions.put(DURING)
        for file in tmp_path.glob("p*"):
            if file.suffix != ".key":
                file.unlink()
        # Another proxy has made a new file already.
        with opened(path) as other:
            await other.decisions.put(AFTER)
            assert await found(stores, BEFORE, DURING, AFTER)
            assert await stores.originals.get(b"s", "used") == "original"
            assert await found(stores, DURING)
            await stores.decisions.put({b"one more": Decision(None, Facts())})
            assert await found(other, BEFORE, DURING)
    with opened(path) as stores:
        assert await found(stores, BEFORE, DURING, AFTER)
        assert await stores.originals.get(b"s", "used") == "original"
        assert await stores.originals.get(b"s", "unused") is None
    (line,) = [one.getMessage() for one in caplog.records]
    assert line == f"{MOVED_ID}: {path}: the file was removed, and a new file was begun"


async def test_a_folder_that_is_gone_for_a_while_takes_nothing_along(tmp_path: Path) -> None:
    folder, aside = tmp_path / "folder", tmp_path / "aside"
    with opened(folder / "p") as stores:
        await stores.decisions.put(BEFORE)
    with opened(folder / "p") as stores:
        await stores.decisions.put(DURING)
        folder.rename(aside)
        # No new folder can be made in its place.
        folder.write_text("")
        assert await found(stores, BEFORE, DURING)
        await stores.decisions.put(AFTER)
        folder.unlink()
        aside.rename(folder)
        assert await found(stores, BEFORE, DURING, AFTER)
    with opened(folder / "p") as stores:
        assert await found(stores, BEFORE, DURING, AFTER)


async def test_readable_rows_of_a_damaged_file_move_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p"
    rows = {os.urandom(16): Decision(os.urandom(1_500).hex(), Facts()) for _ in range(400)}

    def damage() -> None:
        data = bytearray(path.read_bytes())
        data[4096 * 30 : 4096 * 34] = os.urandom(4096 * 4)
        path.write_bytes(data)

    with opened(path) as stores:
        await stores.decisions.put(rows)
    damage()
    with opened(path) as stores:
        there = await stores.decisions.get(rows)
        assert 350 < len(there) < 400
        assert there == {key: rows[key] for key in there}
    with opened(path) as stores:
        assert await stores.decisions.get(rows) == there
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith(f"{MOVED_ID}: {path}: it is damaged")


async def test_a_clock_that_is_wrong_for_a_while_makes_nothing_old(tmp_path: Path) -> None:
    clock, passed = Clock(1_800_000_000.0), Clock(50.0)
    steady = SteadyTime(clock, passed)

    def begun() -> tuple[Database, Table[Decision], Conversations]:
        database = Database(tmp_path / "p", 10**8, KEY)
        table = Table(database, decisions.SCHEMA, 30 * DAY, clock, steady)
        states = Conversations(Table(database, conversations.SCHEMA, 30 * DAY, clock, steady), clock, steady)
        return database, table, states

    database, table, states = begun()
    await table.put(BEFORE)
    await states.sent(b"c")
    database.close()
    for jump in (40 * DAY, -400 * DAY, 360 * DAY):
        database, table, states = begun()
        clock.now += jump
        passed.now += 60
        # A write deletes expired rows.
        await table.put(AFTER)
        assert await table.get(BEFORE) == BEFORE
        assert ((await states.past(b"c")).idle or 0.0) <= 60
        await states.sent(b"c")
        database.close()
    # The time is now after the uses that were noted when the clock was ahead.
    database, table, _ = begun()
    for now in (clock, passed):
        now.now += 71 * DAY
    await table.put(AFTER)
    assert await table.get(BEFORE) == {}
    database.close()
