"""A text that is too long shows its units with the most facts, and counts the others."""

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.facts import TextFacts, facts_of
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Policy, Redacted, ShownBefore, ToolOutput
from penumbra.compress.selection import LEAST, Selection, Units, ends_in_part, left_out
from penumbra.compress.size import size
from penumbra.compress.stages.line_numbers import LEGEND
from penumbra.linear import utf8
from support import markers
from support.examples import examples

NOISE = [f"working on step number {n % 7} of the plan, nothing to see here" for n in range(400)]
WORDS = [f"{n * 7919 % 9973:x}/{n * 31 % 997:x}.{n % 13:x}" for n in range(2_000)]
FULL = [" ".join(WORDS[n * 9 : n * 9 + 3 + n % 6]) for n in range(180)]
"""Lines in which each word is a fact."""


def chosen(lines: list[str], limit: int, mentioned: Mapping[str, float] | None = None, seen: Any = ()) -> str:
    units = Units.of(utf8("\n".join(lines)))
    selection = Selection(units, limit, TextFacts.of(units.texts(), mentioned or {}, (), seen))
    selection.ends(12, 20)
    selection.fill()
    return selection.written()


def in_part(tool: str, arguments: dict[str, Any], text: str, **output: Any) -> str:
    """Return the excerpt of a result, without its heading."""
    made = shorten(ToolOutput(text, tool, arguments, **output), Policy(lossy=True), Redacted, lambda _: "")
    heading, _, body = made.text.partition("\n")
    assert " in part; " in heading
    return body


def test_a_mark_may_name_a_file_with_an_unpaired_surrogate() -> None:
    hits = [
        f"src/m{n // 8}\ud83d.py:{n}:    value_{n * 7919 % 1000} = read(cache, {n * n})\n" for n in range(400)
    ]
    assert re.search(
        r"lines left out: .*\ud83d", in_part("Bash", {"command": "rg -n value src"}, "".join(hits))
    )


def test_lines_with_new_names_are_kept_in_any_position() -> None:
    lines = list(NOISE)
    lines[173] = "wrote build/out/report-4711.html and cfg.retryLimit=31337"
    kept = chosen(lines, 2_000)
    assert "build/out/report-4711.html" in kept
    assert kept.startswith(NOISE[0])
    assert kept.endswith(NOISE[-1])


@pytest.mark.parametrize(
    "line",
    [
        "Apply complete! Resources: 3 added, 0 changed, 1 destroyed.",
        "Plan: 3 to add, 0 to change, 1 to destroy.",
        "Tests:       5 passed, 5 total",
        " 1219 pass",
        "app test:  0 fail",
        " 13 files changed, 489 insertions(+), 31 deletions(-)",
        "Ran 609 tests across 56 files. [169.17s]",
        "build succeeded, 5 warnings.",
        "added 213 packages, and audited 214 packages in 3s",
        "found 0 vulnerabilities",
        "Done in 3 s",
        "✨  Done in 3.25s.",
        "BUILD SUCCESSFUL in 3s",
        "test result: ok. 5 passed; 0 failed; 0 ignored; finished in 0.00s",
        "docs/a.rst:12: WARNING: undefined label: shelf",
    ],
)
@pytest.mark.parametrize("is_shown", [False, True])
def test_the_end_of_a_program_stays_among_outputs_of_others(line: str, is_shown: bool) -> None:
    output = "\n".join([*FULL[:90], line, *FULL[90:]])
    earlier = ShownBefore(facts_of(utf8(output)), lambda _: True) if is_shown else None
    shown = in_part("Bash", {"command": "first; second; third"}, output, shown_before=lambda: earlier)
    assert line in shown.split("\n")


@pytest.mark.parametrize(("gap", "stays"), [(3, True), (8, False)])
def test_no_few_lines_are_cut_out_of_the_middle_of_code(gap: int, stays: bool) -> None:
    lines = ["x" * 39] * 40
    wanted = [*range(10), *range(10 + gap, 20 + gap)]
    selection = Selection(Units.of(utf8("\n".join(lines))), 1_100 + 40 * gap, None)
    selection.take(wanted, 100)
    selection.left = 100
    selection.fill(is_code=True)
    assert all(selection.shown[: 20 + gap]) is stays


@pytest.mark.parametrize(
    ("head", "end", "is_code"),
    [
        ("    def run(self):", "    # of run", False),
        ("    def run(self):", "        # of run", True),
        ("export function run() {", "}", True),
        ("running it:", "    done", False),
    ],
)
def test_one_definition_that_a_program_prints_is_a_read(head: str, end: str, is_code: bool) -> None:
    code = "\n".join([head, *[f"        self.call_{n}({n * 7919})\n" for n in range(200)], end])
    output = ToolOutput(code, "Bash", {"command": "python source.py run"})
    made = shorten(output, Policy(lossy=True), Redacted, lambda _: "").text
    assert (made == code) is is_code


