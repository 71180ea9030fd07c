"""One SQLite file, one thread that uses it, and what happens when the disk fails.

The file is opened by the first piece of work, in the database's own thread, so the event loop never
waits for a disk. When it can't be opened or written, the same tables live in memory from then on,
and one warning with a constant id says so. The file and its folder are the user's alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

WARNING_ID = "PENUMBRA_DATABASE_UNAVAILABLE"
_BUSY_MILLISECONDS = 5_000
_log = logging.getLogger(__name__)


class Database:
    """Runs pieces of work on one connection, one after the other, each in a transaction of its own.

    `path` None keeps everything in memory. `schema` are statements that create what is missing.
    """

    def __init__(self, path: Path | None, schema: Sequence[str]) -> None:
        self.path = path
        self._schema = tuple(schema)
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-database")
        self.failed = False
        """The file was given up; everything lives in memory."""

    async def run(self, work: Work[T]) -> T:
        """What `work` returns; its changes are committed when it returns, undone when it raises."""
        return await asyncio.wrap_future(self.submit(work))

    def submit(self, work: Work[T]) -> Future[T]:
        """Like `run`, for callers outside of the event loop."""
        return self._thread.submit(self._run, work)

    def close(self) -> None:
        """Finish what was submitted, then close the file."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=True)

    def _run(self, work: Work[T]) -> T:
        try:
            return self._transact(self._connected(), work)
        except (sqlite3.DatabaseError, OSError) as error:
            if self.path is None or self.failed:
                raise
            self._give_up(error)
            return self._transact(self._connected(), work)

    @staticmethod
    def _transact(connection: sqlite3.Connection, work: Work[T]) -> T:
        with connection:
            return work(connection)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        if self.path is None or self.failed:
            connection = sqlite3.connect(":memory:", check_same_thread=False)
        else:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self.path.chmod(0o600)
            connection = sqlite3.connect(self.path, check_same_thread=False)
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MILLISECONDS}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                for statement in self._schema:
                    connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_up(self, error: Exception) -> None:
        self.failed = True
        self._close()
        _log.warning(
            "%s: %s: %s; decisions live in memory until the next start", WARNING_ID, self.path, error
        )

    def _close(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()


def size_in_bytes(connection: sqlite3.Connection) -> int:
    """Bytes in use: pages of the file without the free ones."""
    pages, free, page_size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * page_size)


def installation_key(path: Path | None) -> bytes:
    """32 random bytes that belong to this installation, made at the first call; mode 0600.

    Without a path, or where the file can't be had, they are this process's own: what was decided
    and shown in an earlier process is then not recognised.
    """
    if path is None:
        return secrets.token_bytes(32)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _read_or_create(path)
    except OSError as error:
        _log.warning("%s: %s: %s; keys are made anew at every start", WARNING_ID, path, error)
        return secrets.token_bytes(32)


def _read_or_create(path: Path) -> bytes:
    # Written aside and linked into place, so that of two first starts both read the same key.
    if not path.exists():
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(32))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    key = path.read_bytes()
    if len(key) != 32:
        raise OSError("not a key of 32 bytes")
    return key
