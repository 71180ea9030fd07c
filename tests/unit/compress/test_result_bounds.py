"""No result takes more memory or work than its size allows, whatever it holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from penumbra.compress import pipeline, stage, time_budget
from penumbra.compress.result import Mode, Policy, Redacted, Shortened, ToolOutput

Call = tuple[str, object]
SHELL: Call = ("Bash", {"command": "./x"})
MCP: Call = ("mcp__x__y", {})
DIFF: Call = ("Bash", {"command": "git diff"})
PAGE: Call = ("WebFetch", {"url": "https://example.com"})
HUNKS = "diff --git a/x b/x\n--- a/x\n+++ b/x\n"

HOSTILE: dict[str, tuple[Call, Callable[[int], str]]] = {
    "rows of other keys": (MCP, lambda n: "[" + ",".join(f'{{"k{i}":{i}}}' for i in range(n // 14)) + "]"),
    "lines of other keys": (MCP, lambda n: "\n".join(f'{{"k{i}":{i}}}' for i in range(n // 14))),
    "inner other keys": (
        MCP,
        lambda n: "[" + ",".join(f'{{"a":{{"k{i}":1}}}}' for i in range(n // 16)) + "]",
    ),
    "numbers": (MCP, lambda n: "[" + "1," * (n // 2) + "1]"),
    "empty objects": (MCP, lambda n: "[" + "{}," * (n // 3) + "{}]"),
    "deep arrays": (MCP, lambda n: "[" * (n // 2) + "]" * (n // 2)),
    "blanks between bars": (SHELL, lambda n: "| a |\n" + " " * n + "|x\n|---|\n" + " " * n + "x|\n"),
    "dashes between bars": (SHELL, lambda n: "|a|b|\n|---|---|\n" + "-" * n + "x|\n" + "-" * n + "-+-y|\n"),
    "dashes in a hunk": (DIFF, lambda n: HUNKS + "@@ -1,999999 +1,9 @@\n" + "--- y\n" * (n // 6)),
    "small hunks": (DIFF, lambda n: HUNKS + "@@ -1 +1 @@\n-a\n+b\n" * (n // 18)),
    "cells in a row": (PAGE, lambda n: "<html><body><table><tr>" + "<td>x" * (n // 5)),
    "formatting in paragraphs": (
        PAGE,
        lambda n: "<html><body>" + "".join(f"<b id={i}>" for i in range(400)) + "<p>x" * (n // 4),
    ),
    "links in lines": (PAGE, lambda n: "<html><body>" + "<table><td><a href=x>" * 100 + "x<br>" * (n // 5)),
    "newlines below a move": (SHELL, lambda n: "\x1b[A" + "\n" * n),
    "moves to the right": (SHELL, lambda n: "\x1b[400Cx\r\n" * (n // 10)),
    "a sequence without end": (SHELL, lambda n: "\x1b[" + "1" * n),
    "overwritten errors": (SHELL, lambda n: "error: " + "y" * 380 + "\r" + "x\r" * (n // 2) + "\n"),
    "nothing but errors": (SHELL, lambda n: "".join(f"error: {i:x} of {i}\n" for i in range(n // 18))),
    "errors in one line": (SHELL, lambda n: "{error " * (n // 7)),
    "errors in a string": (MCP, lambda n: '{"a":"' + "error x\\n" * (n // 9) + '"}'),
    "other failed tests": (
        SHELL,
        lambda n: "".join(f"FAILED t.py::test_{i * i:o}x\n" for i in range(n // 24)),
    ),
}
LIMITED = """
import resource, sys
from tests_bounds import HOSTILE, shorten
resource.setrlimit(resource.RLIMIT_AS, (3_000_000_000, 3_000_000_000))
for name, (call, text) in HOSTILE.items():
    shorten(text(int(sys.argv[1])), call)
# Unlike ru_maxrss, this does not begin with what the parent process had.
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def shorten(
    text: str, call: Call, is_late: time_budget.IsLate = time_budget.never, mode: Mode = Mode.AGGRESSIVE
) -> Shortened:
    tool, arguments = call
    policy = Policy(mode=mode, lossy=True)
    return pipeline.shorten(
        ToolOutput(text, tool, arguments), policy, Redacted, lambda _: "shadow_x", is_late
    )


def test_memory_grows_with_the_text_and_not_faster() -> None:
    code = LIMITED.replace(
        "from tests_bounds", f"sys.path.insert(0, {__file__.rpartition('/')[0]!r})\nfrom test_result_bounds"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "100000"],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    # In KB: an interpreter with all rules has 80 MB, and no text took more than 200 bytes for each of its own.
    assert int(ran.stdout) < 200_000


def work(text: str, call: Call) -> int:
    """Lines of our code that run for a text."""
    count = 0

    def local(frame: FrameType, event: str, value: Any) -> Any:
        nonlocal count
        count += event == "line"
        return local

    def outer(frame: FrameType, event: str, value: Any) -> Any:
        return local if "penumbra" in frame.f_code.co_filename else None

    sys.settrace(outer)
    try:
        shorten(text, call)
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("name", HOSTILE)
def test_work_grows_with_the_text_and_not_faster(name: str) -> None:
    call, text = HOSTILE[name]
    few, many = (work(text(length), call) for length in (4_000, 16_000))
    assert many <= 5 * few + 20_000


def test_a_text_of_too_many_lines_is_not_looked_at_line_by_line() -> None:
    text = "\n" * (stage.MOST_LINES // 2) + "error: here\n" + "\n" * stage.MOST_LINES
    found = shorten(text, SHELL, mode=Mode.STANDARD)
    assert found.stages == ("excerpt",)
    assert {"fold_repeated", "command_family", "whitespace"} <= set(found.skipped)
    assert "error: here" in found.text


@pytest.mark.parametrize(
    ("name", "stopped"),
    [
        ("nothing but errors", "excerpt"),
        ("cells in a row", "web_page"),
        ("newlines", "fold_repeated"),
        ("like rows", "json_table"),
    ],
)
def test_a_stage_that_overruns_gives_up(name: str, stopped: str) -> None:
    texts = {
        "newlines": (SHELL, "same\n" * 90_000),
        "like rows": (MCP, "[" + ",".join(['{"a":1,"b":2}'] * 20_000) + "]"),
    }
    call, text = texts[name] if name in texts else (HOSTILE[name][0], HOSTILE[name][1](150_000))
    running: list[str] = []
    asked = {"outside": 0}

    def is_late() -> bool:
        caller = sys._getframe(1).f_code.co_name
        if caller == "check":
            running.append("in a stage")
            return True
        asked["outside"] += 1
        return False

    found = shorten(text, call, is_late, Mode.STANDARD)
    assert running
    assert stopped in found.skipped
    assert stopped not in found.stages
