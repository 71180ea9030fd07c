"""Failure lines survive every shortening of a text."""

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.compress import failure_lines
from penumbra.compress.calls.log_files import is_log, is_unedited
from penumbra.compress.critical_lines import (
    Report,
    Severity,
    all_passed,
    critical_lines,
    is_critical,
    is_stated,
    reports,
    severity,
)
from penumbra.compress.failure_lines import HEADING, FailureLines
from penumbra.compress.result import Mode
from penumbra.compress.size import size
from penumbra.compress.stages.truncate import truncate
from penumbra.linear import utf8
from support import examples
from support.results import PREFIX, shortened

FAILURES = [
    "FAILED tests/test_pay.py::test_refund - AssertionError: assert 3 == 4",
    "--- FAIL: TestOrders/refund (0.01s)", "test ledger::tests::rounds ... FAILED",
    "  ● Cart › adds an item", "not ok 17 - closes the socket",
    "src/app/main.ts(41,7): error TS2322: Type 'string' is not assignable to type 'number'.",
    "error[E0308]: mismatched types in crate ledger", "./pkg/store/store.go:88:14: undefined: rowCount",
    "src/pay/refund.c:120:9: error: expected ';' before 'return'",
    "make: *** [Makefile:31: build/refund.o] Error 1", "> Task :orders:compileKotlin FAILED",
    "FAILURE: Build failed with an exception.",
    "[ERROR] Failed to execute goal on project orders: could not resolve dependencies",
    "npm ERR! code ERESOLVE unable to resolve dependency tree",
    "ERROR: Could not find a version that satisfies the requirement fastpay==9",
    "E: Unable to locate package libpay-dev", "panic: runtime error: index out of range [5] with length 3",
    "thread 'main' panicked at src/ledger.rs:52:9:", "java.lang.IllegalStateException: pool is closed",
    "KeyError: 'refund_total'", "fatal: unable to access 'https://git.example.com/pay.git/'", "Killed",
    "Segmentation fault (core dumped)", "│ Error: Invalid index in module payments",
    "bash: frobnicate: command not found", "cp: cannot stat 'dist/pay.tgz': No such file or directory",
    "##[error]Process completed with exit code 2.",
    "CrashLoopBackOff: back-off restarting failed container pay in pod pay-7d9f8b6c5",
]  # fmt: skip
LEVELS = [
    "ERROR payment gateway refused the card of order 4711",
    "FATAL cannot open the ledger: disk is full",
    "CRITICAL replication of shard seven has stopped",
]


def _stamped(line: str, n: int) -> str:
    return f"2026-01-05T10:{n // 60 % 60:02}:{n % 60:02}.{n % 997:03}Z {line}"


Filler = Callable[[int, random.Random], str]
WORDS = ("mast", "keel", "bow", "stern", "rope", "knot", "sail", "hull", "wind", "tide")


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(WORDS, k=count))


def _log(n: int, chance: random.Random) -> str:
    return _stamped(f"INFO worker {n % 7} did {_words(chance, 5)} in {n % 91} ms", n)


KINDS: dict[str, tuple[str, object, Filler]] = {
    "cat of a log": ("Bash", {"command": "cat /var/log/app.log"}, _log),
    "read of a log": ("Read", {"file_path": "/srv/app/run.log"}, _log),
    "tail": ("Bash", {"command": "tail -n 9000 server.log"}, _log),
    "docker compose logs": (
        "Bash",
        {"command": "docker compose logs"},
        lambda n, chance: f"{chance.choice(['web', 'db', 'worker'])}-1  | {_log(n, chance)}",
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
    "jest": ("Bash", {"command": "npx jest"}, lambda n, chance: f"    ✓ fails with an error on {_words(chance, 3)} ({n % 90} ms)"),
    "tsc": ("Bash", {"command": "npx tsc --listFiles"}, lambda n, c: f"/srv/app/{_words(c, 2).replace(' ', '/')}/{n}.ts"),
    "make": ("Bash", {"command": "make -j8"}, lambda n, c: f"gcc -O2 -c src/{_words(c, 1)}_{n}.c -o build/{n}.o"),
    "gradle": ("Bash", {"command": "./gradlew build"}, lambda n, c: f"> Task :{_words(c, 1)}:compile{n} UP-TO-DATE"),
    "unknown": ("Bash", {"command": "./deploy --all"}, lambda n, c: f"step {n}: {_words(c, 7)}"),
    "MCP": ("mcp__ci__job_output", {"job": 7}, lambda n, c: f"{n} {_words(c, 8)}"),
    "coloured": ("Bash", {"command": "./serve"}, lambda n, c: f"\x1b[32mok\x1b[0m {_words(c, 6)} {n}"),
}  # fmt: skip
SIZES = [2_000, 6_000, 40_000, 120_000]


def output(kind: str, length: int, failures: list[str], seed: int) -> str:
    """Return an output of about `length` characters with the failures at random places."""
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
    return shortened(text, tool, arguments, mode=mode, overhead=PREFIX, **policy).text


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.AGGRESSIVE])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", SIZES)
def test_each_distinct_failure_stands_in_the_result(kind: str, length: int, mode: Mode) -> None:
    tool, arguments, _ = KINDS[kind]
    for seed in range(3) if length < 10_000 else examples.some(range(3)):
        failures = random.Random(seed + length).sample(FAILURES, 14) + LEVELS
        text = shown(output(kind, length, failures, seed), tool, arguments, mode)
        assert [line for line in failures if line not in text] == []


