"""This module finds secrets in tables that have a column with a name such as `password`.

Such a table is CSV, the output of a database, Markdown, or an aligned list. The head of the table is a line
of names. Later lines with the same number of cells are rows. A few other lines, such as comments, do not end
the table.

In SQL, the columns are named before `VALUES`, in an earlier `CREATE TABLE`, or in `COPY … FROM stdin`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence

from penumbra.compress import time_budget
from penumbra.redaction.finders.value_reading import Pair, Value, judged, patterns
from penumbra.redaction.names import NAMES, Name, Strength
from penumbra.redaction.placeholder import PATTERN_BYTES
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Finder
from penumbra.redaction.values import Style

_LONGEST_EXPRESSION = 2000
_DEEPEST_EXPRESSION = 16
_NO_COLUMN = frozenset(b"primary unique key constraint index foreign check fulltext".split())
_LONGEST_SQL_ROW = 4000
"""After an unreadable cell, this number of bytes is searched for the next row."""
_MOST_COLUMNS = 200
_MOST_TABLES = 1000
Columns = dict[int, Name]


def _sql_rows(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    done = 0
    tables: dict[bytes, Columns] = {}
    for place in places:
        if place < done:
            continue
        if (create := _FORMS["create"].match(data, place)) is not None and len(tables) < _MOST_TABLES:
            tables[create[1].lower()] = _telling(_defined(data, create.end()))
        elif (insert := _FORMS["insert"].match(data, place)) is not None:
            columns = (
                _telling(_FORMS["word"].findall(insert[2]))
                if insert[2]
                else tables.get(insert[1].lower(), {})
            )
            done = yield from _tuples(data, insert.end(), columns)
        elif (copy := _FORMS["copy"].match(data, place)) is not None:
            names = _FORMS["word"].findall(copy[2])
            done = yield from _copied(data, copy.end(), _telling(names), len(names))


def _telling(names: Sequence[bytes]) -> Columns:
    """Return the columns that have the name of a secret."""
    judged = ((at, NAMES.judge(name.decode("latin-1"))) for at, name in enumerate(names[:_MOST_COLUMNS]))
    return {at: name for at, name in judged if name.strength > Strength.WEAK}


def _defined(data: bytes, at: int) -> list[bytes]:
    """Return the names of the columns in a table's definition."""
    names: list[bytes] = []
    while len(names) < _MOST_COLUMNS and (column := _FORMS["defined"].match(data, at)):
        if column[1].lower() not in _NO_COLUMN:
            names.append(column[1])
        end = _ending(data, column.end())
        if data[end : end + 1] != b",":
            break
        at = end + 1
    return names


def _ending(data: bytes, at: int) -> int:
    """Return the offset of the comma or bracket that ends a cell or a definition; `at` if there is none."""
    if data[at : at + 1] in (b",", b")"):
        return at
    depth = 0
    for mark in _FORMS["mark"].finditer(data, at, at + _LONGEST_EXPRESSION):
        if mark[0] == b";" or depth > _DEEPEST_EXPRESSION:
            break
        if not depth and mark[0] in (b",", b")"):
            return mark.start()
        depth += (mark[0] == b"(") - (mark[0] == b")")
    return at


def _tuples(data: bytes, at: int, columns: Columns) -> Generator[Pair, None, int]:
    """Yield the values in the rows of SQL that begin at `at`, and return the end of the rows."""
    while columns and (row := _FORMS["row"].match(data, at)):
        at, number = row.end(), 0
        while cell := _FORMS["sql_value"].match(data, at):
            group = cell.lastindex
            if number in columns and group and cell[group]:
                yield _pair(*cell.span(group), columns[number])
            at, number = _ending(data, cell.end()), number + 1
            if data[at : at + 1] != b"," or number > _MOST_COLUMNS:
                break
            at += 1
        if data[at : at + 1] != b")":
            following = _FORMS["next_row"].search(data, at, at + _LONGEST_SQL_ROW)
            if following is None:
                break
            at = following.start()
        at += 1
        if data[at : at + 1] == b",":
            at += 1
    return at


def _copied(data: bytes, at: int, columns: Columns, width: int) -> Generator[Pair, None, int]:
    """Yield the values in rows with tabs between their cells, and return the end of the rows. A row may have
    one more cell at its beginning, such as a line number."""
    while columns and (row := _FORMS["copy_row"].match(data, at)):
        at = row.end()
        tabs = [tab.span() for tab in _FORMS["copy_cell"].finditer(data, *row.span(1))][:_MOST_COLUMNS]
        starts = [row.start(1), *(end for _, end in tabs)]
        ends = [*(start for start, _ in tabs), row.end()]
        extra = len(starts) - width
        if extra in (0, 1):
            for number, name in columns.items():
                yield _pair(starts[number + extra], ends[number + extra], name)
    return at


def _pair(start: int, end: int, name: Name, style: Style = Style.QUOTED) -> Pair:
    return Pair(Value(start, end, style), (name,), "column")


