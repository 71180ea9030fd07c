"""Outputs within envelopes: lines around an output, and members of JSON."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.envelope import Envelope, is_cut, tells_failure
from penumbra.compress.calls.json_envelope import MAX_OUTPUTS, outputs
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Loss, Mode, Policy, Redacted, Shortened, ToolOutput
from penumbra.compress.size import size
from penumbra.rule_schemas.tool_rules import EnvelopeExample, FileExample, TrimExample
from support.examples import examples
from support.results import PREFIX, shortened


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.examples, ids=lambda example: repr(example.text)[:40]
)
def test_examples(example: EnvelopeExample) -> None:
    head, body, tail = Envelope.of(example.text)
    assert body == example.body
    assert head + body + tail == example.text
    assert tells_failure(head, tail) == example.failed


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.trim_examples, ids=lambda example: repr(example.text)[:40]
)
def test_needless_lines_of_an_envelope_go(example: TrimExample) -> None:
    assert "".join(Envelope.of(example.text).without_needless()) == example.gives
    assert "".join(Envelope.of(example.gives).without_needless()) == example.gives


@pytest.mark.parametrize("printed", ["Exit code: 0", "exit code: 0\n", "EXIT CODE: 0\n"], ids=repr)
@pytest.mark.parametrize("variable", ["$?", "${PIPESTATUS[0]}", "$LASTEXITCODE"])
def test_an_exit_code_that_the_command_prints_stays(variable: str, printed: str) -> None:
    came = f"Chunk ID: 1f\nProcess exited with code 0\nOutput:\nbuilt\n{printed}"
    asking = shortened(came, "exec_command", {"cmd": f'make 2>&1 | tail; echo "exit code: {variable}"'})
    assert "Chunk ID" not in asking.text
    assert f"built\n{printed.strip()}" in asking.text
    assert shortened(came, "exec_command", {"cmd": "make"}).text.strip() == "built"


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.file_examples, ids=lambda example: repr(example.text)[:40]
)
def test_the_envelope_of_a_file_goes(example: FileExample) -> None:
    asked = {"filePath": example.path} | ({} if example.offset is None else {"offset": example.offset})
    made = shorten(ToolOutput(example.text, "read", asked), Policy(), Redacted, str)
    assert made.text == example.gives
    assert made.original == example.text
    shell = ToolOutput(example.text, "Bash", {"command": f"cat {example.path}"})
    assert shorten(shell, Policy(), Redacted, str).text == example.text


def test_data_is_not_searched_for_each_of_its_strings() -> None:
    class Searched(str):
        searches = 0

        def find(self, *arguments: Any) -> int:
            Searched.searches += 1
            return super().find(*arguments)

    output = json.dumps({"output": "a\n" * 5_000} | {f"k{n}": "one line" for n in range(200)})
    assert len(outputs(Searched(output), of_file=True)) == 1
    data = json.dumps({f"k{n}": f"v{n}\n" for n in range(2_000)})
    assert not outputs(Searched(data), of_file=True)
    assert Searched.searches <= 4 * MAX_OUTPUTS


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.json.trim_examples, ids=lambda example: repr(example.text)[:40]
)
def test_json_that_says_nothing_else_goes(example: TrimExample) -> None:
    for tool, arguments in (("apply_patch", {"input": ""}), ("shell", {"command": "make all"})):
        made = shorten(ToolOutput(example.text, tool, arguments), Policy(), Redacted, str)
        assert made.text == example.gives
        assert made.original == example.gives
    # The agent may have asked for a file, or for an output without an envelope, that looks like this.
    for tool, arguments in (
        ("Read", {"file_path": "a.json"}),
        ("shell", {"command": "cat a.json"}),
        ("Bash", {"command": "make all"}),
        ("mcp__db__get", {"id": "7"}),
        ("", {}),
    ):
        assert (
            shorten(ToolOutput(example.text, tool, arguments), Policy(), Redacted, str).text == example.text
        )


def test_a_file_keeps_tags_and_numbers_of_its_own() -> None:
    rows = [f"{n}: item of the list, {n * 7919 % 1009}" for n in range(1, 60)]
    for tool in ("read", "read_file", "Read"):
        text = "\n".join(["<file>", *rows, "</file>"])
        made = shorten(ToolOutput(text, tool, {"path": "list.xml"}), Policy(lossy=True), Redacted, str)
        assert made.text == text


def test_an_output_of_json_is_shown_as_on_a_screen() -> None:
    text = '{"output":"\\u001b[1ma\\u001b[0m\\nb","metadata":{"exit_code":0,"duration_seconds":0.1}}'
    made = shorten(ToolOutput(text, "shell", {"command": "./show"}), Policy(min_bytes=0), Redacted, str)
    assert made.text == "a\nb"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("Read", {"file_path": "a.txt"}), ("Write", {"file_path": "a.txt"}), ("Bash", {"command": "cat a.txt"})],
)
def test_a_file_that_looks_like_an_envelope_is_none(tool: str, arguments: dict[str, str]) -> None:
    text = "Exit code: 0\nWall time: 1 seconds\nChunk ID: 7\nrows\n<shellId: 1 completed with exit code 0>"
    made = shorten(ToolOutput(text, tool, arguments), Policy(), Redacted, str)
    assert (made.text, made.stages) == (text, ())
    if tool == "Bash":
        made = shorten(ToolOutput(f"Exit code: 0\nOutput:\n{text}", tool, arguments), Policy(), Redacted, str)
        assert made.text == text.removesuffix("\n<shellId: 1 completed with exit code 0>")


@given(
    st.lists(
        st.sampled_from(["Output:\n", "Exit code: 1\n", "a", "\n", "</stdout>", "Signal: x", "é"]),
        max_size=12,
    )
)
def test_nothing_gets_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(Envelope.of(text)) == text


@given(
    st.lists(
        st.sampled_from(["…5 tokens truncated…", "[12 lines truncated]", "a\n", "é", "[1", "\ud800"]),
        max_size=4,
    )
)
def test_the_sign_of_a_cut_passes_over_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert is_cut(text) == any(re.search(cut, text) for cut in tool_rules().envelopes.cut)


def test_answers_of_several_calls_each_with_its_call() -> None:
    value = [
        {"query": "npm test", "result": "a\nb", "success": True},
        {"query": "git log", "result": "c\nd", "success": True},
    ]
    found = outputs(json.dumps(value))
    assert [(one.asked, one.text) for one in found] == [("npm test", "a\nb"), ("git log", "c\nd")]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "output: a\nb",
        "{",
        '{"output": "one line"}',
        '{"output": ["a\\nb"]}',
        '{"title": "a\\nb"}',
        '[{"result": "a\\nb"}]',
        '{"output": "a\\nb"} and more',
        '{"output": "a\\ud800\\nb"}',
        '{"stdout": "a\\nb", "stderr": "a\\nb"}',
        json.dumps({"output": "a\nb", "rows": list(range(2_000))}),
        json.dumps([{"query": str(n), "result": f"{n}\n"} for n in range(MAX_OUTPUTS + 1)]),
        '{"output":' * 3_000,
    ],
    ids=lambda text: text[:30],
)
def test_anything_else_is_no_envelope(text: str) -> None:
    assert outputs(text) == []


@settings(max_examples=examples(60))
@given(
    st.recursive(
        st.text(max_size=30) | st.integers(),
        lambda x: (
            st.lists(x)
            | st.dictionaries(st.sampled_from(["output", "result", "query", "content", "text", "n"]), x)
        ),
        max_leaves=12,
    )
)
def test_places_hold_the_strings(value: object) -> None:
    text = json.dumps(value)
    for found in outputs(text):
        assert json.loads(text[found.start : found.end]) == found.text


TESTS = (
    "".join(f"tests/test_cart.py::test_{n} \x1b[32mPASSED\x1b[0m [ {n}%]\n" for n in range(90))
    + "tests/test_cart.py::test_x FAILED\n\n=== FAILURES ===\n___ test_x ___\n\nE       assert 2 == 3\n\n"
    + "tests/test_cart.py:9: AssertionError\n=== 1 failed, 90 passed in 0.11s ===\n"
)


def run(text: str, tool: str = "bash", arguments: object = None, **policy: object) -> Shortened:
    call = {"command": "pytest -v"} if arguments is None else arguments
    return shortened(text, tool, call, **{"overhead": PREFIX, **policy})


WRAPPED = {
    "code": {"returncode": 1, "output": TESTS},
    "stdout": {"stdout": TESTS, "stderr": "", "exit_code": 0},
    "result": {"result": TESTS},
    "value": {"return_value": TESTS},
    "blocks": {"content": [{"type": "text", "text": TESTS}], "isError": False},
    "list of blocks": [{"type": "text", "text": TESTS}],
    "deeper inside": {"ok": True, "data": {"output": TESTS, "ms": 31}},
    "response": {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": TESTS}]}},
}


@pytest.mark.parametrize("mode", [Mode.SAFE, Mode.STANDARD, Mode.AGGRESSIVE])
@pytest.mark.parametrize("head", ["", "Wall time: 0.2 seconds\nOutput:\n"], ids=["alone", "below lines"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", WRAPPED)
def test_an_output_inside_of_json_is_the_output_without_it(
    name: str, indent: int | None, head: str, mode: Mode
) -> None:
    came = json.dumps(WRAPPED[name], indent=indent)
    alone, within = run(TESTS, mode=mode), run(head + came, mode=mode)
    assert (within.loss, within.family) == (alone.loss, alone.family)
    assert run(within.text, mode=mode).text == within.text
    if mode is Mode.SAFE:
        assert within.text == head + came if head else json.loads(within.text) != WRAPPED[name]
        return
    first, _, rest = within.text.partition("\n")
    body, _, last = rest.rpartition("\n")
    assert body == alone.text
    assert json.loads(first + json.dumps(TESTS) + last) == WRAPPED[name]


@pytest.mark.parametrize(("path", "is_opened"), [("a.py", True), ("a.json", False), ("LICENSE", False)])
@pytest.mark.parametrize("member", ["output", "content", "fileText"])
def test_a_file_that_may_be_json_stays_json(path: str, is_opened: bool, member: str) -> None:
    source = "".join(f'value_{n} = "{n * 7919 % 1009}"\n' for n in range(60))
    came = json.dumps({"path": path, member: source, "lines": 60})
    for tool, arguments in (("Read", {"file_path": path}), ("Bash", {"command": f"cat {path}"})):
        made = run(came, tool, arguments).text
        assert made == (f'{{"path": "{path}", "{member}": \n{source}\n, "lines": 60}}' if is_opened else came)


@pytest.mark.parametrize(("tool", "is_thinned"), [("read_file", True), ("view", False)])
def test_numbers_after_a_letter_are_line_numbers_where_the_tool_writes_them(
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


@settings(max_examples=examples(40))
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
