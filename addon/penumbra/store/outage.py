"""This module handles outages of the shared store. The module keeps rows that must be written later, checks
whether a store can be shared, and follows announcements of other proxies' writes."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import msgspec
from cachetools import LRUCache
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.backoff import EqualJitterBackoff

from penumbra.errors import one_line

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_BACKOFF = EqualJitterBackoff(_LONGEST_PAUSE, _FIRST_PAUSE)
_HURRIED = EqualJitterBackoff(2 * _FIRST_PAUSE, _FIRST_PAUSE)
_LONGEST_WAIT = 0.5
_HEARING = 1.5
"""The seconds in which a proxy reconnects and receives announcements again."""
_RECENT_SECONDS = 30.0


class Reach(Enum):
    """A `Reach` tells whether proxies can read and write a store."""

    WHOLE = "whole"
    FULL = "full"
    """The store can be read but not written."""
    AWAY = "away"


@dataclass(slots=True)
class Outage:
    """An `Outage` has the store's `Reach`, and the times of the latest outage."""

    clock: Callable[[], float] = time.monotonic
    reach: Reach = Reach.WHOLE
    count: int = 0
    """The number of outages. Failures during an outage are not counted again."""
    tries: int = 0
    """The number of tries since the store was whole, up to 10."""
    _began: float = 0.0
    _tried: float = 0.0
    _ended: float = field(default=float("-inf"))
    _length: float = 0.0

    @property
    def is_away(self) -> bool:
        return self.reach is Reach.AWAY

    def worsen(self, reach: Reach) -> bool:
        """Store the `reach` after a failure, and return whether the reach has become worse."""
        self._tried = self.clock()
        if self.reach is reach or self.reach is Reach.AWAY:
            return False
        if self.reach is Reach.WHOLE:
            self.count += 1
            self._began = self.clock()
        self.reach = reach
        return True

    def pause(self, *, hurries: bool = False) -> float:
        """Return the seconds to wait before the next try. With `hurries` the wait is short, since other
        proxies may read invalid rows meanwhile."""
        pause = (_HURRIED if hurries else _BACKOFF).compute(self.tries)
        self.tries = min(self.tries + 1, 10)
        return pause

    @property
    def is_tried_out(self) -> bool:
        """Return whether the last try to reach the store is so recent that requests start no new try. In a
        long outage, a try counts as recent for longer."""
        wait = min(_LONGEST_WAIT, (self.clock() - self._began) / 4)
        return self.clock() - self._tried < wait

    def improve(self, reach: Reach) -> None:
        """Store the `reach` that the latest try has found."""
        self.reach = reach
        self._tried = self.clock()
        if reach is Reach.WHOLE:
            self.tries = 0
            self._ended = self.clock()
            self._length = self._ended - self._began

    @property
    def is_settled(self) -> bool:
        """Return whether every proxy must have noticed that the store is whole. No proxy pauses longer than
        twice the outage."""
        pause = min(_LONGEST_PAUSE, 2 * self._length) + _HEARING
        return self.reach is Reach.WHOLE and self.clock() - self._ended > pause

    @property
    def is_recent(self) -> bool:
        """Return whether the store failed recently, so that other proxies may not have written yet."""
        return self.reach is not Reach.WHOLE or self.clock() - self._ended < _RECENT_SECONDS


_MOST_BYTES = 64_000_000
"""The greatest number of bytes of delayed rows. Beyond this limit, the oldest rows are dropped."""
_LOST_SECONDS = 10.0
"""A store that is killed, or replaced by a replica, may lose the writes of this number of seconds."""
_RECENT_BYTES = 8_000_000
_ROW_BYTES = 100
Command = tuple[Any, ...]


class Row(NamedTuple):
    """A `Row` is a record to be written, with the milliseconds until it expires."""

    name: bytes
    record: bytes
    milliseconds: int

    def put(self) -> Command:
        """Return the command that writes the row and replaces an existing row."""
        return "SET", self.name, self.record, "PX", self.milliseconds

    def add(self) -> Command:
        """Return the command that writes the row unless the store has a row of the same name."""
        return (*self.put(), "NX")

    def weigh(self) -> int:
        return len(self.record) + _ROW_BYTES


Delayed = tuple[Row, bool]
"""A delayed row, and whether the row may replace an existing row."""


