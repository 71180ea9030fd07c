"""Lines of an output that were shown before, here and there."""

from __future__ import annotations

import pytest

from penumbra.compress.calls.classify import Call, classify
from penumbra.conversation.back_references import with_references
from penumbra.conversation.line_index import LineIndex

STEPS = [f"module_{n} is built from src/module_{n}.c with all of its parts" for n in range(40)]
OTHER = [f"part {n} of the archive goes to store-{n}" for n in range(40)]
LATER = str.maketrans("0123456789", "1234567890")
"""Other digits."""


def shown(*texts: str) -> LineIndex:
    index = LineIndex()
    for number, text in enumerate(texts):
        index.calls.note(bytes([number]), f"Bash ./run {number}")
        index.note(bytes([number]), f"Bash ./run {number}", text)
    return index


def run(command: str = "make all") -> Call:
    return classify("Bash", {"command": command})


def made(
    index: LineIndex, lines: list[str], call: Call | None = None, name: str = "", *, lossy: bool = True
) -> list[str]:
    found = with_references(index, "\n".join(lines), call=call or run(), name=name, lossy=lossy)
    return lines if found is None else found.text.split("\n")


def mixed() -> list[str]:
    """Lines of two texts, in turns: no part of one."""
    return [line for pair in zip(STEPS[:8], OTHER[20:28], strict=True) for line in pair]


def test_what_is_known_goes_and_what_is_new_stays() -> None:
    index = shown("\n".join(STEPS), "\n".join(OTHER))
    new = ["linking the whole with flag -O9"]
    assert made(index, [*new, *mixed(), "now in phase 7"]) == [
        *new,
        "[16 lines said before]",
        "now in phase 7",
    ]
    found = with_references(index, "\n".join([*new, *mixed()]), call=run(), lossy=True)
    assert found is not None
    assert found.is_lossy
    assert found.keys == {b"\x00", b"\x01"}


@pytest.mark.parametrize(
    "summary",
    [
        "Fixed 3 files",
        "Checked 290 files in 108ms. No fixes applied.",
        "  Formatted 12 files in 30ms.",
        "2 files reformatted, 10 files left unchanged.",
        "Found 0 problems in 41 modules",
    ],
)
def test_what_sums_up_a_run_is_said_each_time(summary: str) -> None:
    index = shown("\n".join([*STEPS, summary, *OTHER]))
    assert summary in made(index, ["go", *STEPS[20:], summary, *OTHER[:20], "end"])
    assert summary in made(index, ["go", *mixed(), summary, *mixed(), "end"])


def test_what_a_mark_counts_is_not_hidden_in_front_of_it() -> None:
    index = shown("\n".join(STEPS), "\n".join(OTHER))
    for known in (mixed(), STEPS[5:20]):
        for mark, count in (("[the line above 3 more times]", 1), ("[the 2 lines above 1 more time]", 2)):
            told = made(index, ["go", *known, mark, "end"])
            assert told[-2 - count :] == [*known[-count:], mark, "end"]
            assert len(told) < len(known)
    assert made(index, ["go", *STEPS[:2], "[the line above 1 more time]", "end"])[1:3] == STEPS[:2]


def test_times_make_no_line_new_but_other_numbers_do() -> None:
    first = [f"[2026-01-02 10:00:{n:02}] worker-{n} has taken {n} items in {n}.5s" for n in range(10, 30)]
    index = shown("\n".join(first[::2]), "\n".join(first[1::2]))
    later = [
        line.replace("10:00:", "11:30:").replace(".5s", ".7s")
        for pair in zip(first[:9], first[11:], strict=False)
        for line in pair
    ]
    assert made(index, ["go", *later]) == ["go", f"[{len(later)} lines said before, but for times]"]
    counted = [line.replace(" items", "5 items") for line in later]
    assert made(index, ["go", *counted]) == ["go", *counted]


def test_failures_and_how_it_ended_stay() -> None:
    failed = "Error: the build of src/a.c failed with code 2"
    index = shown("\n".join([*STEPS, failed]), "\n".join(OTHER))
    lines = [*mixed(), failed, *mixed()]
    assert failed in made(index, lines)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "grep -rn store src",
            "git status",
            "ls -la",
            "git diff",
            "cat a.py",
            "npx eslint src",
            "curl -s x.io",
        ),
        *("make && git status", "git apply a.patch; git diff", "git log -3 && gh issue list"),
    ],
)
def test_of_lists_hits_differences_and_files_each_line_counts(command: str) -> None:
    index = shown("\n".join(STEPS), "\n".join(OTHER))
    assert not any("said before" in line for line in made(index, mixed(), run(command)))


