"""Two texts, one beside the other."""

import time

from penumbra.metrics.side_by_side import compare


def test_rows_have_both_sides_and_equal_ones_between_are_left_out() -> None:
    before = [f"line {n}" for n in range(20)]
    after = [*before[:10], "other", *before[12:], "more"]
    rows = compare("\n".join(before), "\n".join(after)).rows
    assert rows[0] == ["gap", 7]
    assert rows[1] == ["same", 8, "line 7", 8, "line 7"]
    assert ["changed", 11, "line 10", 11, "other"] in rows
    assert ["removed", 12, "line 11", None, None] in rows
    assert rows[-1] == ["added", None, None, 20, "more"]


def test_no_text_takes_long() -> None:
    started = time.process_time()
    compared = compare(
        "\n".join("ab"[n % 2] for n in range(90_000)), "\n".join("ba c"[n % 4] for n in range(90_000))
    )
    assert compared.is_cut
    assert time.process_time() - started < 10
