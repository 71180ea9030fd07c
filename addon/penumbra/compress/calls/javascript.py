"""Command lines in JavaScript, for agents whose model writes code that calls tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from penumbra import rules
from penumbra.compress.calls.tools import tool_rules

_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}


@rules.cached
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns for a call that runs a command line, and for the member before that line."""
    code = tool_rules().code
    calls, members = ("|".join(map(re.escape, names)) for names in (code.calls, code.members))
    return (
        re.compile(rf"\b(?:{calls})\s*\("),
        re.compile(rf"[\"']?\b(?:{members})[\"']?\s*:\s*(?=[\"'`])"),
    )


def command_lines(source: str) -> list[str]:
    """The command lines in code that calls `tools.exec_command({cmd: "..."})`; empty for other code."""
    call, member = _patterns()
    if f"{tool_rules().code.object}." not in source or not call.search(source):
        return []
    return list(_string_values(source, member.finditer(source)))


def _string_values(source: str, members: Iterable[re.Match[str]]) -> Iterator[str]:
    end = 0
    for member in members:
        if member.start() < end:
            continue
        literal = _STRING.match(source, member.end())
        if literal:
            end = literal.end()
            yield _unescaped(next(group for group in literal.groups() if group is not None))


def _unescaped(literal: str) -> str:
    return _ESCAPE.sub(lambda escape: _CONTROLS.get(escape.group(1), escape.group(1)), literal)
