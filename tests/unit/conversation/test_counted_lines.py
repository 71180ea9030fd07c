"""A count replaces the lines of an output that several earlier results show."""

from __future__ import annotations

import pytest

from penumbra import rules
from penumbra.compress.calls.classify import Call, classify
from penumbra.conversation.back_references import with_references
from penumbra.conversation.line_index import LineIndex

STEPS = [f"module_{n} is built from src/module_{n}.c with all of its parts" for n in range(40)]
OTHER = [f"part {n} of the archive goes to store-{n}" for n in range(40)]
LATER = str.maketrans("0123456789", "1234567890")
"""A translation table that changes every digit."""
MIXED = [line for pair in zip(STEPS[:8], OTHER[20:28], strict=True) for line in pair]
"""Alternating lines of two texts. No reference can name them."""
NEW = "linking the whole with flag -O9"
MAKE = classify("Bash", {"command": "make all"})
WATCH = classify("Bash", {"command": "./watch"})


def shown(*texts: list[str]) -> LineIndex:
    index = LineIndex()
    for number, lines in enumerate(texts):
        index.calls.note(bytes([number]), f"Bash ./run {number}")
        index.note(bytes([number]), f"Bash ./run {number}", "\n".join(lines))
    return index


def made(index: LineIndex, lines: list[str], call: Call = MAKE, name: str = "") -> list[str]:
    found = with_references(index, "\n".join(lines), call, name, lossy=True)
    return lines if found is None else found.text.split("\n")


def test_known_lines_are_counted_and_new_ones_stay() -> None:
    index = shown(STEPS, OTHER)
    assert made(index, [NEW, *MIXED, "now in phase 7"]) == [NEW, "[16 lines said before]", "now in phase 7"]
    found = with_references(index, "\n".join([NEW, *MIXED]), MAKE, lossy=True)
    assert found is not None
    assert found.is_lossy
    assert found.keys == {b"\x00", b"\x01"}
    assert with_references(index, "\n".join(MIXED), MAKE, lossy=False) is None
    assert made(index, ["[3 lines said before]", *MIXED]) == ["[3 lines said before]", *MIXED]


def test_lines_that_are_not_of_the_output_stay_whatever_was_shown() -> None:
    mark = "a line that a stage has put there"
    lines = [*MIXED[:8], mark, *MIXED[8:]]
    found = with_references(
        shown(STEPS, OTHER, ["\0", "\n"]), "\n".join(lines), MAKE, "", "\n".join(MIXED), lossy=True
    )
    assert found is not None
    assert mark in found.text.split("\n")


REPORTS = [line for rule in rules.load("failures.yaml")["reports"].values() for line in rule["examples"]]
NO_STATEMENTS = [
    "[3 lines of the store are left out]",
    "+ the store is expected",
    '[table 1: 4 objects; columns "a"]',
    "~A 12 13 14",
]


@pytest.mark.parametrize("line", [*REPORTS, *NO_STATEMENTS])
def test_reports_and_lines_without_a_statement_stay(line: str) -> None:
    index = shown([*STEPS, line, *OTHER])
    known = made(index, ["go", *MIXED, line, *MIXED, "end"])
    assert known == ["go", "[16 lines said before]", line, "[16 lines said before]", "end"]


def test_a_failure_stays_with_the_lines_beside_it() -> None:
    failure = "Error: the build of src/a.c failed with code 2"
    index = shown([*STEPS, failure, *OTHER])
    beside = [*MIXED[-3:], failure, *MIXED[:3]]
    known = made(index, ["go", *MIXED, failure, *MIXED, "end"])
    assert known == ["go", "[13 lines said before]", *beside, "[13 lines said before]", "end"]


@pytest.mark.parametrize("known", [MIXED, STEPS[5:20]], ids=["counted", "referred to"])
@pytest.mark.parametrize(
    ("mark", "count"), [("[the line above 3 more times]", 1), ("[the 2 lines above 1 more time]", 2)]
)
def test_a_mark_stays_with_the_lines_that_it_counts(known: list[str], mark: str, count: int) -> None:
    result = made(shown(STEPS, OTHER), ["go", *known, mark, "end"])
    assert result[-2 - count :] == [*known[-count:], mark, "end"]
    assert len(result) < len(known)


