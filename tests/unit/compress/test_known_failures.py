"""Results that other tools are known to spoil, through the whole pipeline: what each is read for stays."""

from __future__ import annotations

import json
import re

import pytest

from penumbra.compress.result import Mode, Shortened
from support.results import PREFIX, shortened

MODES = [Mode.SAFE, Mode.STANDARD, Mode.AGGRESSIVE]


def run(text: str, tool: str, arguments: object, mode: Mode = Mode.STANDARD, **policy: object) -> Shortened:
    return shortened(text, tool, arguments, mode=mode, overhead=PREFIX, **policy)


def shell(line: str, text: str, mode: Mode = Mode.STANDARD, **policy: object) -> str:
    return run(text, "Bash", {"command": line}, mode, **policy).text


PYTEST = (
    "=== test session starts ===\n"
    + "".join(f"tests/test_a.py::test_{n} PASSED [ 1%]\n" for n in range(40))
    + "tests/test_a.py::test_x FAILED [100%]\n\n=== FAILURES ===\n___ test_x ___\n\n"
    "    def test_x():\n>       assert f() == 3\nE       assert 2 == 3\nE        +  where 2 = f()\n\n"
    "tests/test_a.py:9: AssertionError\n=== 1 failed, 40 passed in 0.11s ===\n"
)


def test_a_history_is_not_cut_at_ten_and_hashes_are_whole() -> None:
    hashes = [f"{n * 7919:040x}" for n in range(14)]
    text = "".join(
        f"commit {found}\nAuthor: Ann <ann@example.com>\nDate:   Mon Jan 5 10:00:00 2026\n\n    Change {found[-4:]}\n\n"
        for found in hashes
    )
    assert re.findall(r"commit ([0-9a-f]+)", shell("git log", text)) == hashes


@pytest.mark.parametrize("count", [3, 10, 11, 60])
def test_hits_of_a_search_are_all_there_or_counted(count: int) -> None:
    text = "".join(f"src/a.py:{n}:    path = '/build/x.min.js'  # {n}\n" for n in range(1, count + 1))
    shown = shell("grep -rn path src", text, min_bytes=16)
    assert "more" not in shown
    assert len(re.findall(r"^(?:src/a\.py:)?[0-9]+:", shown, re.MULTILINE)) == count


def test_lines_around_hits_stay() -> None:
    text = "".join(
        f"src/m{n}.py-{n}-before {n}\nsrc/m{n}.py:{n + 1}:hit {n}\nsrc/m{n}.py-{n + 2}-after {n}\n--\n"
        for n in range(1, 30)
    )
    shown = shell("grep -rn -C1 hit src", text, max_output_bytes=100_000)
    for n in range(1, 30):
        for word in (f"before {n}\n", f"hit {n}\n", f"after {n}\n"):
            assert word in shown


def test_paths_that_were_asked_for_by_a_glob_stay() -> None:
    text = "\n".join(f"/srv/shop/vendor/lib{n}/dist/index.min.js" for n in range(40))
    assert run(text, "Glob", {"pattern": "vendor/**"}).text == text


@pytest.mark.parametrize(
    "call", [("Read", {"file_path": "/a/settings.toml"}), ("Bash", {"command": "sed -n '1,120p' x.py"})]
)
def test_a_read_keeps_every_line(call: tuple[str, object]) -> None:
    text = "".join(f"value_{n} = a | b | {n}\n    x = 1\n    x = 1\n    x = 1\n" for n in range(120))
    assert run(text, *call).text == text


@pytest.mark.parametrize("mode", MODES)
def test_an_error_in_the_middle_of_a_long_log_is_shown(mode: Mode) -> None:
    lines = [
        f"2026-01-05 10:00:{n % 60:02} INFO worker {n % 7} did job {n * 7919} of batch {n}"
        for n in range(4_000)
    ]
    lines[2_000] = "2026-01-05 10:33:20 ERROR payment 4711 refused: card expired"
    text = "\n".join(lines)
    assert len(text) > 200_000
    shown = shell("./serve", text, mode)
    assert "ERROR payment 4711 refused: card expired" in shown.replace("[timestamp]", "2026-01-05 10:33:20")


def test_numbers_and_keys_of_json_keep_their_spelling() -> None:
    text = '{"big": 12345678901234567890123, "price": 1.10, "a": 1, "a": 2,  "e": 1E5, "x": null}' + " " * 600
    shown = shell("curl -s localhost", text)
    assert shown.strip() == '{"big":12345678901234567890123,"price":1.10,"a":1,"a":2,"e":1E5,"x":null}'


@pytest.mark.parametrize("line", ["git log", "git status", "git blame x", "git log --stat", "cargo build"])
def test_characters_of_several_bytes_are_never_cut(line: str) -> None:
    text = "commit é🎉é🎉é🎉\nАвтор: 数据库 <é@x.y>\nwarning: é🎉 --> é.rs:1:1\n" * 400
    for mode in MODES:
        for limit in (997, 998, 999, 1_000, 1_001):
            shell(line, text, mode, max_output_bytes=limit).encode("utf-8")


def test_a_formatted_link_is_its_words() -> None:
    assert shell("ls", "\x1b]8;;http://example.com\x1b\\here\x1b]8;;\x1b\\ it is\n") == "here it is\n"


@pytest.mark.parametrize(
    "text", ["page one\x0cpage two\n" * 40, "latin \x85 next line\n" * 40, "log line\n" * 90 + "\x00"]
)
def test_few_odd_characters_are_no_binary(text: str) -> None:
    assert "Binary output suppressed" not in shell("./print", text, Mode.SAFE)


def test_two_runs_that_differ_in_one_number_stay_different() -> None:
    first, second = (PYTEST.replace("assert 2 == 3", f"assert {value} == 3") for value in (2, 99))
    assert shell("pytest -v", first) != shell("pytest -v", second)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_invented_about_an_empty_output(mode: Mode) -> None:
    for line in ("git log", "git status", "git diff", "npm test", "find . -name x", "grep x y"):
        assert shell(line, "", mode) == ""
        assert shell(line, "\n", mode) in ("\n", "")


def test_a_table_in_json_keeps_null_and_empty_apart() -> None:
    rows = [{"id": n, "note": None if n % 2 else "", "name": f"n{n}"} for n in range(30)]
    shown = shell("curl -s localhost", json.dumps(rows))
    header, *cells = shown.split("\n")
    note = header.split("columns ")[1].rstrip("]").split(",").index('"note"')
    assert {row.split("\t")[note] for row in cells} == {"null", '""'}
