"""Repeated parts of a later result as references to an earlier one."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.stages import line_numbers
from penumbra.conversation.back_references import with_references
from penumbra.conversation.call_names import CallName
from penumbra.conversation.line_index import LineIndex
from support import work_counts
from support.examples import examples
from support.said_again import expand

READ = "Read a.py"
RUN = "Bash ./run"


def index(*texts: tuple[str, str], is_file: bool = False) -> LineIndex:
    line_index = LineIndex()
    for number, (call, text) in enumerate(texts):
        key = bytes([number + 1])
        line_index.calls.note(key, call)
        line_index.note(key, call, text, is_numbered=is_file)
    return line_index


def read_of(path: str) -> Call:
    return classify("Read", {"file_path": path})


def reread(earlier: str, new: str, *, path: str = "a.py") -> str | None:
    """Return a file's new text, with references in place of the lines that an earlier read shows."""
    made = with_references(index((READ, earlier), is_file=True), new, read_of(path))
    return None if made is None else made.text


def rerun(earlier: str, new: str, command: str = "./run") -> str | None:
    """Return a command's new output, with references in place of the lines that an earlier output shows."""
    made = with_references(index((RUN, earlier)), new, call=classify("Bash", {"command": command}))
    return None if made is None else made.text


def code(first: int, last: int) -> list[str]:
    return [f"    value_{n} = compute(something, {n})" for n in range(first, last)]


def numbered(lines: list[str], first: int = 1) -> str:
    return "\n".join(f"{first + i:>6}→{line}" for i, line in enumerate(lines))


def test_an_edited_file_shows_the_change_and_much_around_it() -> None:
    old = code(0, 160)
    new = [*old[:80], "    inserted = True", *old[80:]]
    result = reread(numbered(old), numbered(new))
    assert result is not None
    lines = result.split("\n")
    markers = [line for line in lines if line.startswith("[")]
    above, below = (lines.index(marker) for marker in markers)
    changed = lines.index("    81→    inserted = True")
    assert changed - above > 10
    assert below - changed > 10
    # The lines are named by the numbers that they have in the earlier text.
    count = int(markers[0][1:].split(" ")[0])
    assert markers[0] == f"[{count} lines: same as in Read a.py, lines 2 to {count + 1}]"
    assert markers[1].endswith(" to 159]")
    assert lines[0] == "     1→" + old[0]
    assert lines[-1] == "   161→" + old[-1]
    assert expand(result, {"Read a.py": numbered(old)}, is_file=True) == "\n".join(new)


def test_a_part_of_a_file_that_was_read_is_one_reference() -> None:
    old = code(0, 60)
    assert reread(numbered(old), numbered(old[20:40], 21)) == "\n".join(
        ["    21→" + old[20], "[18 lines: same as in Read a.py, lines 22 to 39]", "    40→" + old[39]]
    )


def test_an_envelope_around_a_part_of_a_file_stays() -> None:
    old = code(0, 60)
    said = "    21→" + old[20], "[18 lines: same as in Read a.py, lines 22 to 39]", "    40→" + old[39]
    part = numbered(old[20:40], 21)
    for head, tail in (
        ("", "\n\n<note>\nA word of the reader's.\n</note>"),
        ("(20 more lines above)\n", "\n"),
    ):
        assert reread(numbered(old), f"{head}{part}{tail}") == head + "\n".join(said) + tail
    # The line end at the end of a text without numbers begins no further line.
    printed = "\n".join(old[20:40]) + "\n"
    assert reread("\n".join(old), printed) == "\n".join(
        [old[20], "[18 lines: same as in Read a.py, lines 22 to 39 of its output]", old[39], ""]
    )
    assert reread("\n".join(old), "print()\n" + printed) is None


@pytest.mark.parametrize("path", ["b.py", "", "/repo/src/a.py", "c:/repo/src/a.py"])
def test_lines_of_another_file_are_referred_to_as_well(path: str) -> None:
    text = numbered(code(0, 60))
    made = reread(text, text, path=path)
    assert made is not None
    assert "[58 lines: same as in Read a.py, lines 2 to 59]" in made


