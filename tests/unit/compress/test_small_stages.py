"""Small stages: tokens, sizes, binary data, the hard limit, JSON, repetitions, blanks, line numbers."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress import size, token_estimate
from penumbra.compress.line_flags import LineFlags
from penumbra.compress.stages import binary, folding, line_numbers
from penumbra.compress.stages.headings import Headings
from penumbra.compress.stages.json_minify import minify
from penumbra.compress.stages.line_numbers import LEGEND, split, thin, unpad
from penumbra.compress.stages.truncate import truncate
from support.examples import examples
from support.results import shortened

anything = st.text(st.characters(), max_size=200)


# Tokens
@pytest.mark.parametrize(
    ("text", "real", "tolerance"),
    [
        ("The quick brown fox jumps over the lazy dog. " * 10, 101, 0.35),
        ("def main(argv: list[str]) -> int:\n    return run(argv)\n" * 10, 170, 0.25),
        ('{"id":1,"name":"alpha","ok":true,"ts":"2026-01-02T03:04:05Z"}\n' * 10, 330, 0.3),
        ("数据库连接失败，请检查网络配置后重试。" * 10, 130, 0.6),
        ("Ошибка подключения к базе данных. " * 10, 80, 1.0),
        ("🎉🚀✅❌🔥😀" * 10, 100, 0.5),
    ],
)
def test_estimate_is_near_a_real_tokenizer(text: str, real: int, tolerance: float) -> None:
    assert abs(token_estimate.estimate(text) - real) <= tolerance * real


def test_estimate_of_nothing_and_of_little() -> None:
    assert token_estimate.estimate("") == 0
    assert token_estimate.estimate("\u200b") == 1


@settings(max_examples=examples(100))
@given(anything, anything)
def test_estimate_hardly_falls_when_text_is_added(text: str, more: str) -> None:
    assert token_estimate.estimate(text + more) >= token_estimate.estimate(text) - 1


def test_estimate_adds_up_over_its_chunks() -> None:
    text = "some words, 123 numbers\n" * 10_000
    assert (
        abs(token_estimate.estimate(text) - 10_000 * token_estimate.estimate("some words, 123 numbers\n"))
        < 10_000
    )


# Sizes
@settings(max_examples=examples(150))
@given(anything, st.integers(0, 60))
def test_a_head_fits_and_splits_no_character(text: str, limit: int) -> None:
    head = size.head(text, limit)
    assert text.startswith(head)
    assert size.size(head) <= limit
    if size.size(text) > limit:
        assert size.size(text[: len(head) + 1]) > limit


# Binaries
@pytest.mark.parametrize(
    "text",
    [
        "log line\n" * 50 + "stray \x00 here\n",
        "./a\x00./b\x00./c\x00" * 40,
        "page one\x0cpage two\n" * 20,
        "\x1b[31mcolour\x1b[0m\n" * 40,
        "caf\ufffd cr\ufffdme de la cr\ufffdme et du lait\n" * 20,
        "数据库连接失败\n" * 40,
        "\x01\x02",
    ],
)
def test_text_is_no_binary(text: str) -> None:
    assert binary.suppress(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "\x7fELF\x02\x01\x01" + "\x00" * 40 + "\ufffd\x05\x10abc\ufffd\ufffd" * 40,
        "\ufffd\ufffdPNG\r\n\x1a\n" + "\ufffdIH\x03\ufffd\x11" * 50,
        "\x00" * 500,
        bytes(range(256)).decode("latin-1") * 4,
        b"\x80\xfe\x91\x02".decode("utf-8", "surrogateescape") * 50,
    ],
)
def test_binaries_are_named_with_their_size(text: str) -> None:
    assert binary.suppress(text) == f"[Binary output suppressed: {size.size(text)} bytes]"


# The hard limit
MARKER = re.compile(r"\[Tool output capped: ([0-9]+) bytes removed\]")


def check_truncate(text: str, limit: int, reserve: int = 0) -> str:
    cut = truncate(text, limit, reserve)
    if size.size(text) <= limit:
        assert cut is None
        return text
    assert cut is not None
    assert size.size(cut) <= max(0, limit - reserve)
    assert truncate(cut, limit) is None
    return cut


def test_head_and_tail_survive_and_the_gap_is_counted() -> None:
    text = "".join(f"line {n}\n" for n in range(20_000))
    cut = check_truncate(text, 4_000)
    assert cut.startswith("line 0\nline 1\n")
    assert cut.endswith("line 19998\nline 19999\n")
    removed = sum(int(found) for found in MARKER.findall(cut))
    kept = sum(size.size(line) + 1 for line in cut.split("\n") if line and not MARKER.match(line))
    assert removed + kept == size.size(text)


def test_windows_open_around_each_kind_of_error() -> None:
    lines = [f"ok {n}" for n in range(30_000)]
    lines[9_000] = "error: first kind"
    lines[15_000] = "Traceback (most recent call last):"
    lines[15_001] = '  File "/app/x.py", line 12, in f'
    lines[15_002] = "KeyError: 'k'"
    lines[22_000] = "panicked at src/main.rs:4:5"
    for position in range(10_000, 12_000):
        lines[position] = f"error: number {position} of a flood"
    cut = check_truncate("\n".join(lines), 8_000)
    for wanted in (
        *("error: first kind", "ok 8999", "line 12, in f", "KeyError: 'k'", "panicked at"),
        "of a flood",
    ):
        assert wanted in cut
    assert len(MARKER.findall(cut)) >= 4


def test_limits_below_a_marker_keep_the_head_alone() -> None:
    assert truncate("é" * 300, 5) == "éé"
    assert truncate("abc" * 100, 0) == ""


@settings(max_examples=examples(150))
@given(
    st.lists(st.sampled_from(["ok", "error: bad", "é" * 30, "\ud800x", "y" * 400, "", "\r"]), max_size=300),
    st.integers(0, 4_000),
    st.integers(0, 200),
)
def test_cap_keeps_its_limit(lines: list[str], limit: int, reserve: int) -> None:
    text = "\n".join(lines)
    cut = check_truncate(text, limit, reserve)
    removed = sum(int(found) for found in MARKER.findall(cut))
    assert removed <= size.size(text)


# JSON
def test_spelling_survives() -> None:
    text = '{ "n" : 12345678901234567890123 , "f" : 1.10, "e": 1E+5,\n "a": 1, "a": 2, "s": "\\u00e9 \\" : , é" }\n'
    assert minify(text) == (
        '{"n":12345678901234567890123,"f":1.10,"e":1E+5,"a":1,"a":2,"s":"\\u00e9 \\" : , é"}\n'
    )


def test_json_lines() -> None:
    assert minify('{"a": 1}\n{"b": [1, 2]}\n') == '{"a":1}\n{"b":[1,2]}\n'
    assert minify('{"a": 1}\nnot json\n') is None


@pytest.mark.parametrize(
    "text", ["", "plain", "[info] started", '{"a":1}', "[1, 2", "{'a': 1}", "NaN", "[1,2]"]
)
def test_json_that_cannot_be_minified_is_left_alone(text: str) -> None:
    assert minify(text) is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=examples(150))
@given(values, st.integers(0, 3), st.booleans())
def test_minified_means_the_same(value: object, indent: int, ascii_only: bool) -> None:
    text = json.dumps([value], indent=indent, ensure_ascii=ascii_only)
    small = minify(text)
    if small is not None:
        assert json.loads(small) == json.loads(text)
        assert len(small) < len(text)
        assert minify(small) is None


# Folding
def unfolded(text: str) -> str:
    """Return the text before `fold`, with the lines in place of every marker."""
    lines: list[str] = []
    for line in text.split("\n"):
        marker = re.fullmatch(r"\[the (?:line|(\d+) lines) above (\d+) more times?\]", line)
        lines += lines[-int(marker[1] or 1) :] * int(marker[2]) if marker else [line]
    return "\n".join(lines)


def test_repetitions_are_counted_exactly() -> None:
    assert folding.fold("a long line here to fold\n" * 7 + "end") == (
        "a long line here to fold\n[the line above 6 more times]\nend"
    )
    cycle = "".join(f"step {n} of the long cycle\n" for n in range(8))
    assert folding.fold(cycle * 2 + "end") == cycle + "[the 8 lines above 1 more time]\nend"
    assert unfolded(cycle + "[the 8 lines above 1 more time]\nend") == cycle * 2 + "end"
    assert folding.fold(cycle * 3 + "end") == cycle + "[the 8 lines above 2 more times]\nend"


FOLDED = b"a\nb\n[the line above 4 more times]\nc\nd\n[the 2 lines above 1 more time]\ne"


def test_a_marker_is_shown_with_the_lines_that_it_counts() -> None:
    lines = FOLDED.decode().split("\n")
    headings = Headings.of(LineFlags(lines), is_search=False, is_page=False, is_diff=False, is_grouped=False)
    counts = {at: needs for at, needs in headings.needs.items() if lines[at].startswith("[the ")}
    assert counts == {2: [1], 5: [3, 4]}


def test_markers_in_the_text_stop_the_folding() -> None:
    assert folding.fold("x long line here\n" * 9 + "[the line above 6 more times]") is None


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.sampled_from(["", "a", "some longer line of text", "another longer line", "x\r"]), max_size=60
    )
)
def test_folded_can_be_unfolded(lines: list[str]) -> None:
    text = "\n".join(lines)
    folded = folding.fold(text)
    if folded is not None:
        assert unfolded(folded) == text
        assert len(folded) < len(text)
        assert folding.fold(folded) is None


# Blanks
def test_blanks_at_line_ends_and_empty_lines() -> None:
    assert folding.trim("a  \nb\t\n\n\n\n\nc  ") == "a\nb\n\nc"
    assert folding.trim("a  \r\nb\r\n\r\n\r\nc") == "a\r\nb\r\n\r\nc"
    assert folding.trim("  indented\n\n  stays\n") is None


@settings(max_examples=examples(150))
@given(st.text(st.sampled_from("ab \t\r\n"), max_size=60))
def test_trimmed_keeps_every_word(text: str) -> None:
    trimmed = folding.trim(text)
    if trimmed is not None:
        assert trimmed.split() == text.split()
        assert len(trimmed) < len(text)
        assert folding.trim(trimmed) is None


# Encoded data
def test_encoded_data_is_named_sized_and_hashed() -> None:
    blob = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ" * 20
    words = "a line of words " * 100
    found = binary.named(f"before\ndata:image/png;base64,{blob}==\n{words}")
    assert found is not None
    assert re.search(r"data:image/png;base64,\[base64: 882 characters, sha256 [0-9a-f]{12}\]", found)
    assert found.endswith(words)
    assert binary.named(found) is None


def test_paths_and_rules_are_no_encoded_data() -> None:
    assert binary.named("/usr/share/doc-base/some_package/" * 12 + "\n" + "-" * 900) is None
    assert binary.named("short\nlines\n" * 200) is None


def numbered(lines: list[str], first: int = 1, separator: str = "→", width: int = 6) -> str:
    numbers = (
        f"{line_numbers.prefix(first + i, separator):>{width + len(separator)}}" for i in range(len(lines))
    )
    return "\n".join(map(str.__add__, numbers, lines))


def restored(thinned: str) -> tuple[list[int], list[str]]:
    """Return the numbers and the contents of the lines of a thinned text, without the legend."""
    numbers, contents = split(thinned)
    legend = contents.index(LEGEND)
    return numbers[:legend] + numbers[legend + 1 :], contents[:legend] + contents[legend + 1 :]


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


def test_every_blank_after_a_bare_colon_belongs_to_the_code() -> None:
    code = ["    {", "        return x", "", "}", *["    y"] * 20]
    window = "[File: /src/a.c (90 lines total)]\n" + numbered(code, 36, ":", 0) + "\n(31 more lines below)"
    thinned = thin(window)
    assert thinned is not None
    assert thinned.split("\n")[2:7] == ["36:     {", "        return x", "", "}", "40:     y"]
    assert split(window)[1][1:-1] == split(thinned)[1][2:-1] == code


def test_all_of_the_code_after_a_bare_colon_may_be_indented() -> None:
    for code in (
        ["    {", "        return x", "", "    }"] * 5,
        ["    y", "      z"] * 10,
        ["  y", "", "    z"] * 8,
    ):
        window = "(35 more lines above)\n" + numbered(code, 36, ":", 0) + "\n(31 more lines below)"
        thinned = thin(window)
        assert thinned is not None
        assert split(window)[1][1:-1] == split(thinned)[1][2:-1] == code
    # The tool has written one blank before indented code, comments and empty lines.
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
    assert restored(thinned) == split(text)


@pytest.mark.parametrize(
    "text",
    [
        "no numbers\n" * 20,
        "\n".join(f"{n}: x" for n in range(1, 6)),
        numbered([f"{n}→inner" for n in range(20)]),
        numbered(["  code", "7| inner"] * 10, 1, " | ", 0),
        numbered(["  code", "7| inner"] * 10, 1, ". ", 0),
        "\n".join(f"{n * 7}: hit" for n in range(30)),
        "12:30: tick\n12:31: tock\n" * 9,
        "\n".join(f"{n}: match" for n in (3, 9, 14, 200, 201, 202, 900, 911, 950, 1000)),
        " id | name\n----+------\n" + "\n".join(f" {n:>2} | ann{n}" for n in range(1, 40)) + "\n(39 rows)",
    ],
    ids=["none", "few", "numbered", "bars", "dots", "multiples", "times", "hits", "a table"],
)
def test_numbers_left_alone(text: str) -> None:
    assert thin(text) is None


@pytest.mark.parametrize(
    ("row", "kept"), [("L{}: {}", "L{}: {}"), ("{:>4} | {}", "{}| {}"), ("{} | {}", "{}| {}")]
)
def test_numbers_after_a_letter_or_before_a_bar_with_blanks(row: str, kept: str) -> None:
    code = [f"    code {n} | 7" for n in range(1, 44)]
    text = "\n".join(row.format(n, line) for n, line in enumerate(code, 1))
    thinned = thin(text)
    assert thinned is not None
    lines = thinned.split("\n")
    assert (lines[1], lines[2], lines[20]) == (kept.format(1, code[0]), code[1], kept.format(20, code[19]))
    assert split(text) == ([*range(1, 44)], code)
    assert split(thinned)[1][1:] == code
    assert restored(thinned) == split(text)
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
def test_thinned_numbers_can_be_restored(
    contents: list[str], first: int, separator: str, strangers: list[int]
) -> None:
    rows = numbered(contents, first, separator).split("\n")
    for position in strangers:
        rows.insert(position, "stranger")
    text = "\n".join(rows)
    thinned = thin(text)
    if thinned is not None:
        assert restored(thinned) == split(text)
        for content in contents:
            assert content in thinned


def run(tool: str, arguments: dict[str, object], text: str, lossy: bool = True) -> str:
    return shortened(text, tool, arguments, lossy=lossy).text


def test_an_edited_file_is_recognised_by_its_name() -> None:
    path = "/srv/app/src/reader.py"
    for text, found in (
        (f"The file {path} has been updated.", "The file reader.py has been updated."),
        (f"Updated '{path}':\n1 {path} = 2", f"Updated 'reader.py':\n1 {path} = 2"),
    ):
        assert run("Edit", {"file_path": path}, text) == found
    windows = "C:\\app\\src\\reader.py"
    assert run("Write", {"file_path": windows}, f"Created: {windows}") == "Created: reader.py"


@pytest.mark.parametrize(
    "text",
    [
        "Error: /srv/app/src/reader.py was not found",
        "The file /srv/app/src/reader.py.bak has been updated.",
        "Copied /srv/app/src/reader.py over /srv/app/src/reader.py",
        "Updated:\n/srv/app/src/reader.py",
    ],
)
def test_other_paths_and_failures_stay_whole(text: str) -> None:
    assert run("Edit", {"file_path": "/srv/app/src/reader.py"}, text) == text
