"""Originals and answers, kept and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from penumbra.apis.base import Hidden, Visible
from penumbra.store import exchanges, originals
from penumbra.store.database import Database
from penumbra.store.exchanges import Answers, Known
from penumbra.store.originals import StoredOriginals

ONE, TWO = b"1" * 32, b"2" * 32
LONG = "toolu_0123456789abcdefghijkl"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "state" / "penumbra.sqlite", (*exchanges.SCHEMA, *originals.SCHEMA))
    yield made
    made.close()


def test_originals_are_found_in_their_scope_only(database: Database) -> None:
    async def go() -> None:
        store = StoredOriginals(database, 60, 1_000_000)
        await store.put(ONE, {"a": "text é\ud800", "b": "other"})
        assert await store.get(ONE, "a") == "text é\ud800"
        assert await store.get(TWO, "a") is None
        assert await store.get(ONE, "c") is None
        await store.put(ONE, {})

    asyncio.run(go())
    assert database.path is not None
    assert database.path.stat().st_mode & 0o777 == 0o600


def test_originals_expire_after_their_last_use(database: Database) -> None:
    clock = Clock()

    async def go() -> None:
        store = StoredOriginals(database, 60, 1_000_000, clock)
        await store.put(ONE, {"a": "text"})
        for _ in range(4):
            clock.now += 50
            assert await store.get(ONE, "a") == "text"
        clock.now += 50
        await store.put(ONE, {"a": "text"})
        clock.now += 59
        assert await store.get(ONE, "a") == "text"
        clock.now += 61
        assert await store.get(ONE, "a") is None
        await StoredOriginals(database, 60, 1_000_000, clock).put(ONE, {"b": "x"})
        assert await database.run(lambda c: c.execute("SELECT count(*) FROM originals").fetchone()[0]) == 1

    asyncio.run(go())


def test_originals_beyond_the_size_leave_oldest_first(database: Database) -> None:
    clock = Clock()

    async def go() -> None:
        for number in range(10):
            clock.now += 1
            store = StoredOriginals(database, 1e9, 250, clock)
            await store.put(ONE, {str(number): "".join(chr(33 + n * (number + 3) % 90) for n in range(60))})
        kept = [number for number in range(10) if await store.get(ONE, str(number)) is not None]
        assert kept
        assert kept == list(range(kept[0], 10))
        assert kept[0] > 0

    asyncio.run(go())


def test_answers_outlive_the_process(database: Database) -> None:
    hidden = Hidden((b"{}", b"[]"), None, (b'"x"',), signed=True)
    known = Known("expand_context", exchanges.text_hash("a b"), (b"k" * 16,), hidden)

    async def go() -> None:
        await Answers(database, 60).record(b"1" * 16, known)
        later = Answers(database, 60)
        assert await later.known([b"1" * 16, b"2" * 16]) == {b"1" * 16: known}
        assert await later.known([b"1" * 16] * 2) == {b"1" * 16: known}
        assert await later.known([]) == {}

    asyncio.run(go())


def test_answers_expire(database: Database) -> None:
    clock = Clock()

    async def go() -> None:
        store = Answers(database, 7200, clock)
        await store.record(b"1" * 16, Known("t", ""))
        await store.record(b"3" * 16, Known("t", ""))
        clock.now += 7000
        # A look counts as a use.
        assert await store.known([b"3" * 16])
        clock.now += 7000
        later = Answers(database, 7200, clock)
        await later.record(b"2" * 16, Known("t", ""))
        found = await Answers(database, 7200, clock).known([b"1" * 16, b"2" * 16, b"3" * 16])
        assert set(found) == {b"2" * 16, b"3" * 16}

    asyncio.run(go())


def test_memory_of_answers_has_a_limit(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "_MEMORY_BYTES", 300)

    async def go() -> None:
        store = Answers(database, 60)
        keys = [bytes([n]) * 16 for n in range(20)]
        for one in keys:
            await store.record(one, Known("t", exchanges.text_hash(str(one))))
        assert len(store._memory) < 20
        assert len(await store.known(keys)) == 20

    asyncio.run(go())


def visible(
    calls: tuple[str, ...] = (), text: str = "", ordinal: int = 3, last: str = LONG, since: int = 1
) -> Visible:
    return Visible(7, ordinal, calls, text, last, since)


def test_keys() -> None:
    key = exchanges.key
    telling = key(ONE, visible((LONG,), "text"))
    assert telling == key(ONE, visible((LONG,), "other text", 9, "x", 4))
    assert telling != key(TWO, visible((LONG,), "text"))
    assert telling != key(ONE, visible((LONG, LONG + "b"), "text"))
    for one in (visible((LONG,), "text"), visible(text="words"), visible(("call_0",), "words")):
        assert key(ONE, one) != key(ONE, one, b"another history")
    words = key(ONE, visible(text="some  words\n"))
    assert words == key(ONE, visible(text=" some words", ordinal=8))
    assert words != key(ONE, visible(text="other words"))
    short = key(ONE, visible(("call_0",), "words"))
    assert short != key(ONE, visible(("call_0",), "other"))
    assert exchanges.signature_key(ONE, "s") not in (
        exchanges.signature_key(TWO, "s"),
        exchanges.signature_key(ONE, "t"),
    )
