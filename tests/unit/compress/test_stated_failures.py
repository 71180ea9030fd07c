"""What is listed as a failure of what an excerpt leaves out: what states one, not what speaks of some."""

from __future__ import annotations

import pytest

from penumbra.compress import stated_failures
from penumbra.compress.failure_lines import HEADING
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput

SPOKEN = [
    "worktrees. When conflicts are unavoidable, use standard git tools to resolve them",
    "  ### Port conflicts in monorepos",
    "- Tool errors → the agent can't access what it needs",
    "• The rerun has cleared the previously failing case; no test was rejected.",
    '    "acceptance_criteria": "Failures are counted, and missing or rejected states are typed.",',
    "- 12-error-handling.md [3 fragments] (ID: expert-12-error-handling.md)",
    "  test-results/sharing-workflow-chromium/test-failed-3.png",
    '        return fmt.Errorf("failed to list checkpoints: %w", err)',
    "  133 │   bucket: 'failed',",
    "agent eval assert <grader> --output x",
    "- Clean focused rerun passed: 394 pass, 0 fail across all of them",
    "**Zero the key when navigation fails.**",
    "See what npm error codes mean",
    "Das ist ein Fehler in der Logik des Textes.",
]
STATED = [
    "fatal: not a git repository (or any of the parent directories): .git",
    "@core/test test: Error: Skipping incomplete test at line 2",
    "[ERROR] 15:20:57.202 git.go:shouldDisplay:338 → stat .git: no such file",
    '{"time": "10:00", "level": "error", "msg": "order 7 refused"}',
    "src/path.mdx:205:121 error MD013/line-length",
    "SQLiteError: no such column: is_imported",
    "Process exited with code 1",
    "cp: cannot stat 'dist/a.tgz': No such file or directory",
    '      "fail": 1,',
    "AssertionError [ERR_ASSERTION]: 3 == 4",
    "cart.rb:14:in `total': undefined method `sum' for nil (NoMethodError)",
    '  File "/app/cart.py", line 99, in total',
    "\tat com.shop.Cart.total(Cart.java:14)",
    "test_total (cart.Case) ... ERROR",
    "[ 12.5] kernel: Out of memory: Killed process 1234 (node)",
    "Error response from daemon: pull access denied for shop/cart",
    "Error 1045 (28000): Access denied for user 'shop'",
    "(error) ledger is locked",
    "Failed to load config: no such key",
    "Found 3 errors.",
    "14 problems (2 errors, 12 warnings)",
    "20:01:18  31 of 60 ERROR creating sql table model dev.fct_orders .... [ERROR in 0.31s]",
    "#   Failed test 'discount adds up'",
    "** (SyntaxError) lib/shop.ex:102:1: unexpected reserved word: end",
    "[117] Uploading ledger.tar ... ERROR: access denied",
    "[117] Datei ledger.tar wird übertragen … FEHLER: Zugriff verweigert",
    "[117] 上传 ledger.tar 失败：拒绝访问",
    "a.c:3:4: erreur: « x » non déclaré",
    "Ошибка: нет такого файла",
    "Illegal division by zero at lib/Cart.pm line 14.",
    "Error in f(z) : no such column: totl",
    "db-1 : ok=3 changed=0 unreachable=0 failed=1",
    "2026-06-18T08:57:55.4473004Z npm error 404  'shop@4.41' could not be found, or you may not read it.",
]


@pytest.mark.parametrize("line", SPOKEN)
def test_what_only_speaks_of_failures_states_none(line: str) -> None:
    assert not stated_failures.is_stated(line.encode())


@pytest.mark.parametrize("line", STATED)
def test_what_states_a_failure(line: str) -> None:
    assert stated_failures.is_stated(line.encode())


def shown(command: str, text: str) -> str:
    output = ToolOutput(text, "Bash", {"command": command}, "call_7")
    return shorten(output, Policy(Mode.STANDARD, lossy=True), Redacted, lambda text: "").text


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
    assert stated_failures.none(f"{text}\n{end}".encode())
    assert not stated_failures.none(f"{text}\n(fail) Queue > stops\n{end}".encode())
    assert not stated_failures.none(f"{text}\n{end}\nexited with code 1".encode())
    assert not stated_failures.none(f"{text}\n{end}\n 2 fail".encode())
    assert not stated_failures.none(text.encode())


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
    assert not stated_failures.none(f"{text}\n{line}\nTests: 40 passed, 40 total".encode())


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