_FORMS = patterns("columns")
_STATEMENTS = b"insert into|insert [|insert ignore into|replace into|create table|create temp|copy "
SQL_ROWS = Finder("sql-rows", tuple(_STATEMENTS.split(b"|")), judged(_sql_rows))
_WORDS = (
    "password passwd passwort kennwort wachtwoord contrasena senha passcode passphrase"
    " pwd _pass secret secrets token key credential credentials"
    " _psk wifipsk _pw smtppass"
    " password_md5 password_sha1 password_sha256 passwd_md5"
    " password_hash passwordhash passwd_hash pass_hash pwd_hash pw_hash password_digest _salt"
)
_QUOTED_ENDS = (f'"{end}' for end in ",;|\t\n\r")
_ENDS = (*",;|\t\n\r\\", " |", " \u2502", " \u2503", " \n", " \r", " \\", "  ", " [redacted:", *_QUOTED_ENDS)
_ANCHORS = (
    *(f"{word}{end}".encode() for word in _WORDS.split() for end in _ENDS),
    *(f"value{end}".encode() for end in ("\n", "\r", "  ", " |", " \u2502", "|", "\t", "\\")),
)
"""Each anchor is a word with a text that may end its cell. Words alone occur in too many lines."""
_BREAK = late(rb"{BREAK}")
_BEGINS = (
    *(b"\\n", b"<pre>", b"<code>", b"'"),
    *(colon + (2**depth - 1) * b"\\" + b'"' for colon in (b":", b": ") for depth in range(4)),
)
"""Strings after which the text of a line may begin."""
_BEGIN_SIGNS = (b"\\", b'"', b">", b"'")
_BAR = rb"(?:\||\xe2\x94[\x82\x83]|\\{1,31}u250[23])"
_HEAD = late(rb"(?:[A-Za-z0-9_ .,;\t\"\\-]|" + _BAR + rb"|" + PATTERN_BYTES.pattern + rb"){3,1000}")
_RUN = late(_HEAD.pattern.replace(b"{3,", b"{0,"))
_PLAIN_HEAD = late(rb"[A-Za-z0-9_ .,;\t\"\\|-]{3,1000}")
_PLAIN_RUN = late(_PLAIN_HEAD.pattern.replace(b"{3,", b"{0,"))
"""This pattern matches the end of a head in ASCII. The pattern is much faster than `_RUN`."""
_OTHER_BEGINS = b"\xe2["
"""The first bytes of a bar and of a placeholder."""
_OTHER_SIGNS = (b"\xe2\x94", b"u250", b"[REDACTED:")
_COMMA = late(rb",")
_DELIMITERS = (re.compile(_BAR), _COMMA, re.compile(rb"\t|\\{1,31}t"), re.compile(rb";"), _FORMS["blanks"])
_NAMING = frozenset(b"name key variable setting parameter property option".split())
"""The heads of a column of names, such as `key`. In each row, the name is that of the cell in the column
`value`."""
_LONGEST_HEAD = 1000
_LONGEST_ROW = 8192
_MOST_CELLS = 64
_MOST_ODD_LINES = 3