@dataclass(slots=True)
class DelayedRows:
    """A `DelayedRows` keeps the rows that must be written later, by name, and the rows that were written
    last."""

    clock: Callable[[], float] = time.monotonic
    forgotten: int = 0
    """The number of delayed rows that were dropped."""
    _delayed: OrderedDict[bytes, Delayed] = field(default_factory=OrderedDict)
    _bytes: int = 0
    _recent: deque[tuple[float, Row]] = field(default_factory=deque)
    """The rows written last, with the time of writing."""
    _recent_bytes: int = 0

    def __len__(self) -> int:
        return len(self._delayed)

    def delay(self, rows: Iterable[Row], *, over: bool) -> None:
        """Delay rows that could not be written."""
        for row in rows:
            before, was_over = self._delayed.pop(row.name, (None, False))
            if before is not None:
                self._bytes -= before.weigh()
            self._delayed[row.name] = row, over or was_over
            self._bytes += row.weigh()
        while self._bytes > _MOST_BYTES:
            _, (row, _over) = self._delayed.popitem(last=False)
            self._bytes -= row.weigh()
            self.forgotten += 1

    def first(self, count: int) -> list[Delayed]:
        return [row for row, _ in zip(self._delayed.values(), range(count), strict=False)]

    def remove(self, rows: Sequence[Delayed]) -> None:
        for row, over in rows:
            # A later row of the same name may have been delayed meanwhile.
            if self._delayed.get(row.name) == (row, over):
                del self._delayed[row.name]
                self._bytes -= row.weigh()

    def note_written(self, rows: Iterable[Row]) -> None:
        now = self.clock()
        for row in rows:
            self._recent.append((now, row))
            self._recent_bytes += row.weigh()
        begun = now - _LOST_SECONDS
        while self._recent and (self._recent[0][0] < begun or self._recent_bytes > _RECENT_BYTES):
            self._recent_bytes -= self._recent.popleft()[1].weigh()

    def delay_recent(self) -> None:
        """After a failure, delay the rows that were written last, because the store may have lost them."""
        begun = self.clock() - _LOST_SECONDS
        rows = [row for when, row in self._recent if when >= begun and row.name not in self._delayed]
        self._recent.clear()
        self._recent_bytes = 0
        self.delay(rows, over=False)


EVICTION_ID = "PENUMBRA_STORE_EVICTS"
OTHER_KEY_ID = "PENUMBRA_STORE_OTHER_KEY"
INFO: tuple[tuple[str, str], ...] = (("INFO", "server"), ("INFO", "memory"))
_LEAST = (6, 2)
_MODES = {
    "cluster": "it is part of a cluster, needed: a Redis or Valkey alone",
    "sentinel": "it is a Sentinel, needed: the address of the Redis that it watches",
}
_ADVICE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("rediss", ("no answer within", "WRONG_VERSION_NUMBER"), "rediss:// speaks TLS: does that port?"),
    ("rediss", ("CERTIFICATE_VERIFY_FAILED",), "?ssl_ca_certs=FILE names a CA of your own"),
    (
        "rediss",
        ("CERTIFICATE_REQUIRED", "Connection reset"),
        "where it asks for a certificate, ?ssl_certfile=FILE&ssl_keyfile=FILE names one",
    ),
    (
        "redis",
        ("Connection lost", "Connection closed", "Connection reset"),
        "where it speaks TLS, the address begins with rediss://",
    ),
    ("", ("Protocol Error",), "no Redis answers there"),
    (
        "",
        ("AuthenticationError",),
        "needed: USER:PASSWORD@ before the host, or :PASSWORD@ for the default user",
    ),
    ("", ("out of range",), "needed: a database that is there after the last /, 0 always is"),
    ("", ("SELECT is not allowed in cluster", "MovedError", "ClusterDownError"), _MODES["cluster"]),
    ("", ("NoPermissionError",), "needed: the rights that docs/deploy.md names"),
    ("", ("ReadOnlyError",), "needed: the one that it is a replica of"),
)
"""Advice for the user, by the scheme of the address and by words of the error."""
_ARGUMENTS = ", with args beginning"
"""After these words, an error about an unknown command quotes the command's arguments, which are data."""


class UnfitStore(exceptions.RedisError):
    """An `UnfitStore` is raised for a store that can never be shared. The message says why."""


def info(replies: Sequence[Any]) -> dict[str, str]:
    """Return the values of the store's `INFO`; empty if this user may not call `INFO`."""
    facts: dict[str, str] = {}
    for reply in replies:
        if isinstance(reply, Mapping):
            facts.update((str(name), str(value)) for name, value in reply.items())
    return facts


