"""Thinned line numbers tell every number, and leave the code alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.stages import line_numbers
from penumbra.compress.stages.line_numbers import LEGEND, restore, split, thin, unpad
from support.examples import examples


def numbered(lines: list[str], first: int = 1, separator: str = "→", width: int = 6) -> str:
    numbers = (
        f"{line_numbers.prefix(first + i, separator):>{width + len(separator)}}" for i in range(len(lines))
    )
    return "\n".join(map(str.__add__, numbers, lines))


def test_every_twentieth_and_both_ends_keep_their_numbers() -> None:
    text = numbered([f"    code {n}" for n in range(1, 44)])
    thinned = thin(text)
    assert thinned is not None
    lines = thinned.split("\n")
    assert lines[0] == LEGEND
    assert lines[1] == "1→    code 1"
    assert lines[2] == "    code 2"
    assert lines[20] == "20→    code 20"
    assert lines[43] == "43→    code 43"
    assert sum("→" in line for line in lines) == 4


def test_behind_a_bare_colon_every_blank_is_of_the_code() -> None:
    code = ["    {", "        return x", "", "}", *["    y"] * 20]
    window = "[File: /src/a.c (90 lines total)]\n" + numbered(code, 36, ":", 0) + "\n(31 more lines below)"
    thinned = thin(window)
    assert thinned is not None
    assert thinned.split("\n")[2:7] == ["36:     {", "        return x", "", "}", "40:     y"]
    assert split(window)[1][1:-1] == split(thinned)[1][2:-1] == code


def test_behind_a_bare_colon_all_of_the_code_may_be_indented() -> None:
    for code in (
        ["    {", "        return x", "", "    }"] * 5,
        ["    y", "      z"] * 10,
        ["  y", "", "    z"] * 8,
    ):
        window = "(35 more lines above)\n" + numbered(code, 36, ":", 0) + "\n(31 more lines below)"
        thinned = thin(window)
        assert thinned is not None
        assert split(window)[1][1:-1] == split(thinned)[1][2:-1] == code
    # One blank of the reader's: in front of code that is indented, of comments, and of nothing.
    for code in (["    {", "        return x", "", "    }"] * 5, [" * a", "", " * b"] * 8):
        text = numbered(code, 36, ": ", 0)
        assert split(text)[1] == code
        assert split(text.replace(": \n", ":\n"))[1][0] == code[0]
    assert split(numbered(["   y", "", "   z"] * 8, 36, ": ", 0))[1] == ["   y", "", "   z"] * 8


def test_stripped_empty_lines_are_no_bare_colons() -> None:
    text = numbered(["", "", *["a"] * 20], 1, ": ", 0).replace(": \n", ":\n")
    assert line_numbers.separator_of(text.split("\n")) == ": "


def test_text_around_the_code_does_not_join_it() -> None:
    text = "<file>\n" + numbered(["a"] * 12, 7) + "\n</file>\nmore"
    thinned = thin(text)
    assert thinned is not None
    assert thinned.endswith("18→a\n</file>\nmore")
    assert restore(thinned) == "<file>\n" + numbered(["a"] * 12, 7, width=0) + "\n</file>\nmore"


@pytest.mark.parametrize(
    "text",
    [
        "no numbers\n" * 20,
        "\n".join(f"{n}: x" for n in range(1, 6)),
        numbered([f"{n}→inner" for n in range(20)]),
        "\n".join(f"{n * 7}: hit" for n in range(30)),
        "12:30: tick\n12:31: tock\n" * 9,
    ],
)
def test_left_alone(text: str) -> None:
    assert thin(text) is None


def test_grep_hits_with_numbers_are_not_a_file() -> None:
    assert thin("\n".join(f"{n}: match" for n in (3, 9, 14, 200, 201, 202, 900, 911, 950, 1000))) is None


@pytest.mark.parametrize(
    ("row", "kept"), [("L{}: {}", "L{}: {}"), ("{:>4} | {}", "{}| {}"), ("{} | {}", "{}| {}")]
)
def test_numbers_behind_a_letter_or_in_front_of_a_bar_with_blanks(row: str, kept: str) -> None:
    code = [f"    code {n} | 7" for n in range(1, 44)]
    text = "\n".join(row.format(n, line) for n, line in enumerate(code, 1))
    thinned = thin(text)
    assert thinned is not None
    lines = thinned.split("\n")
    assert (lines[1], lines[2], lines[20]) == (kept.format(1, code[0]), code[1], kept.format(20, code[19]))
    assert split(text) == ([*range(1, 44)], code)
    assert split(thinned)[1][1:] == code
    assert split(restore(thinned)) == split(text)
    assert thin(thinned) is None


def test_ids_of_a_table_are_no_line_numbers() -> None:
    rows = "\n".join(f" {n:>2} | ann{n}" for n in range(1, 40))
    assert thin(f" id | name\n----+------\n{rows}\n(39 rows)") is None


def test_thinned_text_is_not_thinned_again() -> None:
    thinned = thin(numbered(["x = 1"] * 40))
    assert thinned is not None
    assert thin(thinned) is None


def test_unpad_keeps_every_number() -> None:
    assert unpad(numbered(["a"] * 9) + "\nend") == numbered(["a"] * 9, width=0) + "\nend"
    assert unpad("a\n b\n") is None


def test_split_counts_through_thinned_text() -> None:
    full = numbered([f"line {n}" for n in range(30)], 95)
    thinned = thin(full)
    assert thinned is not None
    numbers, contents = split(thinned)
    assert numbers == [0, *range(95, 125)]
    assert contents[1:] == [f"line {n}" for n in range(30)]
    assert split(full)[0] == list(range(95, 125))


lines = st.lists(st.text(st.sampled_from("ab 12→:\t|{}"), max_size=9), min_size=8, max_size=60)


@settings(max_examples=examples(150))
@given(
    lines,
    st.integers(0, 2000),
    st.sampled_from(["→", "\t", ": ", "| ", "L: "]),
    st.lists(st.integers(0, 59), max_size=4),
)
def test_what_is_thinned_can_be_restored(
    contents: list[str], first: int, separator: str, strangers: list[int]
) -> None:
    rows = numbered(contents, first, separator).split("\n")
    for position in strangers:
        rows.insert(position, "stranger")
    text = "\n".join(rows)
    thinned = thin(text)
    if thinned is not None:
        plain = [line_numbers.parse(row, separator) for row in rows]
        expected = [
            line_numbers.prefix(p.number, separator) + p.content if p else row
            for row, p in zip(rows, plain, strict=True)
        ]
        assert restore(thinned) == "\n".join(expected)
        for content in contents:
            assert content in thinned
