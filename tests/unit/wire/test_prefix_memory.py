"""The memory of prefixes is bounded, and does not change the values that are read."""

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from msgspec import Raw, Struct

from penumbra.wire import prefix_memory
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson
from penumbra.wire.prefix_memory import PrefixMemory

LONG = [f"value {number}" for number in range(60)]


def remembered(memory: PrefixMemory, text: bytes, scope: bytes = b"scope") -> tuple[Document, Raw]:
    document = Document(b'{"m":' + text + b"}")
    array = document.members(document.root)["m"]
    document.remember(array, memory, scope)
    return document, array


def fold(memory: PrefixMemory, values: list[Any], given: object = None, scope: bytes = b"scope") -> list[int]:
    """Return the indexes of the items that a computation over an array has read."""
    document, array = remembered(memory, json.dumps(values).encode(), scope)
    stepped: list[int] = []

    def step(state: list[Any], index: int) -> None:
        stepped.append(index)
        state.append(document.plain(document.items(array)[index]))

    assert document.computed(array, len(values), list, step, "key", given) == values
    return stepped


def test_few_states_of_a_fold_are_kept_and_they_count() -> None:
    memory = PrefixMemory()
    for _ in range(2):
        fold(memory, LONG, 1)
    alone = memory.bytes
    everything = list(range(60))
    for given, stepped in (
        (1, []),
        (2, everything),
        (1, []),
        (2, []),
        (3, everything),
        (2, []),
        (3, []),
        (1, everything),
    ):
        assert fold(memory, LONG, given) == stepped, given
    # A state takes about 200 bytes for each string.
    assert alone + 10_000 < memory.bytes < alone + 20_000


class _State(Struct):
    def copy(self) -> "_State":
        return self

    def weigh(self) -> int:
        return 100_000


def test_a_state_has_the_weight_that_it_says() -> None:
    memory = PrefixMemory()
    for _ in range(2):
        document, array = remembered(memory, json.dumps(LONG).encode())
    alone = memory.bytes
    for _ in range(2):
        document.computed(array, len(LONG), _State, lambda state, index: None, "key")
        assert memory.bytes == alone + 100_000


def test_short_arrays_are_remembered_once_they_came_again() -> None:
    memory = PrefixMemory()
    assert [fold(memory, ["a", "b", "c"]) for _ in range(3)] == [[0, 1, 2], [0, 1, 2], []]
    assert len(memory) == 1


def test_few_arrays_are_kept_those_used_last() -> None:
    memory = PrefixMemory()
    for number in range(40):
        fold(memory, [str(number), *LONG])
    assert len(memory) == 16
    assert fold(memory, ["39", *LONG]) == [58, 59, 60]
    assert fold(memory, ["0", *LONG]) == list(range(61))


def test_as_many_items_are_expected_to_change_as_did() -> None:
    """Clients move the cache breakpoint of the last message, so the state before that message is kept."""
    memory = PrefixMemory()
    for count in range(10, 30, 2):
        stepped = fold(memory, [*LONG[:count], "marked"])
    assert stepped == [26, 27, 28]
    assert len(memory) == 1
    # An unexpected item has changed.
    assert fold(memory, [*LONG[:27], "other", "marked"]) == [26, 27, 28]
    assert fold(memory, [*LONG[:27], "other", "marked", "more"]) == [27, 28, 29]


def test_another_request_between_two_turns_costs_the_conversation_its_last_turn_at_most() -> None:
    memory = PrefixMemory()
    for count in range(10, 30, 2):
        fold(memory, [*LONG[:count], "marked"])
        fold(memory, [*LONG[: count - 1], "aside"])
    assert len(fold(memory, [*LONG[:30], "marked"])) <= 6


def test_the_common_part_of_two_prefixes_counts_once() -> None:
    memory = PrefixMemory()
    for count in range(30, 61, 2):
        fold(memory, LONG[:count])
    alone = PrefixMemory()
    fold(alone, LONG)
    assert memory.bytes <= 1.2 * alone.bytes


@pytest.mark.parametrize("other", [b"other", b"scope"], ids=["another", "its own"])
def test_no_scope_takes_more_than_half_nor_meets_another(other: bytes) -> None:
    memory = PrefixMemory(most=1_000_000)
    fold(memory, ["mine", *LONG], scope=b"scope")
    for number in range(10):
        fold(memory, [number, *LONG], scope=other)
        assert memory.bytes <= 500_000 + 120_000
    assert (fold(memory, ["mine", *LONG], scope=b"scope") == [58, 59, 60]) == (other == b"other")
    assert fold(memory, ["mine", *LONG], scope=b"third") == list(range(61))


