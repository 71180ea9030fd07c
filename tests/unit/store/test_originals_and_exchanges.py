"""Originals and past responses are stored and found."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from penumbra.apis.base import Hidden, Visible
from penumbra.store import exchanges, records
from penumbra.store.database import Database
from penumbra.store.exchanges import SCHEMA, PastResponse
from penumbra.store.records import Originals
from penumbra.store.table import Table, decompress
from support.clock import Clock

ONE, TWO = b"1" * 32, b"2" * 32
LONG = "toolu_0123456789abcdefghijkl"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "state" / "penumbra.sqlite", 1 << 26)
    yield made
    made.close()


async def test_originals_are_found_in_their_scope_only(database: Database) -> None:
    store = Originals(Table(database, records.ORIGINALS, 60))
    await store.put(ONE, {"a": "text é\ud800", "b": "other"})
    assert await store.get(ONE, "a") == "text é\ud800"
    assert await store.get(TWO, "a") is None
    assert await store.get(ONE, "c") is None
    await store.put(ONE, {})
    assert database.path is not None
    assert database.path.stat().st_mode & 0o777 == 0o600


async def test_originals_are_renewed_without_being_read(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    tables = [Table(database, schema, 60, clock) for schema in (records.ORIGINALS, records.CARRIED)]
    texts = {"a": "text", records.key_of_before("a"): "99", "b": "other"}
    await Originals(*tables).put(ONE, texts, carried=True)
    for _ in range(4):
        clock.now += 50
        store = Originals(*tables)
        assert await store.renew(ONE, ["a", "c"]) == {"c"}
        # Keys are not hashed again.
        with monkeypatch.context() as patched:
            patched.delattr(records, "hashlib")
            assert await store.renew(ONE, ["a", "c"]) == {"c"}
    assert await store.get(ONE, "a") == "text"
    assert await store.get(ONE, records.key_of_before("a")) == "99"
    assert await store.get(ONE, "b") is None
    assert await store.renew(TWO, ["a"]) == {"a"}
    assert await store.renew(ONE, []) == set()


async def test_answers_outlive_the_process(database: Database) -> None:
    hidden = Hidden((b"{}", b"[]"), None, (b'"x"',), signed=True)
    known = PastResponse("expand_context", exchanges.text_hash("a b"), (b"k" * 16,), hidden)
    await Table(database, exchanges.SCHEMA, 60).put({b"1" * 16: known})
    later = Table(database, exchanges.SCHEMA, 60)
    assert await later.get([b"1" * 16, b"2" * 16]) == {b"1" * 16: known}
    assert await later.get([b"1" * 16] * 2) == {b"1" * 16: known}
    assert await later.get([]) == {}


def visible(calls: tuple[str, ...] = (), text: str = "", last: str = LONG, since: int = 1) -> Visible:
    return Visible(7, calls, text, last, since)


def test_keys() -> None:
    key = exchanges.key
    telling = key(ONE, visible((LONG,), "text"))
    assert telling == key(ONE, visible((LONG,), "other text", "x", 4))
    assert telling != key(TWO, visible((LONG,), "text"))
    assert telling != key(ONE, visible((LONG, LONG + "b"), "text"))
    for one in (visible((LONG,), "text"), visible(text="words"), visible(("call_0",), "words")):
        assert key(ONE, one) != key(ONE, one, b"another history")
    words = key(ONE, visible(text="some  words\n"))
    assert words == key(ONE, visible(text=" some words", last="x", since=8))
    assert words != key(ONE, visible(text="other words"))
    short = key(ONE, visible(("call_0",), "words"))
    assert short != key(ONE, visible(("call_0",), "other"))
    assert exchanges.signature_key(ONE, "s") not in (
        exchanges.signature_key(TWO, "s"),
        exchanges.signature_key(ONE, "t"),
    )


def test_a_stored_exchange_keeps_its_names() -> None:
    """Records of an earlier release are read by these names."""
    hidden = Hidden((b"{}",), None, response_id="resp_1")
    stored = SCHEMA.pack(PastResponse("expand_context", "", hidden=hidden))
    fields = msgspec.msgpack.decode(decompress(stored))
    assert fields["hidden"]["answer_id"] == "resp_1"
    assert SCHEMA.unpack(stored).hidden == hidden


async def test_carried_originals_expire_earlier_unless_they_were_expanded(database: Database) -> None:
    clock = Clock()
    store = Originals(
        Table(database, records.ORIGINALS, 100, clock), Table(database, records.CARRIED, 10, clock)
    )
    await store.put(ONE, {"held": "h"})
    await store.put(ONE, {"asked": "a", "left": "l"}, carried=True)
    clock.now += 5
    assert await store.get(ONE, "asked") == "a"
    clock.now += 50
    assert [await store.get(ONE, ref) for ref in ("held", "asked", "left")] == ["h", "a", None]
