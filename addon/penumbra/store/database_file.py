"""This module opens the database in its file, or in memory while the file can't be opened or written.

While the file fails, a warning with a constant id is logged, and rows in the file are still read. New rows
are written to the file when it works again. A damaged file, or a file of another program, is renamed. A new
file then takes its place. A removed file is replaced, too. Rows of the old file are copied to the new file
when a request needs them. Rows of a format that this release can't read are dropped. Only the user can read
the file. If the file's folder is made, only the user can read the folder, too.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from penumbra.store.key_file import make_private, open_private

COLUMNS = ("key", "used", "record")
"""Columns of every table: a hash, the time of last use (seconds), and the sealed record."""
_STEP_ROWS = 500
_STEP_BYTES = 4_000_000
_STEP_PAGES = 1_000
_EXPIRY_SECONDS = 60
"""Seconds between two scans of a table for expired rows. Scans can be rare, because look-ups ignore expired
rows. Each scan takes as long as a write."""
_SPARE = 10
"""If a file exceeds its size limit, rows are deleted until one page in ten is free, so that the next writes
need not delete rows."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A `Lifetime` limits the time for which the rows of a table are kept."""

    begin: Callable[[], float]
    """A function that returns a time in seconds. Rows that were last used before this time are expired."""
    leaves_last: bool = False
    """True if rows of tables without this flag are deleted first when the database is too large."""


