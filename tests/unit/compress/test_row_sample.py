"""Samples of rows: each table has its own, what differs comes first, and the room is used."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from penumbra.compress.stages import row_sample

ROOM = 4_900


def users(count: int = 120) -> list[dict[str, Any]]:
    return [
        {"id": n, "name": f"user {n}", "mail": f"u{n}@example.com", "age": 30 + n % 7} for n in range(count)
    ]


def jobs(count: int = 120) -> list[dict[str, Any]]:
    return [
        {"job": f"j{n:04}", "state": "done", "seconds": n % 13 + 1, "note": "x" * 90} for n in range(count)
    ]


def left_out(text: str) -> int:
    return sum(map(int, re.findall(r"^\[([0-9]+) rows? left out\]$", text, re.MULTILINE)))


@pytest.mark.parametrize(
    ("table", "change", "shown"),
    [
        ("users", {"error": "quota exceeded"}, "57\tuser 57\tu57@example.com\t31\tquota exceeded"),
        ("jobs", {"state": None}, "j0057\tnull\t6"),
        ("jobs", {"seconds": "unknown"}, "j0057\tunknown"),
        ("jobs", {"seconds": 99_999}, "j0057\t99999"),
        ("jobs", {"state": "failed"}, "j0057\tfailed\t6"),
    ],
)
def test_the_only_record_that_differs_is_there_whatever_table_it_is_in(
    table: str, change: dict[str, Any], shown: str
) -> None:
    tables = {"users": users(), "jobs": jobs()}
    tables[table][57] |= change
    text = row_sample.sample(json.dumps(tables), ROOM)
    assert text is not None
    assert any(line.startswith(shown) for line in text.split("\n"))
    size = len(text.encode())
    assert 0.8 * ROOM < size <= ROOM
    rows = [line for line in text.split("\n") if "\t" in line]
    assert len(rows) + left_out(text) == 240
    # Both ends of both tables.
    for row in ("0\t", "119\t", "j0000\t", "j0119\t"):
        assert any(line.startswith(row) for line in rows)


def test_a_row_that_does_not_fit_leaves_room_for_others() -> None:
    rows = ["name,value,note", *(f"row{n},{n},{'y' * (380 if n % 2 else 5)}" for n in range(200))]
    text = row_sample.sample_separated("\n".join(rows), 1_500)
    assert text is not None
    assert 1_200 < len(text) <= 1_500
    assert len(text.split("\n")) > 8


def test_no_room_is_no_sample() -> None:
    assert row_sample.sample(json.dumps({"users": users(), "jobs": jobs()}), 150) is None


def test_what_rows_have_left_is_for_what_stands_in_front_of_them() -> None:
    body = "".join(f"word {n} " for n in range(900))
    value = {"body": body, "checks": [{"id": n, "state": f"done {n}"} for n in range(12)]}
    short = row_sample.sample(json.dumps(value), 6_000)
    assert short is not None
    assert len(short) <= 6_000
    assert len(short.split("\n", 1)[0]) > 4_500


def test_few_long_rows_stay_all_of_them() -> None:
    rows = [{"id": n, "title": f"title {n}", "body": f"{n} words of a body " * 60} for n in range(30)]
    short = row_sample.sample(json.dumps(rows), 8_000)
    assert short is not None
    assert len(short.encode()) <= 8_000
    assert all(f"title {n}\t" in short for n in range(30))
    assert "rows left out" not in short
    assert "characters left out" in short


def training(steps: int = 300) -> list[str]:
    rows = [f"step {n:5d} | loss {2.3 - n / 200:.4f} | tok/s {40_000 + n * 37 % 999}" for n in range(steps)]
    rows[210] += "\nWARNING: grad norm inf at step 210, skipping update"
    rows[120] += "\n  eval: val_loss 1.8102"
    return rows


def test_what_is_said_among_rows_stays_with_the_row_in_front_of_it() -> None:
    text = row_sample.sample_separated("\n".join([*training(), "Traceback:", "RuntimeError: broken"]), 1_500)
    assert text is not None
    lines = text.split("\n")
    for row, said in (("step   120", "  eval:"), ("step   210", "WARNING"), ("step   299", "Traceback")):
        at = next(at for at, line in enumerate(lines) if line.startswith(said))
        assert lines[at - 1].startswith(row)
    assert lines[-1] == "RuntimeError: broken"
    kept = [line for line in lines if "left out" not in line]
    assert len(kept) + sum(map(int, re.findall(r"(?m)^\[([0-9]+) lines? left out\]$", text))) == 304


def test_a_text_of_which_little_is_rows_is_no_table() -> None:
    rows = [*training(), *("done with it" for _ in range(200))]
    assert row_sample.sample_separated("\n".join(rows), 1_500) is None
