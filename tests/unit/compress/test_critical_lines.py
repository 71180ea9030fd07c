"""Critical lines of a text, found at once: the same as line by line."""

from __future__ import annotations

import random

import pytest

from penumbra.compress.critical_lines import critical_lines, is_critical

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


def test_failures_are_known_in_the_languages_that_tools_speak() -> None:
    for line in (
        "src/cart.c:41:12: Fehler: »preis« nicht deklariert",
        "make: *** [Makefile:3: all] Fehler 2",
        "bash: foo : commande introuvable",
        "Échec de la connexion",
        "Ошибка: нет такого файла",
        "[117] 上传 ledger.tar 失败：拒绝访问",
        "致命的なエラー: foo.h",
        "오류: 파일이 없습니다",
        "Illegal division by zero at lib/Cart.pm line 14.",
    ):
        assert is_critical(line), line
    assert not is_critical("[116] Datei cart.tar wird übertragen … fertig (91 MB)")
    assert not is_critical("[116] 上传 cart.tar 完成 (91 MB)")


@pytest.mark.parametrize(
    "line",
    [
        "Tests:       2 skipped, 900 total",
        "      Tests  5 in 2 files (7)",
        "Test Suites: 12 of 12 total",
        "Ran 5 tests in 0.1s",
        "TOTAL                 1200    120    90%",
        "Total: 42",
        "total: 42",
        "Result = 7",
        "Summary: 3 of 4 are new",
    ],
)
def test_a_summary_line_is_critical(line: str) -> None:
    assert is_critical(line)


@pytest.mark.parametrize(
    "line",
    [
        "tests/unit/a1.py",
        "Tests/Unit/A1.cs",
        "tests/data/img_0001.png",
        "total 48",
        "summary-2024.txt",
        "Summary.2024.txt",
        "test files/a1.txt",
        "result_17.bin",
        "test2 is here",
    ],
)
def test_a_name_of_a_file_that_begins_like_a_summary_is_not_critical(line: str) -> None:
    assert not is_critical(line)
    assert list(critical_lines([line] * 3)) == []
