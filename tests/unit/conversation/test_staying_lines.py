"""Lines that stay in each result, headings that stay with the lines below them, and units of files."""

import pytest

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.conversation.staying_lines import FileUnits, StayingLines

RUN = classify("Bash", {"command": "make check"})
SEARCH = classify("Grep", {"pattern": "x"})


def staying(lines: list[str], call: Call = RUN) -> list[str]:
    return [lines[position] for position in StayingLines.of(lines, call).positions]


@pytest.mark.parametrize(
    "line",
    [
        "Error: no such table: carts",
        "3 failed, 40 passed in 2.1s",
        "Process exited with code 2",
        "src/a.c:12:3: warning: unused variable",
    ],
)
def test_reports_of_changes_stay(line: str) -> None:
    lines = ["", "one step of the way", "", line, "", "another step", ""]
    assert line in staying(lines)
    # A quoted text reports no change.
    for call in (SEARCH, classify("Read", {"file_path": "a.py"}), classify("Bash", {"command": "git log"})):
        assert staying(lines, call) == []


def test_a_failure_stays_with_the_lines_beside_it() -> None:
    enclosed = ["Cart", "  adds an item", "", "  totals", "    rounds up", "      AssertionError: 3 != 4"]
    assert staying(["", *enclosed, "", "  empties"]) == enclosed[-2:]
    paragraph = ["error[E0308]: mismatched types", "  --> src/main.rs:4:5", "   |", " 4 | let a: u8 = b;"]
    assert staying([*paragraph, "", "Compiling c v0.1.0"]) == paragraph[:2]


@pytest.mark.parametrize("call", [RUN, SEARCH], ids=["run", "search"])
def test_an_acknowledgement_of_a_change_stays(call: Call) -> None:
    changes = rules.load("failures.yaml")["reports"]["change"]["examples"]
    lines = [line for change in changes for line in ("some line", change)]
    assert staying([*lines, "other line"], call) == changes


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("File: a.py", "File: b.py"),
        ("==> a.py <==", "==> b.py <=="),
        ("--- a.py ---", "--- b.py ---"),
        ("src/a.py:", "src/b.py:"),
        ("src/a.py", "src/b.py"),
        ("diff --git a/a.py b/a.py", "diff --git a/b.py b/b.py"),
        ('<file path="a.py">', '<file path="b.py">'),
    ],
)
def test_a_heading_stays_where_lines_below_it_stay(first: str, second: str) -> None:
    hits = [f"  {n}: some hit" for n in range(4)]
    text = StayingLines.of([first, *hits, second, *hits], SEARCH)
    # `heading` returns the heading that must stay if the lines from start to end are removed.
    assert text.heading(1, 8) == 5
    assert text.heading(1, 10) is None
    assert text.heading(1, 5) is None
    assert text.heading(6, 9) is None
    three = StayingLines.of([first, *hits, second, *hits, first, *hits], SEARCH)
    assert three.heading(0, 10) is None
    assert three.heading(0, 12) == 10


def test_a_single_file_has_no_headings() -> None:
    lines = ["class A:", "    pass", "## part", "    error = 1"]
    text = StayingLines.of(lines, classify("Read", {"file_path": "a.py"}))
    assert text == StayingLines()
    several = classify("Bash", {"command": "tail -n +1 a.py b.py"})
    assert StayingLines.of(["==> a.py <==", "x", "==> b.py <==", "y"], several).heading(1, 3) == 2


def test_lines_between_staying_lines_can_go() -> None:
    text = StayingLines((2, 5, 6))
    assert list(text.stretches(0, 9)) == [(0, 2), (3, 5), (7, 9)]
    assert list(text.stretches(2, 6)) == [(3, 5)]
    assert list(text.stretches(5, 7)) == []


BODY = [f"        step({n})" for n in range(12)]
METHODS = [
    "export class Store {",
    *("    private open = true;", ""),
    *("    /** Opens it. */", "    first() {", *BODY, "", *BODY, "    }", ""),
    *("    second() {", *BODY, "    }", "}", ""),
    *("function last() {", *BODY, "", *BODY, "}"),
]
GO = ["func Load() error {", "\topen()", "", "\tread()", "}", "", "func Save() {", "\twrite()", "}"]
KEYS = [line for n in range(60) for line in (f"key_{n}: value", "")]
VALUES = [f"    value_{n}" for n in range(200)]


def units(lines: list[str]) -> FileUnits:
    return FileUnits.of(lines, (), range(len(lines)))


@pytest.mark.parametrize(
    ("lines", "beginnings"),
    [
        (METHODS, ["export class Store {", "/** Opens it. */", "second() {", "function last() {"]),
        (GO, ["func Load() error {", "func Save() {"]),
    ],
    ids=["methods of a class, no paragraphs", "functions, no statements"],
)
def test_units_begin_at_their_level(lines: list[str], beginnings: list[str]) -> None:
    assert [lines[position].strip() for position in units(lines).beginnings] == beginnings


@pytest.mark.parametrize(
    ("lines", "before", "after", "last", "first"),
    [
        (METHODS, 10, 11, 3, METHODS.index("    second() {")),
        (KEYS, 60, 61, 54, 68),
        (VALUES, 100, 100, 70, 130),
    ],
    ids=["its whole unit", "some lines", "not too many"],
)
def test_much_stays_around_a_change(lines: list[str], before: int, after: int, last: int, first: int) -> None:
    file = units(lines)
    assert file.repeated(0, before) == (1, last)
    assert file.repeated(after, len(lines)) == (first, file.end - 1)
