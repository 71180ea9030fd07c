"""What is listed as a failure of what an excerpt leaves out: what states one, not what speaks of some."""

from __future__ import annotations

import pytest

from penumbra import rules
from penumbra.compress.critical_lines import all_passed
from penumbra.compress.failure_lines import HEADING
from support.results import shortened

SPOKEN = [
    example["line"] for example in rules.load("failures.yaml")["examples"] if example.get("stated") is False
]


def shown(command: str, text: str) -> str:
    return shortened(text, "Bash", {"command": command}).text


def test_prose_of_an_unknown_tool_is_no_failure() -> None:
    lines = [f"Paragraph {n} of {n * 7919 % 1009} tells how nothing is done here." for n in range(400)]
    lines[100:100] = SPOKEN
    assert HEADING not in shown("./manual", "\n".join(lines))
    lines[200] = "fatal: the ledger is gone"
    assert "fatal: the ledger is gone" in shown("./manual", "\n".join(lines))


RUN = "src/{n}.test.ts:\n[Queue] Task {n} failed: 101 | throw\nerror: item {n} is meant to fail\n    at x (src/{n}.ts:1:2)"


@pytest.mark.parametrize(
    "end", [" 400 pass\n 0 fail", "Tests: 400 passed, 400 total", "=== 400 passed in 0.12s ==="]
)
def test_errors_that_passing_tests_print_are_none(end: str) -> None:
    text = "\n".join(RUN.format(n=n) for n in range(400))
    assert all_passed(f"{text}\n{end}".encode())
    assert not all_passed(f"{text}\n(fail) Queue > stops\n{end}".encode())
    assert not all_passed(f"{text}\n{end}\nexited with code 1".encode())
    assert not all_passed(f"{text}\n{end}\n 2 fail".encode())
    assert not all_passed(text.encode())


@pytest.mark.parametrize(
    "line",
    [
        "     Errors  1 error",
        "=== 400 passed, 1 error in 0.12s ===",
        "⎯⎯⎯ Unhandled Rejection ⎯⎯⎯",
        "src/a.ts(12,5): error TS2345: Argument of type 'string' is not assignable.",
        "src/a.c:12:5: error: expected ';'",
        "error[E0308]: mismatched types",
        "error: could not compile `ledger` (lib) due to 1 previous error",
        "npm error code ELIFECYCLE",
    ],
)
def test_what_failed_besides_the_tests_is_listed(line: str) -> None:
    text = "\n".join(RUN.format(n=n) for n in range(40))
    assert not all_passed(f"{text}\n{line}\nTests: 40 passed, 40 total".encode())


def test_a_passing_run_lists_no_failures() -> None:
    text = "bun test v1.3.5\n" + "\n".join(RUN.format(n=n) for n in range(400))
    assert HEADING not in shown("bun test", text + "\n 400 pass\n 0 fail\nRan 400 tests across 9 files.")
    assert HEADING in shown("bun test", text + "\n 399 pass\n 1 fail\nRan 400 tests across 9 files.")


@pytest.mark.parametrize("command", ["go test -v ./...", "./ci"])
def test_what_a_go_test_says_before_its_verdict_is_not_lost(command: str) -> None:
    lines = [
        line
        for n in range(150)
        for line in (
            f"=== RUN   TestCart{n}",
            f"    cart{n}_test.go:{n}: priced {n * 7919 % 1009}",
            f"--- PASS: TestCart{n} (0.00s)",
        )
    ]
    failed = ["=== RUN   TestTotal", "    total_test.go:14: want 3, got 4", "--- FAIL: TestTotal (0.00s)"]
    text = "\n".join([*lines[:240], *failed, *lines[240:], "FAIL", "FAIL\texample.com/shop\t0.2s", "FAIL"])
    assert "    total_test.go:14: want 3, got 4\n" in shown(command, text)
