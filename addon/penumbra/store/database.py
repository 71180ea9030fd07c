"""One SQLite file, one thread that uses it, and what happens when the disk fails.

The file is opened at the start, in the database's own thread, so the event loop never waits for a disk.
While it can't be opened or written, the same tables live in memory, what it has is read from it, and one
warning with a constant id says so; once it can, what is new is written. A file that is damaged, or not ours,
is moved aside and a new one begun; where one was removed, too. What is asked for moves over to the new one.
The file and its folder are the user's alone.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from penumbra import errors
from penumbra.store import older_rows
from penumbra.store.eviction import COLUMNS, Eviction, Lifetime, pragma, tables
from penumbra.store.older_rows import Merge, OlderRows
from penumbra.store.private_file import make_private, open_private
from penumbra.store.seal import Seal
from penumbra.store.write_behind import WriteBehind

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

WARNING_ID = "PENUMBRA_DATABASE_UNAVAILABLE"
MOVED_ID = "PENUMBRA_DATABASE_MOVED"
VERSION = 2
"""Of the tables. Those of an earlier release that have other columns are dropped: what is in them is worth
a day at most."""
_SEALED = 1
"""The version from which on nothing in a file can be read without the key."""
APPLICATION = 0x50454E55
"""What a file of ours says in SQLite's `application_id`."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BUSY_MILLISECONDS = 2_000
"""So long another program may write."""
_BUSY_AWAY_MILLISECONDS = 50
"""The same when that was too long already."""
_BUSY_START = 5.0
_BUSY_PAUSE = 0.02
"""Seconds."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Seconds from a failure until the file is tried again."""
_LONGEST_WRITE = 10.0
"""Seconds. More than another program that writes, or the first opening, can take."""
_LONGEST_HANG = 60.0
"""Seconds. Clients wait longer for a response."""
_AWAY_BYTES = 64_000_000
"""So much is kept in memory while there is no file."""
_MUCH_WAITING = 16_000_000
"""Bytes that wait to be written. Beyond it nothing is decided that would have to be remembered."""
_MOST_WAITING = 64_000_000
"""Beyond it what is new is forgotten."""
_CHECKED_BYTES = 32_000_000
"""Files up to this size are read through at the start; of larger ones damage is found when it is met."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOG_BYTES = 4_000_000
_LOG_SHARE = 8
"""The write-ahead log is kept below one part in so many of the file's size."""
_log = logging.getLogger(__name__)


class DiskAway(Exception):
    """The disk has not answered for long: what was asked for is not known."""


class _Foreign(Exception):
    """The file is an SQLite database, and none of ours."""


class _Readable(_Foreign):
    """It is ours, damaged or a later release's: what can be read of it holds."""