@pytest.mark.parametrize(
    ("earlier", "new"),
    [
        (code(0, 30), code(50, 90)),
        (code(0, 5), code(0, 5)),
        (["}"] * 80, ["}"] * 80),
        (code(0, 40), ["[18 lines: same as in Bash x, lines 2 to 19]", *code(0, 40)]),
    ],
    ids=["nothing shared", "few lines", "short lines", "text with a marker"],
)
def test_other_texts_get_no_reference(earlier: list[str], new: list[str]) -> None:
    assert rerun("\n".join(earlier), "\n".join(new)) is None


def test_a_text_does_not_refer_to_itself() -> None:
    text = numbered([*code(0, 40), "between the two of them", *code(0, 40)])
    assert with_references(LineIndex(), text, read_of("a.py")) is None


def test_numbers_of_a_thinned_read_survive() -> None:
    old, new = line_numbers.thin(numbered(code(0, 160))), line_numbers.thin(numbered(code(10, 155), 11))
    assert old is not None
    assert new is not None
    result = reread("Exit code: 0\nOutput:\n" + old, "Exit code: 0\nOutput:\n" + new + "\nmore")
    assert result is not None
    assert expand(result, {"Read a.py": old}, is_file=True).split("\n")[3:-1] == code(10, 155)
    assert "155→" in result


def test_numbers_of_data_are_part_of_its_lines() -> None:
    text = "\n".join(f"{n}: value_{n} of the table of values" for n in range(1, 41))
    other = "\n".join(f"{n + 1}: value_{n} of the table of values" for n in range(1, 41))
    assert rerun(text, text) is not None
    assert rerun(text, other) is None


def test_a_reference_to_arguments_of_a_call_says_so() -> None:
    old = code(0, 40)
    written = "what Write a.py was given"
    line_index = LineIndex()
    line_index.calls.note(b"\x01", written)
    line_index.note(b"\x01", written, "\n".join(old), is_argument=True)
    made = with_references(line_index, numbered(old), read_of("a.py"))
    assert made is not None
    assert made.text.split("\n") == [
        "     1→" + old[0],
        "[38 lines: same as in what Write a.py was given, lines 2 to 39]",
        "    40→" + old[39],
    ]
    assert made.keys == {b"\x01"}


def test_a_reference_tells_calls_of_one_name_apart() -> None:
    first, second = "\n".join(code(0, 30)), "\n".join(code(50, 80))
    line_index = index((RUN, first), (RUN, second), ("Bash ls", "x"))
    for text, name, keys in ((first, "Bash ./run (the 1st)", {b"\x01"}), (second, "Bash ./run", {b"\x02"})):
        made = with_references(line_index, text)
        assert made is not None
        assert made.text == f"[30 lines: same as in {name}]"
        assert made.keys == keys
    assert line_index.calls.name(b"\x01", is_whole=True) == CallName(
        "Bash ./run (the 1st)", frozenset({b"\x01"})
    )
    # The result is repeated, so the name means the latest call.
    line_index.calls.note(b"\x04", RUN)
    line_index.note(b"\x04", RUN, first)
    made = with_references(line_index, first)
    assert made is not None
    assert made.text == "[30 lines: same as in Bash ./run]"
    assert made.keys == {b"\x04"}


def test_lines_are_those_of_the_file_where_the_call_tells_them() -> None:
    """The name could only mean a later call instead if that call showed these lines."""
    lines = code(0, 60)
    part = "Bash sed a.py"
    line_index = LineIndex()
    for key, start in ((b"1", 3000), (b"2", 100)):
        line_index.calls.note(key, part)
        text = "\n".join(lines) if key == b"1" else "\n".join(code(100, 160))
        line_index.note(key, part, f"Output:\n{text}", first=start)
    made = with_references(line_index, "\n".join(lines), read_of("a.py"))
    assert made is not None
    assert made.text.split("\n")[1] == "[58 lines: same as in Bash sed a.py, lines 3001 to 3058]"
    line_index.calls.note(b"3", part)
    line_index.note(b"3", part, "\n".join(code(200, 260)), first=3050)
    made = with_references(line_index, "\n".join(lines), read_of("a.py"))
    assert made is not None
    assert "same as in Bash sed a.py (the 1st), lines 3001 to 3058]" in made.text