def _columns(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    done = 0
    for place in places:
        if place < done or not _may_be_head(data, place):
            continue
        start, end = _line(data, place)
        done = end
        if not _may_be_cells(data, start, end):
            continue
        for delimiter in _DELIMITERS:
            if delimiter.search(data, start, end) is None:
                continue  # The line has only one cell.
            cells = _cells(data, start, end, delimiter)
            named = cells and _named_columns(data, cells, delimiter, data[start : start + 1] in (b" ", b"\t"))
            if named:
                done = yield from _rows(data, end, delimiter, cells, named)
                break


def _may_be_head(data: bytes, at: int) -> bool:
    """Return whether the characters from `at` to the end of the line may be the end of a head."""
    run = _PLAIN_RUN.match(data, at)
    end = run.end() if run else at
    if end < len(data) and data[end] in _OTHER_BEGINS:
        run = _RUN.match(data, at)
        end = run.end() if run else at
    return end == len(data) or end - at >= _LONGEST_HEAD or data[end] in b"\r\n" or b"\\" in data[at:end]


def _may_be_cells(data: bytes, start: int, end: int) -> bool:
    """Return whether a line has only characters that a head may have."""
    if _PLAIN_HEAD.fullmatch(data, start, end):
        return True
    has_other = any(data.find(sign, start, end) >= 0 for sign in _OTHER_SIGNS)
    return has_other and _HEAD.fullmatch(data, start, end) is not None


def _line(data: bytes, at: int) -> tuple[int, int]:
    """Return the range of the line around `at`, without a prefix such as a line number."""
    low = max(0, at - _LONGEST_HEAD)
    start = max(low, data.rfind(b"\n", low, at) + 1)
    # Each of `_BEGINS` contains one of these characters.
    if any(data.find(sign, start, at) >= 0 for sign in _BEGIN_SIGNS):
        found = [(data.rfind(begin, start, at), len(begin)) for begin in _BEGINS]
        start = max((first + length for first, length in found if first >= 0), default=start)
    ending = _BREAK.search(data, at, at + _LONGEST_HEAD + 1)
    for pattern in (_FORMS["prefix"], _FORMS["prompt"]):
        prefix = pattern.match(data, start, at)
        start = prefix.end() if prefix else start
    return start, ending.start() if ending else min(len(data), at + _LONGEST_HEAD + 1)


def _named_columns(
    data: bytes, cells: Sequence[tuple[int, int]], delimiter: re.Pattern[bytes], is_indented: bool
) -> dict[int, Name | int]:
    """Return the number and name of each column with secrets; empty if the line is no head. In a table with
    the columns `key` and `value`, the number of the column `key` replaces the name."""
    texts = [data[first:last].strip(b' "\\').lower() for first, last in cells]
    columns: dict[int, Name | int] = dict(_names_of_head(data, cells))
    if delimiter is _COMMA and is_indented and not texts[-1].strip():
        columns = {}  # The line is part of a list in source code. The list continues in the next line.
    naming = [number for number, text in enumerate(texts) if text in _NAMING]
    if not columns and len(naming) == 1 and texts.count(b"value") == 1:
        columns = {texts.index(b"value"): naming[0]}
    return columns


def _names_of_head(data: bytes, cells: Sequence[tuple[int, int]]) -> dict[int, Name]:
    """Return the names of secrets in a head, by column. The result is empty if the line has only one name, or
    has a cell that is no name. The first and last cell may be empty. A placeholder counts as a letter."""
    names: dict[int, Name] = {}
    for number, (first, last) in enumerate(cells):
        cell = PATTERN_BYTES.sub(b"x", data[first:last])
        match = _FORMS["name"].fullmatch(cell)
        if match is not None:
            names[number] = NAMES.judge(match[1].decode("ascii"))
        elif cell.strip() or 0 < number < len(cells) - 1:
            return {}
    telling = {number: name for number, name in names.items() if name.strength > Strength.WEAK}
    return telling if len(names) > 1 else {}


def _rows(
    data: bytes,
    at: int,
    delimiter: re.Pattern[bytes],
    head: Sequence[tuple[int, int]],
    columns: dict[int, Name | int],
) -> Generator[Pair, None, int]:
    """Yield the values below a head that ends at `at`, and return the end of the table."""
    ended = [at]
    first = data[slice(*head[0])].strip()
    for cells in _below(data, delimiter, len(head), ended):
        for number, name in columns.items():
            if isinstance(name, int):
                named = _FORMS["name"].fullmatch(data, *cells[name])
                name = NAMES.judge(named[1].decode("ascii") if named else "")
            elif first and data[slice(*cells[0])].strip() == first:
                return ended[0]  # Row and head begin with the same cell, so both are statements in a program.
            yield from _cell(data, cells[number], name)
    return ended[0]


def _below(
    data: bytes, delimiter: re.Pattern[bytes], width: int, ended: list[int]
) -> Iterator[list[tuple[int, int]]]:
    """Yield the cells of each row below a head. `ended[0]` is the end of the head, and later the end of the
    row."""
    at, odd = ended[0], 0
    while odd <= _MOST_ODD_LINES and (match := _BREAK.match(data, at)):
        time_budget.check()
        start = match.end()
        following = _BREAK.search(data, start, start + _LONGEST_ROW)
        at = following.start() if following else min(len(data), start + _LONGEST_ROW)
        prefix = _FORMS["prefix"].match(data, start, at)
        start = prefix.end() if prefix else start
        if _FORMS["rule"].fullmatch(data, start, at):
            continue
        closed = _FORMS["string_end"].search(data, start, at)
        at = closed.start() if closed else at
        cells = _cells(data, start, at, delimiter)
        if len(cells) != width:
            odd += 1
            continue
        ended[0], odd = at, 0
        yield cells


def _cell(data: bytes, cell: tuple[int, int], name: Name) -> Iterator[Pair]:
    value = _FORMS["cell"].fullmatch(data, *cell)
    if value is None:
        return
    text = value[1]
    if text.rstrip(b":,;{")[-1:] == b")" and b"(" not in text:
        return  # The cell is the end of a function call.
    # A cell of letters may be a word about the password, such as `required`.
    letters = text.decode("utf-8", "replace").isalpha()
    style = Style.CONFIG if letters or name.strength is Strength.STRONG else Style.QUOTED
    yield _pair(*value.span(1), name, style)


def _cells(data: bytes, start: int, end: int, delimiter: re.Pattern[bytes]) -> list[tuple[int, int]]:
    """Return the ranges of the cells in a line; empty if there are too many."""
    cells: list[tuple[int, int]] = []
    if delimiter is _FORMS["blanks"]:
        end = start + len(data[start:end].rstrip(b" "))
    # If the number of quotes is odd, the line is inside a JSON string, and the quotes are ignored.
    balanced = delimiter.pattern in (b",", b";") and data.count(b'"', start, end) % 2 == 0
    quotes, counted = 0, start
    for match in delimiter.finditer(data, start, end):
        if balanced:
            quotes += data.count(b'"', counted, match.start())
            counted = match.end()
            if quotes % 2:
                continue
        cells.append((start, match.start()))
        start = match.end()
        if len(cells) > _MOST_CELLS:
            return []
    return [*cells, (start, end)]


COLUMNS = Finder("columns", _ANCHORS, judged(_columns))
