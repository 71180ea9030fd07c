"""A long diff in part: whole hunks, beginnings of large ones, and exact counts of the rest."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

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
