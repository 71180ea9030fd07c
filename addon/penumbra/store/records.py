"""This module has the tables of original texts, tool calls, restored values, and texts of external
compressors."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import msgspec
from cachetools import TTLCache

from penumbra.apis.base import MadeCall
from penumbra.apis.parts import is_telling
from penumbra.errors import RedactionError
from penumbra.linear import utf8
from penumbra.store.keyed_values import KeyedValues, Schema
from penumbra.store.table import compress, decompress, pack_text, unpack_text

ORIGINALS = Schema("originals", pack_text, unpack_text, weigh=len)
CARRIED = Schema("carried_originals", pack_text, unpack_text, weigh=len)
_RENEWED = 16_384


class Originals:
    """An `Originals` stores the original texts by scope and reference. `carried` is the table of originals
    that clients send again. If `carried` is None, `table` also has these."""

    def __init__(self, table: KeyedValues[str], carried: KeyedValues[str] | None = None) -> None:
        self._table = table
        self._carried = carried or table
        refresh = min(self._table.refresh, self._carried.refresh)
        self._renewed: TTLCache[bytes, None] = TTLCache(_RENEWED, refresh, time.monotonic)

    async def put(self, scope: bytes, texts: Mapping[str, str], *, carried: bool = False) -> None:
        """Store texts. A text that is already stored counts as used."""
        table = self._carried if carried else self._table
        await table.add({_key(scope, ref): text for ref, text in texts.items()})

    async def renew(self, scope: bytes, refs: Collection[str]) -> set[str]:
        """Mark the originals of these references as used. Return the references without a stored original."""
        keys = {_key_again(scope, ref): ref for ref in refs}
        due = [key for key in keys if key not in self._renewed]
        touched = [*due, *(_key_again(scope, key_of_before(keys[key])) for key in due)]
        there = await self._table.touch(touched)
        if self._carried is not self._table:
            there |= await self._carried.touch(touched)
        self._renewed.update(dict.fromkeys(there.intersection(due)))
        return {keys[key] for key in due if key not in there}

    async def get(self, scope: bytes, ref: str) -> str | None:
        """Return a text and mark it as used; None if it is absent or expired."""
        key = _key(scope, ref)
        text = (await self._table.get([key])).get(key)
        if text is None and (found := await self._carried.get([key])):
            # The original is in the table of originals that the client sends again. The model asks for the
            # original now, so the other table also stores the original.
            await self._table.add(found)
            text = found[key]
        return text


def key_of_before(ref: str) -> str:
    """Return the reference under which a number is stored. If the original of `ref` is a part of a file, the
    number counts the file's lines before the part."""
    return f"{ref} before"


def _key(scope: bytes, ref: str) -> bytes:
    """Return the key of a text. The key is a hash, since references occur in conversations, which are
    private."""
    return hashlib.blake2b(ref.encode("utf-8", "replace"), key=scope[:64], digest_size=16).digest()


_key_again = lru_cache(maxsize=_RENEWED)(_key)
"""`_key` with a cache, for the references that later requests repeat. A reference from a model may be a long
text and is not cached."""
_MEMORY_CHARACTERS = 8_000_000
_ENTRY_CHARACTERS = 500
_LONGEST_ARGUMENTS = 64_000
"""The greatest number of characters of stored arguments. For a call with longer arguments, only the name is
stored."""
Clean = Callable[[str], Awaitable[str]]
"""A function that returns a text without its secrets, or raises RedactionError."""


class ToolCallCache:
    """A `ToolCallCache` stores the tool calls of past responses, by scope and id."""

    def __init__(self, table: KeyedValues[MadeCall], clean: Clean) -> None:
        self._table = table
        self._clean = clean

    async def record(self, scope: bytes, calls: Sequence[MadeCall]) -> None:
        """Store the calls of one response, except those whose ids are not unique."""
        await self._table.put(
            {
                _call_key(scope, call.id): replace(call, arguments=await self._arguments(call))
                for call in calls
                if is_telling(call.id)
            }
        )

    async def of_ids(self, scope: bytes, ids: Iterable[str]) -> dict[str, MadeCall]:
        keys = {_call_key(scope, call_id): call_id for call_id in ids if is_telling(call_id)}
        return {keys[key]: call for key, call in (await self._table.get(keys)).items()}

    async def _arguments(self, call: MadeCall) -> str:
        if len(call.arguments) > _LONGEST_ARGUMENTS:
            return ""
        try:
            return await self._clean(call.arguments)
        except RedactionError:
            return ""


def _call_key(scope: bytes, call_id: str) -> bytes:
    return hashlib.blake2b(utf8(call_id), key=scope[:64], digest_size=16, person=b"penumbra call").digest()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(MadeCall)
TOOL_CALLS = Schema(
    "calls",
    lambda call: compress(_ENCODER.encode(call)),
    lambda record: _DECODER.decode(decompress(record)),
    _MEMORY_CHARACTERS,
    lambda call: _ENTRY_CHARACTERS + len(call.name) + len(call.arguments),
)
_MEMORY = 4_096


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """A `Stretch` is the place of a value in a text, from character `start` to `end`, with its placeholder
    `mark`."""

    start: int
    end: int
    mark: str


Stretches = Sequence[Stretch]
Restorations = KeyedValues[Stretches]
"""The places of restored values in a string, by the key of the string."""
RESTORATIONS: Schema[Stretches] = Schema(
    "restorations", msgspec.json.encode, msgspec.json.Decoder(tuple[Stretch, ...]).decode, _MEMORY
)
COMPRESSED = Schema("compressed", pack_text, unpack_text, weigh=len)
Compressed = KeyedValues[str]
"""Compressed texts by key. The first text of a key is final, so that all requests get the same text."""
