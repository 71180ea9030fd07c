"""Exit codes and wall times around an output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penumbra.compress.calls import envelope
from penumbra.compress.calls.envelope import is_cut, split_envelope, tells_failure, without_needless
from penumbra.compress.calls.tools import tool_rules
from penumbra.compress.pipeline import shorten
from penumbra.compress.result import Policy, Redacted, ToolOutput
from penumbra.rule_schemas.tool_rules import EnvelopeExample, FileExample, TrimExample


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.examples, ids=lambda example: repr(example.text)[:40]
)
def test_examples(example: EnvelopeExample) -> None:
    head, body, tail = split_envelope(example.text)
    assert body == example.body
    assert head + body + tail == example.text
    assert tells_failure(head, tail) == example.failed


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.trim_examples, ids=lambda example: repr(example.text)[:40]
)
def test_what_nobody_acts_on_goes(example: TrimExample) -> None:
    assert without_needless(example.text) == example.gives
    assert without_needless(example.gives) == example.gives


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.file_examples, ids=lambda example: repr(example.text)[:40]
)
def test_what_stands_around_a_file_goes(example: FileExample) -> None:
    asked = {"filePath": example.path} | ({} if example.offset is None else {"offset": example.offset})
    made = shorten(ToolOutput(example.text, example.tool, asked), Policy(), Redacted, str)
    assert made.text == example.gives
    assert made.original == example.text
    shell = ToolOutput(example.text, "Bash", {"command": f"cat {example.path}"})
    assert shorten(shell, Policy(), Redacted, str).text == example.text


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.json.trim_examples, ids=lambda example: repr(example.text)[:40]
)
def test_json_that_says_nothing_else_goes(example: TrimExample) -> None:
    for tool, arguments in (("apply_patch", {"input": ""}), ("shell", {"command": "make all"})):
        made = shorten(ToolOutput(example.text, tool, arguments), Policy(), Redacted, str)
        assert made.text == example.gives
        assert made.original == example.text
    # It may be what was asked for: of a file, and from tools whose agents write no such envelope.
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


def test_what_an_output_for_a_screen_says_stays_in_its_json() -> None:
    text = '{"output":"\\u001b[1ma\\u001b[0m\\nb","metadata":{"exit_code":0,"duration_seconds":0.1}}'
    made = shorten(ToolOutput(text, "shell", {"command": "ls --color"}), Policy(min_bytes=0), Redacted, str)
    assert made.text == '{"output":"a\\nb","metadata":{"exit_code":0,"duration_seconds":0.1}}'


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
    assert "".join(split_envelope(text)) == text


@given(
    st.lists(
        st.sampled_from(["…5 tokens truncated…", "[12 lines truncated]", "a\n", "é", "[1", "\ud800"]),
        max_size=4,
    )
)
def test_the_sign_of_a_cut_passes_over_none(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert is_cut(text) == (envelope._cut().search(text) is not None)


def test_ours_have_a_sign() -> None:
    assert envelope._sign_of_cut() is not None
