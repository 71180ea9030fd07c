"""A long diff in part: whole hunks, beginnings of large ones, and exact counts of the rest."""

import difflib
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.classify import classify
from penumbra.compress.families import shorten as families
from penumbra.compress.size import size
from penumbra.compress.stages.diff_hunks import sample
from support.examples import examples

MORE = re.compile(r"\[(\d+) more lines? of this hunk left out: \+(\d+) -(\d+)\]")
WHOLE = re.compile(
    r"\[(?:\d+ of \d+ hunks|(?P<name>\S+): (?:1 hunk|(?!1 )\d+ hunks)) left out: \+(\d+) -(\d+)(?:; @@ [^\n]*)?\]"
)


def diff(hunks: list[list[str]], name: str = "a.py") -> list[str]:
    head = [f"diff --git a/{name} b/{name}", "index 1..2 100644", f"--- a/{name}", f"+++ b/{name}"]
    lines = head
    for number, hunk in enumerate(hunks):
        old, new = sum(line[0] != "+" for line in hunk), sum(line[0] != "-" for line in hunk)
        lines += [f"@@ -{number * 1000},{old} +{number * 1000},{new} @@ def f{number}():", *hunk]
    return lines


def test_a_hunk_that_is_too_large_is_shown_from_its_beginning() -> None:
    large = [" def f():", *(f"+    line {n} of what was added" for n in range(200)), *["-    old"] * 9]
    text = "\n".join(diff([["+import io"], large]))
    made = sample(text, 2_000)
    assert made is not None
    assert 1_700 < size(made) <= 2_000
    assert "+    line 20 of what was added" in made
    found = MORE.search(made)
    assert found is not None
    shown = sum(line in made.split("\n") for line in large[1:201])
    assert [int(one) for one in found.groups()] == [209 - shown, 200 - shown, 9]


line = st.builds(
    lambda sign, n: f"{sign}{'x' * (n % 40)} {n}", st.sampled_from(" +-"), st.integers(0, 10_000)
)


@settings(max_examples=examples(150))
@given(
    st.lists(
        st.lists(st.lists(line, min_size=1, max_size=60), min_size=1, max_size=4), min_size=1, max_size=4
    ),
    st.integers(300, 3_000),
)
def test_every_line_is_shown_or_counted(files: list[list[list[str]]], room: int) -> None:
    lines = [one for number, hunks in enumerate(files) for one in diff(hunks, f"file{number}.py")]
    made = sample("\n".join(lines), room)
    if made is None:
        return
    assert size(made) <= room
    assert sample("\n".join(lines), room) == made
    changes = [sum(one[0] == sign for hunks in files for hunk in hunks for one in hunk) for sign in "+-"]
    for line in made.split("\n"):
        counted = MORE.fullmatch(line) or WHOLE.fullmatch(line)
        if counted:
            changes = [left - int(gone) for left, gone in zip(changes, counted.groups()[1:], strict=True)]
        elif line[:3] not in ("+++", "---") and line[:1] in "+-":
            changes[line[0] == "-"] -= 1
    assert changes == [0, 0]


def test_of_hunks_that_are_all_left_out_it_is_said_where_they_stand() -> None:
    small = diff([[" a", "+b"]], "a.py")
    large = diff([[f"+    line {n} of what was added" for n in range(300)]] * 3, "b.py")
    made = sample("\n".join([*large, *small]), 700)
    assert made is not None
    assert "[b.py: 3 hunks left out: +900 -0; @@ -0,0 +0,300 @@ to @@ -2000,0 +2000,300 @@]" in made


HEADERS: dict[str, Callable[[str], list[str]]] = {
    "git": lambda name: [f"diff --git a/{name} b/{name}", "index 1..2 100644"],
    "diff -ru": lambda name: [f"diff -ru old/{name} new/{name}"],
    "diff -u": lambda name: [],
    "svn": lambda name: [f"Index: {name}", "=" * 67],
    "hg": lambda name: [f"diff -r 5fa4bee2b65e {name}"],
}
NAMED = {
    "git": ("a/{}", "b/{}"),
    "diff -ru": ("old/{}\t2026-11-01 10:00:00 +0000", "new/{}\t2026-11-01 10:00:01 +0000"),
    "diff -u": ("old/{}\t2026-11-01 10:00:00 +0000", "new/{}\t2026-11-01 10:00:01 +0000"),
    "svn": ("{}\t(revision 7)", "{}\t(working copy)"),
    "hg": ("a/{}\tThu Jan 01 00:00:00 1970 +0000", "b/{}\tFri Jan 02 00:00:00 1970 +0000"),
}
SHOWN_NAME = {"diff -ru": "new/{}", "diff -u": "new/{}"}


