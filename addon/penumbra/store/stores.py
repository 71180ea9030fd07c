"""This module has all tables of stored values, in this machine's database or in a shared store."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cachetools import LRUCache

from penumbra.apis.base import MadeCall
from penumbra.store import conversations, decisions, exchanges, records
from penumbra.store.conversations import Conversations, ConversationState
from penumbra.store.database import Database
from penumbra.store.decisions import Decision
from penumbra.store.exchanges import PastResponse
from penumbra.store.history import History
from penumbra.store.keyed_values import KeyedValues, Schema
from penumbra.store.records import Compressed, Originals, Restorations
from penumbra.store.table import STEADY, Table

if TYPE_CHECKING:
    from penumbra.store.shared_store import SharedStore

V = TypeVar("V")
_DAY = 86_400.0
_REVISIONS = 4_000
"""The greatest number of conversations whose latest revision of decisions is kept in memory."""


@dataclass(frozen=True, slots=True)
class Gaps:
    """A `Gaps` says for which results of a request the store may lack decisions."""

    is_away: bool
    elsewhere: frozenset[bytes] = frozenset()
    """Keys of results about which another proxy has decided. This proxy makes the same decisions from the
    request alone."""


class Stores:
    """A `Stores` has the tables, one attribute for each. Values expire `ttl` seconds after their last use.
    Originals expire after `originals_ttl` seconds. Texts that can be made again, and originals that clients
    send again, expire after a day at most. The history has its own limit. `shared` has everything except this
    machine's history. If `shared` is None, the database has everything."""

    def __init__(
        self, database: Database, ttl: float, originals_ttl: float, shared: SharedStore | None = None
    ) -> None:
        self.database = database
        self.shared = shared
        self._revisions: LRUCache[bytes, str] = LRUCache(_REVISIONS)
        self.decisions: KeyedValues[Decision] = self._table(decisions.SCHEMA, ttl)
        self.exchanges: KeyedValues[PastResponse] = self._table(exchanges.SCHEMA, ttl)
        self.tool_calls: KeyedValues[MadeCall] = self._table(records.TOOL_CALLS, ttl)
        self.restorations: Restorations = self._table(records.RESTORATIONS, ttl)
        self.conversations = Conversations(self._table(conversations.SCHEMA, ttl), time.time, STEADY)
        self.compressed: Compressed = self._table(records.COMPRESSED, _DAY)
        self.originals = Originals(
            self._table(records.ORIGINALS, originals_ttl),
            self._table(records.CARRIED, min(originals_ttl, _DAY)),
        )
        self.history = History(database, time.time, STEADY)

    async def written(self) -> None:
        """Wait until the values that were put are in this machine's database, or the disk takes too long."""
        await self.database.written()

    @property
    def is_whole(self) -> bool:
        """Return whether the next request can find decisions that are made now."""
        return self.database.is_whole if self.shared is None else self.shared.outage.is_settled

    @property
    def is_recent(self) -> bool:
        """Return whether the store fails or failed recently, so that conversations may be missing."""
        return self.database.hangs if self.shared is None else self.shared.outage.is_recent

    @property
    def is_away(self) -> bool:
        """Return whether only memory can be read."""
        return self.database.hangs if self.shared is None else self.shared.outage.is_away

    @property
    def failures(self) -> int:
        """Return the number of failures of the store so far. Look-ups during a failure may miss values."""
        return self.database.failures if self.shared is None else self.shared.figures.failures

    async def lacks(self, past: Collection[bytes], sent: Iterable[bytes]) -> bool:
        """Return whether a second look-up may find decisions that are not in `past`, because the store has
        just come back. `sent` has the keys of results that a proxy has sent."""
        if not self.is_away:
            return False
        unknown = {key for key in sent if key not in past}
        if not (unknown := unknown - self.decisions.elsewhere(unknown)):
            return False
        if self.shared is None:
            return await self.database.answers()
        if await self.shared.look_again():
            return True
        self.shared.figures.guessed_results += len(unknown)
        return False

    def gaps(
        self, state: ConversationState, past: Collection[bytes], keys: Collection[bytes], *, whole: bool
    ) -> Gaps | None:
        """Return the gaps in the store's answer about a request with these keys; None without gaps. In a
        known conversation, an answered result that is not in the store was sent during an outage."""
        if not whole:
            return Gaps(True, self.decisions.elsewhere(keys))
        if self.shared is None and not self.database.forgotten:
            return None
        is_ours = bool(past) or state.idle is not None or self.is_recent
        return Gaps(False) if is_ours else None

    def follow(self, conversation: bytes, state: ConversationState, keys: Collection[bytes]) -> bool:
        """Drop decisions of a conversation from memory if another proxy has replaced them, and return whether
        they were dropped."""
        if self.shared is None or self._revisions.get(conversation, "") == state.revision:
            return False
        self.decisions.forget(keys)
        self._revisions[conversation] = state.revision
        return True

    def _table(self, schema: Schema[V], ttl: float) -> KeyedValues[V]:
        if self.shared is None:
            return Table(self.database, schema, ttl, time.time, STEADY)
        from penumbra.store.shared_store import SharedTable

        return SharedTable(self.shared, schema, ttl, time.time)
