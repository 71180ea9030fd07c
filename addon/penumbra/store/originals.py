"""Originals of shortened results, for requests that no longer carry them.

Clients send originals again on every turn, so this is the second place to look: for histories that a
provider keeps, and for clients that clear old results. What a client may still send is kept for a shorter
time than what only this place has. Only redacted texts come here.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Collection, Mapping
from functools import lru_cache

from cachetools import TTLCache

from penumbra.store.keyed_values import KeyedValues, Schema
from penumbra.store.table import pack_text, unpack_text

SCHEMA = Schema("originals", pack_text, unpack_text)
CARRIED = Schema("carried_originals", pack_text, unpack_text)
_RENEWED = 16_384
"""Originals of which it is remembered that they were renewed."""


class Originals:
    """Texts by scope and reference. `carried`: where those are that clients send again; None: with the
    others."""

    def __init__(self, table: KeyedValues[str], carried: KeyedValues[str] | None = None) -> None:
        self._table = table
        self._carried = carried or table
        refresh = min(self._table.refresh, self._carried.refresh)
        self._renewed: TTLCache[bytes, None] = TTLCache(_RENEWED, refresh, time.monotonic)

    async def put(self, scope: bytes, texts: Mapping[str, str], *, carried: bool = False) -> None:
        """Keep texts; one that is there already is used again."""
        table = self._carried if carried else self._table
        await table.add({_key(scope, ref): text for ref, text in texts.items()})

    async def renew(self, scope: bytes, refs: Collection[str]) -> set[str]:
        """Requests still carry these: that counts as a use. The references under which nothing is kept."""
        keys = {_key_again(scope, ref): ref for ref in refs}
        due = [key for key in keys if key not in self._renewed]
        there = await self._table.touch(due)
        if self._carried is not self._table:
            there |= await self._carried.touch(due)
        self._renewed.update(dict.fromkeys(there))
        return {keys[key] for key in due if key not in there}

    async def get(self, scope: bytes, ref: str) -> str | None:
        """The text, which counts as a use; None if it is not there, or not any more."""
        key = _key(scope, ref)
        text = (await self._table.get([key])).get(key)
        if text is None and (found := await self._carried.get([key])):
            # Its client does not send it any more, or nobody would ask for it here.
            await self._table.add(found)
            text = found[key]
        return text


def _key(scope: bytes, ref: str) -> bytes:
    """What a text is found by: references stand in conversations, and those are nobody else's business."""
    return hashlib.blake2b(ref.encode("utf-8", "replace"), key=scope[:64], digest_size=16).digest()


_key_again = lru_cache(maxsize=_RENEWED)(_key)
"""Of what every turn carries again, as long as references are; what a model asks for may be longer."""