def test_a_megabyte_keeps_each_distinct_failure() -> None:
    for kind in examples.some(list(KINDS)):
        tool, arguments, _ = KINDS[kind]
        text = shown(output(kind, 1_000_000, FAILURES, 7), tool, arguments, Mode.STANDARD)
        assert [line for line in FAILURES if line not in text] == []


def _record(n: int, chance: random.Random, failure: str = "") -> dict[str, object]:
    return {
        "ts": f"2026-01-05T10:00:{n % 60:02}Z",
        "level": "error" if failure else "info",
        "msg": failure or _words(chance, 8),
        "req": f"{chance.getrandbits(128):032x}",
    }


SHAPES: dict[str, tuple[str, object, Callable[[list[dict[str, object]]], str]]] = {
    "lines": ("Bash", {"command": "docker logs web"}, lambda records: "\n".join(map(json.dumps, records))),
    "lines of a file": ("Bash", {"command": "cat run.ndjson"}, lambda records: "\n".join(map(json.dumps, records))),
    "array": ("mcp__logs__query", {"q": 1}, lambda records: json.dumps(records, indent=2)),
    "nested": (
        "mcp__logs__query",
        {"q": 1},
        lambda records: json.dumps({"data": [{"n": n, "entry": [one]} for n, one in enumerate(records)]}),
    ),
    "mixed": ("mcp__logs__query", {"q": 1}, lambda records: json.dumps([one if n % 3 else [one] for n, one in enumerate(records)])),
    "a log in a string": (
        "mcp__ci__job",
        {"q": 1},
        lambda records: json.dumps({"job": 7, "log": "\n".join(str(one["msg"]) for one in records)}),
    ),
    "around an output": (
        "Bash",
        {"command": "./x"},
        lambda records: json.dumps({"output": "\n".join(str(one["msg"]) for one in records), "exit_code": 1}),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.AGGRESSIVE])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [20, 200, 2_000])
def test_failures_within_json_stand_in_the_result(shape: str, count: int, mode: Mode) -> None:
    tool, arguments, write = SHAPES[shape]
    chance = random.Random(count)
    failures = chance.sample(FAILURES, 14) + LEVELS
    records = [_record(n, chance) for n in range(count)]
    for failure in failures:
        records.insert(chance.randint(0, len(records)), _record(5, chance, failure))
    text = shown(write(records), tool, arguments, mode)
    assert [one for one in failures if one not in text and json.dumps(one)[1:-1] not in text] == []


def test_likes_are_counted_exactly() -> None:
    chance = random.Random(1)
    lines = [_log(n, chance) for n in range(3_000)]
    for n in range(500):
        lines.insert(chance.randint(0, len(lines)), _stamped(f"ERROR order {n * 7919} refused", n))
    lines.insert(1_500, _stamped("FATAL disk is full", 3))
    text = shown("\n".join(lines), "Bash", {"command": "./serve"}, Mode.STANDARD)
    assert "FATAL disk is full" in text
    body, _, note = text.partition(HEADING)
    found = re.search(r"ERROR order [0-9]+ refused \[([0-9]+) more like it\]", note)
    assert found is not None
    assert len(re.findall("ERROR order [0-9]+ refused", body)) + 1 + int(found[1]) == 500


