"""JSON around outputs stays JSON, and the outputs are treated as they are without it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.result import Loss, Mode, Shortened
from penumbra.compress.size import size
from support.examples import examples
from support.results import PREFIX, shortened

TESTS = (
    "".join(f"tests/test_cart.py::test_{n} \x1b[32mPASSED\x1b[0m [ {n}%]\n" for n in range(90))
    + "tests/test_cart.py::test_x FAILED\n\n=== FAILURES ===\n___ test_x ___\n\nE       assert 2 == 3\n\n"
    + "tests/test_cart.py:9: AssertionError\n=== 1 failed, 90 passed in 0.11s ===\n"
)


def run(text: str, tool: str = "bash", arguments: object = None, **policy: object) -> Shortened:
    call = {"command": "pytest -v"} if arguments is None else arguments
    return shortened(text, tool, call, **{"overhead": PREFIX, **policy})


@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.STANDARD, Mode.AGGRESSIVE])
def test_an_output_inside_of_json_is_the_output_without_it(mode: Mode) -> None:
    alone, within = run(TESTS, mode=mode), run(json.dumps({"returncode": 1, "output": TESTS}), mode=mode)
    assert json.loads(within.text) == {"returncode": 1, "output": alone.text}
    assert within.text.startswith('{"returncode": 1, "output": "')
    assert (within.loss, within.stages, within.family) == (alone.loss, alone.stages, alone.family)
    assert run(within.text, mode=mode).text == within.text


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: {"content": [{"type": "text", "text": text}], "isError": False},
        lambda text: [{"type": "text", "text": text}],
        lambda text: {"ok": True, "data": {"output": text, "ms": 31}},
        lambda text: {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": text}]}},
    ],
)
@pytest.mark.parametrize("head", ["", "Wall time: 0.2 seconds\nOutput:\n"])
def test_an_output_in_blocks_or_deeper_inside_is_the_output_without_it(wrap: Any, head: str) -> None:
    alone, within = run(TESTS), run(head + json.dumps(wrap(TESTS)))
    assert json.loads(within.text) == wrap(alone.text)
    assert within.family == alone.family
    assert run(within.text).text == within.text


@pytest.mark.parametrize(("tool", "is_thinned"), [("read_file", True), ("view", False)])
def test_numbers_behind_a_letter_are_a_readers_where_its_tool_writes_them(
    tool: str, is_thinned: bool
) -> None:
    text = "\n".join(f"L{n}: level {n} of the game is called x{n}" for n in range(1, 200))
    assert ("line_numbers" in run(text, tool, {"file_path": "levels.txt"}).stages) is is_thinned


def test_a_list_that_is_no_list_of_blocks_is_data() -> None:
    rows = [{"type": "text", "text": TESTS}, {"type": "row", "text": TESTS}]
    assert "json_envelope" not in run(json.dumps(rows)).stages
    assert "[90 passed" not in run(json.dumps(rows)).text


def test_answers_of_several_commands_are_known_by_their_own() -> None:
    log = "".join(
        f"commit {n:040x}\nAuthor: Ann <a@example.com>\nDate:   Mon\n\n    Change {n}\n\n" for n in range(9)
    )
    value = [{"query": "pytest -v", "result": TESTS, "success": False}, {"query": "git log", "result": log}]
    result = run(json.dumps(value), "run_commands", {"commands": ["pytest -v", "git log"]})
    tests, history = json.loads(result.text)
    assert "[90 passed in tests/test_cart.py]" in tests["result"]
    assert "E       assert 2 == 3" in tests["result"]
    assert "[Author: Ann <a@example.com> in each of the 9 commits]" in history["result"]
    assert (tests["success"], history["query"]) == (False, "git log")


def test_a_file_that_is_such_json_keeps_its_bytes() -> None:
    text = json.dumps({"output": "\x1b[1m" + "value = 1 | 2 | 3   \n" * 60}, indent=2)
    assert run(text, "Bash", {"command": "cat snapshot.json"}).text == text


def test_a_file_that_an_agent_hands_over_in_json_loses_its_line_numbers_only() -> None:
    source = "\n".join(f"{n}→    value_{n} = {n}  " for n in range(1, 90))
    result = run(json.dumps([{"query": "/a/b.py", "result": source, "success": True}]), "read_files", {})
    shown = json.loads(result.text)[0]["result"]
    assert result.stages == ("line_numbers",)
    assert "\n20→    value_20 = 20  \n    value_21 = 21  \n" in shown


def test_the_limit_holds_for_all_of_them_together() -> None:
    noise = "".join(f'"{n}" says\tnothing {n * 7919 % 1000}\n' for n in range(9_000))
    result = run(json.dumps({"stdout": noise, "stderr": noise + "x\n"}), max_output_bytes=6_000)
    assert set(json.loads(result.text)) == {"stdout", "stderr"}
    assert size(result.text) <= 6_000
    assert result.loss is Loss.LOSSY


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.sampled_from(["same line\n", "é 🎉\n", "error: x\n", "\x1b[1mb\x1b[0m\n", '"q"\t\\\n']),
        max_size=40,
    ),
    st.booleans(),
)
def test_json_stays_json_and_never_grows(lines: list[str], escaped: bool) -> None:
    text = json.dumps({"exit": 0, "output": "".join(lines)}, ensure_ascii=escaped)
    result = run(text, min_bytes=32)
    value = json.loads(result.text)
    assert value["exit"] == 0
    assert size(result.text) + (size(PREFIX) if result.loss is Loss.LOSSY else 0) <= size(text)
    assert value["output"].count("error: x") == lines.count("error: x\n") or "more time" in value["output"]
