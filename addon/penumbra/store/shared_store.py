"""A Redis or Valkey that several proxies share.

Commands of the same moment go out in one round trip. While the store does not answer in time, memory counts;
writes are delayed, and made before the store is asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakMethod

from cachetools import LRUCache
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penumbra.errors import one_line
from penumbra.store import outage
from penumbra.store.key_file import NONCE_BYTES, Seal, SharedPlace
from penumbra.store.keyed_values import KeyedValues, News, Schema
from penumbra.store.outage import Command, Outage, OwedRows, Reach, Row, Rows, StoreNews
from penumbra.store.table import UNREADABLE

T = TypeVar("T")
V = TypeVar("V")
WARNING_ID = "PENUMBRA_STORE_UNAVAILABLE"
SECONDS = 0.05
_TICKS = 5
_SECONDS_A_BYTE = 1 / 50_000_000
_SECONDS_A_COMMAND = 0.000_25
_START_SECONDS = 2.0
_LANES = 2
"""Concurrent round trips; commands that come meanwhile wait for the next one."""
_PREFIX = b"penumbra:"
_PAID_AT_ONCE = 200
_PROBE = b"x" * 100
_PROBE_MILLISECONDS = 60_000
_KEY_MILLISECONDS = 30 * 86_400_000
_SECONDS_BEHIND = 0.005
_GRACE = 0.15
"""Seconds for which a returned store is left to proxies with writes to take back."""
_LOOK_SECONDS = 0.25
"""Seconds that the store gets where a request can't go on well without an answer."""
_LONGEST_LOOK = 0.75
"""Seconds that such a request waits for the state of the store."""
_TAKE_BACK = """
for number, name in ipairs(KEYS) do
  local nonce, former = ARGV[2 * number], ARGV[2 * number + 1]
  if redis.call('GETRANGE', name, 0, #nonce - 1) == nonce then
    if former == '' then redis.call('DEL', name) else redis.call('SET', name, former, 'PX', ARGV[1]) end
  end
end
"""
"""Each record begins with random bytes of its own: another proxy's is never taken for it."""
_FAILURES = (exceptions.RedisError, OSError, TimeoutError, EOFError)
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoreFigures:
    """Counters since the start."""

    round_trips: int = 0
    commands: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0
    failures: int = 0
    conflicts: int = 0
    """Decisions that another proxy had made first."""
    guessed: int = 0
    """Results that another proxy had sent, and whose form could not be looked up: each may have broken a
    prefix."""


@dataclass(slots=True, eq=False)
class _Batch:
    """Commands of one round trip."""

    done: asyncio.Future[list[Any] | None]
    commands: list[Command] = field(default_factory=list)
    behind: list[Command] = field(default_factory=list)
    """Commands sent afterwards if no answer comes."""


