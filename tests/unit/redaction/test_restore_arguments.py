"""Values in the arguments of past calls become the original placeholders, byte for byte."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis.formats import REQUESTS
from penumbra.redaction import placeholder
from penumbra.redaction.restore.value_places import (
    Stretch,
    aligned,
    edits_of,
    found,
    leaves,
    sent_stretches,
    swept,
)
from penumbra.store import records
from penumbra.store.database import Database
from penumbra.store.records import Restorations
from penumbra.store.table import Table
from penumbra.wire.document import Document
from support import work_counts
from support.bodies_with_secrets import BODIES
from support.examples import examples

VALUE = 'p"ss\\wörd \U0001f511\n/x!'
MARK = placeholder.make("password", b"k", VALUE.encode())
SHORT = "abc"
SHORT_MARK = placeholder.make("password", b"k", b"abc")
VALUES = {MARK: VALUE, SHORT_MARK: SHORT}

CLIENTS: dict[str, Callable[[Any], str]] = {
    "python": json.dumps,
    "javascript": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
    "indented": lambda value: json.dumps(value, indent=2),
    "slashes": lambda value: json.dumps(value, ensure_ascii=False).replace("/", "\\/"),
}
SHAPES: dict[str, Callable[[Callable[[Any], str], Any], str]] = {
    "object": lambda dumps, arguments: dumps({"n": 1.10, "a": arguments, "b": VALUE}),
    "text": lambda dumps, arguments: dumps({"n": 1.10, "a": json.dumps(arguments), "b": VALUE}),
    "other text": lambda dumps, arguments: dumps({"a": CLIENTS["slashes"](arguments)}),
}

AROUND = st.text(alphabet=' "\\\n=/\u2192\U0001f600\x00', max_size=4)
STRINGS = st.lists(AROUND | st.sampled_from([MARK, SHORT_MARK, " "]), max_size=6).map(" ".join)
ARGUMENTS = st.dictionaries(
    st.sampled_from(["file_path", "s", 't"']),
    st.recursive(
        STRINGS | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3), max_leaves=5
    ),
    max_size=3,
)


def put_in(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace(MARK, VALUE).replace(SHORT_MARK, SHORT)
    if isinstance(value, list):
        return [put_in(one) for one in value]
    return {key: put_in(one) for key, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=examples(40))
@given(ARGUMENTS)
def test_as_if_the_client_had_got_placeholders(client: str, shape: str, arguments: dict[str, Any]) -> None:
    body = SHAPES[shape](CLIENTS[client], put_in(arguments)).encode()
    document = Document(body)
    places = leaves(document, document.members(document.root)["a"])
    document.edits += edits_of((leaf, found(leaf.text, VALUES)) for leaf in places)
    assert document.render() == SHAPES[shape](CLIENTS[client], arguments).encode()


@settings(max_examples=examples(60))
@given(ARGUMENTS)
def test_places_are_known_without_the_values(arguments: dict[str, Any]) -> None:
    """Places of short values are also remembered, because short values can't be found again."""
    written, sent = json.dumps(arguments), json.dumps(put_in(arguments))
    known = dict(sent_stretches(written, sent, VALUES))
    document = Document(json.dumps({"a": put_in(arguments)}).encode())
    places = leaves(document, document.members(document.root)["a"])
    document.edits += edits_of((leaf, known.get(leaf.text, ())) for leaf in places)
    assert document.render() == json.dumps({"a": arguments}).encode()


@pytest.mark.parametrize("nested", [False, True], ids=["an object", "JSON in a string"])
def test_each_string_is_read_once(nested: bool) -> None:
    def replace(count: int) -> None:
        arguments = {"s": [VALUE] * count}
        document = Document(json.dumps({"a": json.dumps(arguments) if nested else arguments}).encode())
        places = leaves(document, document.members(document.root)["a"])
        document.edits += edits_of((leaf, found(leaf.text, VALUES)) for leaf in places)
        assert document.render().count(MARK.encode()) == count

    assert work_counts.lines(replace, 400) < 5 * work_counts.lines(replace, 100)


