"""One Redis or Valkey that many proxies have in common.

What is asked for at the same moment goes out in one round trip. A store that does not answer in time is not
waited for: what memory has counts then, and what would have been written is owed, and written before anybody
asks the store again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit
from weakref import WeakMethod

from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penumbra.errors import one_line
from penumbra.store.outage import Outage, Reach
from penumbra.store.seal import NONCE_BYTES, Seal
from penumbra.store.store_key import SharedPlace
from penumbra.store.store_news import Rows, StoreNews

T = TypeVar("T")
WARNING_ID = "PENUMBRA_STORE_UNAVAILABLE"
EVICTION_ID = "PENUMBRA_STORE_EVICTS"
SECONDS = 0.05
"""A store that takes longer is slow."""
_TICKS = 5
_SECONDS_A_BYTE = 1 / 50_000_000
_SECONDS_A_COMMAND = 0.000_25
_START_SECONDS = 2.0
_LANES = 2
"""Round trips at once; what comes meanwhile is gathered for the next one."""
_PREFIX = b"penumbra:"
_MOST_OWED = 64_000_000
"""Bytes; beyond it the oldest are forgotten."""
_PAID_AT_ONCE = 200
_ROW_BYTES = 100
_SECONDS_BEHIND = 0.005
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
Command = tuple[Any, ...]


class Row(NamedTuple):
    """A record as it is written. `milliseconds`: how long it stays."""

    name: bytes
    record: bytes
    milliseconds: int

    def put(self) -> Command:
        """In the place of what is there."""
        return "SET", self.name, self.record, "PX", self.milliseconds

    def add(self) -> Command:
        """Where nothing is."""
        return (*self.put(), "NX")


@dataclass(slots=True)
class StoreFigures:
    """Counted since the start."""

    round_trips: int = 0
    commands: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0
    failures: int = 0
    conflicts: int = 0
    """Decisions that another proxy had made first."""
    forgotten: int = 0
    """Rows that were owed and are lost."""


@dataclass(slots=True, eq=False)
class _Batch:
    """What goes out together."""

    done: asyncio.Future[list[Any] | None]
    commands: list[Command] = field(default_factory=list)
    behind: list[Command] = field(default_factory=list)
    """What goes out behind them if no answer comes."""


class SharedStore:
    """State: connections, what is owed, and whether the store can be relied on. All on one event loop."""

    def __init__(self, place: SharedPlace) -> None:
        self.place = place
        self.key = place.installation_key()
        """In the place of an installation's own: all proxies hash alike."""
        self.figures = StoreFigures()
        self.outage = Outage()
        self.filled: set[str] = set()
        """Tables of which the store knows that they are not empty."""
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
        self._owed: OrderedDict[bytes, tuple[Row, bool]] = OrderedDict()
        self._owed_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._holders = 1
        self._returning: list[WeakMethod[Callable[[], None]]] = []

    # Life

    def share(self) -> None:
        """Somebody else uses it too, and will close it."""
        self._holders += 1

    def begin(self) -> None:
        """Say at the start what is wrong with it."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            self._spawn(self._look())
            self._spawn(self.news.follow())

    def close(self) -> None:
        """Nothing more is asked, once all who share it have closed it."""
        self._holders -= 1
        if self._holders:
            return
        for task in self._tasks:
            task.cancel()
        with suppress(RuntimeError):
            closing = asyncio.get_running_loop().create_task(self._client.aclose())
            closing.add_done_callback(lambda done: done.cancelled() or done.exception())

    def on_return(self, method: Callable[[], None]) -> None:
        """Call a method when the store is back, and all that was owed is written, for as long as its object
        is there: engines come and go, and their tables with them."""
        self._returning = [each for each in self._returning if each() is not None]
        self._returning.append(WeakMethod(method))

    # What it is to others

    @property
    def is_whole(self) -> bool:
        """Whether what is put now is written."""
        return self.outage.reach is Reach.WHOLE

    @property
    def owed(self) -> int:
        """Rows that wait to be written."""
        return len(self._owed)

    def samples(self) -> dict[str, float]:
        """Its figures by name, as Prometheus has them; counters end in `_total`."""
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
            "forgotten_rows_total": figures.forgotten,
        }

    def seal(self, table: str) -> Seal:
        """What the records of a table are sealed with."""
        return Seal(self._records, table)

    def name(self, table: str, key: bytes) -> bytes:
        """What a value is found by there. Keys are hashes that their callers' scopes are part of."""
        digest = hashlib.blake2b(key, key=self._names, digest_size=16, person=table.encode()[:16])
        return _PREFIX + table.encode() + b":" + digest.digest()

    async def read(self, names: Sequence[bytes], milliseconds: int) -> list[bytes | None] | None:
        """The records under these names, which are used by that; None: nobody knows."""
        return await self._ask([("GETEX", name, "PX", milliseconds) for name in names])

    async def use(self, names: Sequence[bytes], milliseconds: int) -> list[int] | None:
        """They are used, unread: 1 for each that there is; None: nobody knows."""
        return await self._ask([("PEXPIRE", name, milliseconds) for name in names])

    async def write(
        self,
        *,
        put: Sequence[Row] = (),
        add: Sequence[Row] = (),
        news: Rows = (),
        former: Mapping[bytes, bytes] | None = None,
    ) -> list[bool] | None:
        """Put rows in the place of those that are there, and add those that are not. Of the latter, whether.

        None: it could not be done, or nobody knows. `news`: what other proxies are told. `former`: it is to
        hold only if that is known; if not, it is taken back, and where rows were put, these records by name
        stand again.
        """
        publish = [self.news.command(news)] if news else []
        if not self.is_whole:
            # A full store still tells.
            await self._ask(publish)
            return None
        behind = []
        if former is not None and (back := [*add, *(row for row in put if row.name in former)]):
            behind = [_taking_back(back, former), self.news.retraction([name for name, _ in news])]
        replies = await self._ask(
            [*(row.add() for row in add), *(row.put() for row in put), *publish], behind
        )
        return None if replies is None else [reply is not None for reply in replies[: len(add)]]

    def owe(self, rows: Sequence[Row], *, over: bool) -> None:
        """Have them written before anybody asks the store again."""
        for row in rows:
            before, was_over = self._owed.pop(row.name, (None, False))
            if before is not None:
                self._owed_bytes -= _size(before)
            self._owed[row.name] = row, over or was_over
            self._owed_bytes += _size(row)
        while self._owed_bytes > _MOST_OWED:
            _, (row, _over) = self._owed.popitem(last=False)
            self._owed_bytes -= _size(row)
            self.figures.forgotten += 1
        if self._owed and self.is_whole:
            # It failed in between, and is back already.
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
            # What is asked for in this turn of the loop goes with it.
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
            self._fail(Reach.AWAY, _why(error))
        finally:
            self._lanes -= 1
            if not batch.done.done():
                batch.done.set_result(replies)
            self._flush()

    async def _replies(
        self, commands: Sequence[Command], seconds: float = SECONDS, behind: Sequence[Command] = ()
    ) -> list[Any]:
        """Raises what `_FAILURES` says."""
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
        replies = [None if _is_strange(reply) else reply for reply in replies]
        for error in (reply for reply in replies if isinstance(reply, Exception)):
            if not isinstance(error, exceptions.OutOfMemoryError):
                raise error
            self._fail(Reach.FULL, _why(error))
        return replies

    # Failing, and coming back

    def _fail(self, reach: Reach, why: str) -> None:
        self.figures.failures += 1
        was_whole = self.is_whole
        if not self.outage.worsen(reach):
            return
        _log.warning(
            "%s: %s: %s; known conversations go on from memory, and what is new gets forms that can be made "
            "again",
            WARNING_ID,
            self._where,
            why,
        )
        if was_whole:
            self._spawn(self._return())

    async def _return(self) -> None:
        """Try it again and again, until all that is owed is written."""
        while not self.is_whole:
            await asyncio.sleep(self.outage.pause())
            try:
                self.outage.improve(await self._tried())
            except _FAILURES:
                self.outage.worsen(Reach.AWAY)
        for method in self._returning:
            if (call := method()) is not None:
                call()
        _log.warning("%s: %s: it is back", WARNING_ID, self._where)

    async def _tried(self) -> Reach:
        """What the store does now. Raises what `_FAILURES` says."""
        probe: Command = ("SET", _PREFIX + b"probe", b"x" * _ROW_BYTES, "PX", 60_000)
        (reply,) = await self._replies([probe])
        while not isinstance(reply, Exception) and self._owed:
            paid = list(self._owed.values())[:_PAID_AT_ONCE]
            replies = await self._replies([row.put() if over else row.add() for row, over in paid])
            reply = next((one for one in replies if isinstance(one, Exception)), None)
            if reply is None:
                self._paid(paid)
        return Reach.FULL if isinstance(reply, Exception) else Reach.WHOLE

    def _paid(self, rows: Sequence[tuple[Row, bool]]) -> None:
        for row, over in rows:
            # A later one may have come in its place meanwhile.
            if self._owed.get(row.name) == (row, over):
                del self._owed[row.name]
                self._owed_bytes -= _size(row)

    async def _look(self) -> None:
        """At the start: whether it is there, and whether it keeps what it is given."""
        try:
            replies = await self._replies([("PING",), ("INFO", "memory")], _START_SECONDS)
        except _FAILURES as error:
            self._fail(Reach.AWAY, _why(error))
            return
        memory = replies[1] if isinstance(replies[1], dict) else _info(replies[1])
        policy = str(memory.get("maxmemory_policy", ""))
        if policy not in ("", "noeviction"):
            _log.warning(
                "%s: %s: maxmemory-policy is %s, needed: noeviction, since a decision that leaves changes "
                "what the provider has cached",
                EVICTION_ID,
                self._where,
                one_line(policy),
            )

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
    """Away with these very records, whatever else is there by then."""
    milliseconds = max((row.milliseconds for row in rows), default=0)
    pairs = ((row.record[:NONCE_BYTES], former.get(row.name, b"")) for row in rows)
    parts = (part for pair in pairs for part in pair)
    return "EVAL", _TAKE_BACK, len(rows), *(row.name for row in rows), milliseconds, *parts


def _is_strange(reply: Any) -> bool:
    return isinstance(reply, exceptions.ResponseError) and str(reply).startswith("WRONGTYPE")


def _size(row: Row) -> int:
    return len(row.record) + _ROW_BYTES


def _why(error: BaseException) -> str:
    return one_line(f"{type(error).__name__}: {error}")


def _shown(url: str) -> str:
    """An address without a password."""
    parts = urlsplit(url)
    host = parts.hostname or parts.path
    return one_line(f"{parts.scheme}://{host}:{parts.port}" if parts.port else f"{parts.scheme}://{host}")


def _info(reply: Any) -> dict[str, str]:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else str(reply)
    pairs = (line.partition(":") for line in text.split("\r\n"))
    return {name: value for name, _, value in pairs}
