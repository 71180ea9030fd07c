"""Names that tell several calls of one tool and path apart."""

from __future__ import annotations

import pytest

from penumbra.conversation.call_names import Name, NamedCalls


def calls(count: int, *, first_lasts: bool = True) -> NamedCalls:
    named = NamedCalls()
    for number in range(count):
        named.note(b"%d" % number, "npm test", lasts=first_lasts or number > 0)
    return named


@pytest.mark.parametrize(
    ("count", "asked", "first_lasts", "name", "keys"),
    [
        (3, b"2", True, "npm test", {b"2"}),
        (3, b"0", True, "npm test (the 1st)", {b"0"}),
        (12, b"1", True, "npm test (the 2nd)", {b"0", b"1"}),
        (12, b"2", True, "npm test (the 3rd)", {b"0", b"2"}),
        (12, b"8", True, "npm test (the 9th)", {b"0", b"8"}),
        (12, b"9", True, None, set()),
        (3, b"1", False, None, set()),
    ],
    ids=["last", "first", "second", "third", "ninth", "too far", "first may go"],
)
def test_calls_before_the_last_are_counted_from_the_first(
    count: int, asked: bytes, first_lasts: bool, name: str | None, keys: set[bytes]
) -> None:
    expected = None if name is None else Name(name, frozenset(keys))
    assert calls(count, first_lasts=first_lasts).name(asked) == expected


def test_a_duplicate_may_be_meant_as_well() -> None:
    named = calls(1)
    named.note(b"same", "npm test", b"0", lasts=False)
    assert named.name(b"0", is_whole=True) == Name("npm test", frozenset({b"0"}))
    assert named.name(b"0") == Name("npm test (the 1st)", frozenset({b"0"}))


@pytest.mark.parametrize(("last", "name"), [(29, "npm test"), (30, "npm test (the 1st)")])
def test_a_call_that_does_not_show_the_lines_is_not_meant(last: int, name: str) -> None:
    named = calls(1)
    named.note_lines("npm test", 1, 40)
    named.note(b"b", "npm test")
    named.note_lines("npm test", 30, 60)
    assert named.name(b"0", lines=(2, last)) == Name(name, frozenset({b"0"}))