def test_times_make_no_line_new_but_other_numbers_do() -> None:
    first = [f"[2026-01-02 10:00:{n:02}] worker-{n} has taken {n} items in {n}.5s" for n in range(10, 30)]
    index = shown(first[::2], first[1::2])
    later = [
        line.replace("10:00:", "11:30:").replace(".5s", ".7s")
        for pair in zip(first[:9], first[11:], strict=False)
        for line in pair
    ]
    assert made(index, ["go", *later]) == ["go", f"[{len(later)} lines said before, but for times]"]
    more = [line.replace(" items", "5 items") for line in later]
    assert made(index, ["go", *more]) == ["go", *more]


@pytest.mark.parametrize(
    "time",
    [
        *("2026-01-02T03:04:05.678Z", "3:04:05", "2026-01-02 03:04:05,678+01:00"),
        *("12ms", "1.5 s", "3m", "4 h", "7us", "7 µs", "7ns", "2m 4s"),
    ],
)
def test_every_form_of_a_time_is_known(time: str) -> None:
    lines = [f"{line} after {time}" for line in MIXED]
    new = [f"{line} after {time.translate(LATER)}" for line in reversed(MIXED)]
    assert made(shown(lines), [*new, NEW])[0] == "[16 lines said before, but for times]"


@pytest.mark.parametrize(
    "line",
    [
        "median=1.5ms over all of them (n=5)",
        "real    0m1.500s",
        "parse/large 1.5 ms/op",
        "  2026-01-02T03:04:05Z",
    ],
)
def test_a_time_that_was_asked_for_is_new(line: str) -> None:
    new = line.translate(LATER)
    assert new in made(shown([*STEPS, line], OTHER), [*MIXED, new, *MIXED])


@pytest.mark.parametrize(
    "command",
    [
        *("grep -rn store src", "git status", "ls -la", "git diff", "cat a.py", "npx eslint src"),
        *("curl -s x.io", "make && git status", "git apply a.patch; git diff", "git log -3 && gh issue list"),
    ],
)
def test_each_line_of_lists_hits_differences_and_files_stays(command: str) -> None:
    assert made(shown(STEPS, OTHER), MIXED, classify("Bash", {"command": command})) == MIXED


def test_only_the_last_result_of_an_unknown_command_counts() -> None:
    index, later = shown(STEPS, OTHER), STEPS[:8:-2]
    assert made(index, later, WATCH, "Bash ./run 0") == [f"[{len(later)} lines said before]"]
    assert made(index, later, WATCH, "Bash ./run 1") == later
    assert made(index, later, WATCH, "Bash ./run 2") == later
    assert made(index, later, classify("find_flights", {"to": "EWR"}), "find_flights") == later
    index.calls.note(b"2", "Bash ./run 0")
    index.note(b"2", "Bash ./run 0", "\n".join(OTHER))
    assert made(index, later, WATCH, "Bash ./run 0") == later


def test_times_count_in_a_result_of_an_unknown_command() -> None:
    rows = [f"worktree-{n} is working on its part of the plan since {n + 3}m" for n in range(12)]
    index, later = shown(rows), [row.replace(" since ", " since 1h ") for row in rows[::-2]]
    assert made(index, later, WATCH, "Bash ./run 0") == later
    assert made(index, later) == ["[6 lines said before, but for times]"]


@pytest.mark.parametrize(
    ("short", "is_known"), [("", True), ("checked", True), ("broken", False), ("12 pass", False)]
)
def test_a_short_line_with_a_digit_is_a_value(short: str, *, is_known: bool) -> None:
    index = shown([*STEPS, "checked", "12 pass"], OTHER)
    result = made(index, [*MIXED, short, *reversed(MIXED)])
    assert (result == ["[33 lines said before]"]) is is_known
    assert (short in result) is not is_known


def test_stages_learn_which_lines_and_facts_were_shown() -> None:
    told = shown(STEPS).shown_before()
    assert told.is_line(STEPS[3])
    assert not told.is_line(OTHER[3])
    assert b"src/module_3.c" in told.facts
    assert b"store-3" not in told.facts
    index = LineIndex()
    index.calls.note(b"1", "what Write a.py was given")
    index.note(b"1", "what Write a.py was given", "\n".join(STEPS), is_argument=True)
    assert b"src/module_3.c" not in index.shown_before().facts