def check(facts: Mapping[str, str]) -> None:
    """Check a store's `INFO`. Raises UnfitStore."""
    if lacking := _MODES.get(facts.get("redis_mode", "")):
        raise UnfitStore(lacking)
    version = facts.get("redis_version", "")
    parts = version.split(".")[:2]
    if all(part.isdecimal() for part in parts) and tuple(map(int, parts)) < _LEAST:
        raise UnfitStore(f"it is Redis {one_line(version)}, needed: 6.2 or later, or Valkey")


def warnings(facts: Mapping[str, str], key: bytes, latest_key: bytes | None) -> list[str]:
    """Return warnings for the operator. `key` identifies this proxy's key, and `latest_key` the key of the
    proxy that started last."""
    lines = []
    policy = facts.get("maxmemory_policy", "")
    if policy not in ("", "noeviction"):
        lines.append(
            f"{EVICTION_ID}: maxmemory-policy is {one_line(policy)}, needed: noeviction, since an "
            f"evicted decision changes a cached prefix"
        )
    if latest_key not in (None, key):
        lines.append(
            f"{OTHER_KEY_ID}: a proxy with another penumbra_store_key uses this store: proxies with "
            f"different keys share nothing, and send each other's conversations anew"
        )
    return lines


def at_start(error: BaseException, url: str) -> str:
    """Return why the store can't be used, and a likely correction."""
    reason, scheme = why(error), url.partition(":")[0].lower()
    advice = (
        tip for of, words, tip in _ADVICE if of in ("", scheme) and any(each in reason for each in words)
    )
    return "; ".join((reason, *itertools.islice(advice, 1)))


def why(error: BaseException) -> str:
    """Return the text of an error on one line. Data that a command contained is left out."""
    reason = str(error).partition(_ARGUMENTS)[0]
    return one_line(reason if isinstance(error, UnfitStore) else f"{type(error).__name__}: {reason}")


Rows = Sequence[tuple[bytes, bytes]]
"""Names and records. An empty record announces only that the row exists."""
_MEMORY_BYTES = 64_000_000
_NEWS_ROW_BYTES = 200
_LONGEST_NAME = 100
"""The greatest number of bytes of a name. Penumbra's own names are shorter."""
_BETWEEN_CONNECTIONS = EqualJitterBackoff(1.0, 1.0)
QUIET_SECONDS = 10.0
"""Seconds without announcements after which a connection is tested."""
_RETRACTED = b"-"
"""Record by which an earlier release took back an announcement."""
_DECODER = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
_encode = msgspec.msgpack.Encoder().encode


class StoreNews:
    """A `StoreNews` sends announcements and keeps the recent announcements of all proxies."""

    def __init__(self, client: Redis, channel: bytes) -> None:
        self._client = client
        self._channel = channel
        self._rows: LRUCache[bytes, bytes] = LRUCache(
            _MEMORY_BYTES, lambda record: _NEWS_ROW_BYTES + len(record)
        )

    def command(self, rows: Rows) -> tuple[Any, ...]:
        return "PUBLISH", self._channel, _encode(rows)

    def note(self, rows: Rows) -> None:
        for name, record in rows:
            if record == _RETRACTED:
                self._rows.pop(name, None)
            elif len(name) <= _LONGEST_NAME and _NEWS_ROW_BYTES + len(record) < _MEMORY_BYTES:
                self._rows[name] = record

    def record(self, name: bytes) -> bytes | None:
        """Return the announced record of a name; empty if only the name was announced; None without an
        announcement."""
        return self._rows.get(name)

    async def follow(self) -> None:
        """Listen for announcements, and connect again after each failure."""
        while True:
            try:
                async with self._client.pubsub() as channel:
                    await channel.subscribe(self._channel)
                    await self._listen(channel)
            except (exceptions.RedisError, OSError, EOFError):
                await asyncio.sleep(_BETWEEN_CONNECTIONS.compute(0))

    async def _listen(self, channel: PubSub) -> None:
        """Listen on one connection. Raises the error of a broken connection. Raises OSError if a silent
        connection does not answer a ping, since a listener can't detect a lost peer otherwise."""
        is_asked = False
        while True:
            message = await channel.get_message(timeout=QUIET_SECONDS)
            if message is not None:
                is_asked = False
                if message["type"] == "message":
                    self._take(message["data"])
            elif is_asked:
                raise OSError("nothing is heard")
            else:
                is_asked = True
                await channel.ping()

    def _take(self, data: Any) -> None:
        try:
            self.note(_DECODER.decode(data))
        except msgspec.MsgspecError:
            # Another release sent the announcement, in a format that this release does not know.
            return
