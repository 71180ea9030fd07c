"""What a memory of values takes is bounded, whatever they hold and whatever is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec import Raw

from penumbra.wire import parsed_text
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson
from penumbra.wire.value_memory import Fold, ValueMemory


def remembered(memory: ValueMemory, values: list[Any], scope: bytes = b"scope") -> tuple[Document, Raw]:
    document = Document(json.dumps({"m": values}).encode())
    array = document.members(document.root)["m"]
    document.remember(array, memory, scope)
    return document, array


def fold(memory: ValueMemory, values: list[Any], given: object = None) -> list[int]:
    """The items of an array that a fold took in."""
    document, array = remembered(memory, values)
    stepped: list[int] = []

    def step(state: list[int], index: int) -> None:
        stepped.append(index)
        state.append(index)

    document.folded(array, len(values), Fold(list, list.copy, "key", given), step)
    return stepped


def test_what_was_opened_counts() -> None:
    memory = ValueMemory(most=1_000_000)
    for count in (10, 10_000):
        document, array = remembered(memory, [[{}] * count, "small"])
        assert len(memory) >= 2
        for value in document.items(document.items(array)[0]):
            assert document.members(value) == {}
        assert memory._bytes <= 1_000_000
        known = [key[1] for key in memory._known]
        assert (json.dumps([{}] * count).encode() in known) == (count == 10)


def test_few_states_of_a_fold_are_kept_and_they_count() -> None:
    memory = ValueMemory()
    for given in (1, 1, 2, 3):
        fold(memory, ["a", "b", "c"], given)
    [beginning] = memory._scopes[b"scope"].beginnings
    assert [entry[0] for entry in beginning.states["key"]] == [2, 3]
    bytes_before = memory._bytes
    assert fold(memory, ["a", "b", "c"], 3) == []
    assert fold(memory, ["a", "b", "c"], 4) == [0, 1, 2]
    assert memory._bytes == bytes_before
    memory.forget(len(memory))
    assert memory._bytes == 0
    assert not memory._scopes


def test_few_beginnings_are_kept_those_used_last() -> None:
    memory = ValueMemory()
    values = [f"value {n}" for n in range(60)]
    for count in range(60, 10, -1):
        fold(memory, values[:count])
    beginnings = memory._scopes[b"scope"].beginnings
    assert [len(beginning.values) for beginning in beginnings] == list(range(26, 10, -1))
    assert fold(memory, values[:20]) == []
    assert beginnings[-1].values[-1].data == b'"value 19"'


def test_as_many_values_are_expected_to_change_as_did() -> None:
    """Clients move the marks of a cache from the last message to the next: a fold is kept up to there."""
    memory = ValueMemory()
    said = [f"value {n}" for n in range(40)]
    for count in range(10, 30, 2):
        stepped = fold(memory, [*said[:count], "marked"])
    assert stepped == [26, 27, 28]
    assert len(memory._scopes[b"scope"].beginnings) == 2, "what is sure, and what is expected"
    # Another one has changed than was expected.
    assert fold(memory, [*said[:27], "other", "marked"]) == [26, 27, 28]
    assert fold(memory, [*said[:27], "other", "marked", "more"]) in ([27, 28, 29], [29])


def test_what_two_beginnings_share_counts_once() -> None:
    memory, stepped = ValueMemory(most=1_200_000), list[int]()

    def step(state: list[int], index: int) -> None:
        state.append(index)
        stepped.append(index)

    for count in range(100, 130, 2):
        stepped.clear()
        document, array = remembered(memory, [*[f"value {n}" for n in range(count)], "marked"])
        for key in range(10):
            document.folded(array, count + 1, Fold(list, list.copy, key), step)
    assert len(stepped) == 10 * 3
    beginnings = list(memory._scopes[b"scope"].beginnings)
    assert [len(each.values) for each in beginnings] == [126, 128]
    states = sum(each.weight for each in beginnings)
    assert 10 * 128 * 200 < states < 11 * 128 * 200
    memory.forget(len(memory))
    assert memory._bytes == 0


def test_a_beginning_goes_with_any_of_its_values() -> None:
    memory = ValueMemory()
    for _ in range(2):
        fold(memory, ["a", "b", "c"])
    fold(memory, ["z"])
    memory.forget(1)
    assert not memory._scopes[b"scope"].beginnings
    assert fold(memory, ["a", "b", "c"]) == [0, 1, 2]


def test_what_nobody_uses_for_long_is_let_go_little_by_little() -> None:
    now = [0.0]
    memory = ValueMemory(clock=lambda: now[0])
    resting, busy = [f"resting {n}" for n in range(150)], ["a", "b", "c"]
    for values in (resting, resting, busy, busy):
        fold(memory, values)
    for now[0] in range(0, 1_860, 60):
        assert fold(memory, busy) == []
        assert len(memory) == 153, "half an hour is not over"
    full = memory._bytes
    for now[0], left in ((1_900, 53), (1_901, 3), (4_000, 3)):
        assert fold(memory, busy) == []
        assert len(memory) == left
    assert memory._bytes < full / 10
    assert len(memory._marks) < 40
    assert fold(memory, resting) == list(range(150)), "it is read anew"
    fold(memory, resting)
    now[0] = 9_000
    assert fold(memory, resting) == [], "what goes on is not let go of in that moment"


def compact(memory: ValueMemory, values: list[Any]) -> list[Raw]:
    """The items of an array without spaces, whose first values can be found by comparing."""
    document = Document(json.dumps({"m": values}, separators=(",", ":")).encode())
    array = document.members(document.root)["m"]
    document.remember(array, memory, b"scope")
    return document.items(array)


def test_equal_values_are_others_where_the_first_were_used_a_moment_ago() -> None:
    memory = ValueMemory(clock=lambda: 0.0)
    values: list[Any] = []
    for new in ("a", "b", "c", "a", "a", "b"):
        values.append([new] * 20)
        items = compact(memory, values)
        assert [json.loads(bytes(item)) for item in items] == values
        assert len(set(map(id, items))) == len(values)


def test_what_is_used_all_the_time_stays() -> None:
    now = [0.0]
    memory = ValueMemory(clock=lambda: now[0])
    values = [[number] * 20 for number in range(9)]
    first = compact(memory, values)
    for _ in range(300):
        now[0] += 10.0
        assert list(map(id, compact(memory, values))) == list(map(id, first))
        compact(memory, [["other"]])
    now[0] += 9_000.0
    compact(memory, values)
    assert list(map(id, compact(memory, values))) == list(map(id, first)), "nor where it goes on after long"


def test_first_values_are_found_however_many_follow_that_differ() -> None:
    memory = ValueMemory()
    values = [[number] * 5 for number in range(500)]
    first = compact(memory, values)
    for same in (0, 1, 199, 200, 201, 399, 400, 499, 500):
        changed = [*values[:same], *([each, "changed"] for each in values[same:])]
        items = compact(memory, changed)
        assert [json.loads(bytes(item)) for item in items] == changed
        assert list(map(id, items[:same])) == list(map(id, first[:same]))


def test_no_value_takes_more_than_an_eighth() -> None:
    memory = ValueMemory(most=1_000_000)
    remembered(memory, ["x" * 70_000, "small"])
    assert [key[1] for key in memory._known] == [b'"small"']
    document, array = remembered(memory, [[{"a": 1}] * 100, "other"])
    assert len(memory) == 3
    value = document.items(array)[0]
    for _ in range(1_000):
        # As if more and more were made of it.
        document.about(value, lambda document, value: None)
    assert [key[1] for key in memory._known] == [b'"small"', b'"other"']
    assert memory._bytes == sum(scope.bytes for scope in memory._scopes.values()) == 2 * 1_500 + 2 * 14
    assert len(document.items(value)) == 100


def test_what_was_opened_goes_first_and_is_read_again() -> None:
    """A fold goes on where it stood, though nothing that it was made of is open any more."""
    memory = ValueMemory(most=200_000)
    values = [{"n": number, "deep": [{"x": [number]}] * 9} for number in range(20)]

    def read(document: Document, array: Raw) -> Document:
        for item in document.items(array):
            for deep in document.items(document.members(item)["deep"]):
                assert document.about(deep, lambda document, value: len(document.members(value))) == 1
        return document

    for count in (18, 19, 20):
        document, array = remembered(memory, values[:count])
        read(document, array)
        document.folded(array, count, Fold(list, list.copy, "key"), lambda state, index: state.append(index))
        assert len(memory) == count
        assert memory._bytes <= 100_000
    known = list(memory._scopes[b"scope"].known.values())
    assert not known[0].objects
    assert known[-1].objects
    alone = Document(document.data)
    read(alone, alone.members(alone.root)["m"])
    # Nothing counts twice of what was read twice.
    assert document._parsed.opened == alone._parsed.opened
    assert fold(memory, [*values, "and more"]) == [20]


def test_what_a_request_is_done_with_is_let_go_and_read_again() -> None:
    memory = ValueMemory()
    values = [{"n": {"x": number}} for number in range(12)]

    def read(document: Document, array: Raw, begin: int) -> list[int]:
        inner = [document.members(item)["n"] for item in document.items(array)[begin:]]
        return [document.plain(document.members(each)["x"]) for each in inner]

    # Each reads what is new to it. Behind the first, the last three may be others; behind the next none were.
    for count, begin, closed in ((6, 0, 2), (8, 3, 7), (12, 7, 11)):
        document, array = remembered(memory, values[:count])
        assert read(document, array, begin) == list(range(begin, count))
        document.folded(array, count, Fold(list, list.copy, "key"), lambda state, index: state.append(index))
        document.release()
        known = list(memory._scopes[b"scope"].known.values())
        assert [bool(value.objects) for value in known] == [False] * closed + [True] * (count - closed)
        assert memory._bytes == sum(scope.bytes for scope in memory._scopes.values())
    # What is let go is there again for whoever looks at it, in the same places.
    assert document.items(array) is document.items(document.members(document.root)["m"])
    assert read(document, array, 0) == list(range(12))
    assert [document.data[slice(*document.place(item))] for item in document.items(array)] == [
        json.dumps(value).encode() for value in values
    ]


def test_no_scope_takes_more_than_half() -> None:
    memory = ValueMemory(most=1_000_000)
    remembered(memory, ["mine", "too"], b"small")
    for number in range(10):
        remembered(memory, [f"{number} {index}" for index in range(40)], b"large")
    assert memory._scopes[b"large"].bytes <= 500_000
    assert len(memory._scopes[b"large"].known) > 50
    assert [key[1] for key in memory._scopes[b"small"].known] == [b'"mine"', b'"too"']
    memory.forget(len(memory))
    assert (memory._bytes, memory._scopes) == (0, {})


def test_what_begins_as_before_is_read_as_without_it() -> None:
    """Whatever stands behind, and however it is spaced."""
    memory = ValueMemory()
    arrays = ["[1, 2]", "[1,2]", '[1,2,{"a":1},"x"]', '[1,2,{"a":1},"x"]', '[1,2,{"a":1},"x","y"]']
    arrays += ['[1,2,{"a":1},"xy","y"]', '[1,2,{"a":1},"x" , "y"]', '[1,2,{"a":1}]', '[1,2 ,{"a":1},"x","z"]']
    arrays += ["[1,23]", "[1]", "[]", "[ ]", '[ 1,2,{"a":1},"x","y"]', '[1,2,{"a":1},"x","y",3,3,3, 3]', "7"]
    found = 0
    for text in [*arrays, *arrays]:
        data = b'{"m":' + text.encode() + b',"x":[]}'
        alone, document = Document(data), Document(data)
        array = document.members(document.root)["m"]
        found += len(memory.first(b"scope", data, 6)[0])
        document.remember(array, memory, b"scope")
        items = document.items(array)
        wanted = alone.items(alone.members(alone.root)["m"])
        assert list(map(document.place, items)) == list(map(alone.place, wanted))
        assert list(map(document.source, items)) == list(map(alone.source, wanted))
        assert document._parsed.opened == alone._parsed.opened
        document.folded(array, len(items), Fold(list, list.copy, "key"), lambda state, index: None)
    assert found > 30


HEADS = ('{"m":[', '{"a":"é", "m": [', '{"m":[9],"m":[', '{"x":[3],"o":{"m":[', '{"m":7,"n":[', "[")
ARRAYS = ('1,"ü",{"a":[1,{}]},"x"', '1,"ü",{"a":[1,{}]},"x","y"', '1,"ü",{"a":[1,{}]},"x" , "z",[3]', "1")
TAILS = (
    '],"x":[5,{"y":"é"}]}',
    "] }",
    '],"m":[1,"ü",{"a":[1,{}]},"other"]}',
    '],"m":8}',
    "]}}",
    "]",
    ']"x"}',
    '],"x":"\\ud800"}',
    ",]}",
)


def edited(document: Document) -> tuple[list[Any], bytes]:
    """Everything that can be said of a document, and what it is when all of it was edited."""
    root, seen = document.root, list[Any]()
    for name, value in document.members(root).items():
        items = document.items(value)
        seen += [name, document.place(value), document.source(value), document.plain(value)]
        seen += [(document.place(item), document.source(item), document.string(item)) for item in items]
        for item in items:
            for inner in document.members(item).values():
                document.append(inner, b"0")
        if items:
            document.insert(value, len(items) // 2, b'"in"')
            document.rewrite(items[0], b'"first"')
            document.append(value, b'"last"')
        elif document.is_string(value):
            document.remove_member(value)
    if document.members(root):
        document.add_member(root, "new", b"1")
    seen += [document.repeats(root), document.source(root), document._parsed.opened]
    return seen, document.render()


def made(make: Callable[[], Document]) -> Any:
    try:
        return edited(make())
    except NotJson:
        return None


def test_what_is_known_before_it_is_read_is_as_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed_text, "_LEAST_SPARED", 0)
    memory, begun = ValueMemory(), 0
    whole = [head + array + tail for head in HEADS for array in ARRAYS for tail in TAILS]
    for text in [*whole, *whole, *reversed(whole)]:
        for data in (text.encode(), text.encode().replace(b"\xc3", b"\xff", 1)):
            wanted, document = made(partial(Document, data)), None
            known = parsed_text.known_beginning(data, memory, b"scope")
            with suppress(NotJson):
                document = (
                    Document(data) if known is None else Document.begun(data, "m", memory, b"scope", known)
                )
            found = None if document is None else made(lambda document=document: document)
            if document is None or document.known is None:
                assert found == wanted, data
                with suppress(NotJson):
                    plain = Document(data)
                    array = plain.members(plain.root).get("m")
                    plain.remember(array, memory, b"scope")
                    plain.folded(array, len(plain.items(array)), Fold(list, list.copy, "key"), nothing)
                continue
            begun += 1
            assert wanted is not None, data
            assert found == wanted, data
    assert begun > 40


def nothing(state: list[int], index: int) -> None:
    """Makes nothing of an item."""
