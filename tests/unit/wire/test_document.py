"""The JSON editor: what nobody edits stays as it was, to the byte."""

import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode, encode
from support.cases import each
from support.examples import examples

SPACES = st.text(" \t\n\r", max_size=2)
NUMBERS = st.sampled_from(
    ["0", "-0", "1.10", "1e5", "1E+400", "12345678901234567890123", "0.1000", "-1.0e-7"]
)
STRINGS = st.sampled_from(
    [
        '""',
        '"a"',
        '"\\u00e9"',
        '"é"',
        '"\\ud800"',
        '"\\udc00x"',
        '"\\ud83d\\ude00"',
        '"a\\/b"',
        '"\\\\"',
        '"\\""',
        '"_x"',
    ]
)


@st.composite
def json_texts(draw, depth=3):
    """Random JSON as people and machines spell it: odd spacing, numbers, escapes, duplicate keys."""
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


@settings(max_examples=examples(200), deadline=None)
@given(json_texts(), st.text(max_size=20), SPACES, SPACES)
def test_editing_one_string_leaves_every_other_byte(other, new, before, after):
    start = f'{before}{{"other" :{other},"edit":'.encode()
    end = f' ,"tail": {other}}}{after}'.encode()
    document = Document(start + b'"old"' + end)
    members = document.members(document.root)
    document.replace(members["edit"], new)
    assert document.render() == start + encode(new) + end


@settings(max_examples=examples(100), deadline=None)
@given(json_texts())
def test_an_unedited_document_is_the_same_object(text):
    data = text.encode()
    assert Document(data).render() is data


@settings(max_examples=examples(100), deadline=None)
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


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(json_texts(), max_size=3), st.integers(0, 3), SPACES)
def test_items_are_inserted_where_they_belong(items, index, space):
    text = "[" + space + ",".join(items) + space + "]"
    document = Document(text.encode())
    index = min(index, len(items))
    document.insert(document.root, index, b'{"new":1}')
    expected = json.loads(text)
    expected.insert(index, {"new": 1})
    assert json.loads(document.render()) == expected


@settings(max_examples=examples(100), deadline=None)
@given(json_texts())
def test_members_are_added_behind_the_last(value):
    for text in (f'{{"a": {value} }}', "{}", "{ }"):
        document = Document(text.encode())
        document.add_member(document.root, "né", b"[1.10]")
        rendered = document.render()
        assert json.loads(rendered) == {**json.loads(text), "né": [1.1]}
        assert rendered.endswith((b'"n\xc3\xa9":[1.10]}', b'"n\xc3\xa9":[1.10] }'))


@settings(max_examples=examples(200), deadline=None)
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


@each(
    "data",
    [b"", b" ", b"{", b'{"a":1}x', b"nan", b'"\xff"', b'{"a":"\\x"}', b"[" * 100_000, b"\xef\xbb\xbf{}"],
)
def test_what_is_no_json_is_refused(data):
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


@each(
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
def test_what_an_object_says_twice(text, names):
    document = Document(text.encode())
    assert document.repeats(document.root) is bool(names)
    if names:
        assert document.repeated(document.root) == names


@settings(max_examples=examples(200), deadline=None)
@given(json_texts())
def test_repeats_agrees_with_a_reader_of_pairs(text):
    document = Document(text.encode())
    pairs = json.loads(text, object_pairs_hook=lambda found: ("object", found))
    names = [name for name, _ in pairs[1]] if isinstance(pairs, tuple) else []
    assert document.repeats(document.root) is (len(set(names)) < len(names))


def test_what_is_encoded_takes_no_more_memory_than_its_bytes():
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        encoded = encode("a line of text\n" * 1000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 1.1 * len(encoded)
