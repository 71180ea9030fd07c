"""Whether a file holds what programs have printed (rules/logs.yaml)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import re2

from penumbra import rules
from penumbra.compress.size import encode
from penumbra.rule_schemas.shell_rules import LogRules
from penumbra.short_texts import remembered

_LOOKED_AT = 240
"""Lines of a text that are looked at, spread over it."""


@dataclass(frozen=True, slots=True)
class _Rules:
    names: Sequence[str]
    data: Sequence[str]
    """Those of logs, too."""
    installed: Sequence[str]
    unclear: frozenset[str]
    line: Any
    beginning: int
    share: float


@rules.cached
def _rules() -> _Rules:
    read = rules.load_as("logs.yaml", LogRules)
    pattern = "|".join(f"(?:{line})" for line in read.lines)
    return _Rules(
        read.names,
        (*read.names, *read.data),
        read.installed,
        frozenset(read.unclear),
        re2.compile(pattern.encode()),
        read.beginning,
        read.share,
    )


def is_log(path: str, text: str) -> bool:
    """Whether the file of this path (empty if there is none), or text, is a log."""
    table = _rules()
    path = path.replace("\\", "/").lower()
    name = path.rsplit("/", 1)[-1]
    if any(fnmatchcase(path if "/" in glob else name, glob) for glob in table.names):
        return True
    if name.partition(".")[2].rpartition(".")[2] not in table.unclear:
        return False
    lines = [line for line in _spread(text) if line.strip()]
    of_logs = sum(table.line.search(encode(line[: table.beginning])) is not None for line in lines)
    return bool(lines) and of_logs >= table.share * len(lines)


@rules.until_changed
@remembered(1_024)
def is_data(path: str) -> bool:
    """Whether the file of this path is no text that people write: a log, a dump, what is built or locked."""
    return _is_one(path, _rules().data)


@rules.until_changed
@remembered(1_024)
def is_unedited(path: str) -> bool:
    """Whether nobody edits the file of this path: data, and code that is installed."""
    return is_data(path) or _is_one(path, _rules().installed)


def _is_one(path: str, globs: Sequence[str]) -> bool:
    path = path.replace("\\", "/").lower()
    name = path.rsplit("/", 1)[-1]
    return bool(path) and any(fnmatchcase(f"/{path}" if "/" in glob else name, glob) for glob in globs)


_PIECES = 12
_PIECE = 2_400
_LINE = re.compile(r"[^\n]+")


def _spread(text: str) -> list[str]:
    """Lines from several places of a text."""
    if len(text) <= _PIECES * _PIECE:
        return _LINE.findall(text)[:_LOOKED_AT]
    step = len(text) // _PIECES
    pieces = (text[at : at + _PIECE] for at in range(0, step * _PIECES, step))
    # The first and the last line of a piece are cut.
    return [line for piece in pieces for line in _LINE.findall(piece)[1:-1][: _LOOKED_AT // _PIECES]]
