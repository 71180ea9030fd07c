"""Where the rows live now: in the file, or in memory while the file can't be opened or written.

What the file has is read from it meanwhile, one warning with a constant id says so, and once it can be
written, what is new is. A file that is damaged, or not ours, is moved aside and a new one begun; where one
was removed, too. What is asked for moves over to the new one. The file and its folder are the user's alone.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import sys
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from penumbra.store import older_rows
from penumbra.store.database_format import BUSY_MILLISECONDS, Foreign, Readable, prepared, unusable
from penumbra.store.eviction import Eviction
from penumbra.store.older_rows import Merge, OlderRows
from penumbra.store.private_file import make_private, open_private

WARNING_ID = "PENUMBRA_DATABASE_UNAVAILABLE"
MOVED_ID = "PENUMBRA_DATABASE_MOVED"
FAILURES = (sqlite3.DatabaseError, OSError, Foreign)
"""What use of the file may raise."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BUSY_AWAY_MILLISECONDS = 50
"""So long another program may write, where that was too long already."""
_BUSY_START = 5.0
_BUSY_PAUSE = 0.02
"""Seconds."""
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
"""Seconds from a failure until the file is tried again."""
_log = logging.getLogger(__name__)


class DatabaseFile:
    """Belongs to the database's thread, but for `add`. `path` None keeps everything in memory."""

    def __init__(self, path: Path | None, eviction: Eviction) -> None:
        """`eviction`: what keeps the file to its size."""
        self.path = path
        self._eviction = eviction
        self.failed = False
        """It can't be used now; what is new lives in memory."""
        self.older: OlderRows | None = None
        """Where to look for what is not there."""
        self.renewals = 0
        """How many have been removed or damaged, each with another one in its place."""
        self.open: sqlite3.Connection | None = None
        """What is worked on: the file, or memory."""
        self._tables: dict[str, Merge | None] = {}
        self._created: set[str] = set()
        self._file: sqlite3.Connection | None = None
        """While it can't be written."""
        self._inode: tuple[int, int] | None = None
        self._tried, self._pause = 0.0, _FIRST_PAUSE
        self._is_returning = False
        self._forgotten: set[str] = set()
        """Tables whose rows in the file nobody is to find again."""
        self._moved = False

    def add(self, table: str, merge: Merge | None) -> None:
        """Have a table. `merge`: what holds where the file and memory have a record each; None: memory's."""
        self._tables[table] = merge

    @property
    def tables(self) -> Collection[str]:
        """The names of those it has."""
        return self._tables.keys()

    def look_after(self) -> None:
        """Whether the file is still there, or is there again."""
        if self.failed:
            if time.monotonic() >= self._tried + self._pause:
                self._come_back()
        elif self.path is not None and self._inode is not None and self._inode != _inode(self.path):
            self._was_removed(self.path)

    def connected(self) -> sqlite3.Connection:
        """It with all tables, opened if it is not. Raises FAILURES."""
        if self.open is None:
            self.open = self._opened()
        if len(self._created) < len(self._tables):
            self._create(self.open)
        return self.open

    def was_replaced(self, error: Exception) -> bool:
        """Whether another one stands in for it, after a failure: a new file, or memory."""
        if self.path is None or self.failed:
            return False
        if not unusable(error) or self._moved or not self._move_aside(self.path, error):
            self._go_away(error)
        return True

    def forget(self, names: Collection[str]) -> None:
        """Nobody is to find rows of these tables again that lie elsewhere."""
        if self.failed:
            self._forgotten.update(names)
        self._drop_older()

    def end(self) -> None:
        """Close it, with what is new in it where that can be."""
        if self.failed:
            self._come_back()
        self._close()

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
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS {name} "
                    "(key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID"
                )
                connection.execute(f"CREATE INDEX IF NOT EXISTS {name}_used ON {name} (used)")
                self._created.add(name)

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
        why = unusable(error)
        _log.warning("%s: %s: %s; it is %s now, and a new one begins", MOVED_ID, path, why, aside)
        if not isinstance(error, Foreign) or isinstance(error, Readable):
            with closing(sqlite3.connect(aside)) as file:
                self.older = OlderRows.copied(file)
        self.renewals += 1
        return True

    def _was_removed(self, path: Path) -> None:
        """The file that is open has gone. There may be another one in its place, whose log SQLite would take
        along (with Python 3.11 it does)."""
        connection, self.open, self._inode = self.open, None, None
        self._created = set()
        self._drop_older()
        if connection is not None:
            self.older = OlderRows.copied(connection)
            if sys.version_info >= (3, 12):
                connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
            connection.close()
        self.renewals += 1
        _log.warning("%s: %s: it was removed; a new one begins", MOVED_ID, path)

    def _go_away(self, error: Exception) -> None:
        """Memory takes over. The file is tried again, unless it will never be of use."""
        self._file, self.open = self.open, None
        self._created = set()
        self.failed = True
        self._tried, self._pause = time.monotonic(), math.inf if unusable(error) else _FIRST_PAUSE
        # Of one that was removed, and no other came in its place, the copy goes on being read.
        if self._file is not None:
            self._drop_older()
            self.older = OlderRows(self._file)
        elif self.older is None and self.path is not None and not unusable(error):
            self.older = OlderRows.lying(self.path)
        _log.warning(
            "%s: %s: %s; what is new lives in memory until it can be written", WARNING_ID, self.path, error
        )

    def _come_back(self) -> None:
        """Write what is new into the file, if that can be done again."""
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
        _log.warning("%s: %s: it can be written again, and %s rows were", WARNING_ID, self.path, f"{count:,}")

    def _write_new(self, memory: sqlite3.Connection, created: Collection[str]) -> int:
        """Into the file. How many rows."""
        file = self.connected()
        file.execute(f"PRAGMA busy_timeout = {_BUSY_AWAY_MILLISECONDS}")
        with file:
            for name in self._forgotten:
                file.execute(f"DELETE FROM {name}")
            count = older_rows.carry_over(memory, file, {name: self._tables[name] for name in created})
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
    """Which file it is; None: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