def test_failures_stay_in_a_report_that_looks_like_one_definition() -> None:
    cases = [f"    case {n} of {n * 7919 % 1009}" for n in range(2_000)]
    report = "\n".join(["test suite alpha", *cases[:900], "    ERROR: boom at src/x.c:12", *cases[900:]])
    policy = Policy(lossy=True, max_output_bytes=32_768)
    made = shorten(ToolOutput(report, "Bash", {"command": "make check"}), policy, Redacted, lambda _: "")
    assert made.stages == ("excerpt",)
    assert "\n    ERROR: boom at src/x.c:12\n" in made.text


@pytest.mark.parametrize("is_error", [False, True])
def test_failures_stay_in_a_fenced_output_of_an_unknown_tool_with_a_path(is_error: bool) -> None:
    cases = [f"case {n} of {n * 7919 % 1009}" for n in range(4_000)]
    output = "\n".join(["```", *cases[:2_000], "ERROR: boom at src/x.c:12", *cases[2_000:], "```"])
    result = ToolOutput(output, "acme_script", {"file": "a.py"}, is_error=is_error)
    made = shorten(result, Policy(lossy=True), Redacted, lambda _: "")
    assert made.stages == ("excerpt",)
    assert "\nERROR: boom at src/x.c:12\n" in made.text


@pytest.mark.parametrize(
    ("path", "row", "is_file"),
    [
        ("notes/a.md", "case {} of {}", True),
        ("notes/a.md", "notes/a.md: case {} of {}", False),
        ("notes/a.md", "2026-01-02T03:04:05Z INFO case {} of {}", False),
        ("ann@example.md", "case {} of {}", False),
    ],
)
def test_an_unknown_tool_shows_the_file_that_only_an_argument_names(
    path: str, row: str, is_file: bool
) -> None:
    text = "\n".join(["# Notes", *[row.format(n, n * 7919 % 1009) for n in range(1_000)]])
    made = shorten(
        ToolOutput(text, "acme_script", {"what": path}), Policy(lossy=True), Redacted, lambda _: ""
    )
    assert (made.text == text) is is_file


def test_lines_near_a_mentioned_name_are_kept() -> None:
    lines = list(NOISE)
    lines[211] = "the anemometer answers again"
    assert "anemometer" in chosen(lines, 2_000, {"anemometer": 1.0})


def test_all_facts_are_shown_once_before_a_fact_is_shown_again() -> None:
    lines = ["id=4711 name=alpha-7"] * 80 + ["id=4712 name=beta-8"] + ["id=4711 name=alpha-7"] * 80
    assert "beta-8" in chosen(lines, 900)


def test_the_last_line_stays_if_it_fits_into_half_of_the_limit() -> None:
    rows = [f"row {n} of {n * 7919 % 1009}" for n in range(300)]
    for width in (100, 200):
        assert chosen([*rows, "e" * width], 600).endswith("e" * width)
    kept = chosen([*rows, "e" * 390], 600)
    assert kept.endswith(" left out]")
    assert len(kept) <= 600


@pytest.mark.parametrize(
    ("data", "first", "behind", "mark"),
    [
        (b"a\nb\nc\nd", 2, 7, "[3 lines left out]"),
        (b"a\nb\nc\nd", 3, 7, "[4 bytes left out]"),
        (b"a\nb\nc\nd\n", 0, 2, "[1 line left out]"),
        (b"a\nb\nc\nd\n", 4, 8, "[2 lines left out]"),
        (b"abc", 1, 2, "[1 byte left out]"),
    ],
)
def test_a_mark_counts_lines_where_they_are_whole(data: bytes, first: int, behind: int, mark: str) -> None:
    assert left_out(data, first, behind) == mark


@settings(max_examples=examples(60))
@given(st.lists(st.text("ab/_1 é\n", max_size=90), max_size=40), st.integers(LEAST, 900))
def test_kept_units_fit_and_all_others_are_counted(lines: list[str], limit: int) -> None:
    whole = "\n".join(lines)
    units = Units.of(utf8(whole))
    assert b"".join(units.texts()) == units.data
    kept = chosen(lines, limit)
    assert size(kept) <= max(limit, size(whole)) if kept == whole else size(kept) <= limit
    shown = [line for line in kept.split("\n") if not markers.read(line)]
    rest = iter(whole.split("\n"))
    assert all(line in rest for line in shown if line), "in order"
    if "bytes" not in kept:
        assert markers.left_out(kept) + len(shown) in (whole.count("\n") + 1, whole.count("\n") + 2)


