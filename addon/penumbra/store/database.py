"""One SQLite file, one thread that uses it, and what happens when the disk fails.

The file is opened at the start, in the database's own thread, so the event loop never waits for a disk.
When it can't be opened or written, the same tables live in memory from then on, and one warning with a
constant id says so. A file that is damaged, or not ours, is moved aside and a new one begun. The file
and its folder are the user's alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from penumbra.store.eviction import COLUMNS, Eviction, Lifetime, pragma, tables
from penumbra.store.private_file import make_private, open_private
from penumbra.store.seal import Seal

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
_BUSY_MILLISECONDS = 5_000
_BUSY_PAUSE = 0.02
"""Seconds."""
_CHECKED_BYTES = 32_000_000
"""Files up to this size are read through at the start; of larger ones damage is found when it is met."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOG_BYTES = 4_000_000
_LOG_SHARE = 8
"""The write-ahead log is kept below one part in so many of the file's size."""
_log = logging.getLogger(__name__)


class _Foreign(Exception):
    """The file is an SQLite database, and none of ours."""


class Database:
    """Runs pieces of work on one connection, one after the other, each in a transaction of its own.

    `path` None keeps everything in memory. `max_bytes`: of the file, beyond which the oldest rows leave.
    `key`: what records are sealed with.
    """

    def __init__(self, path: Path | None, max_bytes: int, key: bytes = b"") -> None:
        self.path = path
        self.key = key
        self._eviction = Eviction(max_bytes)
        self._tables: list[str] = []
        self._created: set[str] = set()
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-database")
        self._is_closing = False
        self.failed = False
        """The file was given up; everything lives in memory."""
        self._moved = False
        self._holders = 1
        self.filled: set[str] = set()
        """The tables that something was put into since the file was opened, whoever did it."""

    def share(self, max_bytes: int) -> None:
        """Somebody else uses it too, and will close it. To be called on the event loop, as `close`.

        The size and the lifetimes that come last hold.
        """
        self._holders += 1
        self._eviction.max_bytes = max_bytes

    def add(self, table: str, lifetime: Lifetime) -> None:
        """Have a table of this name, which is made when it is first used."""
        self._eviction.add(table, lifetime)
        if table not in self._tables:
            self._tables.append(table)

    def seal(self, table: str) -> Seal:
        """What the records of a table are sealed with."""
        return Seal(self.key, table)

    async def run(self, work: Work[T]) -> T:
        """What `work` returns; its changes are committed when it returns, undone when it raises."""
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Work[T]) -> Future[T]:
        """Like `run`, for callers outside of the event loop."""
        return self._thread.submit(self._run, work)

    def forget(self, kept: Collection[str]) -> None:
        """Let go all rows but those of some tables, so that nothing of them can be read any more."""
        self.filled.intersection_update(kept)
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
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _forget(self, names: list[str]) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            for name in names:
                connection.execute(f"DELETE FROM {name}")

        self._run(lambda connection: connection.execute("PRAGMA secure_delete = ON"))
        self._run(delete)
        # Somebody else may be reading: what is deleted is overwritten all the same.
        with suppress(sqlite3.DatabaseError):
            self._connected().execute("VACUUM")
            self._connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _run(self, work: Work[T]) -> T:
        try:
            return self._transact(self._connected(), work)
        except (sqlite3.DatabaseError, OSError, _Foreign) as error:
            if self.path is None or self.failed:
                raise
            if (why := _unusable(error)) and not self._moved and self._move_aside(self.path, why):
                return self._run(work)
            self._give_up(error)
            return self._transact(self._connected(), work)

    def _transact(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        before = connection.total_changes
        with connection:
            result = work(connection)
            more = connection.total_changes != before and self._eviction.run(connection)
        if more:
            self._evict_later()
        return result

    def _evict(self) -> None:
        """A step of what is left to let go, behind the work that came meanwhile."""
        if (connection := self._connection) is None:
            return
        try:
            with connection:
                more = self._eviction.run(connection)
        except (sqlite3.DatabaseError, OSError):
            # The next piece of work will meet it, and knows what to do.
            return
        if more:
            self._evict_later()

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
        limit = time.monotonic() + _BUSY_MILLISECONDS / 1000
        while True:
            try:
                return self._open()
            except sqlite3.OperationalError as error:
                if (getattr(error, "sqlite_errorcode", 0) & 0xFF) not in _BUSY or time.monotonic() > limit:
                    raise
                time.sleep(_BUSY_PAUSE)

    def _open(self) -> sqlite3.Connection:
        if self.path is None or self.failed:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = open_private(self.path, os.O_CREAT | os.O_RDWR)
            make_private(descriptor)
            os.close(descriptor)
            connection = sqlite3.connect(self.path, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self._look(connection)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            log = min(_LOG_BYTES, self._eviction.max_bytes // _LOG_SHARE)
            connection.execute(f"PRAGMA journal_size_limit = {log}")
            connection.execute(f"PRAGMA wal_autocheckpoint = {log // pragma(connection, 'page_size')}")
            with connection:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: sqlite3.Connection) -> None:
        with connection:
            for name in tuple(self._tables):
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
        if application not in (0, APPLICATION) or (application == 0 and not there <= set(self._tables)):
            raise _Foreign("it is another program's")
        if version > VERSION:
            raise _Foreign("it is a later release's")
        if there and version < _SEALED:
            _empty(connection, there)
        elif version < VERSION:
            _drop_others(connection, there)
        if pragma(connection, "page_count") * pragma(connection, "page_size") <= _CHECKED_BYTES:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise _Foreign("it is damaged")

    def _move_aside(self, path: Path, why: str) -> bool:
        """Whether the file is out of the way, so that a new one can be begun."""
        self._close()
        self._moved = True
        aside = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
        try:
            if not os.path.lexists(aside):
                for end in ("", "-wal", "-shm"):
                    if os.path.lexists(f"{path}{end}"):
                        os.rename(f"{path}{end}", f"{aside}{end}")
                _log.warning("%s: %s: %s; it is %s now, and a new one begins", MOVED_ID, path, why, aside)
                return True
        except OSError as error:
            _log.warning("%s: %s: %s", WARNING_ID, path, error)
        return False

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        self._close()
        _log.warning(
            "%s: %s: %s; decisions live in memory until the next start", WARNING_ID, self.path, error
        )

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._created.clear()
            connection.close()


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
