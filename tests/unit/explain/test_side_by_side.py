"""Two texts, one beside the other."""

import time

from penumbra.explain.request_text import compare


def test_rows_have_both_sides_and_equal_ones_between_are_left_out() -> None:
    before = [f"line {n}" for n in range(20)]
    after = [*before[:10], "other", *before[12:], "more"]
    rows = compare("\n".join(before), "\n".join(after)).rows
    assert rows[0] == ["gap", 7]
    assert rows[1] == ["same", 8, "line 7", 8, "line 7"]
    assert ["changed", 11, "line 10", 11, "other"] in rows
    assert ["removed", 12, "line 11", None, None] in rows
    assert rows[-1] == ["added", None, None, 20, "more"]


def test_a_mark_begins_beside_the_lines_that_it_stands_for() -> None:
    polls = [f"w1 | DEBUG poll {n}" for n in range(5)]
    before = ["w1 | INFO start", *polls, "w1 | ERROR lost", *polls, "w1 | INFO end"]
    after = [
        "w1 |",
        " INFO start",
        " DEBUG poll 0",
        "[the line above 4 more times]",
        " ERROR lost",
        "[5 lines]",
        " INFO end",
    ]
    rows = compare("\n".join(before), "\n".join(after)).rows
    beside = {row[4]: row[2] for row in rows if row[0] == "changed"}
    assert beside[" INFO start"] == "w1 | INFO start"
    assert beside["[the line above 4 more times]"] == "w1 | DEBUG poll 1"
    assert beside[" ERROR lost"] == "w1 | ERROR lost"
    assert beside["[5 lines]"] == "w1 | DEBUG poll 0"
    assert beside[" INFO end"] == "w1 | INFO end"
    assert [row[1] for row in rows if row[1]] == list(range(1, 14))


def test_no_text_takes_long() -> None:
    started = time.process_time()
    compared = compare(
        "\n".join("ab"[n % 2] for n in range(90_000)), "\n".join("ba c"[n % 4] for n in range(90_000))
    )
    assert compared.is_cut
    assert time.process_time() - started < 10
