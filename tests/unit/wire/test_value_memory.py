"""What a memory of values takes is bounded, whatever they hold and whatever is made of them."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from penumbra.wire.document import Document
from penumbra.wire.stand_ins import Fold
from penumbra.wire.value_memory import ValueMemory


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


def test_a_beginning_goes_with_any_of_its_values() -> None:
    memory = ValueMemory()
    for _ in range(2):
        fold(memory, ["a", "b", "c"])
    fold(memory, ["z"])
    memory.forget(1)
    assert not memory._scopes[b"scope"].beginnings
    assert fold(memory, ["a", "b", "c"]) == [0, 1, 2]


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
    assert memory._bytes == sum(scope.bytes for scope in memory._scopes.values()) == 2 * 8_000 + 2 * 14
    assert len(document.items(value)) == 100


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
        assert document._opened == alone._opened
        document.folded(array, len(items), Fold(list, list.copy, "key"), lambda state, index: None)
    assert found > 30
