"""What proxies with one store tell each other as they write it: for times in which it can't be asked.

Of a form that anybody makes again who has the request, it is told that it was decided; what can't be made
again is told whole, sealed as it lies in the store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from cachetools import LRUCache
from redis import exceptions
from redis.asyncio import Redis

Rows = Sequence[tuple[bytes, bytes]]
"""Names and records; of some, only the name."""
_MEMORY_BYTES = 64_000_000
_ROW_BYTES = 200
_LONGEST_NAME = 100
"""Bytes; ours are shorter."""
_PAUSE = 1.0
_RETRACTED = b"-"
_DECODER = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
_encode = msgspec.msgpack.Encoder().encode


class StoreNews:
    """State: what was told last, by all proxies and this one."""

    def __init__(self, client: Redis, channel: bytes) -> None:
        self._client = client
        self._channel = channel
        self._rows: LRUCache[bytes, bytes] = LRUCache(_MEMORY_BYTES, lambda record: _ROW_BYTES + len(record))

    def command(self, rows: Rows) -> tuple[Any, ...]:
        """What tells others."""
        return "PUBLISH", self._channel, _encode(rows)

    def retraction(self, names: Iterable[bytes]) -> tuple[Any, ...]:
        """What tells others that it is not so."""
        return self.command([(name, _RETRACTED) for name in names])

    def note(self, rows: Rows) -> None:
        """Remember it here."""
        for name, record in rows:
            if record == _RETRACTED:
                self._rows.pop(name, None)
            elif len(name) <= _LONGEST_NAME and _ROW_BYTES + len(record) < _MEMORY_BYTES:
                self._rows[name] = record

    def record(self, name: bytes) -> bytes | None:
        """What was told under a name; empty: that there is something."""
        return self._rows.get(name)

    async def follow(self) -> None:
        """Hear what is told, for as long as there is a store."""
        while True:
            try:
                async with self._client.pubsub(ignore_subscribe_messages=True) as channel:
                    await channel.subscribe(self._channel)
                    async for message in channel.listen():
                        self._take(message["data"])
            except (exceptions.RedisError, OSError, EOFError):
                await asyncio.sleep(_PAUSE * random.uniform(0.5, 1.0))

    def _take(self, data: Any) -> None:
        try:
            self.note(_DECODER.decode(data))
        except msgspec.MsgspecError:
            # Another release's.
            return
