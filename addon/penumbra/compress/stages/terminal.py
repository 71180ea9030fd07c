"""This stage renders a text as a screen would, without colours, titles and overwritten text.

The text after a carriage return overwrites the text before. A shorter text begins a new line instead. Colours
stay if two compared texts differ only in colours.

There are three steps, and each runs only if the text needs it. One pattern deletes sequences that don't move
the cursor (colours, modes, titles, hyperlinks, character sets). Lines with carriage returns, backspaces or
moves within the line are drawn on a row of cells. Text with moves between lines is drawn on a screen of rows.

If a program clears the screen or moves to its first cell, a new page begins below, and the earlier page
stays. An overwritten text that reports an error stays as a line. If the result would be longer than the
original, a move to the right becomes one blank, and other moves are ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from penumbra.compress.critical_lines import is_critical

_CONTROLS = "\x07\x08\x0e\x0f\x1b\x9b\x9d"
# Each alternative begins with a fixed character, so that the search skips all other text at once.
_STILL = re.compile(
    r"\x1b(?:\[[0-9;:<=>?]*[ -/]*[mhlnqrtcxygi`a-dpsu]"  # colours, modes, reports
    r"|[\]PX^_k][^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, hyperlinks, strings
    r"|[ #%()*+\-./][0-9A-Za-z@=<>%]"  # character sets
    r"|[0-9:;<=>?NOVWZ\\lmno|}~])"
    r"|\x9b(?<![\x80-\x9a\x9c\x9e-\xff]\x9b)(?:[0-9;:<=>?]*[ -/]*[@-~])?"  # the 8-bit forms
    r"|\x9d(?<![\x80-\x9a\x9c\x9e-\xff]\x9d)(?:[^\x07\x1b\x9c\x9d\n]*(?:\x07|\x9c))?"
    r"|\x07|\x0e|\x0f"
)
_COLOUR = re.compile(r"\x1b\[[0-9;:<=>?]*[ -/]*m")
_TOKEN = re.compile(r"\x1b\[([0-9;:<=>?]*)[ -/]*([@-~])|\x1b([DEMc78]?)|[\r\n]|\x08+|[^\x1b\r\n\x08]+")
_BETWEEN_LINES = re.compile(r"\x1b(?:\[[0-9;:<=>?]*[ABEFHJLMSTf]|[DEMc])")
_COMPARED = re.compile(
    r"^[ \t]*(?:-|Expected:|expected:)([^\n-][^\n]*)\n[ \t]*(?:\+|Received:|Actual:|actual:)([^\n+][^\n]*)$",
    re.M,
)
_PASSES = 4
"""A deletion may form a new sequence, so sequences are deleted in up to this number of passes."""
_WIDEST = 400
"""No move to the right goes beyond this column."""
_PAGE = 60
"""No move to a position goes beyond this row of the page."""


def render(text: str, *, moves: bool = True) -> str:
    """Return the text that a screen would show; the same object if nothing changes. With `moves=False`,
    only colours, modes and titles are removed."""
    if not may_act(text):
        return text
    # Most texts have colours and nothing else.
    shown = _COLOUR.sub("", text)
    if shown != text and _differs_in_colours(shown):
        return text
    if not may_act(shown):
        return shown
    shown = _drawn(text, moves)
    if len(shown) > len(text):
        # Even a few moves over long distances add many blanks and rows.
        shown = _drawn(_stripped(_STILL.sub("", text)).replace("\x08", ""), moves)
    return text if shown == text else shown


def _drawn(text: str, moves: bool) -> str:
    for _ in range(_PASSES):
        if not may_act(text):
            break
        before = text
        text = _STILL.sub("", text)
        if moves:
            text = _draw(text)
        if text == before:
            break
    return text


def _differs_in_colours(shown: str) -> bool:
    """Return whether the text compares two texts that are equal without their colours, blanks included."""
    return any(match[1].strip() and match[1] == match[2] for match in _COMPARED.finditer(shown))


def may_act(text: str) -> bool:
    """Return whether the text has a control character on which a screen acts."""
    return any(map(text.__contains__, _CONTROLS)) or _returns(text)


def _returns(text: str) -> bool:
    """Return whether the text has a carriage return that is not before a line feed."""
    return "\r" in text and text.count("\r") != text.count("\r\n")


def _moves(text: str) -> bool:
    return "\x08" in text or "\x1b" in text or _returns(text)


def _draw(text: str) -> str:
    if _BETWEEN_LINES.search(text):
        drawn = _Screen(budget=2 * len(text) + 4 * _WIDEST).draw(text)
        return drawn if drawn is not None else _stripped(text)
    if not _moves(text):
        return text
    return "\n".join(_line(line) for line in text.split("\n"))


def _stripped(text: str) -> str:
    """Return the text without escape sequences. Overwritten text stays."""
    return _TOKEN.sub(_without_sequence, text)


def _without_sequence(token: re.Match[str]) -> str:
    if token[0][0] != "\x1b":
        return token[0]
    return " " if token[2] and token[2] in "CG" else ""


def _line(line: str) -> str:
    """Return the line that a screen would show."""
    ending = "\r" if line.endswith("\r") else ""
    body = line[:-1] if ending else line
    if not _moves(body):
        return line
    if "\x1b" not in body and "\x08" not in body:
        return "\n".join(_overwritten(body.split("\r"))) + ending
    drawn = _Screen(budget=2 * len(body) + 4 * _WIDEST).draw(body)
    return (drawn if drawn is not None else _stripped(body)) + ending


def _overwritten(texts: list[str]) -> list[str]:
    """Return the texts that stay: the last text, each text that is longer than all later texts, and
    failures."""
    left: list[str] = []
    seen: set[str] = set()
    width = 0
    above = ""
    for text in reversed(texts):
        line = text.rstrip()
        if len(line) > width:
            left.append(line if left else text)
        elif line and line not in seen and not above.startswith(line) and is_critical(line):
            left.append(line)
        seen.add(line)
        width = max(width, len(text))
        above = line or above
    return left[::-1] or [""]


@dataclass(slots=True)
class _Screen:
    """A `_Screen` has rows of cells and a cursor. The cursor can't reach the rows above the page."""

    budget: int
    rows: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    page: int = 0
    failures: dict[int, list[str]] = field(default_factory=dict)
    saved: tuple[int, int] = (0, 0)

    def draw(self, text: str) -> str | None:
        """Draw the text, and return the lines on the screen; None if they need too many cells."""
        for token in _TOKEN.finditer(text):
            piece = token[0]
            if piece[0] != "\x1b":
                self._plain(piece)
            elif token[2]:
                self._move(token[2], token[1])
            else:
                self._escape(token[3] or "")
            if self.budget < 0:
                return None
        lines: list[str] = []
        for position, cells in enumerate(self.rows):
            lines += self.failures.get(position, ())
            lines.append("".join(cells))
        return "\n".join(lines)

    def _plain(self, piece: str) -> None:
        if piece == "\n":
            self._down()
            self.column = 0
        elif piece == "\r":
            self.column = 0
        elif piece[0] == "\x08":
            self.column = max(0, self.column - len(piece))
        else:
            self._write(piece)

    def _write(self, piece: str) -> None:
        cells = self.rows[self.row]
        if self.column > len(cells):
            self._spend(self.column - len(cells))
            cells += " " * (self.column - len(cells))
        end = self.column + len(piece)
        if self.column == 0 and cells:
            self._keep_failure(cells, piece)
        self._spend(len(piece))
        cells[self.column : end] = piece
        self.column = end

    def _keep_failure(self, cells: list[str], new: str) -> None:
        """Keep an overwritten line if it is critical and differs from the last kept line of the row."""
        if len(cells) > _WIDEST:
            return
        line = "".join(cells).rstrip()
        if line and not new.startswith(line) and is_critical(line):
            lines = self.failures.setdefault(self.row, [])
            if not lines or lines[-1] != line:
                lines.append(line)

    def _spend(self, cells: int) -> None:
        self.budget -= cells

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.rows):
            self.rows.append([])

    def _escape(self, kind: str) -> None:
        if kind == "M":
            self.row = max(self.page, self.row - 1)
        elif kind in ("D", "E"):
            self._down()
            self.column = 0 if kind == "E" else self.column
        elif kind == "c":
            self._new_page()
        elif kind == "7":
            self.saved = (self.row, self.column)
        elif kind == "8":
            self.row, self.column = self.saved

    def _move(self, kind: str, parameters: str) -> None:
        numbers = [int(number[:5]) if number.isdigit() else 0 for number in parameters.split(";")]
        count = max(1, numbers[0])
        if kind in "AF":
            self.row = max(self.page, self.row - count)
        elif kind in "BE":
            self.row = min(len(self.rows) - 1, self.row + count)
        elif kind == "C":
            self.column = max(self.column, min(self.column + count, _WIDEST))
        elif kind == "D":
            self.column = max(0, self.column - count)
        elif kind == "G":
            self.column = min(count - 1, _WIDEST)
        elif kind in "Hf":
            self._go(count, numbers[1] if len(numbers) > 1 else 1)
        elif kind in "JK":
            self._erase(kind, numbers[0])
        elif kind == "P":
            self._spend(1 + len(self.rows[self.row]) // _WIDEST)
            del self.rows[self.row][self.column : self.column + count]
        elif kind == "X":
            self._blank(self.column, min(self.column + count, len(self.rows[self.row])))
        if kind in "EF":
            self.column = 0

    def _go(self, row: int, column: int) -> None:
        """Move to a position on the page. A move to the first cell begins a new page."""
        if row == 1 and column <= 1:
            self._new_page()
            return
        self.row = self.page + min(row, _PAGE) - 1
        while len(self.rows) <= self.row:
            self._spend(1)
            self.rows.append([])
        self.column = min(max(1, column) - 1, _WIDEST)

    def _new_page(self) -> None:
        last = len(self.rows) - 1
        if self.rows[last]:
            self.rows.append([])
            last += 1
        self.page = self.row = last
        self.column = 0

    def _erase(self, kind: str, what: int) -> None:
        cells = self.rows[self.row]
        if kind == "J" and what >= 2:
            self._new_page()
            return
        if what == 0:
            self._lose(cells, self.column)
            if kind == "J":
                self._erase_below()
        elif what == 1:
            self._blank(0, min(self.column + 1, len(cells)))
        else:
            self._lose(cells, 0)

    def _lose(self, cells: list[str], column: int) -> None:
        if column == 0 and cells:
            self._keep_failure(cells, "")
        del cells[column:]

    def _erase_below(self) -> None:
        for cells in self.rows[self.row + 1 :]:
            cells.clear()
        del self.rows[self.row + 1 :]

    def _blank(self, start: int, end: int) -> None:
        if end > start:
            self._spend(end - start)
            self.rows[self.row][start:end] = " " * (end - start)
