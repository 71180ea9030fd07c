"""Where values were put back into the arguments of calls, remembered without the values.

What the client got is known by a keyed hash; beside it stands which characters of it were placeholders.
So they come back also when nobody knows the values any more: after a restart, or when the client no
longer sends the result that they were read from.
"""

from __future__ import annotations

import sqlite3
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import orjson

from penumbra.redaction.restore.arguments import Stretch
from penumbra.store.database import Database

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS restorations
    (key BLOB PRIMARY KEY, used INTEGER NOT NULL, stretches BLOB NOT NULL) WITHOUT ROWID""",
)
_MOST = 4_096
"""Entries in memory."""
_BATCH = 400

Stretches = Sequence[Stretch]


class Restorations:
    """By the key of a string: what in it is a placeholder's value."""

    def __init__(self, database: Database, ttl: float) -> None:
        """`ttl`: seconds after its last use that an entry is kept."""
        self._database = database
        self._seal = database.seal("restorations")
        self._ttl = ttl
        self._memory: OrderedDict[bytes, Stretches] = OrderedDict()
        self._any: bool | None = None

    async def any(self) -> bool:
        """Whether there is anything to be known at all."""
        if self._any is None:
            query = "SELECT 1 FROM restorations LIMIT 1"
            found = await self._database.run(lambda connection: connection.execute(query).fetchone())
            self._any = bool(self._any) or found is not None
        return self._any

    def note(self, found: Mapping[bytes, Stretches]) -> None:
        """Known from now on; `keep` makes it last."""
        self._any = self._any or bool(found)
        self._memory |= found
        while len(self._memory) > _MOST:
            self._memory.popitem(last=False)

    async def keep(self, found: Mapping[bytes, Stretches]) -> None:
        """The same, safe from a restart when it returns."""
        self.note(found)
        now = int(time.time())
        rows = [(key, now, self._seal.close(key, _packed(stretches))) for key, stretches in found.items()]
        statement = "INSERT OR REPLACE INTO restorations VALUES (?, ?, ?)"
        outdated = "DELETE FROM restorations WHERE used < ?"
        if rows:
            await self._database.run(lambda connection: connection.executemany(statement, rows))
            await self._database.run(lambda connection: connection.execute(outdated, (now - self._ttl,)))

    async def known(self, keys: Iterable[bytes]) -> dict[bytes, Stretches]:
        """What is known of these."""
        found: dict[bytes, Stretches] = {}
        missing: list[bytes] = []
        for key in dict.fromkeys(keys):
            if (entry := self._memory.get(key)) is not None:
                found[key] = entry
            else:
                missing.append(key)
        for start in range(0, len(missing), _BATCH):
            rows = await self._database.run(partial(_select, missing[start : start + _BATCH]))
            opened = ((key, self._seal.open(key, data)) for key, data in rows.items())
            known = {key: _unpacked(data) for key, data in opened if data is not None}
            found |= known
            self.note(known)
        return found


def _select(keys: list[bytes], connection: sqlite3.Connection) -> dict[bytes, bytes]:
    marks = ",".join("?" * len(keys))
    query = f"SELECT key, stretches FROM restorations WHERE key IN ({marks})"
    found: dict[bytes, bytes] = dict(connection.execute(query, keys))
    used = [(int(time.time()), key) for key in found]
    connection.executemany("UPDATE restorations SET used = ? WHERE key = ?", used)
    return found


def _packed(stretches: Stretches) -> bytes:
    return orjson.dumps([(one.start, one.end, one.mark) for one in stretches])


def _unpacked(stretches: bytes) -> Stretches:
    return tuple(Stretch(*one) for one in orjson.loads(stretches))
