"""A long file in part: what is shown, and what is said about what is missing."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.size import size
from penumbra.compress.stages.line_numbers import LEGEND
from penumbra.compress.stages.outline import outline
from support.examples import examples

MARK = re.compile(
    r"\[(\d+)(?: of the next (\d+))? lines?, (\d+) bytes? left out"
    r"(; a line behind missing ones has its number(?: in this output)?)?\]"
)


def file(lines: int) -> list[str]:
    return [
        f"def step_{n}(state):" if n % 12 == 0 else f"    state.total_{n} += compute_{n}(state)"
        for n in range(1, lines + 1)
    ]


def told(text: str) -> re.Match[str]:
    """The line that says what is missing."""
    found = next(filter(None, map(MARK.fullmatch, text.split("\n"))))
    assert found is not None
    return found


def test_what_was_named_is_shown_with_what_stands_around_it() -> None:
    lines = file(1_000)
    text = "\n".join(lines)
    plain = outline(text, 6_000)
    assert "compute_703(" not in plain
    named = outline(text, 6_000, {"compute_703": 1.0, "missing_name": 1.0})
    passage = "\n".join([f"697: {lines[696]}", *lines[697:717]])
    assert passage in named
    assert size(named) <= 6_000
    assert told(named)[4].endswith(" has its number in this output")


def test_no_mark_stands_where_nothing_is_missing() -> None:
    lines = file(1_000)
    text = "\n".join(lines)
    whole = 0
    for name in (*range(13, 130, 2), *range(961, 986, 2)):
        named = outline(text, 6_000, {f"compute_{name}": 1.0})
        # Wherever the beginning or the end meets it; only the first line may have a number in front.
        assert "\n".join(lines[name - 6 : name + 14]) in named, name
        whole += "[the end:]" not in named and told(named)[2] is not None
        assert size(named) <= 6_000
    assert whole > 2


def test_of_many_names_the_latest_and_rarest_come_first() -> None:
    lines = [f"value_{n} = load(everywhere)" for n in range(1, 2_001)]
    mentioned = {f"value_{n}": n / 2_000 for n in range(1, 2_001, 40)} | {"everywhere": 1.0}
    text = outline("\n".join(lines), 6_000, mentioned)
    assert "value_1921 = " in text
    assert "value_921 = " not in text


def test_numbers_of_the_file_are_kept_as_they_are_written() -> None:
    lines = [f"{n}→{line}" if n % 20 == 0 or n == 1 else line for n, line in enumerate(file(1_000), 1)]
    text = outline(LEGEND + "\n" + "\n".join(lines), 6_000, {"compute_703": 1.0})
    assert "\n697→    state.total_697 += compute_697(state)\n    state.total_698 " in text
    assert len(re.findall(r"\n(\d+)→def step_\1\(state\):", text)) > 10
    assert ": def step_" not in text
    assert told(text)[4].endswith(" has its number")


def test_one_line_without_an_end_is_shown_to_the_limit() -> None:
    text = outline("x" * 100_000, 6_000, {"x": 1.0})
    assert 5_000 < size(text) <= 6_000
    found = told(text)
    assert int(found[3]) == 100_000 - text.count("x")
    assert found[1] == "0"


words = st.sampled_from(["alpha_one", "beta_two", "gamma", "δέλτα_name", "zeta9"])
line = st.one_of(
    st.builds(lambda name, n: f"def {name}_{n}():", words, st.integers(0, 400)),
    st.builds(
        lambda name, n: " " * (n % 12) + f"call({name}, {n})" + "#" * (n % 60), words, st.integers(0, 400)
    ),
    st.sampled_from(["", "}", "    return None"]),
)


# Drawn line by line, long files take hypothesis longer than their outlines take.
files = st.builds(
    lambda lines, count, step: [lines[n * step % len(lines)] for n in range(count)],
    st.lists(line, min_size=30, max_size=90),
    st.integers(150, 500),
    st.sampled_from([1, 7, 11]),
)


@settings(max_examples=examples(120), deadline=None)
@given(
    files,
    st.dictionaries(
        st.one_of(words, st.builds(lambda name, n: f"{name}_{n}", words, st.integers(0, 400))),
        st.floats(0.3, 1.0),
        max_size=8,
    ),
    st.integers(2_400, 4_000),
)
def test_every_line_is_the_one_that_its_number_says_and_every_count_is_right(
    lines: list[str], mentioned: dict[str, float], room: int
) -> None:
    whole = "\n".join(lines)
    if size(whole) <= room:
        return
    text = outline(whole, room, mentioned)
    assert size(text) <= room
    assert text == outline(whole, room, mentioned)
    shown = text.split("\n")
    at = next(n for n, one in enumerate(shown) if MARK.fullmatch(one))
    found = told(text)
    assert shown[:at] == lines[:at]
    position, passed, kept = at, 0, 0
    rest = shown[at + 1 :]
    if found[2]:
        split = rest.index("[the end:]") if "[the end:]" in rest else len(rest)
        inside, end = rest[:split], rest[split + 1 :]
        for one in inside:
            numbered = re.match(r"(\d+): ", one)
            if numbered and one[numbered.end() :] == lines[int(numbered[1]) - 1]:
                passed += int(numbered[1]) - 1 - position
                position = int(numbered[1])
            else:
                assert one == lines[position]
                position += 1
            kept += 1
    else:
        end = rest
    last = len(lines) - len(end)
    if found[2] and not end:
        # The end goes on from what is shown in front of it.
        assert position == len(lines)
        assert int(found[1]) == passed < int(found[2]) <= passed + kept
        return
    if end and end[0] != lines[last]:
        assert lines[last].endswith(end[0])
    assert lines[last + 1 :] == end[1:]
    passed += last - position
    assert int(found[1]) == passed
    if found[2]:
        assert int(found[2]) == last - at == passed + kept
