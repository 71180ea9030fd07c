"""Repeated parts of a later result as references to an earlier one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.stages import line_numbers
from penumbra.conversation.back_references import LineIndex, expand


def reread(name: str, earlier: str, new: str) -> str | None:
    """The new text with what it shares with one earlier text as references."""
    line_index = LineIndex()
    line_index.note(name, earlier)
    return line_index.with_references(new)


def code(first: int, last: int) -> list[str]:
    return [f"    value_{n} = compute(something, {n})" for n in range(first, last)]


def numbered(lines: list[str], first: int = 1) -> str:
    return "\n".join(f"{first + i:>6}→{line}" for i, line in enumerate(lines))


def test_an_edited_file_shows_what_changed() -> None:
    old = code(0, 40)
    new = [*old[:20], "    inserted = True", *old[20:]]
    result = reread("result toolu_1", numbered(old), numbered(new))
    assert result is not None
    lines = result.split("\n")
    assert lines == [
        "     1→" + old[0],
        "[18 lines: same as in result toolu_1]",
        "    20→" + old[19],
        "    21→    inserted = True",
        "    22→" + old[20],
        "[18 lines: same as in result toolu_1, from its line 21]",
        "    41→" + old[39],
    ]
    assert expand(result, {"result toolu_1": numbered(old)}) == "\n".join(new)


def test_nothing_shared_is_nothing_done() -> None:
    assert reread("result a", "\n".join(code(0, 30)), "\n".join(code(50, 90))) is None


def test_few_or_short_lines_are_not_worth_a_reference() -> None:
    assert reread("result a", "\n".join(code(0, 4)), "\n".join(code(0, 4))) is None
    assert reread("result a", "}\n" * 80, "}\n" * 80) is None


def test_numbers_of_a_thinned_read_survive() -> None:
    old, new = line_numbers.thin(numbered(code(0, 60))), line_numbers.thin(numbered(code(10, 55), 11))
    assert old is not None
    assert new is not None
    result = reread("result c", old, new)
    assert result is not None
    assert expand(result, {"result c": old}).split("\n")[1:] == code(10, 55)
    assert "55→" in result


def test_numbers_survive_below_what_the_agent_wrote_on_top() -> None:
    thinned = line_numbers.thin(numbered(code(0, 60)))
    assert thinned is not None
    result = reread(
        "result c", "Exit code: 0\nOutput:\n" + thinned, "Exit code: 0\nOutput:\n" + thinned + "\nmore"
    )
    assert result is not None
    assert "\n60→" in result
    assert "[58 lines: same as in result c]" in result


def test_a_text_with_markers_is_left_alone() -> None:
    text = "[18 lines: same as in result x]\n" + "\n".join(code(0, 40))
    assert reread("result c", "\n".join(code(0, 40)), text) is None


def test_the_first_of_two_places_is_meant() -> None:
    twice = [*code(0, 12), "between " * 3, *code(0, 12)]
    line_index = LineIndex()
    line_index.note("result c", "\n".join(twice))
    result = line_index.with_references("\n".join(code(0, 12)))
    assert result is not None
    assert expand(result, {"result c": "\n".join(twice)}) == "\n".join(code(0, 12))


def test_what_a_call_has_written_is_referred_to_as_such() -> None:
    old = code(0, 40)
    assert reread("call …abcdefgh", "\n".join(old), numbered(old)) == "\n".join(
        ["     1→" + old[0], "[38 lines: same as in call …abcdefgh]", "    40→" + old[39]]
    )
    result = reread("call …abcdefgh", "\n".join(old), "\n".join(old))
    assert result == "\n".join([old[0], "[38 lines: same as in call …abcdefgh]", old[39]])
    assert expand(result, {"call …abcdefgh": "\n".join(old)}) == "\n".join(old)


def test_two_arguments_of_a_call_that_begin_and_end_alike_are_told_apart() -> None:
    old, new = [*code(0, 6), "x = 1", *code(7, 20)], [*code(0, 6), "x = 2", *code(7, 20)]
    line_index = LineIndex()
    for argument in (old, new):
        line_index.note("call c", "\n".join(argument))
    result = line_index.with_references("\n".join(new))
    # From the first line on, the place that the reference names would be the one in the old text.
    assert result is None or "19 lines" not in result
    whole = line_index.with_references("\n".join(old))
    assert whole is not None
    assert "[18 lines: same as in call c]" in whole


def test_a_text_that_repeats_itself_says_so() -> None:
    block = code(0, 10)
    text = numbered([*block, "between the two of them", *block, *code(20, 30)])
    result = LineIndex().with_references(text)
    assert result is not None
    lines = result.split("\n")
    assert lines[11:14] == [
        "    12→" + block[0],
        "[8 lines: same as above, from line 1]",
        "    21→" + block[9],
    ]
    assert expand(result, {}) == "\n".join([*block, "between the two of them", *block, *code(20, 30)])


def test_nothing_is_referred_to_that_is_a_reference_itself() -> None:
    block, other = code(0, 10), code(50, 54)
    line_index = LineIndex()
    line_index.note("result a", "\n".join(block))
    text = "\n".join([*block, *other, *block])
    result = line_index.with_references(text)
    assert result is not None
    assert result.count("same as in result a") == 2
    assert "above" not in result
    assert expand(result, {"result a": "\n".join(block)}) == text


def test_of_a_text_that_lost_something_only_its_own_lines_are_referred_to() -> None:
    old = code(0, 40)
    shown = [*old[:10], "[20 lines, 900 bytes left out]", *old[30:]]
    line_index = LineIndex()
    line_index.note("result c", "\n".join(shown), "\n".join(old))
    result = line_index.with_references(
        "\n".join([*old[:10], "[20 lines, 900 bytes left out]", *old[30:], "more"])
    )
    assert result is not None
    assert result.split("\n") == [
        *(old[0], "[8 lines: same as in result c]", old[9]),
        "[20 lines, 900 bytes left out]",
        *(old[30], "[8 lines: same as in result c]", old[39]),
        "more",
    ]
    # What stands between the two parts is not there to be referred to.
    whole = line_index.with_references("\n".join(old))
    assert whole is not None
    assert "\n".join(old[10:30]) in whole


pool = st.sampled_from(
    [f"line number {n} of the pool of lines" + " " * (n % 3) for n in range(25)] + ["", "}"]
)


@settings(max_examples=150)
@given(st.lists(st.lists(pool, max_size=40), min_size=1, max_size=3), st.lists(pool, max_size=60))
def test_every_reference_can_be_followed(earlier: list[list[str]], new: list[str]) -> None:
    line_index = LineIndex()
    sources = {f"result call_{n}": "\n".join(lines) for n, lines in enumerate(earlier)}
    for name, text in sources.items():
        line_index.note(name, text)
    text = "\n".join(new)
    result = line_index.with_references(text)
    if result is not None:
        assert expand(result, sources) == text
        assert len(result) < len(text) + 60 * result.count("same as in")
