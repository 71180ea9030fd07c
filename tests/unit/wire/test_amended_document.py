"""A value that is amended reads as what it became, and every other edit finds its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson
from support.examples import examples

BODY = b'{"a": {"x": "old", "n": 1.10}, "b": ["one", "tw\\u00f6"], "c": "rest \\ud800"}'
VALUES = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


def member(document: Document, *names: Any) -> Any:
    value = document.root
    for name in names:
        held: Any = document.items(value) if isinstance(name, int) else document.members(value)
        value = held[name]
    return value


def test_it_reads_as_what_it_became_and_stands_where_it_stood() -> None:
    document = Document(BODY)
    whole, text = member(document, "a"), member(document, "b", 1)
    place = document.place(whole)
    document.amend(whole, b'{"x": ["new", "\\ud800"]}')
    document.amend(text, b'"2"')
    assert document.place(whole) == place
    assert document.string(member(document, "a", "x", 0)) == "new"
    assert document.string(member(document, "a", "x", 1)) == "\ud800"
    assert document.place(member(document, "a", "x", 0)) == place
    assert document.string(text) == "2"
    assert document.plain(document.root)["b"] == ["one", "2"]
    wanted = BODY.replace(b'{"x": "old", "n": 1.10}', b'{"x": ["new", "\\ud800"]}').replace(
        b'"tw\\u00f6"', b'"2"'
    )
    assert document.source(document.root) == document.text() == document.render() == wanted
    assert not document.edits


def test_what_is_edited_behind_it() -> None:
    document = Document(BODY)
    document.amend(member(document, "a"), b'{"x": "a longer text"}')
    document.replace_part(member(document, "a", "x"), 2, 8, "very long")
    document.add_member(member(document, "a"), "y", b"1")
    document.amend(member(document, "b", 0), b'"1"')
    document.rewrite(member(document, "b"), b"[]")
    document.remove_member(member(document, "c"))
    assert document.render() == b'{"a": {"x": "a very long text","y":1}, "b": []}'
    assert document.text() == BODY.replace(b'{"x": "old", "n": 1.10}', b'{"x": "a longer text"}').replace(
        b'"one"', b'"1"'
    )


def test_amended_once_more_within_and_around() -> None:
    document = Document(BODY)
    document.amend(member(document, "a", "x"), b'"secret"')
    document.amend(member(document, "a"), b'{"x": "s1", "z": "s2"}')
    document.amend(member(document, "a", "z"), b'"[z]"')
    assert document.plain(member(document, "a")) == {"x": "s1", "z": "[z]"}
    assert b"secret" not in document.render()


def test_edits_since_are_given_up_and_no_others() -> None:
    document = Document(BODY)
    document.amend(member(document, "a", "x"), b'"kept in mind"')
    before = document.render()
    saved = document.saved()
    document.replace_part(member(document, "a", "x"), 0, 4, "lost")
    document.replace(member(document, "c"), "gone")
    document.amend(member(document, "b", 0), b'"other"')
    assert document.render() != before
    document.restore(saved)
    assert document.render() == before


def test_what_is_made_of_a_document_is_made_again() -> None:
    document = Document(BODY)

    def first(of: Document) -> str | None:
        return of.string(member(of, "b", 0))

    assert document.once(first) == "one"
    document.amend(member(document, "b", 0), b'"1"')
    assert document.once(first) == "1"


def test_an_edit_that_overlaps_is_an_error_and_nothing_else_is_put() -> None:
    document = Document(BODY)
    text = member(document, "a", "x")
    start, end = document.place(text)
    document.amend(text, b'"other"')
    document.edits.append(Edit(start + 1, end + 3, b""))
    with pytest.raises(ValueError, match="overlap"):
        document.render()
    with pytest.raises(NotJson):
        document.amend(text, b'"broken')


def containers(document: Document, value: Any) -> list[Any]:
    """Every value of a document, outer ones first."""
    inner = [*document.items(value), *document.members(value).values()]
    return [value, *(each for one in inner for each in containers(document, one))]


@settings(max_examples=examples(200), deadline=None)
@given(VALUES, st.lists(st.tuples(st.integers(0, 40), VALUES), max_size=5))
def test_it_reads_like_the_document_that_it_renders(body: Any, changes: list[tuple[int, Any]]) -> None:
    document = Document(json.dumps(body).encode())
    for index, value in changes:
        places = containers(document, document.root)
        document.amend(places[index % len(places)], json.dumps(value).encode())
    anew = Document(document.render())
    assert document.text() == anew.data
    read = [document.source(value) for value in containers(document, document.root)]
    assert read == [anew.source(value) for value in containers(anew, anew.root)]
