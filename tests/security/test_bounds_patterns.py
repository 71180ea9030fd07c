"""The cost of a model's pattern is bounded: by its size, for a line, and for a call. The answer names what
was not searched."""

from __future__ import annotations

import re

import pytest

from penumbra.expand import query as expand

REF = "shadow_" + "0" * 18
TEXT = "".join(f"line {number}\n" for number in range(1, 101))


def _ask(text, pattern, *, seconds_a_line=0.0, **more):
    query = expand.parse(expand.encode({"id": REF, "pattern": pattern, **more}).decode())
    assert isinstance(query, expand.Query)
    ticks = iter(range(1_000_000_000))
    return expand.result(text, query, "expand_context", clock=lambda: next(ticks) * seconds_a_line)


@pytest.mark.parametrize("pattern", [r"(a?b?){700}z", r"a.{900}b.{900}z", r"((\w{1,9} ?){9}){99}"])
def test_a_pattern_of_many_steps_is_refused(pattern):
    assert re.match("The pattern can't be used", _ask(TEXT, pattern))


def test_a_search_that_takes_long_ends_and_says_where():
    # The time is over after the tenth line.
    told = _ask(TEXT, "line (3|50)$", seconds_a_line=0.2, context=0)
    assert told == (
        "[1 matching line in 100 lines, of which only 1-10 were searched, since this pattern takes long]\n"
        '3:line 3\n[To go on: the same call with lines="11-100", or a simpler pattern.]'
    )
    told = _ask(TEXT, "nothing", seconds_a_line=0.2, lines="20-40")
    assert told == (
        "[0 matching lines in lines 20-40 of 100 lines, of which only 20-29 were searched, since this pattern "
        'takes long]\n[To go on: the same call with lines="30-40", or a simpler pattern.]'
    )


def test_going_on_reaches_the_end():
    numbers, lines = [], ""
    for _ in range(100):
        told = _ask(TEXT, "line [0-9]*5$", seconds_a_line=0.7, context=0, lines=lines)
        numbers += re.findall(r"^(\d+):", told, re.M)
        more = re.search(r'lines="([0-9-]+)"', told)
        if more is None:
            break
        lines = more[1]
    assert numbers == [str(number) for number in range(5, 101, 10)]


def test_of_a_line_of_megabytes_what_one_search_may_cost_is_searched():
    text = "first\n" + "ab" * 3_000_000 + "z\n"
    told = _ask(text, "z")
    assert told.startswith(
        "[0 matching lines in 2 lines; of 1 very long lines only the beginning was searched]"
    )
    assert "matching line in 2 lines]" in _ask("first\n" + "ab" * 100_000 + "z\n", "z")