def test_a_range_of_lines_is_named_only_if_it_counts_them() -> None:
    """An acknowledgement may show two parts of a file, each with its numbers."""
    parts = numbered(code(0, 40)) + "\n" + numbered(code(100, 180), 5)
    edit = "Edit a.py"
    made = with_references(index((edit, parts), is_file=True), parts + "\nmore of it", read_of("a.py"))
    assert made is not None
    (marker,) = [line for line in made.text.split("\n") if "same as" in line]
    assert "lines" not in marker.partition(": same as ")[2]


@pytest.mark.parametrize(
    ("mark", "count"), [("[the line above 3 more times]", 1), ("[the 2 lines above 1 more time]", 2)]
)
def test_a_mark_stays_with_the_lines_that_it_counts(mark: str, count: int) -> None:
    known = code(5, 20)
    result = (rerun("\n".join(code(0, 40)), "\n".join(["go", *known, mark, "end"])) or "").split("\n")
    assert result[-2 - count :] == [*known[-count:], mark, "end"]
    assert len(result) < len(known)


def test_only_lines_that_a_shortened_text_shows_are_referred_to() -> None:
    old = code(0, 40)
    shown = [*old[:10], "[20 lines, 900 bytes left out]", *old[30:]]
    line_index = LineIndex()
    line_index.calls.note(b"c", RUN)
    line_index.note(b"c", RUN, "\n".join(shown), "\n".join(old))
    made = with_references(line_index, "\n".join([*shown, "more"]))
    assert made is not None
    assert made.text.split("\n") == [
        "[10 lines: same as in Bash ./run, lines 1 to 10 of its output]",
        "[20 lines, 900 bytes left out]",
        "[10 lines: same as in Bash ./run, lines 31 to 40 of its output]",
        "more",
    ]
    # No text shows the lines between the two parts.
    whole = with_references(line_index, "\n".join(old))
    assert whole is not None
    assert "\n".join(old[10:30]) in whole.text


def test_failures_endings_and_their_headings_stay() -> None:
    steps = [f"building module_{n} from src/module_{n}.c with all its parts" for n in range(40)]
    failure = [
        "____________________ test_total ____________________",
        *steps[20:30],
        "E       AssertionError: 3 is not 4",
        "tests/test_total.py:12: in test_total",
    ]
    ran = "\n".join([*steps[:20], *failure, *steps[30:], "=== 1 failed, 39 passed in 3.2s ==="])
    made = rerun(ran, ran)
    assert made is not None
    lines = made.split("\n")
    assert lines == [
        "[20 lines: same as in Bash ./run, lines 1 to 20 of its output]",
        failure[0],
        "[9 lines: same as in Bash ./run, lines 22 to 30 of its output]",
        *failure[-3:],
        "[9 lines: same as in Bash ./run, lines 34 to 42 of its output]",
        steps[-1],
        "=== 1 failed, 39 passed in 3.2s ===",
    ]
    assert expand(made, {"Bash ./run": ran}) == ran
    # Quoted lines report no failure.
    assert rerun(ran, ran, "grep -h '' log") == "[44 lines: same as in Bash ./run]"


def test_the_last_line_stays_unless_the_whole_output_is_repeated_and_reports_nothing() -> None:
    last = "the cart has seven items in all"
    ran = "\n".join([*code(0, 20), last, ""])
    reporting = "\n".join([*code(0, 20), "build succeeded.", *code(20, 40), last, ""])
    assert rerun(ran, ran) == "[21 lines: same as in Bash ./run]"
    longer = "[21 lines: same as in Bash ./run, lines 1 to 21 of its output]\n\nand more"
    assert rerun(ran, f"{ran}\nand more") == longer
    for earlier, new in ((ran, f"begun\n{ran}"), (reporting, reporting)):
        made = rerun(earlier, new)
        assert made is not None
        assert made.split("\n")[-2:] == [last, ""]
        assert expand(made, {"Bash ./run": earlier}) == new