class Eviction:
    """An `Eviction` deletes expired rows of all tables, and the oldest rows if the file is larger than
    `max_bytes`. Decisions and the history are deleted after the rows of all other tables, since the first
    sent form of a result is final. Rows are deleted in steps, so that no request waits for all of them. All
    methods but `add` run in the database's thread."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lifetimes: dict[str, Lifetime] = {}
        self._expired: float | None = None
        """The expiry time of the first table at the last complete scan; None if expired rows may be left."""

    def add(self, table: str, lifetime: Lifetime) -> None:
        """Let a table's rows expire. Rows of tables that were not added are deleted only beyond the size
        limit."""
        self._lifetimes[table] = lifetime
        self._expired = None

    def run(self, connection: sqlite3.Connection, at_most: int | None = None) -> bool:
        """Delete one batch of rows within the current transaction, and return whether more rows must be
        deleted. `at_most` is a further size limit in bytes."""
        more = False
        lifetimes = tuple(self._lifetimes.items())
        # All tables share one clock.
        now = lifetimes[0][1].begin() if lifetimes else 0.0
        if self._expired is None or abs(now - self._expired) >= _EXPIRY_SECONDS:
            more = any(self._expire(connection, table, lifetime) for table, lifetime in lifetimes)
            self._expired = None if more else now
        most = self.max_bytes if at_most is None else min(self.max_bytes, at_most)
        return self._shrink(connection, most) or more

    def _expire(self, connection: sqlite3.Connection, table: str, lifetime: Lifetime) -> bool:
        rows = f"SELECT key FROM {table} WHERE used < ? ORDER BY used LIMIT {_STEP_ROWS}"
        begin = int(lifetime.begin())
        return (
            connection.execute(f"DELETE FROM {table} WHERE key IN ({rows})", (begin,)).rowcount == _STEP_ROWS
        )

    def _shrink(self, connection: sqlite3.Connection, max_bytes: int) -> bool:
        size = pragma(connection, "page_size")
        most, pages = max_bytes // size, pragma(connection, "page_count")
        if pages <= most:
            return False
        removed = 0
        while removed < _STEP_BYTES:
            excess = pages - pragma(connection, "freelist_count") - (most - most // _SPARE)
            if excess <= 0 or not (gone := self._remove(connection, excess * size)):
                break
            removed += gone
        # Free pages beyond the size limit are returned to the file system. Later rows use the other free
        # pages. Each call frees only one page, since SQLite frees a page for each result row, and `sqlite3`
        # before Python 3.12 reads only the first row.
        for _ in range(min(pages - most, _STEP_PAGES)):
            connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        left = pragma(connection, "page_count")
        return left > most and (removed > 0 or left < pages)

    def _remove(self, connection: sqlite3.Connection, excess: int) -> int:
        """Delete the oldest rows of about `excess` bytes and return their size."""
        names = tables(connection)
        last = {name for name in names if name in self._lifetimes and self._lifetimes[name].leaves_last}
        return _remove_oldest(connection, names - last, excess) or _remove_oldest(connection, last, excess)


def _remove_oldest(connection: sqlite3.Connection, names: set[str], excess: int) -> int:
    if not names:
        return 0
    each = (
        f"SELECT * FROM (SELECT used, '{name}', key, length(record) FROM {name} ORDER BY used LIMIT ?)"
        for name in sorted(names)
    )
    query = f"{' UNION ALL '.join(each)} ORDER BY used LIMIT ?"
    rows = connection.execute(query, [_STEP_ROWS] * (len(names) + 1)).fetchall()
    removed = 0
    for _, name, key, length in rows:
        connection.execute(f"DELETE FROM {name} WHERE key = ?", (key,))
        removed += len(key) + length
        if removed >= excess:
            break
    return removed


def tables(connection: sqlite3.Connection) -> set[str]:
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    return {name for (name,) in connection.execute(query)}


def pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


_WAIT_SECONDS = 2


def connect(path: Path) -> sqlite3.Connection:
    """Return a connection that only reads. Raises sqlite3.Error. SQLite creates files beside a database with
    a write-ahead log, and a reader leaves them there. A database without a log is open in no other process,
    and is read as immutable."""
    has_log = path.with_name(f"{path.name}-wal").exists()
    address = f"{path.absolute().as_uri()}?mode=ro{'' if has_log else '&immutable=1'}"
    return sqlite3.connect(address, uri=True, timeout=_WAIT_SECONDS)


VERSION = 2
"""Version of the tables. A table of an earlier release with other columns is dropped."""
_SEALED = 1
"""The first version whose files can't be read without the key."""
APPLICATION = 0x50454E55
"""SQLite's `application_id` of Penumbra's files."""
BUSY_MILLISECONDS = 2_000
"""The greatest number of milliseconds that SQLite waits for another program's write."""
_CHECKED_BYTES = 32_000_000
"""Size in bytes up to which a whole file is checked at the start. Damage in a larger file is found later."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOG_BYTES = 4_000_000
_LOG_SHARE = 8
"""The size limit of the write-ahead log is the file's limit divided by this number, and at most
`_LOG_BYTES`."""


class Foreign(Exception):
    """A `Foreign` is raised for the SQLite database of another program."""


class Readable(Foreign):
    """A `Readable` is raised for a file of Penumbra that is damaged or of a later release. The readable rows
    of the file are valid."""


def prepared(connection: sqlite3.Connection, names: Collection[str], max_bytes: int) -> sqlite3.Connection:
    """Configure a connection, check its file, and return the connection. Raises Foreign and
    sqlite3.DatabaseError, after the connection is closed. `names` are the tables that a file without an
    `application_id` may have. `max_bytes` is the size limit of the file."""
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _look(connection, names)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        log = min(_LOG_BYTES, max_bytes // _LOG_SHARE)
        connection.execute(f"PRAGMA journal_size_limit = {log}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {log // pragma(connection, 'page_size')}")
        marks = (("application_id", APPLICATION), ("user_version", VERSION))
        # The version and the id are written only if they differ, since another process may be writing.
        if any(pragma(connection, name) != value for name, value in marks):
            with connection:
                for name, value in marks:
                    connection.execute(f"PRAGMA {name} = {value}")
    except BaseException:
        connection.close()
        raise
    return connection


def unusable(error: Exception) -> str:
    """Return why the file can never be used; empty if it may be used later."""
    if isinstance(error, Foreign):
        return str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return f"it is damaged ({error})" if code in _CORRUPT else ""


def _look(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Check whether the file is Penumbra's and usable. Raises Foreign, sqlite3.DatabaseError."""
    # One transaction reads the version and the id, since another process that starts may be writing them.
    connection.execute("BEGIN")
    application, version = (pragma(connection, name) for name in ("application_id", "user_version"))
    there = tables(connection)
    connection.rollback()
    if application not in (0, APPLICATION) or (application == 0 and not there <= set(names)):
        raise Foreign("it is another program's")
    if version > VERSION:
        raise Readable("it is a later release's")
    if version < VERSION:
        _empty(connection, {name for name in there if version < _SEALED or _is_other(connection, name)})
    if pragma(connection, "page_count") * pragma(connection, "page_size") <= _CHECKED_BYTES:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Readable("it is damaged")


