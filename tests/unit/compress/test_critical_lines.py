"""Critical lines of a text, found at once: the same as line by line."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penumbra import rules
from penumbra.compress.critical_lines import critical_lines, is_critical, is_stated, severity

LINES = (
    "",
    "   ",
    "import os",
    "error: no such file",
    "tests/test_a.py::test_error_of_login PASSED [ 10%]",
    "ok 3 - reports an error",
    "ok 4 - 2 failed",
    "    at run (src/a.ts:10:2)",
    "\tat java.lang.Thread.run(Thread.java:10)",
    "3 passed, 1 failed in 2.1s",
    "--- PASS: TestFail (0.00s)",
    "  \u2713 handles errors (3 ms)",
    "exit code",
    "1",
    "E   assert 1 == 2",
    "x" * 5_000 + " error",
)


def test_all_critical_lines_are_those_of_each_line() -> None:
    drawn = random.Random(5)
    for _ in range(400):
        lines = drawn.choices(LINES, k=drawn.randint(1, 9))
        wanted = [position for position, line in enumerate(lines) if is_critical(line)]
        assert list(critical_lines(lines)) == wanted, lines


@pytest.mark.parametrize(
    "example", rules.load("failures.yaml")["examples"], ids=lambda example: example["line"]
)
def test_an_example_is_what_it_says(example: dict[str, Any]) -> None:
    line = example["line"]
    assert is_critical(line) is example["critical"]
    assert list(critical_lines([line] * 3)) == [0, 1, 2] * example["critical"]
    if "severity" in example:
        assert severity(line.encode()).name.lower() == example["severity"]
    if "stated" in example:
        assert is_stated(line.encode()) is example["stated"]
