"""A table of a shared store, where the store can't be reached: what is remembered of what it owes."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("redis")

from penumbra.store.key_file import SharedPlace
from penumbra.store.keyed_values import Schema
from penumbra.store.outage import Reach
from penumbra.store.shared_store import SharedStore
from penumbra.store.shared_table import SharedTable


def test_an_outage_of_any_length_is_remembered_within_bounds() -> None:
    async def test() -> None:
        store = SharedStore(SharedPlace("redis://127.0.0.1:1/0", b"k" * 32))
        store.outage.worsen(Reach.AWAY)
        schema: Schema[bytes] = Schema("decisions", bytes, bytes, memory=100)
        table = SharedTable(store, schema, 3_600.0)
        most = 0
        for number in range(0, 6_000, 20):
            values = {b"%d" % each: b"v" for each in range(number, number + 20)}
            if number % 40:
                await table.put(values)
            else:
                assert await table.settle(values, unasked=True)
            most = max(most, len(table._unwritten))
            assert set(table._memory) <= table._unwritten, "none passes for one that was first"
        assert most < 1_500
        latest = [b"%d" % each for each in range(5_900, 6_000)]
        assert len(await table.get(latest)) == 100
        table._return()
        assert not await table.get(latest), "the store is asked what holds"
        assert not table._unwritten
        store.close()

    asyncio.run(test())
