"""This module uses a Redis or Valkey that several proxies share. Commands that are issued at the same moment
share a round trip. While the store does not answer in time, values in memory are valid and writes are
delayed. The store is whole again when all delayed rows are written."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakMethod

from cachetools import LRUCache
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penumbra import errors
from penumbra.errors import one_line
from penumbra.store import outage
from penumbra.store.key_file import NONCE_BYTES, Seal, SharedPlace
from penumbra.store.keyed_values import KeyedValues, News, Schema
from penumbra.store.outage import Command, DelayedRows, Outage, Reach, Row, Rows, StoreNews

T = TypeVar("T")
V = TypeVar("V")
WARNING_ID = "PENUMBRA_STORE_UNAVAILABLE"
SECONDS = 0.05
_TICKS = 5
_SECONDS_A_BYTE = 1 / 50_000_000
_SECONDS_A_COMMAND = 0.000_25
_START_SECONDS = 2.0
_ROUND_TRIPS = 2
"""The greatest number of round trips at the same time. Further commands wait for the next round trip."""
_PREFIX = b"penumbra:"
_WRITTEN_AT_ONCE = 200
_PROBE = b"x" * 100
_PROBE_MILLISECONDS = 60_000
_KEY_MILLISECONDS = 30 * 86_400_000
_SECONDS_AFTERWARDS = 0.005
_GRACE = 0.15
"""After an outage, a store is not used for these seconds, so that each proxy can first take back its failed
writes."""
_LOOK_SECONDS = 0.25
"""The seconds within which the store must answer a try that a request waits for."""
_LONGEST_LOOK = 0.75
"""The greatest number of seconds that a request waits for a try to reach the store."""
_TAKE_BACK = """
for number, name in ipairs(KEYS) do
  local nonce, former = ARGV[2 * number], ARGV[2 * number + 1]
  if redis.call('GETRANGE', name, 0, #nonce - 1) == nonce then
    if former == '' then redis.call('DEL', name) else redis.call('SET', name, former, 'PX', ARGV[1]) end
  end
end
"""
"""A script that takes back records. Each record begins with its own random bytes, so that the script never
touches a record of another proxy."""
_FAILURES = (exceptions.RedisError, OSError, TimeoutError, EOFError)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoreFigures:
    round_trips: int = 0
    commands: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    failures: int = 0
    conflicts: int = 0
    """Number of decisions that another proxy had made first."""
    guessed_results: int = 0
    """Number of results that another proxy had sent in a form that could not be looked up. Each of these
    results may have changed a prefix that the provider had cached."""


@dataclass(slots=True, eq=False)
class _Batch:
    done: asyncio.Future[list[Any] | None]
    commands: list[Command] = field(default_factory=list)
    afterwards: list[Command] = field(default_factory=list)
    """Commands that are sent after a failure: on the same connection if no answer comes in time, otherwise on
    another one."""


class SharedStore:
    """A `SharedStore` has the connections, the delayed rows, and the state of the store, for one event
    loop."""

    def __init__(self, place: SharedPlace) -> None:
        self.place = place
        self.key = place.installation_key()
        """The key that replaces an installation's own key. All proxies thus make the same hashes."""
        self.figures = StoreFigures()
        self.outage = Outage()
        self.patience = SECONDS
        """Seconds within which the store must answer a small command."""
        self.filled: set[str] = set()
        """Names of tables that have rows, as far as this proxy knows."""
        self._names = place.derived("names")
        self._records = place.derived("records")
        self._where = _shown(place.url)
        self._client = Redis.from_url(
            place.url,
            protocol=2,
            socket_timeout=None,
            socket_connect_timeout=_START_SECONDS,
            retry=Retry(NoBackoff(), 1),
        )
        self.news = StoreNews(self._client, _PREFIX + b"news:" + place.derived("news")[:8])
        self._waiting: deque[_Batch] = deque()
        self._round_trips = 0
        self._delayed = DelayedRows()
        self.doubtful: set[bytes] = set()
        """Names of rows that other proxies may read, but whose values this proxy did not use."""
        self._wanted = asyncio.Event()
        self._trial: asyncio.Future[None] | None = None
        """The current try to reach the store; None if there is none."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._holders = 1
        self._returning: list[WeakMethod[Callable[[], None]]] = []

    # Life

    def share(self) -> None:
        """Count another user of the store. Each user calls `close`."""
        self._holders += 1

    def begin(self) -> None:
        """Check the store in the background and log problems."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._spawn(self._look())
            self._spawn(self.news.follow())

    def close(self) -> None:
        """Close the connections once all users have called this."""
        self._holders -= 1
        if self._holders:
            return
        self.outage.worsen(Reach.AWAY)
        for batch in self._waiting:
            batch.done.set_result(None)
        self._waiting.clear()
        for task in self._tasks:
            task.cancel()
        with suppress(RuntimeError):
            closing = asyncio.get_running_loop().create_task(self._client.aclose())
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_return(self, method: Callable[[], None]) -> None:
        """Call a method each time that the store is back and all delayed rows are written. Only a weak
        reference to the method's object is kept."""
        self._returning = [each for each in self._returning if each() is not None]
        self._returning.append(WeakMethod(method))

    # Reading and writing

    @property
    def is_whole(self) -> bool:
        """Return whether values that are put now are written."""
        return self.outage.reach is Reach.WHOLE

    @property
    def asking(self) -> int:
        """Return the number of round trips that are running or waiting."""
        return self._round_trips + len(self._waiting)

    @property
    def delayed(self) -> int:
        return len(self._delayed)

    def samples(self) -> dict[str, float]:
        """Return numbers by name for Prometheus. Names of counters end in `_total`."""
        return {
            "up": float(self.is_whole),
            "owed_rows": self.delayed,
            "outages_total": self.outage.count,
            "forgotten_rows_total": self._delayed.forgotten,
            **{f"{name}_total": value for name, value in asdict(self.figures).items()},
        }

    def seal(self, table: str) -> Seal:
        return Seal(self._records, table)

    def name(self, table: str, key: bytes) -> bytes:
        """Return the name under which the store has the value of `key`."""
        digest = hashlib.blake2b(key, key=self._names, digest_size=16, person=table.encode()[:16])
        return _PREFIX + table.encode() + b":" + digest.digest()

    async def read(self, names: Sequence[bytes], milliseconds: int) -> list[bytes | None] | None:
        """Read records and mark them as used. Return None if the store gave no answer."""
        return await self._ask([("GETEX", name, "PX", milliseconds) for name in names])

    async def use(self, names: Sequence[bytes], milliseconds: int) -> list[int] | None:
        """Mark records as used. Return 1 for each existing record, or None if the store gave no answer."""
        return await self._ask([("PEXPIRE", name, milliseconds) for name in names])

    async def write(
        self,
        *,
        put: Sequence[Row] = (),
        add: Sequence[Row] = (),
        news: Rows = (),
        former: Mapping[bytes, bytes] | None = None,
    ) -> list[bool] | None:
        """Write the rows of `put`, and those of `add` whose names have no row. Return one boolean for each
        row of `add`, true if the row was written.

        Return None if the store is not whole or the outcome is unknown. `news` is announced to the other
        proxies. With `former`, rows are valid only if the store confirms them. Unconfirmed rows are deleted,
        or replaced by their earlier records in `former`. The announcement is sent after the confirmation.
        """
        publish = [self.news.command(news)] if news else []
        if not self.is_whole:
            # A full store still passes announcements on.
            await self._ask(publish)
            return None
        commands = [*(row.add() for row in add), *(row.put() for row in put)]
        if former is None:
            replies = await self._ask([*commands, *publish])
        else:
            back = [*add, *(row for row in put if row.name in former)]
            replies = await self._ask(commands, [_taking_back(back, former)] if back else [])
            if replies is None and not self.is_whole:
                self.doubtful.update(row.name for row in back)
        if replies is None:
            return None
        added = [reply is not None for reply in replies[: len(add)]]
        self._delayed.note_written([*put, *(row for row, is_ours in zip(add, added, strict=True) if is_ours)])
        if former is not None and publish:
            # The rows are valid even if the announcement fails, so no request waits for it.
            self._spawn(self._ask(publish))
        return added

    async def look_again(self) -> bool:
        """Return whether the store can be read. A store that is away is tried now, unless it was tried
        recently. Callers use this method if a request depends on other proxies' decisions, or other proxies
        need a value."""
        if self.outage.reach is not Reach.AWAY:
            return True
        if self._trial is None:
            if self.outage.is_tried_out:
                return False
            self._trial = asyncio.get_running_loop().create_future()
            self._wanted.set()
        await asyncio.wait({self._trial}, timeout=_LONGEST_LOOK)
        return self.outage.reach is not Reach.AWAY

    def delay(self, rows: Sequence[Row], *, over: bool) -> None:
        """Delay rows, which are written before the store counts as whole again."""
        self._delayed.delay(rows, over=over)
        if self._delayed and self.is_whole:
            # The store failed after the write began, and is back already.
            self._fail(Reach.FULL, "a row was not written")

    # Commands

    async def _ask(self, commands: Sequence[Command], afterwards: Sequence[Command] = ()) -> list[Any] | None:
        """Return a reply for each command; None if a command failed or got no reply. In this case the
        commands of `afterwards` are sent, too."""
        if self.outage.reach is Reach.AWAY:
            return None
        if not commands:
            return []
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._waiting.append(_Batch(loop.create_future()))
            # All commands that are issued in this iteration of the event loop share the round trip.
            loop.call_soon(self._flush)
        batch = self._waiting[-1]
        start = len(batch.commands)
        batch.commands += commands
        batch.afterwards += afterwards
        replies = await asyncio.shield(batch.done)
        if replies is None:
            return None
        own = replies[start : start + len(commands)]
        if not any(isinstance(reply, Exception) for reply in own):
            return own
        await self._ask(afterwards)
        return None

    def _flush(self) -> None:
        while self._waiting and self._round_trips < _ROUND_TRIPS:
            batch = self._waiting.popleft()
            if self.outage.is_away:
                batch.done.set_result(None)
                continue
            self._round_trips += 1
            self._spawn(self._send(batch)).add_done_callback(partial(self._answer, batch))

    async def _send(self, batch: _Batch) -> list[Any] | None:
        try:
            return await self._replies(batch.commands, afterwards=batch.afterwards)
        except _FAILURES as error:
            self._fail(Reach.AWAY, outage.why(error))
            if batch.afterwards and not isinstance(error, TimeoutError):
                # The connection broke, perhaps after the store had received the commands.
                with suppress(*_FAILURES):
                    await self._replies(batch.afterwards)
        return None

    def _answer(self, batch: _Batch, sending: asyncio.Task[list[Any] | None]) -> None:
        """Pass the replies to the callers of `_ask`. There are no replies if the task was cancelled."""
        self._round_trips -= 1
        error = None if sending.cancelled() else sending.exception()
        if error is not None:
            _log.error("penumbra: a request to the shared store failed: %s", errors.place(error))
        if not batch.done.done():
            batch.done.set_result(None if sending.cancelled() or error else sending.result())
        self._flush()

    async def _replies(
        self, commands: Sequence[Command], seconds: float | None = None, afterwards: Sequence[Command] = ()
    ) -> list[Any]:
        seconds = self.patience if seconds is None else seconds
        sent = sum(len(part) for command in commands for part in command if isinstance(part, bytes))
        seconds += sent * _SECONDS_A_BYTE + len(commands) * _SECONDS_A_COMMAND
        started = time.perf_counter()
        pipe = self._client.pipeline(transaction=False)
        for command in commands:
            pipe.execute_command(*command)
        task: asyncio.Task[list[Any]] = asyncio.ensure_future(pipe.execute(raise_on_error=False))
        try:
            replies = await _within(seconds, task)
        except TimeoutError:
            await _send_afterwards(pipe.connection, afterwards)
            raise
        finally:
            task.cancel()
        figures = self.figures
        figures.round_trips += 1
        figures.commands += len(commands)
        figures.sent_bytes += sent
        figures.received_bytes += sum(len(reply) for reply in replies if isinstance(reply, bytes))
        figures.seconds += time.perf_counter() - started
        replies = [
            None if _is_absent(command, reply) else reply
            for command, reply in zip(commands, replies, strict=True)
        ]
        for error in (reply for reply in replies if isinstance(reply, Exception)):
            if not isinstance(error, exceptions.OutOfMemoryError):
                raise error
            self._fail(Reach.FULL, outage.why(error))
        return replies

    # Outages

    def _fail(self, reach: Reach, why: str) -> None:
        self.figures.failures += 1
        was_whole = self.is_whole
        if not self.outage.worsen(reach):
            return
        if reach is Reach.AWAY:
            self._delayed.delay_recent()
        _log.warning(
            "%s: penumbra_store %s: %s; known conversations continue from memory, and new results get "
            "forms that can be made again",
            WARNING_ID,
            self._where,
            why,
        )
        if was_whole:
            self._spawn(self._return())

    async def _return(self) -> None:
        """Try the store until it can be used and all delayed rows are written."""
        while not self.is_whole:
            self._wanted.clear()
            with suppress(TimeoutError):
                pause = self.outage.pause(hurries=bool(self.doubtful))
                await asyncio.wait_for(self._wanted.wait(), pause)
            trial = self._trial = self._trial or asyncio.get_running_loop().create_future()
            try:
                await self._try(_LOOK_SECONDS if self._wanted.is_set() else self.patience)
            finally:
                self._trial = None
                trial.set_result(None)
        self.doubtful.clear()
        for method in self._returning:
            if (call := method()) is not None:
                call()
        _log.warning("%s: penumbra_store %s: the store can be used again", WARNING_ID, self._where)

    async def _try(self, seconds: float) -> None:
        try:
            reach = await self._tried(seconds)
            if reach is Reach.WHOLE and self.outage.reach is Reach.AWAY:
                # Other proxies take back their failed writes in this time.
                await asyncio.sleep(_GRACE)
                reach = await self._tried(seconds)
            self.outage.improve(reach)
        except _FAILURES:
            self.outage.worsen(Reach.AWAY)

    async def _tried(self, seconds: float) -> Reach:
        """Try the store, write the delayed rows, and return a `Reach`. Raises `_FAILURES`."""
        await self._check(seconds)
        reply, *_ = await self._replies(self._probes, seconds)
        while not isinstance(reply, Exception) and self._delayed:
            written = self._delayed.first(_WRITTEN_AT_ONCE)
            replies = await self._replies([row.put() if over else row.add() for row, over in written])
            reply = next((one for one in replies if isinstance(one, Exception)), None)
            if reply is None:
                self._delayed.remove(written)
        return Reach.FULL if isinstance(reply, Exception) else Reach.WHOLE

    async def _look(self) -> None:
        """Check at the start whether the store answers and keeps its data."""
        try:
            facts = await self._check(_START_SECONDS)
            # A hash of the key is stored, so that a change of the key is logged once.
            fleet = self.place.derived("fleet")[:8]
            name, lasts = _PREFIX + b"key", ("PX", _KEY_MILLISECONDS)
            asked = [("GETEX", name, *lasts), ("SET", name, fleet, *lasts), *self._probes]
            before, *_ = await self._replies(asked, _START_SECONDS)
        except _FAILURES as error:
            self._fail(Reach.AWAY, outage.at_start(error, self.place.url))
            return
        for line in outage.warnings(facts, fleet, before if isinstance(before, bytes) else None):
            warning, _, rest = line.partition(": ")
            _log.warning("%s: penumbra_store %s: %s", warning, self._where, rest)

    async def _check(self, seconds: float) -> dict[str, str]:
        facts = outage.info(await self._replies(outage.INFO, seconds))
        outage.check(facts)
        return facts

    @property
    def _probes(self) -> list[Command]:
        """Return an example of each command for records and news. A Redis user must be allowed to use all."""
        name = _PREFIX + b"probe"
        return [
            ("SET", name, _PROBE, "PX", _PROBE_MILLISECONDS),
            ("GETEX", name, "PX", _PROBE_MILLISECONDS),
            ("PEXPIRE", name, _PROBE_MILLISECONDS),
            _taking_back([Row(name, bytes(NONCE_BYTES), _PROBE_MILLISECONDS)], {}),
            self.news.command([]),
        ]

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _within(seconds: float, task: asyncio.Task[T]) -> T:
    """Return the task's result. Raises TimeoutError after `seconds`. Time in which this process was busy with
    other work hardly counts."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    for _ in range(_TICKS):
        done, _pending = await asyncio.wait({task}, timeout=seconds / _TICKS)
        if done:
            return task.result()
    raise TimeoutError(f"no answer within {seconds * 1000:.0f} ms")


async def _send_afterwards(connection: Any, commands: Sequence[Command]) -> None:
    """Send commands on the connection that did not answer. If the store runs them at all, it runs them after
    the earlier commands."""
    if not commands or connection is None or not connection.is_connected:
        return
    sending = connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    with suppress(*_FAILURES):
        await asyncio.wait_for(sending, _SECONDS_AFTERWARDS)


def _taking_back(rows: Sequence[Row], former: Mapping[bytes, bytes]) -> Command:
    """Return the command that deletes or restores these records, unless another proxy has replaced them."""
    milliseconds = max((row.milliseconds for row in rows), default=0)
    pairs = ((row.record[:NONCE_BYTES], former.get(row.name, b"")) for row in rows)
    parts = (part for pair in pairs for part in pair)
    return "EVAL", _TAKE_BACK, len(rows), *(row.name for row in rows), milliseconds, *parts


def _is_absent(command: Command, reply: Any) -> bool:
    """Return whether the user may not call `INFO`, or a value has another Redis type, which is replaced."""
    is_other = isinstance(reply, exceptions.ResponseError) and str(reply).startswith("WRONGTYPE")
    return is_other or (command[0] == "INFO" and isinstance(reply, exceptions.NoPermissionError))


def _shown(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or parts.path
    return one_line(f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}")


_INLINE, _INLINE_BYTES = 20, 64_000
"""The greatest number of values, and of their bytes, that are packed or unpacked on the event loop."""
_MOST_DOUBTFUL = 10_000
_LEAST_PRUNED = 1_000
_EMPTY_SECONDS = 5.0
"""Seconds for which a table counts as empty after it was found empty."""


class SharedTable(KeyedValues[V]):
    """A `SharedTable` is a table that several proxies share. The shared store has all values, and memory has
    the values that this proxy used last. While the store can't be reached, values come from memory and from
    announcements, and new rows are written to the store later."""

    def __init__(
        self, store: SharedStore, schema: Schema[V], ttl: float, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(schema, store.seal(schema.name), ttl, clock)
        self._store = store
        self._milliseconds = int(ttl * 1000)
        self._marker = store.name("filled", schema.name.encode())
        self._marked = float("-inf")
        """Time in seconds at which the row that marks the table as filled was last written."""
        self._empty_until = 0.0
        self._doubtful: LRUCache[bytes, None] = LRUCache(_MOST_DOUBTFUL)
        """Keys of values that may have been written although the write failed. The valid values must replace
        them."""
        self.unwritten: set[bytes] = set()
        """Keys of values in memory that were not written at once, so that another proxy may write them first.
        Keys of values that are no longer in memory are removed later."""
        store.on_return(self.forget_unwritten)

    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """See `KeyedValues.get`. While the store can't be reached, memory and announcements are read."""
        now = self._clock()
        keys = list(dict.fromkeys(keys))
        memory = self._memory.find(keys)
        found = {key: entry.value for key, entry in memory.items()}
        stale = [key for key, entry in memory.items() if now - entry.used > self.refresh]
        asked = keys if latest else list({*stale, *(key for key in keys if key not in found)})
        records = await self._store.read([self._named(key) for key in asked], self._milliseconds)
        if records is None:
            announced = {key: self._announced(key) for key in asked if key not in found}
            return found | self._unpacked((key, record) for key, record in announced.items() if record)
        there = {key: record for key, record in zip(asked, records, strict=True) if record is not None}
        # A full store does not have the values that other proxies have announced.
        for key in asked:
            if key not in there and key not in found and (record := self._announced(key)):
                there[key] = record
        size = sum(map(len, there.values()))
        for key, value in (await _worked(len(there), size, lambda: self._unpacked(there.items()))).items():
            found[key] = value
            self._memory.put(key, value, now)
        return found

    async def put(self, values: Mapping[bytes, V], *, pause: float | None = None) -> None:
        """See `KeyedValues.put`. Values are written at once in any case, since other proxies may read them.
        Failed writes are repeated later."""
        if values:
            self.note(values)
            rows = await self._rows(values)
            put = [*rows, *self._mark()]
            news = self._news(values, rows)
            written = await self._store.write(put=put, news=news)
            if written is not None:
                self._store.filled.add(self._name)
            if written is None:
                self._late(values)
                self._store.delay(put, over=True)
                if news:
                    # Other proxies need the value, so the store is tried again: it may only have been late.
                    await self._store.look_again()

    async def add(self, values: Mapping[bytes, V]) -> None:
        if not values:
            return
        rows = await self._rows(values)
        names = [row.name for row in rows]
        written, _used = await asyncio.gather(
            self._store.write(add=rows), self._store.use(names, self._milliseconds)
        )
        if written is None:
            self._store.delay(rows, over=False)

    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """See `KeyedValues.settle`. Without `unasked`, values that can't be written are not kept."""
        if not values:
            return True
        first = [key for key in values if key not in over]
        rows = dict(zip(values, await self._rows(values), strict=True))
        former = {row.name: row.record for row in await self._rows_in_memory(over)}
        if not self._store.is_whole:
            if not unasked:
                return False
            self.note(values)
            self._late(values)
            doubtful = [key for key in values if key in over or key in self._doubtful]
            self._store.delay([*(rows[key] for key in doubtful), *self._mark()], over=True)
            self._store.delay([rows[key] for key in values if key not in doubtful], over=False)
            return True
        added = await self._store.write(
            add=[rows[key] for key in first],
            put=[*(rows[key] for key in values if key in over), *self._mark()],
            news=self._news(values, rows.values()),
            former=former,
        )
        if added is None:
            # Some of the rows may have been written, but their values will not be used. For these keys, the
            # values in memory are valid.
            self._doubtful.update(dict.fromkeys(values))
            self._store.delay(await self._rows_in_memory(values), over=True)
            return False
        self._store.filled.add(self._name)
        self.note({key: value for key, value in values.items() if key in over})
        self.note({key: values[key] for key, is_ours in zip(first, added, strict=True) if is_ours})
        others = [key for key, is_ours in zip(first, added, strict=True) if not is_ours]
        return not others or await self._give_way(others, values)

    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """See `KeyedValues.touch`. While the store can't be reached, all keys count as present."""
        used = await self._store.use([self._named(key) for key in keys], self._milliseconds)
        if used is None:
            return set(keys)
        return {key for key, there in zip(keys, used, strict=True) if there}

    def elsewhere(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        return frozenset(key for key in keys if key not in self._memory and self._announced(key) is not None)

    async def is_empty(self) -> bool:
        """See `KeyedValues.is_empty`. The answer can be some seconds old."""
        if self._name in self._store.filled:
            return False
        now = self._clock()
        if now >= self._empty_until:
            marked = await self._store.read([self._marker], self._milliseconds)
            if marked is None or marked[0] is not None:
                return False
            self._empty_until = now + _EMPTY_SECONDS
        return True

    async def _give_way(self, keys: Sequence[bytes], values: Mapping[bytes, V]) -> bool:
        """Replace values by those that other proxies wrote first. Return whether no value has changed."""
        self.forget(keys)
        there = await self.get(keys)
        if unreadable := {key: values[key] for key in keys if key not in there}:
            await self.put(unreadable)
        lost = [key for key in there if there[key] != values[key]]
        self._store.figures.conflicts += len(lost)
        return not lost

    async def _rows_in_memory(self, keys: Iterable[bytes]) -> list[Row]:
        return await self._rows(self.recent(keys))

    def _late(self, keys: Iterable[bytes]) -> None:
        """Remember keys whose values are in memory but not yet written."""
        self.unwritten.update(keys)
        if len(self.unwritten) > 2 * len(self._memory) + _LEAST_PRUNED:
            # A value that is not in memory is read from the store anyway, so its key is not needed here.
            self.unwritten = {key for key in self.unwritten if key in self._memory}

    def forget_unwritten(self) -> None:
        """Drop values that were not written at once. After an outage the values in the store are valid,
        whichever proxy wrote them."""
        self.forget(self.unwritten)
        self.unwritten.clear()
        self._doubtful.clear()

    def _announced(self, key: bytes) -> bytes | None:
        """Return the announced record of a key; None without a record or if this proxy has taken the record
        back."""
        return None if key in self._doubtful else self._store.news.record(self._named(key))

    def _news(self, values: Mapping[bytes, V], rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
        return [
            (row.name, row.record if news is News.VALUE else b"")
            for value, row in zip(values.values(), rows, strict=True)
            if (news := self._schema.news(value)) is not News.NOTHING
        ]

    def _mark(self) -> list[Row]:
        """Return the row by which other proxies know that the table is not empty; no row soon after its last
        write."""
        now = self._clock()
        if self._name in self._store.filled and now - self._marked < self.refresh:
            return []
        self._marked = now
        return [Row(self._marker, b"1", self._milliseconds)]

    def _named(self, key: bytes) -> bytes:
        return self._store.name(self._name, key)

    async def _rows(self, values: Mapping[bytes, V]) -> list[Row]:
        def rows() -> list[Row]:
            return [
                Row(self._named(key), self._packed(key, value), self._milliseconds)
                for key, value in values.items()
            ]

        return await _worked(len(values), sum(map(self._schema.weigh, values.values())), rows)


async def _worked(count: int, size: int, work: Callable[[], T]) -> T:
    """Run work on `count` values of about `size` bytes. Work on many or large values runs in a thread."""
    return work() if count <= _INLINE and size <= _INLINE_BYTES else await asyncio.to_thread(work)
