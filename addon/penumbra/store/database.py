"""This module has the SQLite database of this machine. The database has its own thread, and callers wait only
for a limited time.

The thread opens the file at the start, so that the event loop does not wait for a disk. While the file can't
be opened or written, the same tables live in memory (`database_file.py`). If the database hangs, the waiting
requests give up after a time. Later requests do without the database until it answers. Background writes that
follow each other quickly share a transaction.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from penumbra import errors
from penumbra.store.database_file import FAILURES, WARNING_ID, DatabaseFile, Eviction, Lifetime, Merge
from penumbra.store.key_file import Seal
from penumbra.store.keyed_values import SOON

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
_LONGEST_WRITE = 10.0
"""The greatest number of seconds that a caller waits for the disk. The first opening of the file and the
writes of other programs take less."""
_LONGEST_HANG = 60.0
"""The greatest number of seconds that a new decision waits for a disk that hangs. Clients wait longer for a
response."""
_AWAY_BYTES = 64_000_000
"""The greatest number of bytes of rows in memory while the file can't be used."""
MUCH_WAITING = 16_000_000
"""If more bytes than this wait to be written, no decisions are made that must be stored."""
MOST_WAITING = 64_000_000
"""If more bytes than this wait to be written, new rows are dropped."""
_log = logging.getLogger(__name__)


class DiskAway(Exception):
    """A `DiskAway` is raised if the disk does not answer. The result of the work is then unknown."""