def test_freeform_arguments() -> None:
    written, sent = f"*** Begin Patch\n+{SHORT_MARK}x\n", f"*** Begin Patch\n+{SHORT}x\n"
    assert dict(sent_stretches(written, sent, VALUES)) == {sent: [Stretch(17, 20, SHORT_MARK)]}
    document = Document(json.dumps({"a": sent}).encode())
    (leaf,) = leaves(document, document.members(document.root)["a"])
    document.edits += edits_of([(leaf, [Stretch(17, 20, SHORT_MARK)])])
    assert json.loads(document.render()) == {"a": written}


def test_only_what_was_put_back() -> None:
    assert aligned(f"{MARK} {SHORT_MARK}", f"{MARK} abc", VALUES) == [
        Stretch(len(MARK) + 1, len(MARK) + 4, SHORT_MARK)
    ]
    assert aligned(f"{SHORT_MARK}", "changed", VALUES) == []


def test_short_values_stand_on_their_own() -> None:
    assert found("abcd xabc abc", VALUES) == [Stretch(10, 13, SHORT_MARK)]
    long = {MARK: "0123456789abcdef"}
    assert len(found("x0123456789abcdef 0123456789abcdefx x0123456789abcdefx", long)) == 2


def test_members_that_no_reader_sees() -> None:
    inner = json.dumps(VALUE)
    source = json.dumps({"a": f'{{"s":{inner},"s":{inner}}}'}).encode()
    assert json.loads(swept(source, VALUES)) == {"a": f'{{"s":"{MARK}","s":"{MARK}"}}'}


@pytest.mark.parametrize("name", BODIES)
def test_the_calls_of_every_api_are_found(name: str) -> None:
    formats = {"anthropic-messages": "anthropic", "openai-chat": "openai_chat", "ollama-chat": "ollama"}
    formats |= {"openai-responses": "openai_responses", "bedrock-converse": "bedrock"}
    document = Document(json.dumps(BODIES[name]).encode())
    calls = list(REQUESTS[formats.get(name, name)].past_calls(document))
    # The conversation of the Responses API has a call of each kind.
    assert len(calls) == (5 if name == "openai-responses" else 1)
    assert all(call.name for call in calls)


async def test_a_table_sees_rows_that_another_table_object_has_written() -> None:
    """A replaced engine may still write for its last requests."""
    database = Database(None, 1 << 26)
    old: Restorations = Table(database, records.RESTORATIONS, 3600)
    new: Restorations = Table(database, records.RESTORATIONS, 3600)
    assert await new.is_empty()
    await old.put({b"key": (Stretch(1, 4, SHORT_MARK),)})
    assert not await new.is_empty()
    database.close()


def test_restorations_outlive_the_process(tmp_path: Path) -> None:
    places = {b"key": (Stretch(1, 4, SHORT_MARK),), b"other": (Stretch(0, 2, MARK), Stretch(5, 9, MARK))}

    async def first() -> None:
        database = Database(tmp_path / "x", 1 << 26)
        past: Restorations = Table(database, records.RESTORATIONS, 3600)
        assert await past.is_empty()
        past.note({b"key": places[b"key"]})
        assert not await past.is_empty()
        assert await past.get([b"key", b"none"]) == {b"key": places[b"key"]}
        await past.put(places)
        database.close()

    async def second() -> None:
        database = Database(tmp_path / "x", 1 << 26)
        past: Restorations = Table(database, records.RESTORATIONS, 3600)
        assert not await past.is_empty()
        assert await past.get([b"key", b"other", b"none"]) == places
        await Table(database, records.RESTORATIONS, -10).put({b"new": (Stretch(0, 1, MARK),)})
        assert await Table(database, records.RESTORATIONS, 3600).get([b"key", b"new"]) == {}
        database.close()

    asyncio.run(first())
    asyncio.run(second())
