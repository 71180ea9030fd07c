"""Properties of the whole pipeline over odd texts: Unicode, line ends, processes, work."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra import rules
from penumbra.compress.calls.tools import category
from penumbra.compress.critical_lines import is_critical
from penumbra.compress.result import Loss, Mode, Shortened
from penumbra.compress.size import size
from support.examples import examples
from support.results import PREFIX, shortened
from support.work_counts import lines

LINES = [
    "pytest -v",
    "git diff",
    "git log",
    "npm install",
    "cargo build --message-format=json",
    "kubectl get pod x -o yaml",
    "rg -n x",
    "docker compose logs",
    "npx tsc",
    "terraform plan",
    "./unknown",
    "cat a.py",
    "git status; echo ---; npm test",
]


def rule_examples() -> Iterator[tuple[str, str]]:
    """(call, text) of every example in rules/commands."""
    for file in rules.load_folder("commands"):
        for example in file.content["examples"]:
            yield example["call"], example["text"]


def run(line: str, text: str, mode: Mode = Mode.STANDARD, lossy: bool = True) -> Shortened:
    call = ("Bash", {"command": line}) if category(line) in ("other", "bash") else (line, {})
    overhead = PREFIX if lossy else ""
    return shortened(text, *call, mode=mode, lossy=lossy, overhead=overhead, min_bytes=32)


ODD = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\n\r\t\x1b\x08\x0b\x0c\x1c\x85\u2028\u2029\ufeff\u200b\ud800é🎉界|\"'\\[]{}:-+@0"),
    ),
    max_size=300,
)
REPEATED = st.tuples(ODD, st.integers(1, 30), st.sampled_from(["", "\n", "\r\n"])).map(
    lambda parts: (parts[0] + parts[2]) * parts[1]
)


@settings(max_examples=examples(120), deadline=None)
@given(REPEATED, st.sampled_from(LINES), st.sampled_from(list(Mode)), st.booleans())
def test_any_characters(text: str, line: str, mode: Mode, lossy: bool) -> None:
    result = run(line, text, mode, lossy)
    in_front = size(PREFIX) if lossy and result.loss is Loss.LOSSY else 0
    assert size(result.text) + in_front <= size(text)
    assert run(line, text, mode, lossy) == result
    assert run(line, result.text, mode, lossy).text == result.text
    assert result.original == text
    if mode is Mode.DISABLED or not result.stages:
        assert result.text == text


@pytest.mark.parametrize("example", list(rule_examples()), ids=lambda example: example[0][:50])
def test_examples_through_the_whole_pipeline(example: tuple[str, str]) -> None:
    line, text = example
    result = run(line, text)
    in_front = size(PREFIX) if result.loss is Loss.LOSSY else 0
    assert size(result.text) + in_front <= size(text)
    assert run(line, result.text).text == result.text
    windows = run(line, text.replace("\n", "\r\n"))
    assert "\r\r" not in windows.text
    kept = run(line, text, lossy=False)
    assert kept.loss < Loss.LOSSY
    if {"log_patterns", "json_table"} & set(kept.stages):
        return
    for critical in filter(is_critical, text.split("\n")):
        # A common beginning may stand in front of several lines; the last word of each always stays.
        assert re.findall(r"\w+", re.sub(r" \[ *\d+%\]$", "", critical))[-1] in kept.text


UNITS = [
    "a\n",
    "error: x\n",
    "\n",
    "- a: b\n",
    "  - a: 1\n    b: 2\n",
    "src/a.py:1:x\n",
    "@@ -1 +1 @@\n+a\n",
    '  File "a.py", line 1\n',
    "\tat a.b(C.java:1)\n",
    "[1. [a](http://b)\n",
    "Title: a\n",
    "| a | b |\n",
    '{"a": 1}\n',
    "1\tx\n",
    "a,b,c\n",
    "\x1b[1mx\x1b[0m\r",
    "tests/a.py::b PASSED [ 1%]\n",
    "a\nb\n",
    "a\na\nb\n",
]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("line", ["./unknown", "git diff", "npm test"])
def test_work_grows_with_the_text_and_not_faster(unit: str, line: str) -> None:
    few, many = (lines(run, line, unit * (length // len(unit))) for length in (12_000, 48_000))
    assert few > 0
    assert many <= 4.4 * few + 2_000
