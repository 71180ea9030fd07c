"""Which of several calls of one name is meant."""

from __future__ import annotations

from penumbra.conversation.call_names import Name, NamedCalls


def calls(count: int, *, first_lasts: bool = True) -> NamedCalls:
    named = NamedCalls()
    for number in range(count):
        named.note(b"%d" % number, "npm test", b"", lasts=first_lasts or number > 0)
    return named


def test_the_last_one_is_meant_by_its_bare_name() -> None:
    assert calls(3).name(b"2") == calls(3).name_of_part(b"2") == Name("npm test", frozenset({b"2"}))


def test_others_are_counted_from_the_first_which_must_stand_there() -> None:
    assert calls(3).name(b"0") == Name("npm test (the 1st)", frozenset({b"0"}))
    for number, ordinal in ((1, "2nd"), (2, "3rd"), (3, "4th"), (8, "9th")):
        key = b"%d" % number
        assert calls(12).name_of_part(key) == Name(f"npm test (the {ordinal})", frozenset({b"0", key}))
    assert calls(12).name(b"9") is None
    assert calls(3, first_lasts=False).name(b"1") is None


def test_who_says_the_same_is_no_rival() -> None:
    named = calls(1)
    named.note(b"same", "npm test", b"0", lasts=False)
    assert named.name(b"0") == Name("npm test", frozenset({b"0"}))
    named.note(b"other", "npm test", b"", lasts=True)
    assert named.name(b"0") == Name("npm test (the 1st)", frozenset({b"0"}))


def test_of_lines_of_a_file_only_who_shows_them_is_a_rival() -> None:
    named = calls(1)
    named.note_lines("npm test", 1, 40)
    named.note(b"b", "npm test", b"", lasts=True)
    named.note_lines("npm test", 30, 60)
    assert named.name_of_lines(b"0", 2, 29) == Name("npm test", frozenset({b"0"}))
    assert named.name_of_lines(b"0", 2, 30) == Name("npm test (the 1st)", frozenset({b"0"}))
