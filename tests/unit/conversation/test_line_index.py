"""Places of lines in earlier texts, and indexes that are kept for the next turn."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.conversation import line_index
from penumbra.conversation.line_index import LineIndex, LineIndexes, is_telling, places_in
from support.examples import examples

LINES = ["one line of some texts", "another line of them", "short", "    blanks     ", ""]
pool = st.sampled_from(LINES)


def indexed(*texts: Sequence[str]) -> LineIndex:
    index = LineIndex()
    for number, lines in enumerate(texts):
        index.calls.note(b"%d" % number, "Bash ./run")
        index.note(b"%d" % number, "Bash ./run", "\n".join(lines))
    return index


@settings(max_examples=examples(100))
@given(st.lists(st.lists(pool, max_size=20), max_size=6))
def test_latest_places_of_a_line_are_found(texts: list[list[str]]) -> None:
    index = indexed(*texts)
    for line in LINES[:-1]:
        found = [(text.key, place) for text, place in index.places(line)]
        places = [
            (b"%d" % n, place)
            for n, text in enumerate(texts)
            for place, one in enumerate(text)
            if one == line
        ]
        assert found == places[-24:][::-1]


def test_the_same_line_with_other_blanks_is_passed_over() -> None:
    index = indexed(["  a line of code()"], ["    a line of code()"])
    assert [(text.key, place) for text, place in index.places("  a line of code()")] == [(b"0", 0)]
    assert index.found(["a line of code()", "another one()", "short"]) == [0]


def test_only_the_latest_of_many_places_are_looked_at() -> None:
    index = indexed(*[["a line that all texts have", f"line of text {n}"] for n in range(40)])
    assert len(list(index.places("a line that all texts have"))) == 24


@given(st.lists(st.sampled_from("abcd")), st.lists(st.sampled_from(["a", "b", "c", "x", None])))
def test_a_number_is_that_of_an_equal_line(original: list[str], lines: list[str | None]) -> None:
    numbers = places_in(lines, original)
    found = [number for number in numbers if number]
    assert found == sorted(set(found))
    for line, number in zip(lines, numbers, strict=True):
        assert not number or original[number - 1] == line


@pytest.mark.parametrize(("line", "expected"), [("a" * 12, True), ("a" * 11, False), ("a" + " " * 20, False)])
def test_short_lines_are_not_looked_up_by_themselves(line: str, *, expected: bool) -> None:
    assert is_telling(line) is expected


def test_stages_learn_which_lines_and_facts_were_shown() -> None:
    index = indexed([f"module_{n} is built from src/module_{n}.c" for n in range(4)])
    told = index.shown_before()
    assert told.is_line("module_3 is built from src/module_3.c")
    assert not told.is_line("module_4 is built from src/module_4.c")
    assert b"src/module_3.c" in told.facts
    assert b"src/module_4.c" not in told.facts
    index.calls.note(b"1", "what Write a.py was given")
    index.note(b"1", "what Write a.py was given", "a = src/module_5.c", is_argument=True)
    assert b"src/module_5.c" not in index.shown_before().facts


LATER = str.maketrans("0123456789", "1234567890")
"""A translation table that changes every digit."""


@pytest.mark.parametrize(
    "time",
    [
        *("2026-01-02T03:04:05.678Z", "3:04:05", "2026-01-02 03:04:05,678+01:00"),
        *("12ms", "1.5 s", "3m", "4 h", "7us", "7 µs", "7ns", "2m 4s"),
    ],
)
def test_a_line_with_another_time_was_shown(time: str) -> None:
    told = indexed([f"the worker is done after {time}"]).shown_before()
    assert told.is_line(f"the worker is done after {time.translate(LATER)}")


@pytest.mark.parametrize(
    "line",
    [
        "the worker has taken 12 items",
        "median=1.5ms over all of them (n=5)",
        "real    0m1.500s",
        "parse/large 1.5 ms/op",
        "  2026-01-02T03:04:05Z",
    ],
)
def test_other_numbers_and_times_that_were_asked_for_are_new(line: str) -> None:
    told = indexed([line]).shown_before()
    assert told.is_line(line.strip())
    assert not told.is_line(line.strip().translate(LATER))


def test_the_longest_known_index_is_taken_by_one_request_at_a_time() -> None:
    kept = LineIndexes()
    one, two = LineIndex(), LineIndex()
    kept.keep(b"a", one, 10)
    kept.keep(b"ab", two, 20)
    assert kept.take([b"b", b"ba"])[1] == 0
    assert kept.take([b"a", b"ab", b"abc"]) == (two, 2)
    assert kept.take([b"a", b"ab", b"abc"]) == (one, 1)
    assert kept.take([b"a", b"ab", b"abc"])[1] == 0


def test_the_number_and_the_size_of_indexes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_index, "CONVERSATIONS", 2)
    monkeypatch.setattr(line_index, "CHARACTERS", 100)

    def found_after(*sizes: int) -> list[int]:
        kept = LineIndexes()
        for number, size in enumerate(sizes):
            kept.keep(b"%d" % number, LineIndex(), size)
        return [kept.take([b"%d" % number])[1] for number in range(len(sizes))]

    assert found_after(10, 10, 10) == [0, 1, 1]
    assert found_after(101) == [0]
    assert found_after(60, 60) == [0, 1]