class Database:
    """A `Database` runs pieces of work on one connection, one after the other. Without a `path` all tables
    are in memory. The oldest rows are deleted when the file is larger than `max_bytes`. `key` seals the
    records."""

    def __init__(self, path: Path | None, max_bytes: int, key: bytes = b"") -> None:
        self.path = path
        self.key = key
        self._eviction = Eviction(max_bytes)
        self.file = DatabaseFile(path, self._eviction)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penumbra-database")
        self._is_closing = False
        self._holders = 1
        self.filled: set[str] = set()
        """The names of the tables to which this process has written."""
        self.patience = _LONGEST_WRITE
        """The greatest number of seconds that a caller waits for the disk."""
        self.last_patience = _LONGEST_HANG
        """The greatest number of seconds that a request waits for a hanging disk if the request needs the
        database."""
        self.failures = 0
        """Number of look-ups that got no answer."""
        self.forgotten = 0
        """Number of rows that were dropped before they were written, because too many bytes waited."""
        self._overdue: Future[None] | None = None
        """Work that took too long, for which all later work waits; None if no work took too long."""
        self._asked: list[tuple[Work[Any], asyncio.Future[Any]]] = []
        """Work of this iteration of the event loop, with the futures of its results."""
        self._waiting: list[Work[object]] = []
        """Background writes that have not begun."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer that begins the waiting writes; None if no write waits."""
        self._is_hurried = False
        """True if some of the waiting writes can't wait for other writes."""
        self._writing: Future[None] | None = None
        """The latest background writes that have begun; None before the first."""
        self._added = self._done = 0
        """Two approximate numbers of bytes: of all background writes so far, and of the finished writes. Only
        the event loop changes the first number, and only the database's thread the second."""

    def share(self, max_bytes: int) -> None:
        """Count another user of this database and apply that user's size limit. Each user calls `close`. Both
        methods are called on the event loop."""
        self._holders += 1
        self._eviction.max_bytes = max_bytes
        # Another user does not have this user's values in memory.
        self._begin_waiting()

    def add(self, table: str, lifetime: Lifetime, merge: Merge | None = None) -> None:
        """Add a table, which is created at its first use. `merge` combines a record in the file with one in
        memory; without `merge`, the record in memory wins."""
        self._eviction.add(table, lifetime)
        self.file.add(table, merge)

    def seal(self, table: str) -> Seal:
        return Seal(self.key, table)

    async def run(self, work: Work[T]) -> T:
        """Run `work` and return its result. The changes are committed when `work` returns, and undone when
        `work` raises. All work of one iteration of the event loop shares a transaction. If one piece raises,
        each piece is run again in its own transaction. Raises DiskAway if the disk does not answer in time.
        While the disk hangs, DiskAway is raised at once."""
        if self.hangs:
            self.failures += 1
            raise DiskAway
        loop = asyncio.get_running_loop()
        asked: asyncio.Future[T] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._ask)
        self._asked.append((work, asked))
        return await asked

    def _ask(self) -> None:
        asked, self._asked = self._asked, []
        self._do(asked)

    def _do(self, asked: list[tuple[Work[Any], asyncio.Future[Any]]]) -> None:
        """Run work in one transaction. If that fails, run each piece in its own transaction, since the work
        may belong to several requests."""
        loop = asyncio.get_running_loop()
        try:
            doing = self.submit(lambda connection: [work(connection) for work, _ in asked])
        except RuntimeError as error:
            # The thread takes no work after the database is closed.
            doing = Future()
            doing.set_exception(error)
        # One timer for all work costs less than a time limit in each `run`.
        limit = loop.call_later(self.patience, self._give_up, asked, doing)

        def answer() -> None:
            limit.cancel()
            error = doing.exception()
            if error is not None and len(asked) > 1:
                for one in asked:
                    self._do([one])
                return
            for number, (_, waiting) in enumerate(asked):
                if not waiting.done() and error is None:
                    waiting.set_result(doing.result()[number])
                elif not waiting.done() and error is not None:
                    waiting.set_exception(error)

        def answered(_: Future[list[Any]]) -> None:
            with suppress(RuntimeError):
                # A closed event loop has no callers that wait.
                loop.call_soon_threadsafe(answer)

        doing.add_done_callback(answered)

    def _give_up(
        self, asked: Sequence[tuple[Work[Any], asyncio.Future[Any]]], doing: Future[list[Any]]
    ) -> None:
        """Raise DiskAway in the callers of `run` that the disk has not answered in time."""
        if doing.done():
            # The disk has answered while other work kept the event loop from this timer.
            return
        self._wait_no_longer(self._thread.submit(lambda: None))
        for _, waiting in asked:
            if not waiting.done():
                self.failures += 1
                waiting.set_exception(DiskAway())

    def submit(self, work: Work[T]) -> Future[T]:
        """Run `work` like `run`, without a time limit. Only the thread of the event loop may call this."""
        if self._is_hurried:
            self._begin_waiting()
        return self._thread.submit(self._run, work)

    def later(self, work: Work[object], size: int = 0, rows: int = 1, pause: float = SOON) -> None:
        """Queue work, which begins after at most `pause` seconds, and return at once. Work that is queued
        meanwhile shares its transaction. If `pause` is `SOON`, later calls of `run` and `submit` see the
        result, and `written` waits for it. `size` is the number of bytes and `rows` the number of rows that
        the work writes. The rows are dropped if too many bytes wait already."""
        if self._unwritten + size > MOST_WAITING:
            self.forgotten += rows
            return
        self._waiting.append(work)
        self._added += size
        pause = pause if self._holders == 1 else SOON
        self._is_hurried |= pause <= SOON
        loop = asyncio.get_running_loop()
        due = loop.time() + pause
        if self._timer is None or due < self._timer.when():
            self._stop_timer()
            self._timer = loop.call_at(due, self._begin_waiting)

    async def written(self) -> None:
        """Wait until all work that `later` queued with a pause of `SOON` is done, or until the disk takes too
        long."""
        writing = self._begin_waiting() if self._is_hurried else self._writing
        if writing is None or writing.done() or self.hangs:
            return
        # Unlike `await`, `wait` cancels nothing, so a cancelled caller does not disturb the others.
        _, waiting = await asyncio.wait([asyncio.wrap_future(writing)], timeout=self.patience)
        if waiting:
            self._wait_no_longer(writing)

    @property
    def is_whole(self) -> bool:
        """Return whether new decisions can be written: the disk answers, and few bytes wait."""
        return not self.hangs and self._unwritten <= MUCH_WAITING

    def samples(self) -> dict[str, float]:
        """Return numbers by name for Prometheus. Names of counters end in `_total`."""
        return {
            "up": float(not (self.hangs or self.file.failed)),
            "waiting_bytes": self._unwritten,
            "failures_total": self.failures,
            "forgotten_rows_total": self.forgotten,
        }

    @property
    def hangs(self) -> bool:
        """Return whether the disk does not answer. Only memory can then be asked."""
        return self._overdue is not None and not self._overdue.done()

    async def answers(self) -> bool:
        """Wait for the disk and return whether it answers again."""
        if self._overdue is not None:
            await asyncio.wait([asyncio.wrap_future(self._overdue)], timeout=self.last_patience)
        return not self.hangs

    def _wait_no_longer(self, overdue: Future[None]) -> None:
        """Make later work fail at once until the overdue work is done."""
        if self.hangs:
            return
        self._overdue = overdue
        _log.warning(
            "%s: %s: the disk does not answer; requests no longer wait for it", WARNING_ID, self.path
        )
        overdue.add_done_callback(self._answers)

    def _answers(self, overdue: Future[None]) -> None:
        lost = f"; {self.forgotten:,} rows were forgotten" if self.forgotten else ""
        _log.warning("%s: %s: the disk answers again%s", WARNING_ID, self.path, lost)

    def forget(self, kept: Collection[str]) -> None:
        """Delete the rows of all tables but those in `kept`. Deleted rows can't be recovered."""
        self.filled.intersection_update(kept)
        self._begin_waiting()
        self._thread.submit(self._forget, [name for name in self.file.tables if name not in kept])

    def begin(self) -> None:
        """Open the file and delete expired rows. Problems are thus logged at the start."""
        self._thread.submit(self._run, lambda connection: None)
        self._thread.submit(self._evict)

    def close(self) -> None:
        """Finish submitted work and close the file, once all users of the database have called this."""
        self._holders -= 1
        if self._holders:
            return
        self._is_closing = True
        self._begin_waiting()
        self._thread.submit(self.file.end)
        self._thread.shutdown(wait=True)

    @property
    def _unwritten(self) -> int:
        """Return the approximate bytes of all unfinished background writes."""
        return self._added - self._done

    def _begin_waiting(self) -> Future[None] | None:
        """Begin all waiting writes, and return the latest write that has begun; None if there is none."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._is_hurried = False
            self._stop_timer()
            self._writing = self._thread.submit(self._write, waiting, self._added)
        return self._writing

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget(self, names: list[str]) -> None:
        def delete(connection: sqlite3.Connection) -> None:
            for name in names:
                connection.execute(f"DELETE FROM {name}")

        self.file.forget(names)
        self._run(lambda connection: connection.execute("PRAGMA secure_delete = ON"))
        self._run(delete)
        # VACUUM fails while another process reads. `secure_delete` has already overwritten the rows.
        with suppress(sqlite3.DatabaseError):
            self.file.connected().execute("VACUUM")
            self.file.connected().execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _run(self, work: Work[T]) -> T:
        self.file.look_after()
        while True:
            try:
                return self._transact(self.file.connected(), work)
            except FAILURES as error:
                if not self.file.was_replaced(error):
                    raise

    def _write(self, works: Sequence[Work[object]], added: int) -> None:
        """Run background work and raise nothing. If one piece of work fails, the other pieces still run,
        unless the file fails. `added` is the number of bytes of all background work so far."""
        words = "penumbra: something could not be remembered"

        def all_of_it(connection: sqlite3.Connection) -> None:
            for work in works:
                with errors.contained(_log, words, raises=(sqlite3.DatabaseError, OSError)):
                    work(connection)

        with errors.contained(_log, words):
            self._run(all_of_it)
        self._done = added

    def _transact(self, connection: sqlite3.Connection, work: Work[T]) -> T:
        before = connection.total_changes
        with connection:
            result = work(connection)
            more = connection.total_changes != before and self._evicted(connection)
        if more:
            self._evict_later()
        return result

    def _evict(self) -> None:
        """Delete the next batch of old rows. Work that was queued earlier runs first."""
        if (connection := self.file.open) is None:
            return
        try:
            with connection:
                more = self._evicted(connection)
        except (sqlite3.DatabaseError, OSError):
            # The next piece of work meets the same error and handles it.
            return
        if more:
            self._evict_later()

    def _evicted(self, connection: sqlite3.Connection) -> bool:
        return self._eviction.run(connection, _AWAY_BYTES if self.file.failed else None)

    def _evict_later(self) -> None:
        if not self._is_closing:
            with suppress(RuntimeError):
                # The thread takes no work while the database is being closed.
                self._thread.submit(self._evict)