def test_of_what_nobody_knows_only_what_it_told_the_last_time_counts() -> None:
    index, call = shown("\n".join(STEPS), "\n".join(OTHER)), run("./watch")
    later = STEPS[:8:-2]
    assert made(index, later, call, "Bash ./run 0")[0] == f"[{len(later)} lines said before]"
    assert made(index, later, call, "Bash ./run 1") == later
    assert made(index, later, call, "Bash ./run 2") == later
    assert made(index, later, classify("find_flights", {"to": "EWR"}), "find_flights") == later
    index.calls.note(b"2", "Bash ./run 0")
    index.note(b"2", "Bash ./run 0", "\n".join(OTHER))
    assert made(index, later, call, "Bash ./run 0") == later


def test_of_what_nobody_knows_the_times_may_be_what_was_asked_for() -> None:
    rows = [f"worktree-{n} is working on its part of the plan since {n + 3}m" for n in range(12)]
    index, later = shown("\n".join(rows)), [row.replace(" since ", " since 1h ") for row in rows[::-2]]
    assert made(index, later, run("./watch"), "Bash ./run 0") == later
    assert made(index, later, run("make all")) == ["[6 lines said before, but for times]"]


def test_short_lines_count_as_what_they_are() -> None:
    index = shown("\n".join([*STEPS, "checked", "12 pass"]), "\n".join(OTHER))
    for short, is_said in (("", True), ("checked", True), ("broken", False), ("12 pass", False)):
        lines = [*mixed(), short, *reversed(mixed())]
        assert (made(index, lines) == ["[33 lines said before]"]) is is_said, short
        assert (short in made(index, lines)) is not is_said


@pytest.mark.parametrize(
    "line",
    [
        "[3 lines of the store are left out]",
        "+ the store is expected",
        '[table 1: 4 objects; columns "a"]',
        "~A 12 13 14",
    ],
)
def test_what_says_nothing_by_itself_stays(line: str) -> None:
    index = shown("\n".join([*STEPS, line]), "\n".join(OTHER))
    assert line in made(index, [*mixed(), line, *mixed()])


@pytest.mark.parametrize(
    "line",
    [
        "median=1.5ms over all of them (n=5)",
        "real    0m1.500s",
        "parse/large 1.5 ms/op",
        "  2026-01-02T03:04:05Z",
    ],
)
def test_a_time_that_was_asked_for_is_none(line: str) -> None:
    index = shown("\n".join([*STEPS, line]), "\n".join(OTHER))
    new = line.translate(LATER)
    assert new in made(index, [*mixed(), new, *mixed()])


def test_only_where_the_original_can_be_asked_for() -> None:
    index = shown("\n".join(STEPS), "\n".join(OTHER))
    assert made(index, mixed(), lossy=False) == mixed()


def test_a_text_that_says_so_itself_is_left_alone() -> None:
    index = shown("\n".join(STEPS), "\n".join(OTHER))
    lines = ["[3 lines said before]", *mixed()]
    assert made(index, lines) == lines


def test_what_was_shown_is_told_to_who_shortens() -> None:
    told = shown("\n".join(STEPS)).told()
    assert told.is_line(STEPS[3])
    assert not told.is_line(OTHER[3])
    assert b"src/module_3.c" in told.facts
    assert b"store-3" not in told.facts


def test_what_a_call_was_given_has_told_no_facts() -> None:
    index = LineIndex()
    index.calls.note(b"1", "what Write a.py was given")
    index.note(b"1", "what Write a.py was given", "\n".join(STEPS), is_argument=True)
    assert b"src/module_3.c" not in index.told().facts


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-02T03:04:05.678Z",
        "3:04:05",
        "2026-01-02 03:04:05,678+01:00",
        *("12ms", "1.5 s", "3m", "4 h", "7us", "7 µs", "7ns", "2m 4s"),
    ],
)
def test_every_form_of_a_time_is_looked_for(time: str) -> None:
    lines = [f"{line} after {time}" for line in mixed()]
    new = [f"{line} after {time.translate(LATER)}" for line in reversed(mixed())]
    found = made(shown("\n".join(lines)), [*new, "linking the whole with flag -O9"])
    assert found[0] == "[16 lines said before, but for times]"
