"""Rows of a file that can't be written now, was removed or is damaged: looked at where no other has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Row = tuple[bytes, int, bytes]
"""Key, time of last use in seconds, record."""
Merge = Callable[[bytes, bytes, bytes], bytes]
"""Of a key, the record that was there and the one that comes behind it: what holds then."""
_BATCH = 400
"""Keys of one look-up."""


def find(
    connection: sqlite3.Connection, table: str, keys: Sequence[bytes], since: float, record: str = "record"
) -> Iterator[Row]:
    """The rows under these keys that were used since then. `record`: what of it; `''`: nothing."""
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        query = f"SELECT key, used, {record} FROM {table} WHERE used >= ? AND key IN ({marks})"
        yield from connection.execute(query, (since, *batch)).fetchall()


def write(connection: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Put rows in the place of those that were there."""
    connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?)", rows)


def carry_over(
    source: sqlite3.Connection, target: sqlite3.Connection, tables: Mapping[str, Merge | None]
) -> int:
    """Write all rows of one database into another one. How many."""
    count = 0
    for table, merge in tables.items():
        for key, used, record in source.execute(f"SELECT key, used, record FROM {table}"):
            there = list(find(target, table, [key], 0)) if merge is not None else []
            whole = merge(key, there[0][2], record) if merge is not None and there else record
            write(target, table, [(key, used, whole)])
            count += 1
    return count


class OlderRows:
    """They are only read. What can't be read is not there: nothing here raises."""

    def __init__(self, connection: sqlite3.Connection, *, is_copy: bool = False) -> None:
        """Of the file itself, for as long as it can't be written; or of a copy, which goes with them."""
        self._connection = connection
        self._is_copy = is_copy

    @classmethod
    def copied(cls, connection: sqlite3.Connection) -> OlderRows | None:
        """Those of a file that has to be let go of, in a private one that the system removes with its end."""
        copy = sqlite3.connect("", check_same_thread=False)
        try:
            connection.backup(copy)
        except sqlite3.DatabaseError:
            copy.close()
            return None
        return cls(copy, is_copy=True)

    @classmethod
    def lying(cls, path: Path) -> OlderRows | None:
        """Of a file that can't be opened to be written. Without room for what SQLite puts beside it, what is
        in its log is left out."""
        has_log = path.with_name(f"{path.name}-wal").exists()
        # What is read as never changing has no lock, which would keep it open for as long as the file is.
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

    def find(self, table: str, keys: Sequence[bytes], since: float) -> list[Row]:
        """See the function. A page that is damaged takes along its own rows, not all that were asked for."""
        try:
            return list(find(self._connection, table, keys, since))
        except sqlite3.DatabaseError:
            found: list[Row] = []
            for key in keys:
                with suppress(sqlite3.DatabaseError):
                    found += find(self._connection, table, [key], since)
            return found

    def read(self, work: Callable[[sqlite3.Connection], T], default: T) -> T:
        """What `work` reads there."""
        try:
            return work(self._connection)
        except sqlite3.DatabaseError:
            return default

    def close(self) -> None:
        if self._is_copy:
            self._connection.close()