def _is_other(connection: sqlite3.Connection, name: str) -> bool:
    return tuple(row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')) != COLUMNS


def _empty(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Drop tables of an earlier release and overwrite their rows."""
    if not names:
        return
    connection.execute("PRAGMA secure_delete = ON")
    with connection:
        for name in names:
            connection.execute(f'DROP TABLE "{name}"')
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


T = TypeVar("T")
Row = tuple[bytes, int, bytes]
"""A row has its key, the time of its last use in seconds, and its record."""
Merge = Callable[[bytes, bytes, bytes], bytes]
"""A function that combines the earlier and the later record of a key."""
_BATCH = 400


def find(
    connection: sqlite3.Connection, table: str, keys: Sequence[bytes], since: float, record: str = "record"
) -> Iterator[Row]:
    """Yield the rows of these keys that were used at `since` or later. `record` is the SQL of the third
    column, or `''` for no record."""
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        query = f"SELECT key, used, {record} FROM {table} WHERE used >= ? AND key IN ({marks})"
        yield from connection.execute(query, (since, *batch)).fetchall()


def write(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Write rows or replace existing rows. With the rows in the order of keys, each page of the index changes
    once."""
    connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", sorted(rows))


def carry_over(
    source: sqlite3.Connection, target: sqlite3.Connection, tables: Mapping[str, Merge | None]
) -> int:
    """Copy the rows of these tables from one database into another, and return the number of rows."""
    count = 0
    for table, merge in tables.items():
        for key, used, record in source.execute(f"SELECT key, used, record FROM {table}"):
            there = list(find(target, table, [key], 0)) if merge is not None else []
            whole = merge(key, there[0][2], record) if merge is not None and there else record
            write(target, table, [(key, used, whole)])
            count += 1
    return count


class OlderRows:
    """An `OlderRows` reads the rows of an earlier file. Unreadable rows count as absent."""

    def __init__(self, connection: sqlite3.Connection, *, is_copy: bool = False) -> None:
        """`connection` reads the earlier file. With `is_copy`, `close` closes the connection."""
        self._connection = connection
        self._is_copy = is_copy

    @classmethod
    def copied(cls, connection: sqlite3.Connection, without: Collection[str] = ()) -> OlderRows | None:
        """Return the rows of a file that must be abandoned, after copying them into a temporary database.
        Rows of the tables in `without` are deleted. Return None if this fails."""
        copy = sqlite3.connect("", check_same_thread=False)
        try:
            connection.backup(copy)
            copy.execute("PRAGMA secure_delete = ON")
            with copy:
                for name in tables(copy) & set(without):
                    copy.execute(f"DELETE FROM {name}")
        except sqlite3.DatabaseError:
            copy.close()
            return None
        return cls(copy, is_copy=True)

    @classmethod
    def lying(cls, path: Path) -> OlderRows | None:
        """Return the rows of a file that can't be opened for writing. Rows in the write-ahead log are left
        out if SQLite can't create the files to read it."""
        has_log = path.with_name(f"{path.name}-wal").exists()
        # An immutable connection takes no lock. After `close`, SQLite would keep the file open while another
        # connection of this process has a lock on the file.
        for options in ("mode=ro", "mode=ro&immutable=1") if has_log else ("mode=ro&immutable=1",):
            address = f"{path.absolute().as_uri()}?{options}"
            try:
                connection = sqlite3.connect(address, uri=True, check_same_thread=False)
            except sqlite3.DatabaseError:
                continue
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.DatabaseError:
                connection.close()
                continue
            return cls(connection, is_copy=True)
        return None

    def without(self, names: Collection[str]) -> OlderRows | None:
        """Return a copy without the rows of these tables, or None if they can't be copied."""
        return OlderRows.copied(self._connection, names)

    def find(self, table: str, keys: Sequence[bytes], since: float) -> list[Row]:
        """Return rows like the function `find`. If a page is damaged, only its rows are lost."""
        try:
            return list(find(self._connection, table, keys, since))
        except sqlite3.DatabaseError:
            found: list[Row] = []
            for key in keys:
                with suppress(sqlite3.DatabaseError):
                    found += find(self._connection, table, [key], since)
            return found

    def read(self, work: Callable[[sqlite3.Connection], T], default: T) -> T:
        """Return the result of `work`, or `default` if `work` fails."""
        try:
            return work(self._connection)
        except sqlite3.DatabaseError:
            return default

    def close(self) -> None:
        if self._is_copy:
            self._connection.close()


WARNING_ID = "PENUMBRA_DATABASE_UNAVAILABLE"
MOVED_ID = "PENUMBRA_DATABASE_MOVED"
FAILURES = (sqlite3.DatabaseError, OSError, Foreign)
"""Errors that may occur while the file is used."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
BUSY_AWAY_MILLISECONDS = 50
"""The greatest number of milliseconds that SQLite waits for another program's write when a failed file is
tried again."""
_BUSY_START = 5.0
_BUSY_PAUSE = 0.02
FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Greatest number of seconds between a failure and the next try."""
_log = logging.getLogger(__name__)


class DatabaseFile:
    """A `DatabaseFile` is the database in its file, or in memory while the file fails. All methods but `add`
    and `tables` run in the database's thread. Without a `path` all tables are in memory."""

    def __init__(self, path: Path | None, eviction: Eviction) -> None:
        self.path = path
        self._eviction = eviction
        self.failed = False
        """True while the file can't be used and new rows are in memory."""
        self.older: OlderRows | None = None
        """Rows of an earlier file, for keys without a row in the open connection, or None."""
        self.renewals = 0
        """The number of files that a new file has replaced."""
        self.open: sqlite3.Connection | None = None
        """The connection in use, to the file or to a database in memory; None without a connection."""
        self._tables: dict[str, Merge | None] = {}
        self._created: set[str] = set()
        self._file: sqlite3.Connection | None = None
        """The connection to a file that can't be written; otherwise None."""
        self._inode: tuple[int, int] | None = None
        self._tried, self._pause = 0.0, FIRST_PAUSE
        self._is_returning = False
        self._forgotten: set[str] = set()
        """Names of tables whose rows must be deleted from the failed file once it can be written."""
        self._moved = False

    def add(self, table: str, merge: Merge | None) -> None:
        """Add a table. `merge` combines the two records of a key that is in the file and in memory; if
        `merge` is None, the record in memory wins."""
        self._tables[table] = merge

    @property
    def tables(self) -> Collection[str]:
        return self._tables.keys()

    def look_after(self) -> None:
        """Begin a new file if the open file was removed, or use a failed file again if it can be written."""
        if self.failed:
            if time.monotonic() >= self._tried + self._pause:
                self._come_back()
        elif self.path is not None and self._inode is not None and self._inode != _inode(self.path):
            self._was_removed(self.path)

    def connected(self) -> sqlite3.Connection:
        """Return the connection with all tables, opened if necessary. Raises FAILURES."""
        if self.open is None:
            self.open = self._opened()
        if len(self._created) < len(self._tables):
            self._create(self.open)
        return self.open

    def was_replaced(self, error: Exception) -> bool:
        """Replace the file by a new file, or by memory, after a failure. Return False if memory was already
        in use."""
        if self.path is None or self.failed:
            return False
        if not unusable(error) or self._moved or not self._move_aside(self.path, error):
            self._go_away(error)
        return True

    def forget(self, names: Collection[str]) -> None:
        """Drop the rows of these tables in earlier files. While the file fails, also remember the tables,
        whose rows are deleted once the file can be written."""
        if self.failed:
            self._forgotten.update(names)
        kept = self.older.without(names) if self.older is not None else None
        self._drop_older()
        self.older = kept

    def end(self) -> None:
        """Try to write new rows to the file, and close the file."""
        if self.failed:
            self._come_back()
        self._close()

    def _opened(self) -> sqlite3.Connection:
        """Open the connection. If two processes make the file at the same time, one of them may lock the file
        while setting the journal mode. SQLite does not wait for this lock, so the opening is repeated."""
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
            return self._prepared(":memory:")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_private(self.path, os.O_CREAT | os.O_RDWR)
        make_private(descriptor)
        os.close(descriptor)
        connection = self._prepared(self.path)
        self._inode = _inode(self.path)
        return connection

    def _prepared(self, place: Path | str) -> sqlite3.Connection:
        return prepared(
            sqlite3.connect(place, check_same_thread=False), self._tables, self._eviction.max_bytes
        )

    def _create(self, connection: sqlite3.Connection) -> None:
        with connection:
            for name in (*self._tables,):
                # The table stores rows in the order of their writing, and only the index is in the order of
                # the random keys. Many new rows thus change few pages.
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {name} "
                    "(key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL)"
                )
                connection.execute(f"CREATE INDEX IF NOT EXISTS {name}_used ON {name} (used)")
                self._created.add(name)

    def _move_aside(self, path: Path, error: Exception) -> bool:
        """Move the file away and return whether a new file can be begun."""
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
        why = unusable(error)
        _log.warning(
            "%s: %s: %s; the file was renamed to %s, and a new file was begun", MOVED_ID, path, why, aside
        )
        if not isinstance(error, Foreign) or isinstance(error, Readable):
            with closing(sqlite3.connect(aside)) as file:
                self.older = OlderRows.copied(file)
        self.renewals += 1
        return True

    def _was_removed(self, path: Path) -> None:
        """Begin a new file, since the open file was removed. If another process has already made a new file,
        SQLite would delete the new file's log when this connection closes. Python 3.11 can't prevent that."""
        connection, self.open, self._inode = self.open, None, None
        self._created = set()
        self._drop_older()
        if connection is not None:
            self.older = OlderRows.copied(connection)
            if sys.version_info >= (3, 12):
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            connection.close()
        self.renewals += 1
        _log.warning("%s: %s: the file was removed, and a new file was begun", MOVED_ID, path)

    def _go_away(self, error: Exception) -> None:
        """Switch to memory. The file is tried again later, unless it can never be used."""
        self._file, self.open = self.open, None
        self._created = set()
        self.failed = True
        self._tried, self._pause = time.monotonic(), math.inf if unusable(error) else FIRST_PAUSE
        # If no new file could be made, the copy of the removed file is still used.
        if self._file is not None:
            self._drop_older()
            self.older = OlderRows(self._file)
        elif self.older is None and self.path is not None and not unusable(error):
            self.older = OlderRows.lying(self.path)
        _log.warning(
            "%s: %s: %s; new rows stay in memory until they can be written", WARNING_ID, self.path, error
        )

    def _come_back(self) -> None:
        memory, created = self.connected(), self._created
        self.failed, self.open, self._created = False, self._file, set()
        self._is_returning = True
        try:
            count = self._write_new(memory, created)
        except FAILURES:
            self._file, self.open, self._created = self.open, memory, created
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
        _log.warning(
            "%s: %s: the file can be written again, and %s delayed rows were written",
            WARNING_ID,
            self.path,
            f"{count:,}",
        )

    def _write_new(self, memory: sqlite3.Connection, created: Collection[str]) -> int:
        file = self.connected()
        file.execute(f"PRAGMA busy_timeout = {BUSY_AWAY_MILLISECONDS}")
        with file:
            for name in self._forgotten:
                file.execute(f"DELETE FROM {name}")
            count = carry_over(memory, file, {name: self._tables[name] for name in created})
        file.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}")
        return count

    def _drop_older(self) -> None:
        if self.older is not None:
            self.older.close()
        self.older = None

    def _close(self) -> None:
        self._drop_older()
        for connection in (self.open, self._file):
            if connection is not None:
                connection.close()
        self.open = self._file = self._inode = None
        self._created = set()


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