class SharedStore:
    """State: connections, delayed rows, and whether the store is reliable. Belongs to one event loop."""

    def __init__(self, place: SharedPlace) -> None:
        self.place = place
        self.key = place.installation_key()
        """Replaces an installation's key, so that all proxies make the same hashes."""
        self.figures = StoreFigures()
        self.outage = Outage()
        self.patience = SECONDS
        """Seconds after which the store counts as slow."""
        self.filled: set[str] = set()
        """Tables that the store knows to be filled."""
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
        self._lanes = 0
        self._owed = OwedRows()
        self._doubtful: set[bytes] = set()
        """Names of rows that others may read although they were not sent."""
        self._wanted = asyncio.Event()
        self._trial: asyncio.Future[None] | None = None
        """The try under way."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._holders = 1
        self._returning: list[WeakMethod[Callable[[], None]]] = []

    # Life

    def share(self) -> None:
        """Count another user, which will call `close`."""
        self._holders += 1

    def begin(self) -> None:
        """Check the store and log problems."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._spawn(self._look())
            self._spawn(self.news.follow())

    def close(self) -> None:
        """Close the store once all users have closed it."""
        self._holders -= 1
        if self._holders:
            return
        for task in self._tasks:
            task.cancel()
        with suppress(RuntimeError):
            closing = asyncio.get_running_loop().create_task(self._client.aclose())
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_return(self, method: Callable[[], None]) -> None:
        """Call a method when the store is back and all delayed rows are written, as long as the method's
        object exists: engines come and go, and their tables with them."""
        self._returning = [each for each in self._returning if each() is not None]
        self._returning.append(WeakMethod(method))

    # Announcements to other proxies

    @property
    def is_whole(self) -> bool:
        """True if present puts are written."""
        return self.outage.reach is Reach.WHOLE

    @property
    def owed(self) -> int:
        """Rows that wait to be written."""
        return len(self._owed)

    def samples(self) -> dict[str, float]:
        """Figures by name, as Prometheus has them; counters end in `_total`."""
        figures = self.figures
        return {
            "up": float(self.is_whole),
            "owed_rows": self.owed,
            "round_trips_total": figures.round_trips,
            "commands_total": figures.commands,
            "sent_bytes_total": figures.bytes_sent,
            "received_bytes_total": figures.bytes_received,
            "seconds_total": figures.seconds,
            "failures_total": figures.failures,
            "outages_total": self.outage.count,
            "conflicts_total": figures.conflicts,
            "forgotten_rows_total": self._owed.forgotten,
            "guessed_results_total": figures.guessed,
        }

    def seal(self, table: str) -> Seal:
        return Seal(self._records, table)

    def name(self, table: str, key: bytes) -> bytes:
        """The store's key of a value. Keys are hashes that include their callers' scopes."""
        digest = hashlib.blake2b(key, key=self._names, digest_size=16, person=table.encode()[:16])
        return _PREFIX + table.encode() + b":" + digest.digest()

    async def read(self, names: Sequence[bytes], milliseconds: int) -> list[bytes | None] | None:
        """Read records and mark them as used; None: unknown."""
        return await self._ask([("GETEX", name, "PX", milliseconds) for name in names])

    async def use(self, names: Sequence[bytes], milliseconds: int) -> list[int] | None:
        """Mark records as used: 1 for each that exists; None: unknown."""
        return await self._ask([("PEXPIRE", name, milliseconds) for name in names])

    async def write(
        self,
        *,
        put: Sequence[Row] = (),
        add: Sequence[Row] = (),
        news: Rows = (),
        former: Mapping[bytes, bytes] | None = None,
    ) -> list[bool] | None:
        """Put rows in the place of those that are there, and add those that are not. The latter returns one
        boolean for each row.

        Returns None if the command failed, or its outcome is unknown. `news`: what other proxies are told.
        `former`: it is to hold only if that is known; if not, it is taken back, and where rows were put,
        these records by name stand again. Then others are told after it: none goes by what may not hold.
        """
        publish = [self.news.command(news)] if news else []
        if not self.is_whole:
            # A full store still tells.
            await self._ask(publish)
            return None
        commands = [*(row.add() for row in add), *(row.put() for row in put)]
        if former is None:
            replies = await self._ask([*commands, *publish])
        else:
            back = [*add, *(row for row in put if row.name in former)]
            replies = await self._ask(commands, [_taking_back(back, former)] if back else [])
            if replies is None and not self.is_whole:
                self._doubtful.update(row.name for row in back)
        if replies is None:
            return None
        added = [reply is not None for reply in replies[: len(add)]]
        self._owed.written([*put, *(row for row, is_ours in zip(add, added, strict=True) if is_ours)])
        if former is not None:
            # The row counts, whether other proxies hear of it or not.
            await self._ask(publish)
        return added

    async def look_again(self) -> bool:
        """True if the store can be read, tried now if it is away: for a request that can't tell what others
        have sent. A store that does not come back is tried seldom."""
        if self.outage.reach is not Reach.AWAY:
            return True
        if self._trial is None:
            if self.outage.is_tried_out:
                return False
            self._trial = asyncio.get_running_loop().create_future()
            self._wanted.set()
        await asyncio.wait({self._trial}, timeout=_LONGEST_LOOK)
        return self.outage.reach is not Reach.AWAY

    def owe(self, rows: Sequence[Row], *, over: bool) -> None:
        """Delay rows, to be written before the store is asked again."""
        self._owed.owe(rows, over=over)
        if self._owed and self.is_whole:
            # The store failed in between, and is back already.
            self._fail(Reach.FULL, "a row was not written")

    # Asking

    async def _ask(self, commands: Sequence[Command], behind: Sequence[Command] = ()) -> list[Any] | None:
        """A reply for each; None if there is none for one of them. Then the store is told what stands
        `behind`, if it was told the commands."""
        if self.outage.reach is Reach.AWAY:
            return None
        if not commands:
            return []
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._waiting.append(_Batch(loop.create_future()))
            # Keys that are asked for in this turn of the loop join this read.
            loop.call_soon(self._flush)
        batch = self._waiting[-1]
        start = len(batch.commands)
        batch.commands += commands
        batch.behind += behind
        replies = await asyncio.shield(batch.done)
        if replies is None:
            return None
        own = replies[start : start + len(commands)]
        if not any(isinstance(reply, Exception) for reply in own):
            return own
        await self._ask(behind)
        return None

    def _flush(self) -> None:
        while self._waiting and self._lanes < _LANES:
            self._lanes += 1
            self._spawn(self._send(self._waiting.popleft()))

    async def _send(self, batch: _Batch) -> None:
        replies = None
        try:
            replies = await self._replies(batch.commands, behind=batch.behind)
        except _FAILURES as error:
            self._fail(Reach.AWAY, outage.why(error))
            if batch.behind and not isinstance(error, TimeoutError):
                # The connection has broken, and may have done so after them.
                with suppress(*_FAILURES):
                    await self._replies(batch.behind)
        finally:
            self._lanes -= 1
            if not batch.done.done():
                batch.done.set_result(replies)
            self._flush()

    async def _replies(
        self, commands: Sequence[Command], seconds: float | None = None, behind: Sequence[Command] = ()
    ) -> list[Any]:
        """Raises `_FAILURES`."""
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
            await _send_behind(pipe.connection, behind)
            raise
        finally:
            task.cancel()
        figures = self.figures
        figures.round_trips += 1
        figures.commands += len(commands)
        figures.bytes_sent += sent
        figures.bytes_received += sum(len(reply) for reply in replies if isinstance(reply, bytes))
        figures.seconds += time.perf_counter() - started
        # Somebody else's value stands there, of a kind that is never ours: no record, and to be put anew.
        replies = [
            None if _is_strange(reply) or _is_untold(command, reply) else reply
            for command, reply in zip(commands, replies, strict=True)
        ]
        for error in (reply for reply in replies if isinstance(reply, Exception)):
            if not isinstance(error, exceptions.OutOfMemoryError):
                raise error
            self._fail(Reach.FULL, outage.why(error))
        return replies

    # Failing, and coming back

    def _fail(self, reach: Reach, why: str) -> None:
        self.figures.failures += 1
        was_whole = self.is_whole
        if not self.outage.worsen(reach):
            return
        if reach is Reach.AWAY:
            self._owed.owe_recent()
        _log.warning(
            "%s: penumbra_store %s: %s; known conversations go on from memory, and new results get "
            "forms that can be made again",
            WARNING_ID,
            self._where,
            why,
        )
        if was_whole:
            self._spawn(self._return())

    async def _return(self) -> None:
        """Try until all delayed rows are written."""
        while not self.is_whole:
            self._wanted.clear()
            with suppress(TimeoutError):
                pause = self.outage.pause(hurries=bool(self._doubtful))
                await asyncio.wait_for(self._wanted.wait(), pause)
            trial = self._trial = self._trial or asyncio.get_running_loop().create_future()
            try:
                await self._try(_LOOK_SECONDS if self._wanted.is_set() else self.patience)
            finally:
                self._trial = None
                trial.set_result(None)
        self._doubtful.clear()
        for method in self._returning:
            if (call := method()) is not None:
                call()
        _log.warning("%s: penumbra_store %s: it is back", WARNING_ID, self._where)

    async def _try(self, seconds: float) -> None:
        try:
            reach = await self._tried(seconds)
            if reach is Reach.WHOLE and self.outage.reach is Reach.AWAY:
                # A proxy that does not know whether a row of the store counts reads it first.
                await asyncio.sleep(_GRACE)
                reach = await self._tried(seconds)
            self.outage.improve(reach)
        except _FAILURES:
            self.outage.worsen(Reach.AWAY)

    async def _tried(self, seconds: float) -> Reach:
        """The store's present abilities. Raises `_FAILURES`."""
        await self._check(seconds)
        reply, *_ = await self._replies(self._probes, seconds)
        while not isinstance(reply, Exception) and self._owed:
            paid = self._owed.first(_PAID_AT_ONCE)
            replies = await self._replies([row.put() if over else row.add() for row, over in paid])
            reply = next((one for one in replies if isinstance(one, Exception)), None)
            if reply is None:
                self._owed.paid(paid)
        return Reach.FULL if isinstance(reply, Exception) else Reach.WHOLE

    async def _look(self) -> None:
        """At the start, check whether the store is there and keeps its data."""
        try:
            says = await self._check(_START_SECONDS)
            # The latest stays, so that each change of it is told once.
            fleet = self.place.derived("fleet")[:8]
            name, lasts = _PREFIX + b"key", ("PX", _KEY_MILLISECONDS)
            asked = [("GETEX", name, *lasts), ("SET", name, fleet, *lasts), *self._probes]
            before, *_ = await self._replies(asked, _START_SECONDS)
        except _FAILURES as error:
            self._fail(Reach.AWAY, outage.at_start(error, self.place.url))
            return
        for line in outage.warnings(says, fleet, before if isinstance(before, bytes) else None):
            warning, _, rest = line.partition(": ")
            _log.warning("%s: penumbra_store %s: %s", warning, self._where, rest)

    async def _check(self, seconds: float) -> dict[str, str]:
        """Check the store's `INFO`. Raises UnfitStore and `_FAILURES`."""
        says = outage.told(await self._replies(outage.INFO, seconds))
        outage.check(says)
        return says

    @property
    def _probes(self) -> list[Command]:
        """Each command in use: a user who lacks one of them has no store."""
        name = _PREFIX + b"probe"
        return [
            ("SET", name, _PROBE, "PX", _PROBE_MILLISECONDS),
            ("GETEX", name, "PX", _PROBE_MILLISECONDS),
            ("PEXPIRE", name, _PROBE_MILLISECONDS),
            _taking_back([Row(name, bytes(NONCE_BYTES), _PROBE_MILLISECONDS)], {}),
            self.news.command([]),
        ]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _within(seconds: float, task: asyncio.Task[T]) -> T:
    """Raises TimeoutError. Time in which this process did not come to look does not count."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    for _ in range(_TICKS):
        done, _pending = await asyncio.wait({task}, timeout=seconds / _TICKS)
        if done:
            return task.result()
    raise TimeoutError(f"no answer within {seconds * 1000:.0f} ms")


async def _send_behind(connection: Any, commands: Sequence[Command]) -> None:
    """On the connection that did not answer, which is closed then: what was sent on it before is done before
    them, whenever that is, and nothing is if that is not."""
    if not commands or connection is None or not connection.is_connected:
        return
    sending = connection.send_packed_command(connection.pack_commands(commands), check_health=False)
    with suppress(*_FAILURES):
        await asyncio.wait_for(sending, _SECONDS_BEHIND)


def _taking_back(rows: Sequence[Row], former: Mapping[bytes, bytes]) -> Command:
    """Commands that delete these very records, and no others."""
    milliseconds = max((row.milliseconds for row in rows), default=0)
    pairs = ((row.record[:NONCE_BYTES], former.get(row.name, b"")) for row in rows)
    parts = (part for pair in pairs for part in pair)
    return "EVAL", _TAKE_BACK, len(rows), *(row.name for row in rows), milliseconds, *parts


def _is_strange(reply: Any) -> bool:
    return isinstance(reply, exceptions.ResponseError) and str(reply).startswith("WRONGTYPE")


def _is_untold(command: Command, reply: Any) -> bool:
    """True if a user may not ask a store about itself."""
    return command[0] == "INFO" and isinstance(reply, exceptions.NoPermissionError)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or parts.path
    return one_line(f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}")


_INLINE = 20
"""Values that are packed or unpacked on the event loop at once."""
_MOST_DOUBTFUL = 10_000
_LEAST_PRUNED = 1_000
_EMPTY_SECONDS = 5.0
"""Seconds for which an empty table counts as empty."""


class SharedTable(KeyedValues[V]):
    """Values of one kind that many proxies have in common: in memory those that were used last here, all in
    the shared store. While the store is unreliable, only memory counts, and new rows are written to the store
    later."""

    def __init__(
        self, store: SharedStore, schema: Schema[V], ttl: float, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(schema, ttl, clock)
        self._store = store
        self._seal = store.seal(schema.name)
        self._milliseconds = int(ttl * 1000)
        self._marker = store.name("filled", schema.name.encode())
        self._marked = float("-inf")
        """Time of the last such write, in seconds."""
        self._empty_until = 0.0
        self._doubtful: LRUCache[bytes, None] = LRUCache(_MOST_DOUBTFUL)
        """Keys of values that may or may not be written; the valid ones must replace them."""
        self.unwritten: set[bytes] = set()
        """Keys of what is in memory and was not written at once: another proxy may be first. Keys evicted
        from memory leave this set too, in time."""
        store.on_return(self.forget_unwritten)

    async def get(self, keys: Iterable[bytes], *, latest: bool = False) -> dict[bytes, V]:
        """See `KeyedValues.get`. While the store can't be reached, what memory has."""
        now = self._clock()
        keys = list(dict.fromkeys(keys))
        memory = self._memory.find(keys)
        found = {key: entry.value for key, entry in memory.items()}
        stale = [key for key, entry in memory.items() if now - entry.used > self.refresh]
        asked = keys if latest else list({*stale, *(key for key in keys if key not in found)})
        records = await self._store.read([self._named(key) for key in asked], self._milliseconds)
        if records is None:
            told = {key: self._told(key) for key in asked if key not in found}
            return found | self._unpacked({key: record for key, record in told.items() if record})
        there = {key: record for key, record in zip(asked, records, strict=True) if record is not None}
        # A full store has not got what other proxies have told.
        for key in asked:
            if key not in there and key not in found and (record := self._told(key)):
                there[key] = record
        for key, value in (await self._worked(len(there), lambda: self._unpacked(there))).items():
            found[key] = value
            self._remember(key, value, now)
        return found

    async def put(self, values: Mapping[bytes, V], *, behind: bool = False) -> None:
        """See `KeyedValues.put`. Never delayed, since others may ask; failed writes are made later."""
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
                self._store.owe(put, over=True)
                if news:
                    # Others can't do without it: they find it if the store was late only.
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
            self._store.owe(rows, over=False)

    async def settle(
        self, values: Mapping[bytes, V], over: Collection[bytes] = (), *, unasked: bool = False
    ) -> bool:
        """See `KeyedValues.settle`. Values that can't be written are not kept."""
        if not values:
            return True
        first = [key for key in values if key not in over]
        rows = dict(zip(values, await self._rows(values), strict=True))
        former = {row.name: row.record for row in await self._held(over)}
        if not self._store.is_whole:
            if not unasked:
                return False
            self.note(values)
            self._late(values)
            doubtful = [key for key in values if key in over or key in self._doubtful]
            self._store.owe([*(rows[key] for key in doubtful), *self._mark()], over=True)
            self._store.owe([rows[key] for key in values if key not in doubtful], over=False)
            return True
        added = await self._store.write(
            add=[rows[key] for key in first],
            put=[*(rows[key] for key in values if key in over), *self._mark()],
            news=self._news(values, rows.values()),
            former=former,
        )
        if added is None:
            # The row may have been written, and won't be sent: the value in memory under a key counts.
            self._doubtful.update(dict.fromkeys(values))
            self._store.owe(await self._held(values), over=True)
            return False
        self._store.filled.add(self._name)
        self.note({key: value for key, value in values.items() if key in over})
        self.note({key: values[key] for key, is_ours in zip(first, added, strict=True) if is_ours})
        others = [key for key, is_ours in zip(first, added, strict=True) if not is_ours]
        return not others or await self._give_way(others, values)

    async def touch(self, keys: Sequence[bytes]) -> set[bytes]:
        """See `KeyedValues.touch`. While the store can't be reached, they count as there."""
        used = await self._store.use([self._named(key) for key in keys], self._milliseconds)
        if used is None:
            return set(keys)
        return {key for key, there in zip(keys, used, strict=True) if there}

    def elsewhere(self, keys: Iterable[bytes]) -> frozenset[bytes]:
        return frozenset(key for key in keys if key not in self._memory and self._told(key) is not None)

    def note(self, values: Mapping[bytes, V]) -> None:
        now = self._clock()
        for key, value in values.items():
            self._remember(key, value, now)

    async def is_empty(self) -> bool:
        """See `KeyedValues.is_empty`; true for some seconds after another proxy has put the first."""
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
        """Take another proxy's value if it was first, and return whether it is the same."""
        self.forget(keys)
        there = await self.get(keys)
        if unreadable := {key: values[key] for key in keys if key not in there}:
            await self.put(unreadable)
        lost = [key for key in there if there[key] != values[key]]
        self._store.figures.conflicts += len(lost)
        return not lost

    async def _held(self, keys: Iterable[bytes]) -> list[Row]:
        return await self._rows({key: entry.value for key, entry in self._memory.find(keys).items()})

    def _late(self, keys: Iterable[bytes]) -> None:
        """Keys in memory that are not written yet."""
        self.unwritten.update(keys)
        if len(self.unwritten) > 2 * len(self._memory) + _LEAST_PRUNED:
            # Missing rows are read from the store, whichever proxy put them.
            self.unwritten = {key for key in self.unwritten if key in self._memory}

    def forget_unwritten(self) -> None:
        """After an outage, keep the store's values, whichever proxy was first."""
        self.forget(self.unwritten)
        self.unwritten.clear()
        self._doubtful.clear()

    def _told(self, key: bytes) -> bytes | None:
        """Announcements about a key; our own too, which we took back."""
        return None if key in self._doubtful else self._store.news.record(self._named(key))

    def _news(self, values: Mapping[bytes, V], rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
        """The announcement for other proxies."""
        return [
            (row.name, row.record if news is News.VALUE else b"")
            for value, row in zip(values.values(), rows, strict=True)
            if (news := self._schema.news(value)) is not News.NOTHING
        ]

    def _mark(self) -> list[Row]:
        """Mark the table as filled for other proxies, where the mark is missing or old."""
        now = self._clock()
        if self._name in self._store.filled and now - self._marked < self.refresh:
            return []
        self._marked = now
        return [Row(self._marker, b"1", self._milliseconds)]

    def _named(self, key: bytes) -> bytes:
        return self._store.name(self._name, key)

    async def _rows(self, values: Mapping[bytes, V]) -> list[Row]:
        return await self._worked(len(values), lambda: self._packed(values))

    async def _worked(self, count: int, work: Callable[[], T]) -> T:
        """Run work on large texts, or on many values, outside of the event loop."""
        if count <= _INLINE and (self._schema.memory or not count):
            return work()
        return await asyncio.to_thread(work)

    def _packed(self, values: Mapping[bytes, V]) -> list[Row]:
        return [
            Row(self._named(key), self._seal.close(key, self._schema.pack(value)), self._milliseconds)
            for key, value in values.items()
        ]

    def _unpacked(self, records: Mapping[bytes, bytes]) -> dict[bytes, V]:
        values: dict[bytes, V] = {}
        for key, record in records.items():
            try:
                if (data := self._seal.open(key, record)) is not None:
                    values[key] = self._schema.unpack(data)
            except UNREADABLE:
                continue
        return values
