"""Lists of like mappings in YAML as tables: each key written once.

    conditions:                      conditions:
    - probed: null                   [list of 3 mappings; the same in all: probed: null; keys status, type]
      status: "True"          ->     "True" <tab> Ready
      type: Ready                    "True" <tab> Initialized
    ...                              "False" <tab> PodScheduled

Nothing is lost but the order of the keys within a mapping: values keep their spelling, and an empty
cell is a key that is not there. A mapping that holds more than plain values ends a table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penumbra.compress import time_budget

_LEAST = 3
"""Mappings below which a list stays a list."""
_MOST_KEYS = 24
_LONGEST = 400
"""Characters of a line above which it is no plain value."""
_FIRST = re.compile(r"( *)- ( *)([\w./$@-]{1,80}): (.*)")
_START = re.compile(r"\n *- +[\w./$@-]{1,80}: ")
_FURTHER = re.compile(r"( +)([\w./$@-]{1,80}): (.*)")
_PLAIN = re.compile(r"(?:[^\t\n|>&*!%@`\s\"'{\[#][^\t\n#]*|\"[^\"\t\n]*\"|'[^'\t\n]*'|\{\}|\[\])")
"""A value on one line: no block, no anchor, no tag, no comment after it."""

Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class _Item:
    """One mapping of a list."""

    indent: str
    row: Row
    end: int
    """After its last line."""


def to_tables(text: str) -> str | None:
    """The text with its lists of like mappings as tables; None if it has none."""
    if "- " not in text or len(_START.findall("\n" + text)) < _LEAST:
        return None
    lines = text.split("\n")
    written: list[str] = []
    position = 0
    changed = False
    while position < len(lines):
        if not (position + 1) % time_budget.PIECE:
            time_budget.check()
        items = _items(lines, position) if "- " in lines[position][:_LONGEST] else []
        table = _table(items) if len(items) >= _LEAST else None
        if table is not None:
            written += table
            changed = True
        else:
            written += lines[position : items[-1].end if items else position + 1]
        position = items[-1].end if items else position + 1
    return "\n".join(written) if changed else None


def _items(lines: list[str], start: int) -> list[_Item]:
    """The mappings of the list that begins at a line, as long as they are plain."""
    items: list[_Item] = []
    position = start
    while (item := _item(lines, position)) is not None and (not items or item.indent == items[0].indent):
        items.append(item)
        position = item.end
    return items


def _item(lines: list[str], position: int) -> _Item | None:
    """The mapping that begins at a line; None if there is none, or it holds more than plain values."""
    match = _match(_FIRST, lines, position)
    if match is None or not _PLAIN.fullmatch(match[4]):
        return None
    column = len(match[1]) + 2 + len(match[2])
    row = {match[3]: match[4]}
    position += 1
    while (more := _match(_FURTHER, lines, position)) is not None and len(more[1]) == column:
        if more[2] in row or not _PLAIN.fullmatch(more[3]):
            return None
        row[more[2]] = more[3]
        position += 1
    # Lines with a deeper indent belong to the mapping: it is not plain.
    following = lines[position] if position < len(lines) else ""
    deeper = following.strip() and len(following) - len(following.lstrip(" ")) >= column
    return None if deeper else _Item(match[1], row, position)


def _match(pattern: re.Pattern[str], lines: list[str], position: int) -> re.Match[str] | None:
    if position >= len(lines) or len(lines[position]) > _LONGEST:
        return None
    return pattern.fullmatch(lines[position])


def _table(items: list[_Item]) -> list[str] | None:
    """Header and rows; None if the mappings have too little in common."""
    rows = [item.row for item in items]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if not 2 <= len(keys) <= _MOST_KEYS or 2 * sum(map(len, rows)) < len(rows) * len(keys):
        return None
    first = rows[0]
    same = {
        key: first[key]
        for key in keys
        if ", " not in first.get(key, ", ") and all(row.get(key) == first[key] for row in rows)
    }
    shown = [key for key in keys if key not in same]
    # An empty line would be no row.
    if not all(any(key in row for key in shown) for row in rows):
        return None
    said = f"; the same in all: {', '.join(f'{key}: {value}' for key, value in same.items())}" if same else ""
    indent = items[0].indent
    header = f"{indent}[list of {len(rows)} mappings{said}; keys {', '.join(shown)}]"
    return [header, *(indent + "\t".join(row.get(key, "") for key in shown) for row in rows)]
