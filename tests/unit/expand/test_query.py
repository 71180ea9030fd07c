"""The answers to the model's queries of originals."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.expand import query as expand
from penumbra.expand.query import Query, parse, result
from support.examples import examples

REF = "shadow_" + "0123456789abcdef" * 2
TEXT = "\n".join(f"line {n}" for n in range(1, 101)) + "\n"
TOOL = "expand_context"


def query(**more: Any) -> Query:
    found = parse(json.dumps({"id": REF, **more}))
    assert isinstance(found, Query), found
    return found


def ask(text: str, page_bytes: int = 10_000, **more: Any) -> str:
    return result(text, query(**more), TOOL, page_bytes)


def test_all_of_it_is_the_very_text() -> None:
    for text in (TEXT, "x", "\n", "no end", "é\ud800\r\n"):
        assert ask(text) == text


@pytest.mark.parametrize(
    ("lines", "head", "first", "last"),
    [
        ("3-5", "[Lines 3-5 of 100]", "line 3", "line 5"),
        ("7", "[Lines 7-7 of 100]", "line 7", "line 7"),
        (7, "[Lines 7-7 of 100]", "line 7", "line 7"),
        ([7, 8], "[Lines 7-8 of 100]", "line 7", "line 8"),
        ("98-", "[Lines 98-100 of 100]", "line 98", "line 100"),
        ("-2", "[Lines 1-2 of 100]", "line 1", "line 2"),
        ("99-9999", "[Lines 99-100 of 100]", "line 99", "line 100"),
        (" 3 .. 5 ", "[Lines 3-5 of 100]", "line 3", "line 5"),
        ("0-1", "[Lines 1-1 of 100]", "line 1", "line 1"),
    ],
)
def test_lines(lines: Any, head: str, first: str, last: str) -> None:
    got = ask(TEXT, lines=lines).split("\n")
    assert (got[0], got[1], got[-2], got[-1]) == (head, first, last, "")


def test_lines_that_are_not_there() -> None:
    assert ask(TEXT, lines="101-110") == "The original has 100 lines; line 101 is beyond its end."
    assert ask(TEXT, lines="9-3").startswith('"lines" must be a range')
    for pattern in ("", "line"):
        beyond = ask("a\nb\nc\n", lines="500-600", pattern=pattern)
        assert beyond == "The original has 3 lines; line 500 is beyond its end."
    assert ask("abc", offset=3) == "The original has 3 characters; there is nothing at 3."


@pytest.mark.parametrize(
    "heading", ["", "<path>/src/a.py</path>\n<content>\n"], ids=["bare", "below a heading"]
)
def test_lines_of_a_page_of_a_file_have_their_numbers_in_the_file(heading: str) -> None:
    """Marks name these numbers, too."""
    page = heading + "".join(f"{n}: value {n}\n" for n in range(1820, 2120))
    assert ask(page) == page
    expected = "[Lines 1,900-1,902 of 2,119]\n1900: value 1900\n1901: value 1901\n1902: value 1902\n"
    assert ask(page, lines="1900-1902") == expected
    bare = "".join(f"value {n}\n" for n in range(1820, 2120))
    output = result(bare, query(lines="1900-1901"), TOOL, before=1819)
    assert output == "[Lines 1,900-1,901 of 2,119]\nvalue 1900\nvalue 1901\n"
    assert "\n1901:1901: value 1901\n" in ask(page, pattern="e 1901", lines="1850-") + "\n"
    assert ask(page, lines="1-9") == "The original begins with line 1,820; line 9 is before it."
    assert "beyond its end" in ask(page, lines="2200-2210")
    shown, asked = "", "1830-2100"
    while asked:
        answer = ask(page, lines=asked, page_bytes=1_000)
        following = re.search(r'lines="([^"]+)"', answer)
        asked = following[1] if following else ""
        shown += "".join(line + "\n" for line in answer.split("\n") if line and line[0] != "[")
    assert shown == "".join(f"{n}: value {n}\n" for n in range(1830, 2101))


@pytest.mark.parametrize("first", [1, 1820])
def test_the_lines_of_a_heading_have_no_numbers(first: int) -> None:
    file = [f"{n}: value {n}" for n in range(first, first + 30)]
    page = "\n".join(["<path>", "<a>", "<b>", *file])
    assert ask(page, pattern="<b>|value", context=1, lines=f"-{first}").split("\n")[1:] == [
        *("-<a>", ":<b>", f"{first}:{file[0]}", f"{first + 1}-{file[1]}")
    ]
    assert ask(page, lines=f"-{first + 1}") == "\n".join(
        [f"[Lines {first:,}-{first + 1:,} of {first + 29:,}]", "<path>", "<a>", "<b>", *file[:2], ""]
    )
    assert "".join(follow(page, 12)[0]) == page


@pytest.mark.parametrize("between", [[], ["…900 tokens truncated…"]], ids=["gap", "cut"])
def test_numbers_that_rise_are_those_of_the_text(between: list[str]) -> None:
    parts = [[f"{n}: value {n}" for n in range(start, start + 30)] for start in (10, 500)]
    text = "\n".join([*parts[0], *between, *parts[1]])
    assert ask(text, lines="500-501") == "[Lines 500-501 of 529]\n500: value 500\n501: value 501\n"
    assert ask(text, pattern="value 500", context=0).split("\n")[1:] == ["500:500: value 500"]
    assert "".join(follow(text, 12)[0]) == text


def test_the_lines_of_several_files_are_counted_in_the_output() -> None:
    both = "\n".join(f"{n}: value {n}" for start in (500, 10) for n in range(start, start + 30))
    assert ask(both, lines="31-32") == (
        "[Lines 31-32 of 60, counted in the whole output]\n10: value 10\n11: value 11\n"
    )
    assert ask(both, pattern="500").startswith("[1 matching line in 60 lines, counted in the whole output]\n")


@pytest.mark.parametrize(
    "arguments", ["", "{", '{"id": "sha', "[]", "7", "null", "{}", '{"id": 7}', '{"id": ""}', '{"id": "\\ud8']
)
def test_malformed_arguments(arguments: str) -> None:
    assert 'Call again with {"id": "shadow_…"}.' in str(parse(arguments))


@pytest.mark.parametrize("lines", ["a-b", "1-2-3", "", None, {}, [1], [1, "2"], True, "1" * 60, "-"])
def test_odd_ranges(lines: Any) -> None:
    found = parse(json.dumps({"id": REF, "lines": lines}))
    if lines in ("", None):
        assert isinstance(found, Query)
    else:
        assert found == '"lines" must be a range such as "120-180".'


BRIEF = "shadow_012345678901234567"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (f" <<<SHADOW:{REF}>>> ", REF),
        (f"SHADOW:{REF}", REF),
        (REF.removeprefix("shadow_"), REF),
        (BRIEF.removeprefix("shadow_"), BRIEF),
        (12345678901234567, BRIEF),
    ],
)
def test_an_id_is_known_however_it_was_copied(given: Any, meant: str) -> None:
    found = parse(json.dumps({"id": given}))
    assert isinstance(found, Query)
    assert found.ref == meant


@pytest.mark.parametrize("given", [None, "", "  ", True, 1.5, [REF], {}])
def test_a_missing_id_is_reported(given: Any) -> None:
    assert "missing" in str(parse(json.dumps({"id": given})))


def test_odd_numbers_are_left_out() -> None:
    for value in (-1, True, "x", 1.5, None, [], 1 << 60):
        assert query(offset=value, context=value) == query()
    assert query(offset="12").offset == query(lines="@12").offset == 12
    # Conversations of earlier releases have this form.
    assert query(lines="2-5", offset=40) == query(lines="2-5 @ 40")
    assert query(lines="2-5@x") == query(lines="2-5")
    assert query(context=1000).context == 50


def test_a_pattern_shows_numbers_and_context() -> None:
    assert (
        ask(TEXT, pattern="line 5$")
        == "[1 matching line in 100 lines]\n3-line 3\n4-line 4\n5:line 5\n6-line 6\n7-line 7"
    )
    assert ask(TEXT, pattern="line (1|4)$", context=1) == (
        "[2 matching lines in 100 lines]\n1:line 1\n2-line 2\n3-line 3\n4:line 4\n5-line 5"
    )
    assert ask(TEXT, pattern="line (1|9)$", context=0) == (
        "[2 matching lines in 100 lines]\n1:line 1\n--\n9:line 9"
    )
    assert ask(TEXT, pattern="LINE 100", ignore_case=True, context=0).endswith("\n100:line 100")
    assert ask(TEXT, pattern="LINE 100") == "[0 matching lines in 100 lines]"
    assert ask(TEXT, pattern="line 5", lines="1-10", context=0) == (
        "[1 matching line in lines 1-10 of 100 lines]\n5:line 5"
    )


@pytest.mark.parametrize("pattern", ["(", "a(?=b)", r"(a)\1", "*", "x" * 2000])
def test_patterns_that_cannot_be_used_are_reported(pattern: str) -> None:
    found = parse(json.dumps({"id": REF, "pattern": pattern}))
    said = found if isinstance(found, str) else result(TEXT, found, TOOL)
    assert "pattern" in said
    assert "line 1" not in said


def test_a_pattern_that_backtracks_elsewhere_does_not_here() -> None:
    assert ask("a" * 200_000, pattern="(a+)+$b") == "[0 matching lines in 1 line]"


def test_many_matches_are_paged_and_counted() -> None:
    first = ask(TEXT, page_bytes=200, pattern="line", context=0)
    shown = re.findall(r"^(\d+):line", first, re.MULTILINE)
    more = re.search(r"\[(\d+) more matching lines not shown\..*lines=\"(\d+)-100\"\.\]$", first)
    assert first.startswith("[100 matching lines in 100 lines]\n1:line 1\n")
    assert more is not None
    assert len(shown) + int(more[1]) == 100
    assert int(more[2]) == int(shown[-1]) + 1


def test_a_very_long_line_is_shown_around_its_match() -> None:
    text = "é" * 50_000 + "NEEDLE" + "x" * 50_000
    got = ask(text, pattern="NEEDLE")
    assert "NEEDLE" in got
    assert len(got) < 2_300
    assert "[characters 49,001-51,000 of 100,006 in this line]" in got


def follow(text: str, page_bytes: int, **more: Any) -> tuple[list[str], int]:
    """Return all pages, by following the call that each page suggests, and their number."""
    pieces: list[str] = []
    arguments: dict[str, Any] = more
    for count in range(1, 1000):
        got = ask(text, page_bytes, **arguments)
        head, _, rest = got.partition("\n")
        if not head.startswith("[Lines "):
            return [*pieces, got], count
        body, mark, tail = rest.rpartition(f"[{expand.LITTLE_SPACE} To go on: ")
        if not mark:
            return [*pieces, rest], count
        lines = re.search(r'lines="([^"]+)"', tail)
        assert lines is not None
        arguments = {"lines": lines[1]}
        ends_within_a_line = "@" in lines[1] and lines[1][0] != "-"
        pieces.append(body.removesuffix("\n") if ends_within_a_line else body)
    raise AssertionError("it never ends")


@settings(max_examples=examples(60))
@given(st.text(alphabet="ab\né\u2028\ud800\udce9 ", max_size=400), st.integers(20, 120))
def test_pages_add_up_to_the_original(text: str, page_bytes: int) -> None:
    pieces, count = follow(text, page_bytes)
    assert "".join(pieces) == text
    assert count <= 3 + 3 * len(text.encode("utf-8", "surrogatepass")) // page_bytes + text.count("\n")


def test_pages_of_lone_surrogates_can_be_followed() -> None:
    assert follow("\udce9" * 400, 100)[0] == ["\udce9" * 33] * 12 + ["\udce9" * 4]


def test_a_match_within_a_character_is_shown() -> None:
    assert "1:" in ask("é" * 5_000 + "x" + "é" * 5_000, pattern=r"\Cx", page_bytes=4_000)


def test_pages_break_between_lines_if_they_can() -> None:
    got = ask(TEXT, page_bytes=100)
    assert got.startswith("[Lines 1-13 of 100]\nline 1\n")
    assert got.endswith(
        f'line 13\n[{expand.LITTLE_SPACE} To go on: {TOOL}(id="{REF}", lines="14-100"). To find something: pattern="…".]'
    )
    inside = ask("x" * 300, page_bytes=100)
    assert inside.startswith("[Lines 1-1 of 1, characters 0-100 of 300]\n")
    assert 'lines="1-1@100"' in inside


def test_pages_are_smaller_than_the_cap() -> None:
    assert expand.page_bytes(65_536) == expand.PAGE_BYTES < 65_536
    assert expand.page_bytes(32_768) == 24_576
    assert expand.page_bytes(100) == 16_000


def test_a_page_of_the_usual_size_does_not_mention_space() -> None:
    assert expand.LITTLE_SPACE not in ask("x\n" * 20_000, page_bytes=16_000)
    assert expand.LITTLE_SPACE in ask("x\n" * 20_000, page_bytes=15_999)


@pytest.mark.parametrize("context", [0, 2, 50])
def test_matches_keep_to_a_small_page_too(context: int) -> None:
    text = "\n".join(f"{n} " + "word " * 500 for n in range(300)) + "\nNEEDLE " + "x" * 5_000
    for page_bytes in (expand.LEAST_BYTES, 4_000):
        for pattern in ("word", "NEEDLE"):
            got = ask(text, page_bytes, pattern=pattern, context=context)
            assert re.search(rf"^\d+:.*{pattern}", got, re.MULTILINE)
            assert len(got) < page_bytes + 400


def test_the_free_space_is_shared_among_calls() -> None:
    assert expand.share(16_000, 100_000, 2) == 16_000
    assert expand.share(16_000, 9_000, 3) == 3_000
    assert expand.share(16_000, 900, 3) == expand.share(16_000, 0, 1) == 0


def test_equal_questions_are_known_as_such() -> None:
    assert query().identity() == query(ignore_case=True, context=9).identity()
    assert query(pattern="a").identity() != query(pattern="a", ignore_case=True).identity()
    assert query(lines="1-2").identity() != query().identity()


def test_unknown_ids_are_only_repeated_if_they_are_ids() -> None:
    assert REF in expand.unknown(REF)
    assert "<script>" not in expand.unknown("<script>")


@pytest.mark.parametrize("cut", [BRIEF[:-1], f"{BRIEF}0", "shadow_", "x"])
def test_a_malformed_id_is_not_reported_as_expired(cut: str) -> None:
    assert "no id" in expand.unknown(cut)
    assert "no id" not in expand.unknown(BRIEF)
