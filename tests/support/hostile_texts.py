"""Texts that may take more memory or work than their size suggests."""

from collections.abc import Callable

from penumbra.compress import pipeline, time_budget
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


def shorten(
    text: str, call: Call, is_late: time_budget.IsLate = None, mode: Mode = Mode.AGGRESSIVE
) -> Shortened:
    tool, arguments = call
    policy = Policy(mode=mode, lossy=True)
    return pipeline.shorten(
        ToolOutput(text, tool, arguments), policy, Redacted, lambda _: "shadow_x", is_late
    )