@pytest.mark.parametrize("values", [["x" * 300_000] * 4, [{}] * 400], ids=["long", "many"])
def test_an_array_that_is_too_large_is_not_remembered(values: list[Any]) -> None:
    memory = PrefixMemory(most=1_000_000)
    for _ in range(3):
        assert fold(memory, values) == list(range(len(values)))
    assert memory.bytes == 0


def test_arrays_unused_for_half_an_hour_are_dropped_a_few_at_once() -> None:
    now = [0.0]
    memory = PrefixMemory(clock=lambda: now[0])
    for number in range(10):
        fold(memory, [number, *LONG])
    for now[0], left in ((1_700, 11), (1_801, 7), (1_802, 3), (1_803, 1), (9_000, 1)):
        fold(memory, ["busy", *LONG])
        assert len(memory) == left
    assert fold(memory, ["busy", *LONG]) == [], "what goes on stays"


def nothing(stepped: list[int], state: list[int], index: int) -> None:
    """Do nothing with an item, and note the call."""
    stepped.append(index)


def test_a_known_beginning_changes_no_reading() -> None:
    """The text after the prefix may be anything, in any spacing."""
    memory = PrefixMemory()
    arrays = ["[1, 2]", "[1,2]", '[1,2,{"a":1},"x"]', '[1,2,{"a":1},"x"]', '[1,2,{"a":1},"x","y"]']
    arrays += ['[1,2,{"a":1},"xy","y"]', '[1,2,{"a":1},"x" , "y"]', '[1,2,{"a":1}]', '[1,2 ,{"a":1},"x","z"]']
    arrays += ["[1,23]", "[1]", "[]", "[ ]", '[ 1,2,{"a":1},"x","y"]', '[1,2,{"a":1},"x","y",3,3,3, 3]', "7"]
    found = 0
    for text in [*arrays, *arrays]:
        document, array = remembered(memory, text.encode())
        alone = Document(document.data)
        items, wanted = document.items(array), alone.items(alone.members(alone.root)["m"])
        assert list(map(document.place, items)) == list(map(alone.place, wanted))
        assert list(map(document.source, items)) == list(map(alone.source, wanted))
        stepped: list[int] = []
        step = partial(nothing, stepped)
        document.computed(array, len(items), list, step, "key")
        found += len(items) - len(stepped)
    assert found > 10


HEADS = ('{"m":[', '{"a":"é", "m": [', '{"m":[9],"m":[', '{"x":[3],"o":{"m":[', '{"m":7,"n":[', "[")
ARRAYS = ('1,"ü",{"a":[1,{}]},"x"', '1,"ü",{"a":[1,{}]},"x","y"', '1,"ü",{"a":[1,{}]},"x" , "z",[3]', "1")
TAILS = (
    *('],"x":[5,{"y":"é"}]}', "] }", '],"m":[1,"ü",{"a":[1,{}]},"other"]}', '],"m":8}', "]}}"),
    *("]", ']"x"}', '],"x":"\\ud800"}', ",]}"),
)


def edited(document: Document) -> tuple[list[Any], bytes]:
    """Return all facts about a document, and its text after an edit of every value."""
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
    seen += [document.repeats(root), document.source(root)]
    return seen, document.render()


def made(make: Callable[[], Document]) -> Any:
    try:
        return edited(make())
    except NotJson:
        return None


def test_a_prefix_known_in_advance_changes_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_memory, "LEAST_SPARED", 0)
    memory, begun = PrefixMemory(), 0
    whole = [head + array + tail for head in HEADS for array in ARRAYS for tail in TAILS]
    for text in [*whole, *whole, *reversed(whole)]:
        for data in (text.encode(), text.encode().replace(b"\xc3", b"\xff", 1)):
            wanted, document = made(partial(Document, data)), None
            known = memory.first(b"scope", data)
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
                    plain.computed(array, len(plain.items(array)), list, partial(nothing, []), "key")
                continue
            begun += 1
            assert wanted is not None, data
            assert found == wanted, data
    assert begun > 40
