"""What a memory of values takes is bounded, whatever they hold and whatever is made of them."""

from __future__ import annotations

import json
from typing import Any

from penumbra.wire.document import Document
from penumbra.wire.stand_ins import Fold
from penumbra.wire.value_memory import ValueMemory


def fold(memory: ValueMemory, values: list[Any], given: object = None) -> list[int]:
    """The items of an array that a fold took in."""
    document = Document(json.dumps({"m": values}).encode())
    array = document.members(document.root)["m"]
    document.remember(array, memory, b"scope")
    stepped: list[int] = []

    def step(state: list[int], index: int) -> None:
        stepped.append(index)
        state.append(index)

    document.folded(array, len(values), Fold(list, list.copy, "key", given), step)
    return stepped


def test_what_was_opened_counts() -> None:
    memory = ValueMemory(most=1_000_000)
    for count in (10, 10_000):
        document = Document(json.dumps({"m": [[{}] * count, "small"]}).encode())
        array = document.members(document.root)["m"]
        document.remember(array, memory, b"scope")
        assert len(memory) >= 2
        for value in document.items(document.items(array)[0]):
            assert document.members(value) == {}
        assert memory._bytes <= 1_000_000
        assert all(len(key[1]) < 20_000 for key in memory._known)
        assert (len(memory) > 1) == (count == 10)


def test_few_states_of_a_fold_are_kept_and_they_count() -> None:
    memory = ValueMemory()
    for given in (1, 1, 2, 3):
        fold(memory, ["a", "b", "c"], given)
    [[beginning]] = memory._beginnings.values()
    assert [entry[0] for entry in beginning.states["key"]] == [2, 3]
    bytes_before = memory._bytes
    assert fold(memory, ["a", "b", "c"], 3) == []
    assert fold(memory, ["a", "b", "c"], 4) == [0, 1, 2]
    assert memory._bytes == bytes_before
    memory.forget(len(memory))
    assert memory._bytes == 0
    assert not memory._beginnings


def test_few_beginnings_are_kept_those_used_last() -> None:
    memory = ValueMemory()
    values = [f"value {n}" for n in range(60)]
    for count in range(60, 10, -1):
        fold(memory, values[:count])
    [beginnings] = memory._beginnings.values()
    assert [len(beginning.values) for beginning in beginnings] == list(range(26, 10, -1))
    assert fold(memory, values[:20]) == []
    assert beginnings[-1].values[-1].data == b'"value 19"'


def test_a_beginning_goes_with_any_of_its_values() -> None:
    memory = ValueMemory()
    for _ in range(2):
        fold(memory, ["a", "b", "c"])
    fold(memory, ["z"])
    memory.forget(1)
    assert not memory._beginnings
    assert fold(memory, ["a", "b", "c"]) == [0, 1, 2]