@pytest.mark.parametrize("head", ["<returncode>3</returncode>", "Output:"])
def test_the_lines_of_the_agent_around_an_output_stay_and_are_not_counted(head: str) -> None:
    ran = "\n".join([head, *code(0, 20)])
    assert rerun(ran, ran) == f"{head}\n[20 lines: same as in Bash ./run, lines 1 to 20 of its output]"


@pytest.mark.parametrize("title", [["the second run:"], ["", "the second run", ""]], ids=["colon", "alone"])
def test_the_title_of_new_lines_stays(title: list[str]) -> None:
    earlier = "\n".join([*code(0, 20), *title, "seven items in the cart"])
    made = rerun(earlier, "\n".join([*code(0, 20), *title, "eight items in the cart"]))
    assert made is not None
    assert [line for line in made.split("\n") if line and line[0] != "["] == [
        *filter(None, title),
        "eight items in the cart",
    ]


def test_the_file_of_a_new_failure_below_it_stays() -> None:
    ran = ["bun test", "", "src/cart.test.ts:", *[f"(pass) the cart adds {n} to {n * n}" for n in range(40)]]
    hidden = "[40 lines: same as in Bash ./run, lines 4 to 43 of its output]"
    made = rerun("\n".join(ran), "\n".join([*ran, "(fail) the cart pays", ""]))
    assert made == "\n".join([*ran[:3], hidden, "(fail) the cart pays", ""])


def test_headings_of_many_files_in_turns_with_headings_of_their_parts_stay() -> None:
    body = [f"the statement number {n} of the program in its order" for n in range(12)]
    parts = [line for n in range(900) for line in (f"--- src/a_{n}.c", f"@@ -{n},12 +{n},12 @@", *body)]
    made = rerun("\n".join(parts), "\n".join([*parts[:-1], "    another end"]))
    assert made is not None
    lines = made.split("\n")
    assert [line for line in lines if line.startswith("---")] == [f"--- src/a_{n}.c" for n in range(900)]
    assert "[12 lines: same as in Bash ./run, lines 3 to 14 of its output]" in lines


pool = st.sampled_from(
    [f"line number {n} of the pool of lines" + " " * (n % 3) for n in range(25)]
    + ["", "}", "==> a.py <==", "src/a.py:", "  12: hit", "error: no such thing", "done, 3 passed"]
)


@settings(max_examples=examples(100))
@given(
    st.lists(st.lists(pool, max_size=40), min_size=1, max_size=3), st.lists(pool, max_size=80), st.booleans()
)
def test_every_reference_can_be_followed(earlier: list[list[str]], new: list[str], is_file: bool) -> None:
    calls = [f"Read a.py x{n}" for n in range(len(earlier))]
    sources = {call: "\n".join(lines) for call, lines in zip(calls, earlier, strict=True)}
    line_index = index(*zip(calls, sources.values(), strict=True), is_file=is_file)
    text = "\n".join(new)
    made = with_references(line_index, text, read_of("a.py") if is_file else Call())
    if made is not None:
        assert expand(made.text, sources, is_file=is_file) == text


def test_lines_that_occur_everywhere_are_compared_with_a_bounded_number_of_lines() -> None:
    def text(count: int, seed: int) -> str:
        kinds = random.Random(seed).choices(range(200), k=count)
        return "\n".join(f"the record of the customer {kind} was changed" for kind in kinds)

    def work(count: int) -> int:
        return work_counts.calls(with_references, index((RUN, text(12_000, 1))), text(count, 2))

    assert work(12_000) - work(9_000) < 3_000 * 30