def changed_files(style: str) -> tuple[list[str], int, int]:
    """(lines of a diff of twelve files in a tool's style, lines added, lines removed)."""
    lines: list[str] = []
    added = removed = 0
    for number in range(12):
        old = [f"def f{number}_{n}(): return compute_value({n})" for n in range(90)]
        new = list(old)
        for at in (80, 50, 20):
            new[at : at + 1 + number % 2] = [f"-- changed {number} {at}", "++ and another"]
        name = f"src/f{number}.py"
        before, behind = (form.format(name) for form in NAMED[style])
        made = list(difflib.unified_diff(old, new, before, behind, lineterm=""))
        added += sum(line[:1] == "+" for line in made[2:])
        removed += sum(line[:1] == "-" for line in made[2:])
        lines += [*HEADERS[style](name), *made]
        if style == "svn":
            lines.append("")
    return lines, added, removed


@pytest.mark.parametrize("is_lossy", [False, True], ids=["whole", "with unchanged lines left out"])
@pytest.mark.parametrize("style", HEADERS)
def test_each_file_is_named_and_each_change_counted_whatever_tool_wrote_the_diff(
    style: str, is_lossy: bool
) -> None:
    lines, added, removed = changed_files(style)
    text = "\n".join(lines)
    if is_lossy:
        shortened = families.apply(text, classify("bash", {"command": "git diff"}), lossy=True)
        assert shortened is not None
        assert "unchanged lines left out" in shortened.text
        text = shortened.text
    made = sample(text, 4_000)
    assert made is not None
    assert size(made) <= 4_000
    for number in range(12):
        assert SHOWN_NAME.get(style, "{}").format(f"src/f{number}.py") in made
    left = [added, removed]
    shown = made.split("\n")
    for at, line in enumerate(shown):
        is_header = line[:4] in ("--- ", "+++ ") and any(near[:3] == "@@ " for near in shown[at : at + 3])
        if counts := re.search(r"left out: \+(\d+) -(\d+)", line):
            left = [rest - int(count) for rest, count in zip(left, counts.groups(), strict=True)]
        elif line[:1] in ("+", "-") and not is_header:
            left[line[0] == "-"] -= 1
    assert left == [0, 0]


def test_what_stands_between_files_is_neither_of_them_nor_left_out() -> None:
    large = diff([[f"+    line {n} of what was added" for n in range(300)]] * 2, "b.py")
    between = [
        "Only in new/p: only.py",
        "Binary files old/p/bin and new/p/bin differ",
        "commit 3b8451ec9608336939dc651adeeccfcbe47efe32",
    ]
    text = "\n".join([*large, *between, *diff([[" a", "+b"]], "c.py"), "-- ", "2.39.5"])
    made = sample(text, 1_200)
    assert made is not None
    for line in [*between, "-- ", "2.39.5"]:
        assert line in made.split("\n")
    assert "of this hunk left out: +" in made


def test_the_changes_of_a_merge_are_counted_by_either_column() -> None:
    hunk = [
        *(f"  line {n} of both" for n in range(60)),
        "++of none",
        "+ of the second",
        " +of the first",
        "--gone",
    ]
    head = [
        "diff --cc a.py",
        "index 1,2..3",
        "--- a/a.py",
        "+++ b/a.py",
        "@@@ -1,62 -1,62 +1,63 @@@ def f():",
    ]
    other = diff([[f"+    line {n} of what was added" for n in range(300)]], "b.py")
    made = sample("\n".join([*head, *hunk, *other]), 300)
    assert made is not None
    assert "[a.py: 1 hunk left out: +3 -1; @@@ -1,62 -1,62 +1,63 @@@]" in made
