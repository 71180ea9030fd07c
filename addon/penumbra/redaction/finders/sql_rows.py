"""Rows of SQL whose columns are named elsewhere: `INSERT INTO users (id, password) VALUES (1, '…')`, by the
table's own definition further up, and what `COPY … FROM stdin` is fed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penumbra.redaction import fronts
from penumbra.redaction.judgement import is_secret, is_unmistakable
from penumbra.redaction.late import late
from penumbra.redaction.names import Name, Names, Strength
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style

_LINE_END = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
_LEAD = rb"(?:" + fronts.WORDS + rb"|[+>-](?=[ (]))?"
_GAP = rb"(?:[ \t]|\\{1,31}[tr]|" + _LINE_END + _LEAD + rb"){0,40}+"
_QUOTE = rb"(?:\\{0,31}[\"`\[\]])?"
_TABLE = _QUOTE + rb"(?:[\w$]{1,64}" + _QUOTE + rb"\." + _QUOTE + rb"){0,2}([\w$]{1,64})" + _QUOTE
_COLUMNS = rb"\(([^()]{1,4000})\)"
_INSERT = late(
    rb"(?i)(?:insert|replace)[ ]{1,4}(?:ignore[ ])?(?:into[ ]{1,4}|(?=\[))"
    + _TABLE
    + rb"(?:"
    + _GAP
    + _COLUMNS
    + rb")?"
    rb"[^()';]{0,80}?values?" + _GAP
)
_COPY = late(
    rb"(?i)copy[ ]{1,4}" + _TABLE + rb"[ ]{0,4}" + _COLUMNS + rb"[ ]{1,4}from[ ]{1,4}stdin[^;\n]{0,80};"
)
_CREATE = late(
    rb"(?i)create[ ]{1,4}(?:temp(?:orary)?[ ])?table[ ]{1,4}(?:if[ ]not[ ]exists[ ])?"
    + _TABLE
    + rb"[ ]{0,4}\("
)
_DEFINED = late(_GAP + _QUOTE + rb"([A-Za-z_]\w{0,63})" + _QUOTE + rb"[ ]{1,8}[A-Za-z]")
_MARK = late(rb"[(),;]|'(?:[^'\\\n]|\\{1,31}+[^\n]){0,400}+'")
"""What ends a cell or the definition of a column, or hides what does."""
_LONGEST_EXPRESSION = 2000
_DEEPEST_EXPRESSION = 16
_NO_COLUMN = frozenset(b"primary unique key constraint index foreign check fulltext".split())
_CELL_END = rb"(?=(?:\s|\\{1,31}[nrt]){0,40}+[,)])"
_BARE = rb"'((?:[^'\\]|''|\\[\s\S]){0,8192}+)'" + _CELL_END
_BARE_IN_STRING = rb"'((?:[^'\\]|''|\\{1,31}+[\s\S]){0,8192}+)'" + _CELL_END
_ESCAPED = rb"\\{0,31}'((?:[^'\\\n]|''|\\{1,31}+[^'\n]){0,8192})\\{0,31}'"
_DOUBLE = rb"\\{0,31}\"([^\"\\\n]{0,8192})\\{0,31}\""
_OTHER = rb"[^(),'\"\n]{0,200}(?:\([^()'\n]{0,400}\))?"
_CELL = late(
    _GAP
    + rb"(?:(?:[NEX]|_[a-z0-9]{1,12} )?(?:"
    + b"|".join((_BARE, _BARE_IN_STRING, _ESCAPED))
    + rb")|"
    + b"|".join((_DOUBLE, _OTHER))
    + rb")"
    + _GAP
)
"""A text by how its first quote is written: what is behind a backslash does not end it if the quote is bare
(in a string, a backslash is several); else, a quote with backslashes does."""
_ROW = late(_GAP + rb"\(")
_NEXT_ROW = late(rb"\),(?=(?:\s|\\{1,31}[nrt]){0,8}+\()")
_LONGEST_ROW = 4000
"""Bytes in which the next row is looked for behind a cell that could not be read."""
_WORD = late(rb"[A-Za-z_][\w$]{0,63}")
_COPY_ROW = late(
    _LINE_END + rb"(?:[\w./-]{1,80}[:-][0-9]{1,7}[:-])?((?:[^\r\n\"\\]|\\{1,31}[^nr.\"\\]){1,8192}+)"
)
_COPY_CELL = late(rb"\t|\\{1,31}t")
_MOST_COLUMNS = 200
_MOST_TABLES = 1000
_NAMES = Names()
Columns = dict[int, Name]


def _rows(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    done = 0
    tables: dict[bytes, Columns] = {}
    for place in places:
        if place < done:
            continue
        if (create := _CREATE.match(data, place)) is not None and len(tables) < _MOST_TABLES:
            tables[create[1].lower()] = _telling(_defined(data, create.end()))
        elif (insert := _INSERT.match(data, place)) is not None:
            columns = _telling(_WORD.findall(insert[2])) if insert[2] else tables.get(insert[1].lower(), {})
            spans, done = _tuples(data, insert.end(), columns) if columns else ([], insert.end())
            yield from spans
        elif (copy := _COPY.match(data, place)) is not None:
            names = _WORD.findall(copy[2])
            columns = _telling(names)
            spans, done = _copied(data, copy.end(), columns, len(names)) if columns else ([], copy.end())
            yield from spans


def _telling(names: Sequence[bytes]) -> Columns:
    """Which of the columns hold secrets."""
    judged = ((at, _NAMES.judge(name.decode("latin-1"))) for at, name in enumerate(names[:_MOST_COLUMNS]))
    return {at: name for at, name in judged if name.strength > Strength.WEAK}


def _defined(data: bytes, at: int) -> list[bytes]:
    """The columns that a table's definition names."""
    names: list[bytes] = []
    while len(names) < _MOST_COLUMNS and (column := _DEFINED.match(data, at)):
        if column[1].lower() not in _NO_COLUMN:
            names.append(column[1])
        end = _ending(data, column.end())
        if data[end : end + 1] != b",":
            break
        at = end + 1
    return names