class Database:
    """Runs pieces of work on one connection, one after the other, each in a transaction of its own.

    `path` None keeps everything in memory. `max_bytes`: of the file, beyond which the oldest rows leave.
    `key`: what records are sealed with.
    """

    def __init__(self, path: Path | None, max_bytes: int, key: bytes = b"") -> None:
        self.path = path
        self.key = key
        self._eviction = Eviction(max_bytes)
        self._tables: dict[str, Merge | None] = {}
        self._created: set[str] = set()
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-database")
        self._is_closing = False
        self.failed = False
        """The file can't be used now; what is new lives in memory."""
        self.older: OlderRows | None = None
        """Where to look for what is not there."""
        self.files = 0
        """How many have been removed or damaged, each with another one in its place."""
        self._file: sqlite3.Connection | None = None
        """While it can't be written."""
        self._inode: tuple[int, int] | None = None
        self._tried, self._pause = 0.0, _FIRST_PAUSE
        self._is_returning = False
        self._forgotten: set[str] = set()
        """Tables whose rows in the file nobody is to find again."""
        self._moved = False
        self._holders = 1
        self.filled: set[str] = set()
        """The tables that something was put into since the file was opened, whoever did it."""
        self.patience = _LONGEST_WRITE
        """Seconds that whoever waits for what is written waits at most."""
        self.last_patience = _LONGEST_HANG
        """Seconds that a request waits at most for a disk that hangs, if it can't go on well without."""
        self.failures = 0
        """How often it was asked for something and did not answer."""
        self.forgotten = 0
        """Rows that there was no room for while they waited to be written."""
        self._overdue: Future[None] | None = None
        """What was waited for that long: until it is done, nothing behind it is."""
        self._behind = WriteBehind(lambda works: self._thread.submit(self._write, works))

    def share(self, max_bytes: int) -> None:
        """Somebody else uses it too, and will close it. To be called on the event loop, as `close`.

        The size and the lifetimes that come last hold.
        """
        self._holders += 1
        self._eviction.max_bytes = max_bytes

    def add(self, table: str, lifetime: Lifetime, merge: Merge | None = None) -> None:
        """Have a table of this name, which is made when it is first used.

        `merge`: what holds where the file and memory have a record each; else it is that of memory.
        """
        self._eviction.add(table, lifetime)
        self._tables[table] = merge

    def seal(self, table: str) -> Seal:
        """What the records of a table are sealed with."""
        return Seal(self.key, table)

    async def run(self, work: Work[T]) -> T:
        """What `work` returns; its changes are committed when it returns, undone when it raises.

        Raises DiskAway: at once while the disk hangs.
        """
        if self.hangs:
            self.failures += 1
            raise DiskAway
        asked = asyncio.wrap_future(self.submit(work))
        await asyncio.wait([asked], timeout=self.patience)
        if asked.done():
            return asked.result()
        asked.cancel()
        self._wait_no_longer(self._thread.submit(lambda: None))
        self.failures += 1
        raise DiskAway

    def submit(self, work: Work[T]) -> Future[T]:
        """Like `run`, for callers outside of the event loop, however long it takes."""
        self._behind.begin()
        return self._thread.submit(self._run, work)

    def later(self, work: Work[object], size: int = 0, rows: int = 1) -> None:
        """Have a piece of work done that nobody waits for, in one transaction with others that come soon.
        Whatever is run or submitted later finds it done. It holds so many bytes, and writes so many rows,
        which are forgotten where too much waits already."""
        if self._behind.bytes + size > _MOST_WAITING:
            self.forgotten += rows
        else:
            self._behind.add(work, size)

    async def written(self) -> None:
        """Returns when what was to be done later so far is done, or the disk takes too long to wait for."""
        writing = self._behind.begin()
        if writing is None or writing.done() or self.hangs:
            return
        # Whoever waits no longer takes nothing from the others: `wait` cancels nothing.
        _, waiting = await asyncio.wait([asyncio.wrap_future(writing)], timeout=self.patience)
        if waiting:
            self._wait_no_longer(writing)

    @property
    def is_whole(self) -> bool:
        """Whether what is decided now will be written: the disk answers, and not too much waits for it."""
        return not self.hangs and self._behind.bytes <= _MUCH_WAITING

    def samples(self) -> dict[str, float]:
        """Its figures by name, as Prometheus has them; counters end in `_total`."""
        return {
            "up": float(not (self.hangs or self.failed)),
            "waiting_bytes": self._behind.bytes,
            "failures_total": self.failures,
            "forgotten_rows_total": self.forgotten,
        }

    @property
    def hangs(self) -> bool:
        """Whether nothing can be looked up but in memory: the disk has not answered for long."""
        return self._overdue is not None and not self._overdue.done()

    async def answers(self) -> bool:
        """Whether the disk answers again, waited for."""
        if self._overdue is not None:
            await asyncio.wait([asyncio.wrap_future(self._overdue)], timeout=self.last_patience)
        return not self.hangs

    def _wait_no_longer(self, overdue: Future[None]) -> None:
        """Nobody waits for anything before this is done."""
        if self.hangs:
            return
        self._overdue = overdue
        _log.warning("%s: %s: the disk does not answer; nobody waits for it now", WARNING_ID, self.path)
        overdue.add_done_callback(self._answers)

    def _answers(self, overdue: Future[None]) -> None:
        lost = f"; {self.forgotten:,} rows were forgotten" if self.forgotten else ""
        _log.warning("%s: %s: the disk answers again%s", WARNING_ID, self.path, lost)

    def forget(self, kept: Collection[str]) -> None:
        """Let go all rows but those of some tables, so that nothing of them can be read any more."""
        self.filled.intersection_update(kept)
        self._behind.begin()
        self._thread.submit(self._forget, [name for name in self._tables if name not in kept])

    def begin(self) -> None:
        """Open the file, so that what is wrong with it is said at the start, and let go what has to."""
        self._thread.submit(self._run, lambda connection: None)
        self._thread.submit(self._evict)

    def close(self) -> None:
        """Finish what was submitted, then close the file, once all who share it have closed it."""
        self._holders -= 1
        if self._holders:
            return
        self._is_closing = True
        self._behind.begin()
        self._thread.submit(self._end)
        self._thread.shutdown(wait=True)

    def _forget(self, names: list[str]) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            for name in names:
                connection.execute(f"DELETE FROM {name}")

        if self.failed:
            self._forgotten.update(names)
        self._drop_older()
        self._run(lambda connection: connection.execute("PRAGMA secure_delete = ON"))
        self._run(delete)
        # Somebody else may be reading: what is deleted is overwritten all the same.
        with suppress(sqlite3.DatabaseError):
            self._connected().execute("VACUUM")
            self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _run(self, work: Work[T]) -> T:
        self._look_after()
        try:
            return self._transact(self._connected(), work)
        except (sqlite3.DatabaseError, OSError, _Foreign) as error:
            if self.path is None or self.failed:
                raise
            if _unusable(error) and not self._moved and self._move_aside(self.path, error):
                return self._run(work)
            self._go_away(error)
            return self._transact(self._connected(), work)

    def _write(self, works: Sequence[Work[object]]) -> None:
        """Work that nobody waits for. Never raises: one that fails leaves the others to theirs."""

        def all_of_it(connection: sqlite3.Connection) -> None:
            for work in works:
                try:
                    work(connection)
                except (sqlite3.DatabaseError, OSError):
                    raise
                except Exception as error:
                    _log.error("penumbra: something could not be remembered: %s", errors.place(error))

        try:
            self._run(all_of_it)
        except Exception as error:
            _log.error("penumbra: something could not be remembered: %s", errors.place(error))

    def _look_after(self) -> None:
        """Whether the file is still there, or is there again."""
        if self.failed:
            if time.monotonic() >= self._tried + self._pause:
                self._come_back()
        elif self.path is not None and self._inode is not None and self._inode != _inode(self.path):
            self._was_removed(self.path)

    def _transact(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        before = connection.total_changes
        with connection:
            result = work(connection)
            more = connection.total_changes != before and self._evicted(connection)
        if more:
            self._evict_later()
        return result

    def _evict(self) -> None:
        """A step of what is left to let go, behind the work that came meanwhile."""
        if (connection := self._connection) is None:
            return
        try:
            with connection:
                more = self._evicted(connection)
        except (sqlite3.DatabaseError, OSError):
            # The next piece of work will meet it, and knows what to do.
            return
        if more:
            self._evict_later()

    def _evicted(self, connection: sqlite3.Connection) -> bool:
        """Let go a step of what has to. Whether there is more."""
        return self._eviction.run(connection, _AWAY_BYTES if self.failed else None)

    def _evict_later(self) -> None:
        if not self._is_closing:
            with suppress(RuntimeError):
                # It is closed in this very moment.
                self._thread.submit(self._evict)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._opened()
        if len(self._created) < len(self._tables):
            self._create(self._connection)
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        """SQLite waits for nobody where the kind of journal changes, as two first starts at once do it."""
        limit = time.monotonic() + (0 if self._is_returning else _BUSY_START)
        while True:
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in _BUSY or time.monotonic() > limit:
                    raise
                time.sleep(_BUSY_PAUSE)

    def _open(self) -> sqlite3.Connection:
        if self.path is None or self.failed:
            return self._prepared(sqlite3.connect(":memory:", check_same_thread=False))
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_private(self.path, os.O_CREAT | os.O_RDWR)
        make_private(descriptor)
        os.close(descriptor)
        connection = self._prepared(sqlite3.connect(self.path, check_same_thread=False))
        self._inode = _inode(self.path)
        return connection

    def _prepared(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """As it has to be, with what is in it looked at. Closed, where that raises."""
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._look(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            log = min(_LOG_BYTES, self._eviction.max_bytes // _LOG_SHARE)
            connection.execute(f"PRAGMA journal_size_limit = {log}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {log // pragma(connection, 'page_size')}")
            marks = (("application_id", APPLICATION), ("user_version", VERSION))
            # Somebody else may be writing.
            if any(pragma(connection, name) != value for name, value in marks):
                with connection:
                    for name, value in marks:
                        connection.execute(f"PRAGMA {name} = {value}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        with connection:
            for name in (*self._tables,):
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {name} "
                    "(key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID"
                )
                connection.execute(f"CREATE INDEX IF NOT EXISTS {name}_used ON {name} (used)")
                self._created.add(name)

    def _look(self, connection: sqlite3.Connection) -> None:
        """Whose file it is, and whether it can be used. Raises _Foreign, sqlite3.DatabaseError."""
        # In one view of the file: another first start may be making it.
        connection.execute("BEGIN")
        application, version = (pragma(connection, name) for name in ("application_id", "user_version"))
        there = tables(connection)
        connection.rollback()
        if application not in (0, APPLICATION) or (application == 0 and not there <= self._tables.keys()):
            raise _Foreign("it is another program's")
        if version > VERSION:
            raise _Readable("it is a later release's")
        if there and version < _SEALED:
            _empty(connection, there)
        elif version < VERSION:
            _drop_others(connection, there)
        if pragma(connection, "page_count") * pragma(connection, "page_size") <= _CHECKED_BYTES:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise _Readable("it is damaged")

    def _move_aside(self, path: Path, error: Exception) -> bool:
        """Whether the file is out of the way, so that a new one can be begun."""
        self._close()
        self._moved = True
        aside = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
        try:
            if os.path.lexists(aside):
                return False
            for end in ("", "-wal", "-shm"):
                if os.path.lexists(f"{path}{end}"):
                    os.rename(f"{path}{end}", f"{aside}{end}")
        except OSError as failure:
            _log.warning("%s: %s: %s", WARNING_ID, path, failure)
            return False
        why = _unusable(error)
        _log.warning("%s: %s: %s; it is %s now, and a new one begins", MOVED_ID, path, why, aside)
        if not isinstance(error, _Foreign) or isinstance(error, _Readable):
            with closing(sqlite3.connect(aside)) as file:
                self.older = OlderRows.copied(file)
        self.files += 1
        return True

    def _was_removed(self, path: Path) -> None:
        """The file that is open has gone. There may be another one in its place, whose log SQLite would take
        along (with Python 3.11 it does)."""
        connection, self._connection, self._inode = self._connection, None, None
        self._created = set()
        self._drop_older()
        if connection is not None:
            self.older = OlderRows.copied(connection)
            if sys.version_info >= (3, 12):
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            connection.close()
        self.files += 1
        _log.warning("%s: %s: it was removed; a new one begins", MOVED_ID, path)

    def _go_away(self, error: Exception) -> None:
        """Memory takes over. The file is tried again, unless it will never be of use."""
        self._file, self._connection = self._connection, None
        self._created = set()
        self.failed = True
        self._tried, self._pause = time.monotonic(), math.inf if _unusable(error) else _FIRST_PAUSE
        # Of one that was removed, and no other came in its place, the copy goes on being read.
        if self._file is not None:
            self._drop_older()
            self.older = OlderRows(self._file)
        elif self.older is None and self.path is not None and not _unusable(error):
            self.older = OlderRows.lying(self.path)
        _log.warning(
            "%s: %s: %s; what is new lives in memory until it can be written", WARNING_ID, self.path, error
        )

    def _come_back(self) -> None:
        """Write what is new into the file, if that can be done again."""
        memory, created = self._connected(), self._created
        self.failed, self._connection, self._created = False, self._file, set()
        self._is_returning = True
        try:
            count = self._write_new(memory, created)
        except (sqlite3.DatabaseError, OSError, _Foreign):
            self._file, self._connection, self._created = self._connection, memory, created
            self.failed = True
            self._tried, self._pause = time.monotonic(), min(2 * self._pause, _LONGEST_PAUSE)
            if self._file is not None and not self._forgotten:
                self._drop_older()
                self.older = OlderRows(self._file)
            return
        finally:
            self._is_returning = False
        memory.close()
        self._drop_older()
        self._file = None
        self._forgotten.clear()
        _log.warning("%s: %s: it can be written again, and %s rows were", WARNING_ID, self.path, f"{count:,}")

    def _write_new(self, memory: sqlite3.Connection, created: Collection[str]) -> int:
        """Into the file. How many rows."""
        file = self._connected()
        file.execute(f"PRAGMA busy_timeout = {_BUSY_AWAY_MILLISECONDS}")
        with file:
            for name in self._forgotten:
                file.execute(f"DELETE FROM {name}")
            count = older_rows.carry_over(memory, file, {name: self._tables[name] for name in created})
        file.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
        return count

    def _drop_older(self) -> None:
        if self.older is not None:
            self.older.close()
        self.older = None

    def _end(self) -> None:
        if self.failed:
            self._come_back()
        self._close()

    def _close(self) -> None:
        self._drop_older()
        for connection in (self._connection, self._file):
            if connection is not None:
                connection.close()
        self._connection = self._file = self._inode = None
        self._created = set()


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file it is; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _unusable(error: Exception) -> str:
    """Why the file can never be used; empty if it may be, another time."""
    if isinstance(error, _Foreign):
        return str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return f"it is damaged ({error})" if code in _CORRUPT else ""


def _empty(connection: sqlite3.Connection, tables: set[str]) -> None:
    """Nothing of what an earlier release wrote stays readable."""
    connection.execute("PRAGMA secure_delete = ON")
    with connection:
        for name in tables:
            connection.execute(f'DROP TABLE "{name}"')
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _drop_others(connection: sqlite3.Connection, names: set[str]) -> None:
    """Of what an earlier release wrote, only what this one can read stays."""
    with connection:
        for name in names:
            columns = tuple(row[1] for row in connection.execute(f"PRAGMA table_info({name})"))
            if columns != COLUMNS:
                connection.execute(f"DROP TABLE {name}")