@settings(max_examples=examples(60))
@given(
    st.lists(st.text("ab/_1 é", min_size=1, max_size=60), min_size=1, max_size=60),
    st.integers(1, 400),
    st.integers(LEAST, 900),
)
def test_the_ends_of_a_text_of_any_size(lines: list[str], times: int, limit: int) -> None:
    whole = "\n".join(lines * times) + "\nError: disk full\n" + "\n".join(lines * times)
    data = utf8(whole)
    shown = ends_in_part(data, limit, lambda start, end: f"[{end - start} gone]")
    if len(data) <= limit:
        return
    assert size(shown) <= limit
    gone = sum(map(int, re.findall(r"^\[(\d+) gone\]$", shown, re.MULTILINE)))
    marks = [line for line in shown.split("\n") if re.fullmatch(r"\[\d+ gone\]", line)]
    # Each mark is a separate line.
    assert gone + size(shown) - sum(map(size, marks)) - 2 * len(marks) <= len(data)
    assert gone + size(shown) >= len(data)


@settings(max_examples=examples(60))
@given(
    st.lists(st.integers(0, 59), min_size=60, max_size=60),
    st.lists(st.integers(0, 59), max_size=20),
    st.integers(LEAST, 1_500),
)
def test_no_unit_stands_without_those_it_needs(above: list[int], wish: list[int], limit: int) -> None:
    units = Units.joined([f"line {n} of it: {n * 7919}".encode() for n in range(60)])
    needs = {unit: [heading] for unit, heading in enumerate(above)}
    selection = Selection(units, limit, None, needs)
    selection.take(wish, 60)
    selection.fill()
    assert all(selection.shown[above[unit]] for unit in range(60) if selection.shown[unit])
    assert size(selection.written()) <= limit


def test_hits_stand_below_their_own_file_and_all_files_are_named() -> None:
    names = [f"packages/core/src/area{n % 9}/file_{n}.ts" for n in range(90)]
    text = "\n".join(
        f"{name}:{n + k}:  return compute_{n}_{k}({'x' * 40})"
        for n, name in enumerate(names)
        for k in range(4)
    )
    shown = in_part("Grep", {"pattern": "return"}, text)
    assert size(shown) <= 16_000
    assert all(f"file_{n}.ts" in shown for n in range(90))
    file = ""
    for line in shown.split("\n"):
        file = line if line.endswith(":") else file
        if hit := re.match(r"\d+:  return compute_(\d+)_", line):
            assert file == f"{names[int(hit[1])]}:"


def test_hits_of_the_searched_name_come_before_others() -> None:
    names = [f"fetchPart{n}" for n in range(200)]
    hits = [f"{n}:  {name}({n})" for n, name in enumerate(names, 1)]
    others = [f"{n}:  otherThing{n}.run(cfg{n}.txt)" for n in range(100, 500)]
    said = dict.fromkeys(names, 1.0)
    text = "src/a.ts:\n" + "\n".join([*others, *hits])
    shown = [
        in_part("Grep", {"pattern": pattern}, text, mentioned=lambda: said).count("  fetchPart")
        for pattern in ("|".join(names), "otherThing")
    ]
    assert shown[0] > shown[1]


def test_titles_and_addresses_come_before_texts() -> None:
    fields = "".join(
        f"Title: Sails {n}\nURL: https://example.com/{n}\nText: {'wind and cloth ' * 60}\nmore of it\n\n"
        for n in range(1, 21)
    )
    markdown = "".join(
        f"{n}. [Sails {n}](https://example.com/{n})\nDate: Mar {n}\n\n{'wind and cloth ' * 60}\n\n"
        for n in range(1, 21)
    )
    for text in (fields, markdown):
        shown = in_part("web_search", {"query": "sails"}, text)
        assert all(f"https://example.com/{n}" in shown for n in range(1, 21))


STYLES = {
    "git": (["diff --git a/{} b/{}", "index 1..2 100644"], "a/{}", "b/{}"),
    "diff -ru": (["diff -ru old/{} new/{}"], "old/{}\t2026-11-01", "new/{}\t2026-11-01"),
    "diff -u": ([], "old/{}\t2026-11-01", "new/{}\t2026-11-01"),
    "svn": (["Index: {}", "=" * 67], "{}\t(revision 7)", "{}\t(working copy)"),
}