def test_failures_that_do_not_fit_are_counted_and_the_most_severe_come_first() -> None:
    chance = random.Random(2)
    lines = [f"{_words(chance, 3)} cannot be found among {_words(chance, 3)}" for _ in range(900)]
    lines += [f"error: {_words(chance, 4)} has no {_words(chance, 4)}" for _ in range(900)]
    lines.insert(600, "panic: the mast is gone")
    chance.shuffle(lines)
    limited = truncate("\n".join(lines), 3_000)
    assert limited is not None
    assert size(limited) <= 3_000
    body, _, note = limited.partition(HEADING + "\n")
    found = note.split("\n")
    assert "panic: the mast is gone" in limited
    rest = re.fullmatch(r"\[([0-9]+) more lines of ([0-9]+) kinds\]", found[-1])
    assert rest is not None
    counted = sum(
        int((re.search(r"\[([0-9]+) more like it\]$", line) or [0, 0])[1]) + 1 for line in found[:-1]
    )
    in_body = sum(is_critical(line) and line in set(lines) for line in body.split("\n"))
    assert in_body + counted + int(rest[1]) == 1_801
    levels = [severity(utf8(line)) for line in found[:-1]]
    assert levels == sorted(levels)


def _without_failures() -> Iterator[tuple[str, dict[str, object], str]]:
    """Yield calls with outputs that have words for failures, but report none."""
    chance = random.Random(3)
    bodies = [_words(chance, 12) for _ in range(300)]
    bodies[150] = f'We return an error.\n\n```go\nreturn fmt.Errorf("failed: %w", err)\n```\n{bodies[0] * 5}'
    yield "mcp__forge__comments", {"q": 1}, json.dumps([{"id": 7, "body": body} for body in bodies])
    names = ("es-errors", "http-errors", "assert", "express", "exception-formatter", "qs")
    for command, line in (
        ("git log --oneline", "{7:07x} fix({0}): error {words} failed"),
        ("./frames", "{0:4} | \traise ValueError('error {words}')"),
        ("npm ls --all", "├── {name}@{1}.{2}.{0}"),
        ("npm test", "    {0} {0} │   failed(error, {7}, 'rejected')"),
    ):
        lines = [
            line.format(*(n * k for k in range(8)), words=_words(chance, 6), name=names[n % 6])
            for n in range(900)
        ]
        yield "Bash", {"command": command}, "\n".join(["checked", *lines, "done"])
    source = "\n".join(f"    raise ValueError('error: {n} failed')  # FAILED {n}" for n in range(2_000))
    yield "Read", {"file_path": "/a/b.py"}, source


@pytest.mark.parametrize("call", [*_without_failures()], ids=lambda call: str(call[1]))
def test_code_prose_and_names_are_no_failures(call: tuple[str, dict[str, object], str]) -> None:
    tool, arguments, text = call
    assert HEADING not in shown(text, tool, arguments, Mode.STANDARD)


def test_names_of_failed_tests_come_before_tests_that_passed() -> None:
    lines = [
        f"tests/test_{'abcd'[n % 4]}.py::test_error_{WORDS[n % 10]}_{n} {'FAILED' if n % 17 == 3 else 'PASSED'} [{n // 3}%]"
        for n in range(300)
    ]
    names = [line.split(" ")[0] for line in lines if "FAILED" in line]
    for limit in (4_000, 65_536):
        text = shown("\n".join(lines), "Bash", {"command": "./check"}, Mode.STANDARD, max_output_bytes=limit)
        assert [name for name in names if name not in text] == []


@settings(max_examples=examples.examples(60))
@given(
    st.lists(
        st.sampled_from([*FAILURES, *LEVELS, "ordinary", "x" * 700 + " error: in a long line", "é" * 400]),
        max_size=200,
    ),
    st.integers(300, 9_000),
)
def test_the_limit_holds_and_nothing_is_invented(lines: list[str], limit: int) -> None:
    text = "\n".join(lines)
    limited = truncate(text, limit)
    if limited is None:
        return
    assert size(limited) <= limit
    for line in limited.partition(HEADING)[2].split("\n")[1:]:
        bare = re.sub(r"(?: \[[0-9]+ bytes left out\])?(?: \[[0-9]+ more like it\])?$", "", line)
        counts = r"\[[0-9]+ more lines? of [0-9]+ kinds?\]|\[[0-9]+ lines? that stands? above, too\]"
        assert bare in text or re.fullmatch(counts, line)


