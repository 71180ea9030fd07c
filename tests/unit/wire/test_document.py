"""The JSON editor. All bytes outside of edited values stay."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import NotJson, decode, encode
from support.examples import examples

SPACES = st.text(" \t\n\r", max_size=2)
NUMBERS = st.sampled_from(
    ["0", "-0", "1.10", "1e5", "1E+400", "12345678901234567890123", "0.1000", "-1.0e-7"]
)
STRINGS = st.sampled_from(
    [
        *('""', '"a"', '"\\u00e9"', '"é"', '"\\ud800"', '"\\udc00x"', '"\\ud83d\\ude00"'),
        *('"a\\/b"', '"\\\\"', '"\\""', '"_x"'),
    ]
)


@st.composite
def json_texts(draw, depth=3):
    """Return random JSON as people and machines spell it: odd spacing, numbers, escapes, duplicate keys."""
    kind = draw(st.sampled_from(["number", "string", "word", "array", "object"])) if depth else "string"
    if kind == "number":
        return draw(NUMBERS)
    if kind == "string":
        return draw(STRINGS)
    if kind == "word":
        return draw(st.sampled_from(["true", "false", "null"]))
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        item = draw(json_texts(depth=depth - 1))
        before, after = draw(SPACES), draw(SPACES)
        key = f"{draw(st.sampled_from(['k', 'k2', 'text', 'ë', 'a b']))!s}"
        parts.append(
            before + (f'"{key}"{draw(SPACES)}:{draw(SPACES)}' if kind == "object" else "") + item + after
        )
    inner = ",".join(parts) or draw(SPACES)
    return "{" + inner + "}" if kind == "object" else "[" + inner + "]"


@settings(max_examples=examples(200))
@given(json_texts(), st.text(max_size=20), SPACES, SPACES)
def test_editing_one_string_leaves_every_other_byte(other, new, before, after):
    start = f'{before}{{"other" :{other},"edit":'.encode()
    end = f' ,"tail": {other}}}{after}'.encode()
    document = Document(start + b'"old"' + end)
    members = document.members(document.root)
    document.replace(members["edit"], new)
    assert document.render() == start + encode(new) + end


@settings(max_examples=examples(100))
@given(json_texts())
def test_an_unedited_document_is_the_same_object(text):
    data = text.encode()
    assert Document(data).render() is data


@settings(max_examples=examples(100))
@given(json_texts(), json_texts())
def test_removing_a_member_leaves_valid_json_without_it(first, second):
    for text in (
        f'{{"_forge" : {first} , "k":{second}}}',
        f'{{"k":{second} ,"_forge":{first}}}',
        f'{{ "a":1,"_forge":{first}, "k":{second}}}',
        f'{{ "_forge":{first} }}',
        f'{{"\\u005fforge":{first}, "k":{second}}}',
        f'{{"a\\"_forge":1, "_forge":{first}}}',
    ):
        document = Document(text.encode())
        document.remove_member(document.members(document.root)["_forge"])
        expected = json.loads(text)
        del expected["_forge"]
        assert json.loads(document.render()) == expected


@settings(max_examples=examples(100))
@given(st.lists(json_texts(), max_size=3), st.integers(0, 3), SPACES)
def test_items_are_inserted_where_they_belong(items, index, space):
    text = "[" + space + ",".join(items) + space + "]"
    document = Document(text.encode())
    index = min(index, len(items))
    document.insert(document.root, index, b'{"new":1}')
    expected = json.loads(text)
    expected.insert(index, {"new": 1})
    assert json.loads(document.render()) == expected


@settings(max_examples=examples(100))
@given(json_texts())
def test_members_are_added_after_the_last(value):
    for text in (f'{{"a": {value} }}', "{}", "{ }"):
        document = Document(text.encode())
        document.add_member(document.root, "né", b"[1.10]")
        rendered = document.render()
        assert json.loads(rendered) == {**json.loads(text), "né": [1.1]}
        assert rendered.endswith((b'"n\xc3\xa9":[1.10]}', b'"n\xc3\xa9":[1.10] }'))


@settings(max_examples=examples(200))
@given(st.text(alphabet=st.characters(codec=None, categories=None), max_size=30))
def test_strings_survive_writing_and_reading(text):
    assert json.loads(encode(text)) == text
    assert decode(encode([text])) == [text]
    document = Document(b'{"a":' + encode(text) + b',"b":"\\ud800"}')
    members = document.members(document.root)
    assert document.string(members["a"]) == text
    assert document.string(members["b"]) == "\ud800"


def test_the_last_of_duplicate_keys_counts():
    document = Document(b'{"a":"first","a":"last"}')
    document.replace(document.members(document.root)["a"], "new")
    assert document.render() == b'{"a":"first","a":"new"}'


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b" ", b"{", b'{"a":1}x', b"nan", b'"\xff"', b'{"a":"\\x"}', b"\xef\xbb\xbf{}"),
        *(b"[" * 100_000, b'{"\\ud800":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ],
)
def test_text_that_is_no_json_is_refused(data):
    with pytest.raises(NotJson):
        Document(data)


def test_absent_and_foreign_values_read_as_nothing():
    document = Document(b'{"a":1,"b":"x"}')
    members = document.members(document.root)
    assert document.members(members["a"]) == {}
    assert document.items(members["b"]) == []
    assert document.string(members["a"]) is None
    assert document.string(None) is None
    assert document.plain(None) is None
    assert document.plain(members["a"]) == 1


def test_overlapping_edits_are_an_error():
    document = Document(b'{"a":{"b":1}}')
    outer = document.members(document.root)["a"]
    document.replace(document.members(outer)["b"], 2)
    document.replace(outer, 3)
    with pytest.raises(ValueError, match="overlap"):
        document.render()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('{"a":1}', set()),
        ('{"a":1,"a":2}', {"a"}),
        ('{ "a" : 1 ,\n"b":{"a":1,"a":2} }', set()),
        ('{"b":1,"a":2,"b":3}', {"b"}),
        ('{"a":1,"\\u0061":2}', {"a"}),
        ('{"":0,"a":1,"b":2,"":2}', {""}),
        ('{"a\\"":[1,2] ,\n"b":"x}"}', set()),
        ('{"\\ud800":1,"x":2,"x":1}', {"x"}),
        ('{"é":1, "x":2}', set()),
        ('{"é":1,"é":2}', {"é"}),
        ("{}", set()),
        ("{ }", set()),
        ("[1,1]", set()),
    ],
)
def test_repeated_names_of_an_object_are_found(text, names):
    document = Document(text.encode())
    assert document.repeats(document.root) is bool(names)
    if names:
        assert document.repeated(document.root) == names


@settings(max_examples=examples(200))
@given(json_texts())
def test_repeats_agrees_with_a_reader_of_pairs(text):
    document = Document(text.encode())
    pairs = json.loads(text, object_pairs_hook=lambda found: ("object", found))
    names = [name for name, _ in pairs[1]] if isinstance(pairs, tuple) else []
    assert document.repeats(document.root) is (len(set(names)) < len(names))
    are_unique: list[bool] = []
    json.loads(text, object_pairs_hook=lambda found: are_unique.append(len(dict(found)) == len(found)))
    assert document.exact(document.root) is None or all(are_unique)


@pytest.mark.parametrize("text", ['{"a":[1,"é"]}', '{"a": [1, "\\u00e9"]}'], ids=["compact", "Python's"])
def test_json_in_a_usual_spelling_is_exact(text):
    document = Document(text.encode())
    assert document.exact(document.root) == {"a": [1, "é"]}


def test_an_encoded_value_takes_no_more_memory_than_its_bytes():
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        encoded = encode("a line of text\n" * 1000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1.1 * len(encoded)


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


def test_an_edited_value_reads_as_its_new_text_at_its_old_place() -> None:
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


def test_edits_after_a_value() -> None:
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


def test_derived_values_are_made_again_after_an_edit() -> None:
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
    """Return every value of a document. A container comes before its content."""
    inner = [*document.items(value), *document.members(value).values()]
    return [value, *(each for one in inner for each in containers(document, one))]


@settings(max_examples=examples(200))
@given(VALUES, st.lists(st.tuples(st.integers(0, 40), VALUES), max_size=5))
def test_a_document_reads_like_its_rendered_bytes(body: Any, changes: list[tuple[int, Any]]) -> None:
    document = Document(json.dumps(body).encode())
    for index, value in changes:
        places = containers(document, document.root)
        document.amend(places[index % len(places)], json.dumps(value).encode())
    anew = Document(document.render())
    assert document.text() == anew.data
    read = [document.source(value) for value in containers(document, document.root)]
    assert read == [anew.source(value) for value in containers(anew, anew.root)]
