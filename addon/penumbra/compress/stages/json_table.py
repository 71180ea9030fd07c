"""This stage writes JSON arrays of objects as tables, so that each key is written once.

    {"total":30,"items":"[table 1]"}
    [table 1: 30 objects; the same in all: "type":"user"; columns "id","name","address.city"]
    1 <tab> alpha <tab> Oslo
    2 <tab> "12" <tab> Bergen

Only the order of keys is lost. Numbers keep their spelling. A cell is a JSON value. A string has no quotes
if it can't be mistaken for another value. An empty cell means that the object lacks the key. Objects within
objects become columns with dotted names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from penumbra.compress import time_budget
from penumbra.compress.stages import json_minify
from penumbra.compress.stages.json_minify import quoted

_LEAST_ROWS = 3
_MOST_COLUMNS = 60
_MOST_OBJECTS = 200_000
"""The greatest number of objects."""
_SPARSEST = 8
"""No table is made if fewer cells than one in this number have a value."""
_MOST_INNER = 12
_DEPTH = 4
_PAGE = 1_000
"""Lines of JSON that have at least this number of characters on average are pages of a response, not rows."""
_SHARED_PREFIX = 20
"""A common beginning of a column is written once if it has at least this number of characters."""
_PLAIN = re.compile(
    r"(?!(?:true|false|null|-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\Z)"  # values of other types
    r"[^ \"\[\]{}\x00-\x1f][^\"\x00-\x1f]*(?<! )"
)
Row = dict[str, str]
"""The values of one object as JSON text, by key."""


def to_tables(text: str) -> str | None:
    """Return JSON or JSON Lines with tables in place of arrays of objects; None if there are no tables."""
    if not json_minify.may_be_json(text) or text.count("{") > _MOST_OBJECTS:
        return None
    try:
        return _tables(json_minify.minify(text) or text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _tables(text: str) -> str | None:
    body = text.strip(" \t\r\n")
    lines = body.split("\n")
    are_pages = 1 < len(lines) <= len(body) // _PAGE and all(line[:1] in ("{", "[") for line in lines)
    if are_pages and (pages := _with_tables(lines)):
        return pages
    if len(lines) >= _LEAST_ROWS and all(line[:1] == "{" and line.rstrip()[-1:] == "}" for line in lines):
        every = f"[{','.join(lines)}]"
        rows = _rows(every) if json_minify.items(every) == lines else None
        if rows is not None:
            table = _write(rows, "{} lines of JSON")
            return "\n".join(table) if table else None
    return _with_tables([body])


def _with_tables(values: Sequence[str]) -> str | None:
    """Return each value on a line, with all tables below; None if there are no tables."""
    writer = _Writer()
    shells = [writer.value(value, 0) for value in values]
    is_alone = all(shell == f'"[table {number}]"' for number, shell in enumerate(shells, 1))
    return "\n".join(writer.tables if is_alone else [*shells, *writer.tables]) if writer.tables else None


@dataclass(slots=True)
class _Writer:
    """A `_Writer` replaces arrays of objects by names of tables, and collects the tables."""

    tables: list[str] = field(default_factory=list)

    def value(self, source: str, depth: int) -> str:
        """Return the JSON value with the names of tables in place of arrays of objects."""
        if depth > _DEPTH or len(source) < 80:
            return source
        if source[0] == "[":
            return self._array(source)
        if source[0] == "{":
            rows = _rows(f"[{source}]")
            if rows is not None:
                inner = (f"{quoted(key)}:{self.value(value, depth + 1)}" for key, value in rows[0].items())
                return "{" + ",".join(inner) + "}"
        return source

    def _array(self, source: str) -> str:
        rows = _rows(source)
        if rows is None or len(rows) < _LEAST_ROWS:
            return source
        name = f"table {len(self.tables) + 1}"
        table = _write(rows, name + ": {} objects")
        if table is None:
            return source
        self.tables.append("\n".join(table))
        return f'"[{name}]"'


def _rows(array: str) -> list[Row] | None:
    """Return the members of each compact object in an array; None if an item has another form, or if a key is
    repeated or escaped."""
    rows: list[Row] = []
    lengths: dict[str, int] = {}
    for number, (size, values) in enumerate(json_minify.objects(array), 1):
        if not number % time_budget.PIECE:
            time_budget.check()
        lengths |= {key: len(msgspec.json.encode(key)) + 1 for key in values if key not in lengths}
        size -= sum(map(lengths.__getitem__, values)) + sum(map(len, values.values()))
        if size != 1 + max(1, len(values)):
            return None
        rows.append({key: str(value, "utf-8", "surrogatepass") for key, value in values.items()})
    return rows or None


def _write(rows: Sequence[Row], title: str) -> list[str] | None:
    """Return the header and the rows of a table; None if the objects are too different."""
    columns = _columns(rows, "")
    if columns is None:
        return None
    cells = sum(len(values) - values.count(None) for values in columns.values())
    if not 0 < len(columns) <= _MOST_COLUMNS or 2 * cells < len(rows) * len(columns):
        return None
    same = {name: values[0] for name, values in columns.items() if values[0] and set(values) == {values[0]}}
    shown = {name: values for name, values in columns.items() if name not in same}
    header = title.format(len(rows))
    if same:
        header += "; the same in all: " + ",".join(f"{quoted(name)}:{value}" for name, value in same.items())
    written: list[list[str]] = []
    is_plain = _PLAIN.fullmatch
    for name, values in shown.items():
        prefix = _shared_prefix(values)
        if prefix:
            header += f"; {quoted(name)} begins {quoted(prefix)}"
        texts = [value[1 + len(prefix) : -1] if value and value[0] == '"' else None for value in values]
        written.append(
            [
                value or "" if text is None else text if "\\" not in text and is_plain(text) else f'"{text}"'
                for value, text in zip(values, texts, strict=True)
            ]
        )
    header += "; columns " * bool(shown) + ",".join(map(quoted, shown))
    return [f"[{header}]", *map("\t".join, zip(*written, strict=True))]


def _columns(rows: Sequence[Row], prefix: str) -> dict[str, list[str | None]] | None:
    """Return, for each key, its value in every row. A row without the key has None. Keys of inner objects are
    dotted. Return None if there are too many keys or too many empty cells."""
    keys: dict[str, None] = {}
    for row in rows:
        keys.update(dict.fromkeys(row))
        if len(keys) > _MOST_COLUMNS:
            return None
    if len(rows) * len(keys) > _SPARSEST * sum(map(len, rows)):
        return None
    columns: dict[str, list[str | None]] = {}
    for key in keys:
        if len(rows) > time_budget.PIECE:
            time_budget.check()
        values = [row.get(key) for row in rows]
        is_open = "." not in key and prefix.count(".") < _DEPTH
        # A dotted name must not equal the key of another column.
        is_open = is_open and not any(other.startswith(f"{key}.") for other in keys)
        inner = _inner(values) if is_open else None
        if inner is None:
            columns[prefix + key] = values
            continue
        inner_columns = _columns(inner, f"{prefix}{key}.")
        if inner_columns is None or len(columns) + len(inner_columns) > _MOST_COLUMNS:
            return None
        columns |= inner_columns
    return columns


def _inner(values: Sequence[str | None]) -> list[Row] | None:
    """Return the objects of a column; None if there are other values, or the keys differ too much."""
    if {value and value[0] for value in values} != {"{"} or "{}" in values:
        return None
    objects = _rows(f"[{','.join(filter(None, values))}]")
    if objects is None or "." in "".join(chain.from_iterable(objects)):
        return None
    keys: set[str] = set()
    for row in objects:
        keys.update(row)
        if len(keys) > _MOST_INNER:
            return None
    return objects if 2 * sum(map(len, objects)) >= len(keys) * len(objects) else None


def _shared_prefix(values: Sequence[str | None]) -> str:
    """Return the common beginning of a column; empty if the beginning is short or a value is no string."""
    strings = [value for value in values if value is not None]
    if len(strings) < len(values) or {value[0] for value in strings} - {'"'} or "\\" in "".join(strings):
        return ""
    low, high = min(strings)[1:-1], max(strings)[1:-1]
    length = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), 0)
    cut = max([low.rfind(mark, 0, length) for mark in "/.-_:? ="]) + 1
    return low[:cut] if cut >= _SHARED_PREFIX else ""
