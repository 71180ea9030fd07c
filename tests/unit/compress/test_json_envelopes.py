"""Outputs as members of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.compress.calls.json_envelope import MAX_OUTPUTS, outputs
from support.examples import examples

TEXT = "first line\nsecond \u001b[1mline\u001b[0m\n"


@pytest.mark.parametrize(
    "value",
    [
        {"output": TEXT, "metadata": {"exit_code": 0, "duration_seconds": 1.1}},
        {"returncode": 1, "output": TEXT},
        {"stdout": TEXT, "stderr": "", "exit_code": 0},
        {"result": TEXT},
        {"return_value": TEXT},
        {"content": [{"type": "text", "text": TEXT}], "isError": False},
    ],
)
@pytest.mark.parametrize("indent", [None, 2])
def test_known_envelopes(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    (found,) = outputs(text)
    assert found.text == TEXT
    assert found.asked == ""
    assert json.loads(text[found.start : found.end]) == TEXT


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


@settings(max_examples=examples(60), deadline=None)
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
