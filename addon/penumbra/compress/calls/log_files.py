"""This module recognises logs and other files that programs write (rules/logs.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate

from penumbra import rules
from penumbra.linear import Linear, lines_with, utf8
from penumbra.rule_schemas.shell_rules import LogRules
from penumbra.short_texts import remembered

_LOOKED_AT = 240
"""The greatest number of lines that are examined in a text."""


@dataclass(frozen=True, slots=True)
class _Globs:
    """A `_Globs` has two patterns: one for the names of files, one for their paths."""

    names: re.Pattern[str]
    paths: re.Pattern[str]

    @classmethod
    def of(cls, globs: Iterable[str]) -> _Globs:
        """Return the globs of a rule. A glob with a slash is for paths."""
        names: list[str] = []
        paths: list[str] = []
        for glob in globs:
            (paths if "/" in glob else names).append(translate(glob))
        return cls(*(re.compile("|".join(those) or r"(?!)") for those in (names, paths)))

    def has(self, path: str, name: str) -> bool:
        """Return whether a glob matches this path or this name."""
        return self.names.match(name) is not None or self.paths.match(path) is not None


@dataclass(frozen=True, slots=True)
class _Rules:
    names: _Globs
    data: _Globs
    """The globs for data files, including logs."""
    installed: _Globs
    unclear: frozenset[str]
    line: Linear
    anywhere: Linear
    """The pattern `line` for a text of several lines. This pattern may also match where `line` does not."""
    beginning: int
    share: float


@rules.cached
def _rules() -> _Rules:
    read = rules.load_as("logs.yaml", LogRules)
    pattern = "|".join(f"(?:{line})" for line in read.lines)
    return _Rules(
        _Globs.of(read.names),
        _Globs.of((*read.names, *read.data)),
        _Globs.of(read.installed),
        frozenset(read.unclear),
        Linear(pattern.encode()),
        Linear(f"(?m){pattern}".encode()),
        read.beginning,
        read.share,
    )


def is_log(path: str, text: str) -> bool:
    """True if a path or a text's lines show that the text is a log. The path is empty if the text is no
    file."""
    table = _rules()
    path = path.replace("\\", "/").lower()
    name = path.rsplit("/", 1)[-1]
    if table.names.has(path, name):
        return True
    if name.partition(".")[2].rpartition(".")[2] not in table.unclear:
        return False
    lines = [line for line in _spread(text) if line.strip()]
    wanted = table.share * len(lines)
    of_logs = 0
    beginnings = [line[: table.beginning] for line in lines]
    for index in lines_with(table.anywhere, utf8("\n".join(beginnings))):
        # A pattern's blank may have matched a line break, so the line is searched again.
        of_logs += table.line.search(utf8(beginnings[index])) is not None
        if of_logs >= wanted:
            return True
    return False


@rules.until_changed
@remembered(1_024)
def is_data(path: str) -> bool:
    """True if programs write files with this path: logs, dumps, build products, lock files."""
    return _is_one(path, _rules().data)


@rules.until_changed
@remembered(1_024)
def is_unedited(path: str) -> bool:
    """True if nobody edits files with this path: data or installed code."""
    return is_data(path) or _is_one(path, _rules().installed)


def _is_one(path: str, globs: _Globs) -> bool:
    path = path.replace("\\", "/").lower()
    return bool(path) and globs.has(f"/{path}", path.rsplit("/", 1)[-1])


_PIECES = 12
_PIECE = 2_400
_LINE = re.compile(r"[^\n]+")


def _spread(text: str) -> list[str]:
    """Return lines from several places in a text."""
    if len(text) <= _PIECES * _PIECE:
        return _LINE.findall(text)[:_LOOKED_AT]
    step = len(text) // _PIECES
    pieces = (text[at : at + _PIECE] for at in range(0, step * _PIECES, step))
    # A piece may begin or end within a line, so its first and last line are left out.
    return [line for piece in pieces for line in _LINE.findall(piece)[1:-1][: _LOOKED_AT // _PIECES]]