def test_failures_take_no_more_of_the_limit_than_they_need() -> None:
    failures = [f"ERROR: no {chr(97 + n // 20)}{chr(97 + n % 20)} in the ledger" for n in range(200)]
    lines = [failures[n // 10] if n % 10 == 5 else f"page {n} of the ledger is dry" * 2 for n in range(2_000)]
    cut = truncate("\n".join(lines), 65_536)
    assert cut is not None
    assert 60_000 < size(cut) <= 65_536
    assert not [line for line in failures if line not in cut]


def test_a_failure_within_a_block_of_passing_tests_stays() -> None:
    lines = [
        line for n in range(60) for line in (f"stdout | a{n}.test.ts > b {n}", "one line", f"two {n}", "")
    ]
    lines.insert(102, "ERROR cannot reach the ledger")
    lines += [f" ✓ a{n}.test.ts (3 tests) 12ms" for n in range(60)] + [" Test Files  60 passed (60)"]
    text = shown("\n".join(lines), "Bash", {"command": "npx vitest run"}, Mode.STANDARD)
    left_out = "[output of tests left out, here and below: 239 lines in 60 blocks (0 on stderr)]"
    # The error is below the heading with the name of its test.
    assert f"{left_out}\nstdout | a25.test.ts > b 25\nERROR cannot reach the ledger\n" in text


def test_an_excerpt_of_a_long_line_begins_with_a_word() -> None:
    line = (
        "watch " * 300 + "unsinkable " * 30 + "error: the hull leaks " + "anchorage " * 90 + "error: no mast"
    )
    found = [kind.line for kind in FailureLines.of(utf8(line)).kinds.values()]
    assert len(found) == 2
    assert {words.split(b" ")[0] for words in found} <= {b"unsinkable", b"anchorage"}


def test_a_failure_is_not_cut_for_less_than_the_marker() -> None:
    for long in range(380, 460):
        line = ("error: no room in the hold " * 20)[:long].rstrip()
        (found,) = failure_lines.first_of_kinds([line]).values()
        assert found == line or size(found) < size(line)


@pytest.mark.parametrize("example", rules.load("logs.yaml")["examples"], ids=str)
def test_logs_are_recognised_by_path_and_text(example: dict[str, Any]) -> None:
    assert is_log(example["path"], example.get("text", "")) is example["log"]
    if "data" in example:
        assert is_unedited(example["path"]) is example["data"]


@pytest.mark.parametrize(
    "line", ["error: a\udcffb", "x \ud800 FAILED to start \udfff y", "ERROR " + "\udc80 y" * 300]
)
def test_a_line_with_half_a_character_is_one_line(line: str) -> None:
    found = FailureLines.of(f"before\n{line}\nERROR: second\nafter".encode("utf-8", "surrogatepass"))
    assert [kind.count for kind in found.kinds.values()][-1] == 1
    assert [kind.line for kind in found.kinds.values()][-1] == b"ERROR: second"
    if len(line) < 100:
        assert next(iter(found.kinds.values())).line.decode("utf-8", "surrogatepass") == line


@pytest.mark.parametrize(
    "shape", ["{file}(9,{n}): error {code}: no ledger", "{file}:{n}:9: error {code}: no ledger"]
)
def test_lines_of_several_files_and_codes_are_not_merged(shape: str) -> None:
    def written(files: int, codes: int) -> list[str]:
        lines = [
            shape.format(file=f"src/a{n % files}.ts", n=n, code=f"TS{2300 + n % codes}") for n in range(60)
        ]
        return FailureLines.of(utf8("\n".join(lines))).without(b"", Severity.ERROR).written(260).split("\n")

    assert [line[-18:] for line in written(1, 1)[1:]] == [" [59 more like it]"]
    assert [line[-30:] for line in written(9, 1)[1:]] == [" [59 more like it, files vary]"]
    assert [re.findall(r"TS\d+", line) for line in written(9, 2)[1:]] == [["TS2300"], ["TS2301"]]
    assert all(line.endswith(" [29 more like it, files vary]") for line in written(9, 2)[1:])


def test_lines_that_stand_above_are_only_counted() -> None:
    """No line of the excerpt is repeated below it."""
    again = "ERROR: the ledger is closed"
    found = FailureLines.of(utf8("\n".join([again, "ERROR: page 7 is torn", again, again])))
    noted = found.without(utf8(again), Severity.ERROR).written(200).split("\n")
    assert noted == [HEADING, "ERROR: page 7 is torn", "[2 lines that stand above, too]"]
    assert found.without(utf8(f"{again}\nERROR: page 7 is torn"), Severity.ERROR).written(200) == (
        f"{HEADING}\n[2 lines that stand above, too]"
    )


def test_failures_that_stand_within_a_longer_line_are_not_missing() -> None:
    failures = ["ERROR: order 1 was refused", "ERROR: order 2 was refused"]
    long = "; ".join([*failures, *["the other orders were sent"] * 40])
    found = FailureLines.of(utf8("\n".join(failures)))
    assert failure_lines.write(found, 4_000, lambda _: long, Severity.COMPLAINT) == long


def test_no_note_states_that_a_part_of_a_long_line_is_shown_above() -> None:
    long = "Error: the page <" + "x" * 900 + "> has no {}"
    found = FailureLines.of(utf8("\n".join(map(long.format, ("keel", "mast")))))
    assert "stand" not in found.without(utf8(long.format("keel")), Severity.ERROR).written(900)


def test_the_line_shown_for_similar_ones_is_not_in_the_excerpt() -> None:
    lines = [f"ERROR order {n} refused" for n in range(40)]
    shown_ones = "\n".join([lines[0], lines[39]])
    found = FailureLines.of(utf8("\n".join(lines)))
    noted = found.without(utf8(shown_ones), Severity.ERROR).written(120).split("\n")
    assert noted == [HEADING, f"{lines[1]} [37 more like it]"]


QUOTED = [
    "-          throw new Error('no failed ledger');", "+\t\tif (error) throw failure;",
    "  -  15 [chromium] › tests/a.spec.ts:419:3 › Sharing › an invalid key shows error",
    '            data-testid="bucket-failed"', "                Failed", "        <Label kind={failure}>",
    "\t\t{/* Errors Tab */}", "    // can't be reached unless it failed", " 0 fail",
]  # fmt: skip


@pytest.mark.parametrize("quoted", QUOTED)
def test_code_and_lists_that_a_run_shows_are_no_failures(quoted: str) -> None:
    assert not FailureLines.of(utf8(quoted)).without(b"", Severity.COMPLAINT)


@pytest.mark.parametrize(
    "command", ["gh api repos/a/b/pulls/1/reviews", "ps -ef", "jq .body review.json", "git diff | cat"]
)
def test_where_a_command_tells_how_things_are_only_statements_are_failures(command: str) -> None:
    chance = random.Random(4)
    lines = [
        f"the caller asserts that a failed {_words(chance, 9)} is rejected, page {n}" for n in range(400)
    ]
    lines.insert(200, "ERROR: the ledger is closed")
    text = shown("\n".join(lines), "Bash", {"command": command}, Mode.STANDARD)
    assert "the caller asserts" not in text.partition(HEADING)[2]
    assert command.startswith("git") or "ERROR: the ledger is closed" in text


LINES = (
    "", "   ", "import os", "error: no such file", "tests/test_a.py::test_error_of_login PASSED [ 10%]",
    "ok 3 - reports an error", "ok 4 - 2 failed", "    at run (src/a.ts:10:2)",
    "\tat java.lang.Thread.run(Thread.java:10)", "3 passed, 1 failed in 2.1s", "--- PASS: TestFail (0.00s)",
    "  \u2713 handles errors (3 ms)", "exit code", "1", "E   assert 1 == 2", "x" * 5_000 + " error",
)  # fmt: skip


def test_all_critical_lines_are_those_of_each_line() -> None:
    drawn = random.Random(5)
    for _ in range(400):
        lines = drawn.choices(LINES, k=drawn.randint(1, 9))
        wanted = [position for position, line in enumerate(lines) if is_critical(line)]
        assert list(critical_lines(lines)) == wanted, lines


@pytest.mark.parametrize(
    "example", rules.load("failures.yaml")["examples"], ids=lambda example: example["line"]
)
def test_an_example_has_its_stated_properties(example: dict[str, Any]) -> None:
    line = example["line"]
    assert is_critical(line) is example["critical"]
    assert list(critical_lines([line] * 3)) == [0, 1, 2] * example["critical"]
    if "severity" in example:
        assert severity(line.encode()).name.lower() == example["severity"]
    if "stated" in example:
        assert is_stated(line.encode()) is example["stated"]


@pytest.mark.parametrize("kind", ["outcome", "change", "finding"])
def test_lines_with_a_report_are_those_of_the_examples(kind: Report) -> None:
    rule = rules.load("failures.yaml")["reports"][kind]
    lines = [*rule["examples"], *rule["others"]]
    assert [lines[at] for at in reports(lines, kind)] == rule["examples"]
    for line in lines:
        assert bool(reports([line + "\r"], kind)) is bool(reports([line], kind)), line


SPOKEN = [
    example["line"] for example in rules.load("failures.yaml")["examples"] if example.get("stated") is False
]


def shown_by(command: str, text: str) -> str:
    return shortened(text, "Bash", {"command": command}).text


@pytest.mark.parametrize("around", ["{}", "begun\n{}\nended\n"], ids=["alone", "among lines"])
@pytest.mark.parametrize("error", ["Error: disk 7 is full", "error TS2322: a number is no text"])
@pytest.mark.parametrize(
    "call",
    [
        ("Bash", {"command": "./x"}),
        ("Bash", {"command": "cat x; ./y"}),
        ("Bash", {"command": "./y && cat x"}),
        ("mcp__a__b", {"id": 7}),
    ],
    ids=str,
)
def test_an_error_within_a_very_long_line_is_shown(
    call: tuple[str, dict[str, Any]], error: str, around: str
) -> None:
    words = " ".join(f"word{n}of{n * 7}" for n in range(8_000))
    text = shortened(around.format(f"{words} {error} {words}"), *call).text
    assert error in text
    assert len(text) < 40_000


def test_prose_of_an_unknown_tool_is_no_failure() -> None:
    lines = [f"Paragraph {n} of {n * 7919 % 1009} tells how nothing is done here." for n in range(400)]
    lines[100:100] = SPOKEN
    assert HEADING not in shown_by("./manual", "\n".join(lines))
    lines[200] = "fatal: the ledger is gone"
    assert "fatal: the ledger is gone" in shown_by("./manual", "\n".join(lines))


RUN = "src/{n}.test.ts:\n[Queue] Task {n} failed: 101 | throw\nerror: item {n} is meant to fail\n    at x (src/{n}.ts:1:2)"


def test_a_text_with_very_many_beginnings_of_a_match_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """RE2 itself prints an error when its automaton grows beyond its limit."""
    chosen = random.Random(1)
    text = "\n".join("Found " + "".join(chosen.choices("a1 ", k=120)) for _ in range(300))
    assert len(reports(text.split("\n"), "outcome")) == 300
    assert capfd.readouterr().err == ""


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
        "     Errors  1 error", "=== 400 passed, 1 error in 0.12s ===", "⎯⎯⎯ Unhandled Rejection ⎯⎯⎯",
        "src/a.ts(12,5): error TS2345: Argument of type 'string' is not assignable.",
        "src/a.c:12:5: error: expected ';'", "error[E0308]: mismatched types",
        "error: could not compile `ledger` (lib) due to 1 previous error", "npm error code ELIFECYCLE",
    ],
)  # fmt: skip
def test_failures_other_than_tests_are_listed(line: str) -> None:
    text = "\n".join(RUN.format(n=n) for n in range(40))
    assert not all_passed(f"{text}\n{line}\nTests: 40 passed, 40 total".encode())


def test_a_passing_run_lists_no_failures() -> None:
    text = "bun test v1.3.5\n" + "\n".join(RUN.format(n=n) for n in range(400))
    assert HEADING not in shown_by("bun test", text + "\n 400 pass\n 0 fail\nRan 400 tests across 9 files.")
    assert HEADING in shown_by("bun test", text + "\n 399 pass\n 1 fail\nRan 400 tests across 9 files.")


@pytest.mark.parametrize("command", ["go test -v ./...", "./ci"])
def test_the_message_of_a_go_test_before_its_verdict_stays(command: str) -> None:
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
    assert "    total_test.go:14: want 3, got 4\n" in shown_by(command, text)
