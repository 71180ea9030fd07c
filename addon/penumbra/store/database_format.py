"""What makes an SQLite file ours: the marks in it, its tables' columns, and that it can be read.

What an earlier release wrote and this one can't read leaves it. A file that is damaged, or not ours, is left
as it is: whoever opens it is told.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from penumbra.store.eviction import COLUMNS, pragma, tables

VERSION = 2
"""Of the tables. Those of an earlier release that have other columns are dropped: what is in them is worth
a day at most."""
_SEALED = 1
"""The version from which on nothing in a file can be read without the key."""
APPLICATION = 0x50454E55
"""What a file of ours says in SQLite's `application_id`."""
BUSY_MILLISECONDS = 2_000
"""So long another program may write."""
_CHECKED_BYTES = 32_000_000
"""Files up to this size are read through at the start; of larger ones damage is found when it is met."""
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_LOG_BYTES = 4_000_000
_LOG_SHARE = 8
"""The write-ahead log is kept below one part in so many of the file's size."""


class Foreign(Exception):
    """The file is an SQLite database, and none of ours."""


class Readable(Foreign):
    """It is ours, damaged or a later release's: what can be read of it holds."""


def prepared(connection: sqlite3.Connection, names: Collection[str], max_bytes: int) -> sqlite3.Connection:
    """As it has to be, with what is in it looked at. Closed, where that raises: Foreign,
    sqlite3.DatabaseError.

    `names`: of the tables that a file without marks may have. `max_bytes`: of the file.
    """
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
        # Somebody else may be writing.
        if any(pragma(connection, name) != value for name, value in marks):
            with connection:
                for name, value in marks:
                    connection.execute(f"PRAGMA {name} = {value}")
    except BaseException:
        connection.close()
        raise
    return connection


def unusable(error: Exception) -> str:
    """Why the file can never be used; empty if it may be, another time."""
    if isinstance(error, Foreign):
        return str(error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return f"it is damaged ({error})" if code in _CORRUPT else ""


def _look(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Whose file it is, and whether it can be used. Raises Foreign, sqlite3.DatabaseError."""
    # In one view of the file: another first start may be making it.
    connection.execute("BEGIN")
    application, version = (pragma(connection, name) for name in ("application_id", "user_version"))
    there = tables(connection)
    connection.rollback()
    if application not in (0, APPLICATION) or (application == 0 and not there <= set(names)):
        raise Foreign("it is another program's")
    if version > VERSION:
        raise Readable("it is a later release's")
    if there and version < _SEALED:
        _empty(connection, there)
    elif version < VERSION:
        _drop_others(connection, there)
    if pragma(connection, "page_count") * pragma(connection, "page_size") <= _CHECKED_BYTES:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise Readable("it is damaged")


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
