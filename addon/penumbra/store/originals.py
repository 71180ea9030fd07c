"""Originals of shortened results, for requests that no longer carry them.

Clients send originals again on every turn, so this is the second place to look: for histories that a
provider keeps, and for clients that clear old results. What a client may still send is kept for a shorter
time than what only this place has. Only redacted texts come here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from penumbra.store.table import Schema, Table, pack_text, unpack_text

SCHEMA = Schema("originals", pack_text, unpack_text)
CARRIED = Schema("carried_originals", pack_text, unpack_text)


class Originals:
    """Texts by scope and reference. `carried`: where those are that clients send again; None: with the
    others."""

    def __init__(self, table: Table[str], carried: Table[str] | None = None) -> None:
        self._table = table
        self._carried = carried or table

    async def put(self, scope: bytes, texts: Mapping[str, str], *, carried: bool = False) -> None:
        """Keep texts; one that is there already is used again."""
        table = self._carried if carried else self._table
        await table.add({_key(scope, ref): text for ref, text in texts.items()})

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
