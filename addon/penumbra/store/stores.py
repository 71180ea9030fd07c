"""All that is kept from request to request, on one database."""

from __future__ import annotations

from penumbra.apis.base import MadeCall
from penumbra.store import (
    arms,
    compressed,
    conversations,
    decisions,
    exchanges,
    originals,
    restorations,
    tool_calls,
)
from penumbra.store.arms import Arms
from penumbra.store.compressed import Compressed
from penumbra.store.conversations import Conversations
from penumbra.store.database import Database
from penumbra.store.decisions import Decision
from penumbra.store.exchanges import PastResponse
from penumbra.store.history import History
from penumbra.store.originals import Originals
from penumbra.store.restorations import Restorations
from penumbra.store.table import Table
from penumbra.store.trial import Trial


class Stores:
    """One attribute for each table on a database. Times are seconds since the last use: `originals_ttl`,
    `carried_originals_ttl`, `compressed_ttl`, and `ttl` for all else."""

    def __init__(
        self,
        database: Database,
        ttl: float,
        originals_ttl: float,
        carried_originals_ttl: float = 86_400.0,
        compressed_ttl: float = 86_400.0,
    ) -> None:
        self.database = database
        self.decisions: Table[Decision] = Table(database, decisions.SCHEMA, ttl)
        self.exchanges: Table[PastResponse] = Table(database, exchanges.SCHEMA, ttl)
        self.tool_calls: Table[MadeCall] = Table(database, tool_calls.SCHEMA, ttl)
        self.restorations: Restorations = Table(database, restorations.SCHEMA, ttl)
        self.conversations = Conversations(Table(database, conversations.SCHEMA, ttl))
        self.compressed: Compressed = Table(database, compressed.SCHEMA, compressed_ttl)
        self.originals = Originals(
            Table(database, originals.SCHEMA, originals_ttl),
            Table(database, originals.CARRIED, carried_originals_ttl),
        )
        self.arms: Arms = Table(database, arms.SCHEMA, ttl)
        self.history = History(database)
        self.trial = Trial(database)
