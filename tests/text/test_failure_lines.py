"""Failure lines survive whatever cuts a text."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.calls.log_files import is_log
from penumbra.text import dictionary, failure_lines
from penumbra.text.cap import cap
from penumbra.text.critical import Severity, is_critical, severity
from penumbra.text.failure_lines import HEADING, FailureLines
from penumbra.text.pipeline import shorten
from penumbra.text.result import Mode, Policy, Redacted, ToolOutput
from penumbra.text.size import encode, size

PREFIX = "<<<SHADOW:shadow_" + "0" * 32 + ">>>\n"
FAILURES = [
    "FAILED tests/test_pay.py::test_refund - AssertionError: assert 3 == 4",
    "--- FAIL: TestOrders/refund (0.01s)",
    "test ledger::tests::rounds ... FAILED",
    "  ● Cart › adds an item",
    "not ok 17 - closes the socket",
    "src/app/main.ts(41,7): error TS2322: Type 'string' is not assignable to type 'number'.",
    "error[E0308]: mismatched types in crate ledger",
    "./pkg/store/store.go:88:14: undefined: rowCount",
    "src/pay/refund.c:120:9: error: expected ';' before 'return'",
    "make: *** [Makefile:31: build/refund.o] Error 1",
    "> Task :orders:compileKotlin FAILED",
    "FAILURE: Build failed with an exception.",
    "[ERROR] Failed to execute goal on project orders: could not resolve dependencies",
    "npm ERR! code ERESOLVE unable to resolve dependency tree",
    "ERROR: Could not find a version that satisfies the requirement fastpay==9",
    "E: Unable to locate package libpay-dev",
    "panic: runtime error: index out of range [5] with length 3",
    "thread 'main' panicked at src/ledger.rs:52:9:",
    "java.lang.IllegalStateException: pool is closed",
    "KeyError: 'refund_total'",
    "fatal: unable to access 'https://git.example.com/pay.git/'",
    "Killed",
    "Segmentation fault (core dumped)",
    "│ Error: Invalid index in module payments",
    "bash: frobnicate: command not found",
    "cp: cannot stat 'dist/pay.tgz': No such file or directory",
    "##[error]Process completed with exit code 2.",
    "CrashLoopBackOff: back-off restarting failed container pay in pod pay-7d9f8b6c5",
]
LEVELS = [
    "ERROR payment gateway refused the card of order 4711",
    "FATAL cannot open the ledger: disk is full",
    "CRITICAL replication of shard seven has stopped",
]


def _stamped(line: str, n: int) -> str:
    return f"2026-01-05T10:{n // 60 % 60:02}:{n % 60:02}.{n % 997:03}Z {line}"


Filler = Callable[[int, random.Random], str]


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices("mast keel bow stern rope knot sail hull wind tide".split(), k=count))


LOG: Filler = lambda n, chance: _stamped(f"INFO worker {n % 7} did {_words(chance, 5)} in {n % 91} ms", n)
KINDS: dict[str, tuple[str, object, Filler]] = {
    "cat of a log": ("Bash", {"command": "cat /var/log/app.log"}, LOG),
    "read of a log": ("Read", {"file_path": "/srv/app/run.log"}, LOG),
    "tail": ("Bash", {"command": "tail -n 9000 server.log"}, LOG),
    "docker compose logs": (
        "Bash",
        {"command": "docker compose logs"},
        lambda n, chance: f"{chance.choice(['web', 'db', 'worker'])}-1  | {LOG(n, chance)}",
    ),
    "journal": (
        "Bash",
        {"command": "journalctl -u pay"},
        lambda n, chance: f"Jan 05 10:{n // 60 % 60:02}:{n % 60:02} host pay[{n % 9}]: {_words(chance, 6)}",
    ),
    "CI": ("Bash", {"command": "gh run view --log"}, lambda n, c: f"build\tstep\t{_stamped(_words(c, 6), n)}"),
    "pytest": (
        "Bash",
        {"command": "pytest -v"},
        lambda n, chance: (
            f"tests/test_{chance.choice('abcdef')}.py::test_{_words(chance, 3).replace(' ', '_')}"
            f"_error_{n} PASSED [{n % 100:3}%]"
        ),
    ),
    "go test": (
        "Bash",
        {"command": "go test -v ./..."},
        lambda n, chance: f"--- PASS: Test{_words(chance, 2).title().replace(' ', '')}Error{n} (0.00s)",
    ),
    "cargo": ("Bash", {"command": "cargo test"}, lambda n, c: f"test {_words(c, 2).replace(' ', '::')}_{n} ... ok"),
    "jest": (
        "Bash",
        {"command": "npx jest"},
        lambda n, chance: f"    ✓ fails with an error on {_words(chance, 3)} ({n % 90} ms)",
    ),
    "tsc": ("Bash", {"command": "npx tsc --listFiles"}, lambda n, c: f"/srv/app/{_words(c, 2).replace(' ', '/')}/{n}.ts"),
    "make": ("Bash", {"command": "make -j8"}, lambda n, c: f"gcc -O2 -c src/{_words(c, 1)}_{n}.c -o build/{n}.o"),
    "gradle": ("Bash", {"command": "./gradlew build"}, lambda n, c: f"> Task :{_words(c, 1)}:compile{n} UP-TO-DATE"),
    "unknown": ("Bash", {"command": "./deploy --all"}, lambda n, c: f"step {n}: {_words(c, 7)}"),
    "MCP": ("mcp__ci__job_output", {"job": 7}, lambda n, c: f"{n} {_words(c, 8)}"),
    "coloured": ("Bash", {"command": "./serve"}, lambda n, c: f"\x1b[32mok\x1b[0m {_words(c, 6)} {n}"),
}
SIZES = [2_000, 6_000, 40_000, 200_000]


def output(kind: str, length: int, failures: list[str], seed: int) -> str:
    """An output of about this size, with the failures at random places."""
    chance = random.Random(seed)
    _, _, filler = KINDS[kind]
    lines: list[str] = []
    left = length
    while left > 0:
        lines.append(filler(len(lines), chance))
        left -= len(lines[-1]) + 1
    for failure in failures:
        lines.insert(chance.randint(0, len(lines)), failure)
    return "\n".join(lines) + "\n"


def shown(text: str, tool: str, arguments: object, mode: Mode, **policy: object) -> str:
    wanted = Policy(**{"mode": mode, "lossy": True, "overhead": PREFIX, **policy})
    result = shorten(ToolOutput(text, tool, arguments, "c1"), wanted, Redacted, lambda _: "shadow_" + "0" * 32)
    return dictionary.expand(result.text)


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.AGGRESSIVE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", SIZES)
def test_each_distinct_failure_stands_in_the_result(kind: str, length: int, mode: Mode) -> None:
    tool, arguments, _ = KINDS[kind]
    for seed in range(3 if length < 100_000 else 1):
        failures = random.Random(seed + length).sample(FAILURES, 14) + LEVELS
        text = shown(output(kind, length, failures, seed), tool, arguments, mode)
        assert [line for line in failures if line not in text] == []


def test_a_megabyte_keeps_each_distinct_failure() -> None:
    for kind in ("cat of a log", "unknown", "pytest"):
        tool, arguments, _ = KINDS[kind]
        text = shown(output(kind, 1_000_000, FAILURES, 7), tool, arguments, Mode.STANDARD)
        assert [line for line in FAILURES if line not in text] == []
