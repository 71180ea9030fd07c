"""What proxies with one store tell each other as they write it: for times in which it can't be asked.

Of a form that anybody makes again who has the request, it is told that it was decided; what can't be made
again is told whole, sealed as it lies in the store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
from cachetools import LRUCache
from redis import exceptions
from redis.asyncio import Redis
from redis.asyncio.client import PubSub

Rows = Sequence[tuple[bytes, bytes]]
"""Names and records; of some, only the name."""
_MEMORY_BYTES = 64_000_000
_ROW_BYTES = 200
_LONGEST_NAME = 100
"""Bytes; ours are shorter."""
_PAUSE = 1.0
QUIET_SECONDS = 10.0
"""A connection on which nothing was heard for so long is asked whether it still is one."""
_RETRACTED = b"-"
"""What a release has told in the place of a record that did not hold after all."""
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
                async with self._client.pubsub() as channel:
                    await channel.subscribe(self._channel)
                    await self._listen(channel)
            except (exceptions.RedisError, OSError, EOFError):
                await asyncio.sleep(_PAUSE * random.uniform(0.5, 1.0))

    async def _listen(self, channel: PubSub) -> None:
        """Raises what a connection does that has broken, and OSError for one that says nothing more: nobody
        tells whoever only listens."""
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
            # Another release's.
            return