@pytest.mark.parametrize("style", STYLES)
def test_shown_lines_of_a_diff_are_below_their_hunk_and_file(style: str) -> None:
    above, before, after = STYLES[style]
    lines: list[str] = []
    for number in range(40):
        old = [f"def f{number}_{n}(): return compute_value({n})" for n in range(90)]
        new = list(old)
        for at in (80, 50, 20):
            new[at : at + 1 + number % 2] = [f"-- changed {number} {at}", f"++ and another {number} {at}"]
        name = f"src/f{number}.py"
        names = (before.format(name), after.format(name))
        lines += [line.format(name, name) for line in above]
        lines += difflib.unified_diff(old, new, *names, lineterm="")
    shown = in_part("Bash", {"command": "svn diff" if style == "svn" else "git diff"}, "\n".join(lines))
    assert all(f"f{number}.py" in shown for number in range(40))
    file, hunk = "", ""
    for line in shown.split("\n"):
        if re.match(r"\+\+\+ (?:b/|new/)?src/", line):
            file, hunk = line, ""
        elif line.startswith("@@ "):
            hunk = line
        elif found := re.match(r"(?:\+-- changed|\+\+\+ and another) (\d+) (\d+)", line):
            assert f"f{found[1]}.py" in file
            start, count = map(int, re.findall(r"\+(\d+),(\d+) @@", hunk)[0])
            assert start <= int(found[2]) + 3 <= start + count + 3


def file(lines: int) -> list[str]:
    return [
        f"def step_{n}(state):" if n % 12 == 0 else f"    state.total_{n} += compute_{n}(state)" + " #" * 20
        for n in range(1, lines + 1)
    ]


@pytest.mark.parametrize("is_numbered", [False, True], ids=["plain", "numbered"])
def test_a_file_is_shown_in_passages_and_marks_number_the_missing_lines(is_numbered: bool) -> None:
    lines = file(1_500)
    text = "\n".join(f"{n:>6}\t{line}" if is_numbered else line for n, line in enumerate(lines, 1))
    named = {"compute_703": 1.0}
    shown = in_part("Read", {"file_path": "/repo/a.py"}, text, mentioned=lambda: named).split("\n")
    number = 0
    kept: dict[int, str] = {}
    for line in shown:
        if found := re.fullmatch(r"\[lines (\d+) to (\d+)(?: of this output)? left out\]", line):
            assert int(found[1]) == number + 1
            number = int(found[2])
        elif line != LEGEND:
            number += 1
            kept[number] = re.sub(r"^ *\d+\t", "", line) if is_numbered else line
    assert number == len(lines)
    assert all(lines[at - 1] == line for at, line in kept.items())
    assert all(at in kept for at in range(697, 717))


def jobs(count: int = 120) -> list[dict[str, Any]]:
    return [
        {"job": f"j{n:04}", "state": "done", "seconds": n % 13 + 1, "note": f"{n:090}"} for n in range(count)
    ]


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ({"error": "quota exceeded"}, r'j0057\t6\t"0+57"\tquota exceeded'),
        ({"state": None}, r"j0057\tnull\t6"),
        ({"seconds": "unknown"}, r"j0057\tunknown"),
        ({"seconds": 99_999}, r"j0057\t99999"),
        ({"state": "failed"}, r"j0057\tfailed\t6"),
    ],
    ids=["failure", "null", "another type", "far off", "rare"],
)
def test_the_only_record_that_differs_is_there_whatever_table_it_is_in(
    change: dict[str, Any], shown: str
) -> None:
    users = [
        {"id": n, "name": f"user {n}", "mail": f"u{n}@example.com", "age": 30 + n % 7} for n in range(120)
    ]
    tables = {"users": users, "jobs": jobs()}
    tables["jobs"][57] |= change
    text = in_part("Bash", {"command": "./jobs"}, json.dumps(tables))
    rows = [line for line in text.split("\n") if "\t" in line]
    assert any(re.match(shown, row) for row in rows), text
    assert len(rows) + markers.left_out(text) == 240
    # Both ends of both tables are shown.
    for row in ("0\t", "119\t", "j0000\t", "j0119\t"):
        assert any(line.startswith(row) for line in rows)


def test_few_long_rows_stay_all_of_them() -> None:
    rows = [{"id": n, "title": f"title {n}", "body": f"{n} words of a body " * 60} for n in range(30)]
    shown = in_part("mcp__tracker__list", {}, json.dumps(rows))
    assert all(f"title {n}\t" in shown for n in range(30))
    assert "rows left out" not in shown
    assert "characters left out" in shown


@pytest.mark.parametrize("length", [30, 300, 1_900])
@pytest.mark.parametrize(
    "before", ["word " * 43, "a,b;" * 55, "x" * 230 + "("], ids=["words", "marks", "bracket"]
)
def test_no_address_is_cut(before: str, length: int) -> None:
    address = "https://example.com/" + "a,b;c/" * (length // 6)
    units = Units.of(utf8(f"{before}{address} " + "word, " * 200))
    assert sum(utf8(address) in text for text in units.texts()) == 1
    assert b"".join(units.texts()) == units.data


def test_a_line_of_one_long_address_is_cut() -> None:
    units = Units.of(b"data://" + b"a,b" * 5_000)
    assert max(map(len, units.texts())) < 2_500
