"""Eviction from the database: expired rows, and the oldest rows beyond the size limit.

One owner for all tables. Beyond the size the oldest rows of all tables go first, and decisions last: the
first forwarded form of a result is final, and other rows can be made again. Eviction runs in steps, so that
no request waits for all of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

COLUMNS = ("key", "used", "record")
"""Columns of every table: a hash, the time of last use (seconds), and the sealed record."""
_STEP_ROWS = 500
_STEP_BYTES = 4_000_000
_STEP_PAGES = 1_000
_EXPIRY_SECONDS = 60
"""A table is looked through again when what was used so much later is nobody's any more. Nothing finds such a
row meanwhile, and a look costs what a write costs."""
_SPARE = 10
"""The file's size divided by this is freed at once, so that not every write has to."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long rows of a table stay."""

    begin: Callable[[], float]
    """The time of last use, in seconds, before which a row is expired."""
    leaves_last: bool = False
    """Beyond the size limit, rows of all other tables go first."""


class Eviction:
    """Belongs to the database's thread, except for `add`. `max_bytes`: of the file."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._lifetimes: dict[str, Lifetime] = {}
        self._expired: dict[str, int] = {}
        """Times up to which rows of each table were removed."""

    def add(self, table: str, lifetime: Lifetime) -> None:
        """Expire a table's rows from now on. Others leave only beyond the size limit."""
        self._lifetimes[table] = lifetime
        self._expired.pop(table, None)

    def run(self, connection: sqlite3.Connection, at_most: int | None = None) -> bool:
        """Let go what has to, in one step, within the transaction under way. Whether there is more.

        `at_most`: bytes that may stay, if less than usual.
        """
        more = [
            self._expire(connection, table, lifetime) for table, lifetime in tuple(self._lifetimes.items())
        ]
        most = self.max_bytes if at_most is None else min(self.max_bytes, at_most)
        return self._shrink(connection, most) or any(more)

    def _expire(self, connection: sqlite3.Connection, table: str, lifetime: Lifetime) -> bool:
        """Remove a step of expired rows, and return whether there are more."""
        begin, done = int(lifetime.begin()), self._expired.get(table)
        if done is not None and abs(begin - done) < _EXPIRY_SECONDS:
            return False
        rows = f"SELECT key FROM {table} WHERE used < ? ORDER BY used LIMIT {_STEP_ROWS}"
        gone = connection.execute(f"DELETE FROM {table} WHERE key IN ({rows})", (begin,)).rowcount
        if gone < _STEP_ROWS:
            self._expired[table] = begin
        return gone == _STEP_ROWS

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
        # Only what is beyond the size is given back: the rest of the free pages is written next. One page a
        # call: each is a row without columns, and before Python 3.12 the module steps to the first row only.
        for _ in range(min(pages - most, _STEP_PAGES)):
            connection.execute("PRAGMA incremental_vacuum(1)").fetchall()
        left = pragma(connection, "page_count")
        return left > most and (removed > 0 or left < pages)

    def _remove(self, connection: sqlite3.Connection, excess: int) -> int:
        """Delete the oldest rows of about `excess` bytes, and return their size."""
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
    """The number that SQLite gives under this name."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
