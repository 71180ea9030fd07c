"""Responses that went through us, remembered: the tool's name, and what the client did not see of them.

An answer is found again in a later request by the ids of its tool calls, or, where it has none or the
ids are not unique, by what it calls and says (white space apart), and always by the whole history in front
of it: who does not send that gets nothing back. Where the provider keeps the history, the answer's id
stands for it, and what stands behind that answer is remembered beside it, and what was called.
Signed reasoning is remembered with the hidden exchanges that the provider had seen before it.
"""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import zstandard

from penumbra.apis.base import Hidden, MadeCall, Visible
from penumbra.apis.parts import is_telling
from penumbra.conversation import prefix_hash
from penumbra.store.database import Database

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS answers
    (key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS answers_used ON answers (used)",
)
_KEY_BYTES = 16
_BATCH = 400
_TOUCH_SECONDS = 3_600
_PRUNE_EVERY = 500
_MEMORY_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one answer."""

    tool: str
    """The injected tool's name in the request that it answered; empty if it was not there."""
    text: str
    """Hash of the visible text."""
    behind: tuple[bytes, ...] = ()
    """Under a signature's key: those of the hidden exchanges that stood in front of that reasoning."""
    hidden: Hidden | None = None
    conversation: bytes = b""
    """The conversation that the answer was given in: what its references and originals are scoped by."""
    scope: bytes = b""
    """Who had asked."""
    history: bytes = prefix_hash.START
    """Under an answer's id: the chain behind that answer."""
    undecided: bool = False
    """The request had neither tools nor a past, and the answer no words: whether the injected tool is there
    is for the next request to say."""
    call: MadeCall | None = None
    """Under a call's key: the call."""


def text_hash(text: str) -> str:
    """What is compared of visible texts: clients trim and re-wrap, so white space does not count."""
    return hashlib.blake2b("".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def key(owner: bytes, visible: Visible, history: bytes = prefix_hash.START) -> bytes:
    """What an answer is found by. `history`: the chain in front of it."""
    digest = hashlib.blake2b(key=owner[:64], digest_size=_KEY_BYTES, person=b"penumbra answer")
    if visible.answer_id:
        parts = ["id", visible.answer_id]
    elif visible.calls and all(map(is_telling, visible.calls)):
        parts = ["calls", *visible.calls]
    elif visible.item:
        parts = ["item", visible.item]
    else:
        parts = ["text", text_hash(visible.text), *(visible.tokens or visible.calls)]
    for data in (history, *(part.encode("utf-8", "surrogatepass") for part in parts)):
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest()


def keys(owner: bytes, visible: Visible, history: bytes) -> list[bytes]:
    """All that an answer may be found by: clients may drop the ids of calls, and the words beside them.
    `visible.item`: the id by which a request may refer to it."""
    plain = replace(visible, item="")
    forms = [plain, visible, replace(plain, calls=())] if visible.tokens else [plain, visible]
    if visible.calls:
        forms += [replace(form, text="") for form in forms]
    return list(dict.fromkeys(key(owner, form, history) for form in forms))


def signature_key(owner: bytes, signature: str) -> bytes:
    """What reasoning is found by, whatever became of the words around it."""
    digest = hashlib.blake2b(key=owner[:64], digest_size=_KEY_BYTES, person=b"penumbra signed")
    digest.update(signature.encode("utf-8", "surrogatepass"))
    return digest.digest()


def orphan_key(scope: bytes, known_by: str) -> bytes:
    """What reasoning is found by that has lost the things that it led to; empty: any of the caller's."""
    digest = hashlib.blake2b(key=scope[:64], digest_size=_KEY_BYTES, person=b"penumbra orphan")
    digest.update(known_by.encode("utf-8", "surrogatepass"))
    return digest.digest()


def call_key(scope: bytes, call_id: str) -> bytes:
    """What a call is found by, whoever gives its result."""
    digest = hashlib.blake2b(key=scope[:64], digest_size=_KEY_BYTES, person=b"penumbra call")
    digest.update(call_id.encode("utf-8", "surrogatepass"))
    return digest.digest()


class Answers:
    """Known answers by key, in memory and in the database. `ttl`: seconds since the last use."""

    def __init__(self, database: Database, ttl: float, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._seal = database.seal("answers")
        self._ttl = ttl
        self._clock = clock
        self._memory: OrderedDict[bytes, tuple[Known, float, int]] = OrderedDict()
        self._bytes = 0
        self._writes = 0

    async def known(self, keys: Iterable[bytes]) -> dict[bytes, Known]:
        """What is known of these answers."""
        now = self._clock()
        found: dict[bytes, Known] = {}
        missing: list[bytes] = []
        stale: list[bytes] = []
        for one in dict.fromkeys(keys):
            if (entry := self._memory.get(one)) is None:
                missing.append(one)
                continue
            found[one] = entry[0]
            self._memory.move_to_end(one)
            if now - entry[1] > _TOUCH_SECONDS:
                stale.append(one)
        if missing:
            rows = await self._database.run(lambda connection: _select(connection, missing))
            for one, (used, record) in rows.items():
                if (known := _unpack(self._seal.open(one, record))) is None:
                    continue
                found[one] = known
                self._remember(one, found[one], now, len(record))
                if now - used > _TOUCH_SECONDS:
                    stale.append(one)
        if stale:
            await self._database.run(lambda connection: _touch(connection, stale, int(now)))
            for one in stale:
                if (entry := self._memory.get(one)) is not None:
                    self._memory[one] = (entry[0], now, entry[2])
        return found

    async def record(self, one: bytes, known: Known) -> None:
        """Keep an answer; returns when it is safe from a restart."""
        now = self._clock()
        record = self._seal.close(one, _pack(known))
        self._remember(one, known, now, len(record))
        prune = self._writes % _PRUNE_EVERY == 0
        self._writes += 1
        await self._database.run(lambda connection: self._write(connection, one, int(now), record, prune))

    def _write(
        self, connection: sqlite3.Connection, one: bytes, now: int, record: bytes, prune: bool
    ) -> None:
        connection.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (one, now, record))
        if prune:
            connection.execute("DELETE FROM answers WHERE used < ?", (int(now - self._ttl),))

    def _remember(self, one: bytes, known: Known, now: float, size: int) -> None:
        previous = self._memory.pop(one, None)
        self._bytes += size - (previous[2] if previous else 0)
        self._memory[one] = (known, now, size)
        while self._bytes > _MEMORY_BYTES and len(self._memory) > 1:
            _, (_, _, dropped) = self._memory.popitem(last=False)
            self._bytes -= dropped


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Known)


def _pack(known: Known) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(_ENCODER.encode(known))


def _unpack(record: bytes | None) -> Known | None:
    """None for what can't be read: another release may have written it."""
    if record is None:
        return None
    try:
        return _DECODER.decode(zstandard.ZstdDecompressor().decompress(record))
    except (msgspec.MsgspecError, zstandard.ZstdError):
        return None


def _select(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, tuple[int, bytes]]:
    found: dict[bytes, tuple[int, bytes]] = {}
    for start in range(0, len(keys), _BATCH):
        batch = keys[start : start + _BATCH]
        marks = ",".join("?" * len(batch))
        rows = connection.execute(f"SELECT key, used, record FROM answers WHERE key IN ({marks})", batch)
        found |= {one: (used, record) for one, used, record in rows}
    return found


def _touch(connection: sqlite3.Connection, keys: Sequence[bytes], now: int) -> None:
    connection.executemany("UPDATE answers SET used = ? WHERE key = ?", [(now, one) for one in keys])
