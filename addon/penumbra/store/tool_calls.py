"""Calls that the model made, remembered for results that come without them.

Where the provider keeps the history, a request has results and not the calls that they answer. What a
result is depends on its call, so the calls of each response are kept, without the secrets in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

import msgspec

from penumbra.apis.base import MadeCall
from penumbra.apis.parts import is_telling
from penumbra.errors import RedactionError
from penumbra.store.keyed_values import KeyedValues, Schema
from penumbra.store.table import compress, decompress

_MEMORY_CHARACTERS = 8_000_000
_ENTRY_CHARACTERS = 500
"""What an entry takes beside its texts."""

_LONGEST_ARGUMENTS = 64_000
"""Characters; of calls with longer arguments only the names are kept."""

Clean = Callable[[str], Awaitable[str]]
"""A text without its secrets. Raises RedactionError."""


class ToolCallCache:
    """Calls by scope and id."""

    def __init__(self, table: KeyedValues[MadeCall], clean: Clean) -> None:
        self._table = table
        self._clean = clean

    async def record(self, scope: bytes, calls: Sequence[MadeCall]) -> None:
        """Keep the calls of one response. Ids that could be any conversation's are none to keep one by."""
        await self._table.put(
            {
                _key(scope, call.id): replace(call, arguments=await self._arguments(call))
                for call in calls
                if is_telling(call.id)
            }
        )

    async def of_ids(self, scope: bytes, ids: Iterable[str]) -> dict[str, MadeCall]:
        """The calls there are for these ids."""
        keys = {_key(scope, call_id): call_id for call_id in ids if is_telling(call_id)}
        return {keys[key]: call for key, call in (await self._table.get(keys)).items()}

    async def cleaned(self, text: str) -> str:
        """A text without its secrets. Raises RedactionError."""
        return await self._clean(text)

    async def _arguments(self, call: MadeCall) -> str:
        if len(call.arguments) > _LONGEST_ARGUMENTS:
            return ""
        try:
            return await self._clean(call.arguments)
        except RedactionError:
            return ""


def _key(scope: bytes, call_id: str) -> bytes:
    """What a call is found by, whoever gives its result."""
    digest = hashlib.blake2b(key=scope[:64], digest_size=16, person=b"penumbra call")
    digest.update(call_id.encode("utf-8", "surrogatepass"))
    return digest.digest()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(MadeCall)
SCHEMA = Schema(
    "calls",
    lambda call: compress(_ENCODER.encode(call)),
    lambda record: _DECODER.decode(decompress(record)),
    _MEMORY_CHARACTERS,
    lambda call: _ENTRY_CHARACTERS + len(call.name) + len(call.arguments),
)