def _ending(data: bytes, at: int) -> int:
    """Where the comma or bracket stands that ends a cell or a definition; `at` if none does."""
    if data[at : at + 1] in (b",", b")"):
        return at
    depth = 0
    for mark in _MARK.finditer(data, at, at + _LONGEST_EXPRESSION):
        if mark[0] == b";" or depth > _DEEPEST_EXPRESSION:
            break
        if not depth and mark[0] in (b",", b")"):
            return mark.start()
        depth += (mark[0] == b"(") - (mark[0] == b")")
    return at


def _tuples(data: bytes, at: int, columns: Columns) -> tuple[list[Span], int]:
    """The secrets in the rows that begin at `at`, and where the rows end."""
    spans: list[Span] = []
    while row := _ROW.match(data, at):
        at, number = row.end(), 0
        while cell := _CELL.match(data, at):
            group = cell.lastindex
            if number in columns and group and cell[group]:
                spans += _judged(data, *cell.span(group), columns[number])
            at, number = _ending(data, cell.end()), number + 1
            if data[at : at + 1] != b"," or number > _MOST_COLUMNS:
                break
            at += 1
        if data[at : at + 1] != b")":
            behind = _NEXT_ROW.search(data, at, at + _LONGEST_ROW)
            if behind is None:
                break
            at = behind.start()
        at += 1
        if data[at : at + 1] == b",":
            at += 1
    return spans, at


def _copied(data: bytes, at: int, columns: Columns, width: int) -> tuple[list[Span], int]:
    """The secrets in rows of cells with tabs between them; a number in front of a row is its line's."""
    spans: list[Span] = []
    while row := _COPY_ROW.match(data, at):
        at = row.end()
        tabs = [tab.span() for tab in _COPY_CELL.finditer(data, *row.span(1))][:_MOST_COLUMNS]
        starts = [row.start(1), *(end for _, end in tabs)]
        ends = [*(start for start, _ in tabs), row.end()]
        extra = len(starts) - width
        if extra in (0, 1):
            for number, name in columns.items():
                spans += _judged(data, starts[number + extra], ends[number + extra], name)
    return spans, at


def _judged(data: bytes, start: int, end: int, name: Name) -> list[Span]:
    text = data[start:end].decode("utf-8", "replace")
    if not is_secret(text[:256], name.strength, Style.QUOTED):
        return []
    sure = is_unmistakable(text, name.strength)
    return [Span(start, end, name.label, f"column-{name.label}", Rank.GENERIC, sure)]


SQL_ROWS = Finder(
    "sql-rows",
    (
        b"insert into",
        b"insert [",
        b"insert ignore into",
        b"replace into",
        b"create table",
        b"create temp",
        b"copy ",
    ),
    _rows,
)
