"""This stage writes a web page as text: headings, paragraphs, lists, tables and links.

The parser is selectolax (Lexbor), an HTML5 parser in C. This module chooses the parts of the tree that are
written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from penumbra.compress import time_budget

_PAGE = re.compile(
    r"\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!--[^>]{0,500}-->\s*)?<(?:!doctype html|html)[\s>]", re.IGNORECASE
)


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


_UNSEEN = _tags("script style noscript template svg head iframe object canvas link meta")
_BLOCKS = _tags(
    "address article aside blockquote body br dd details div dl dt fieldset figcaption figure footer form"
    " h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section summary table tbody thead tr ul"
)
_SPACED = _tags("p h1 h2 h3 h4 h5 h6 pre table ul ol blockquote section article")
"""The blocks with an empty line before them."""
_HEADINGS = _tags("h1 h2 h3 h4 h5 h6 h7 h8 h9")
_CONTINUING = _BLOCKS - _tags("li ul ol pre table thead tbody tr hr")
"""Directly after the mark of an item or heading, these blocks begin on the line of the mark."""
_WRITTEN = _BLOCKS | _HEADINGS | _tags("td th img a")
"""These elements add something to their content. Of other elements, only the content is written."""
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_CHILDLESS = _tags(
    "area base br col dd dt embed hr img input li link meta option p param source tbody td th thead tr track"
    " wbr"
)
_DEEPEST = 500
"""The greatest depth of elements."""
_BLANKS = re.compile(r"[\t\r\n\f\u00a0][ \t\r\n\f\u00a0]*| [ \t\r\n\f\u00a0]+")
"""A pattern for runs of blanks other than one space."""
_LONGEST_LINK = 300
"""The length in characters of the longest URL that is written."""
_LONGEST_LABEL = 240
"""A cell with blocks is written on one line if it has at most this number of characters."""
_MOST_SPANNED = 1_000
"""The greatest number of rows or columns that a cell spans."""
_NESTED = 4
"""In tables at a greater depth, cells are not examined as a whole."""


@dataclass(slots=True)
class _Table:
    """A `_Table` is the state of one table while its cells are written."""

    column: int = 0
    bars: int = 0
    """The number of bars that the row has so far."""
    start: int = 0
    """The index of the first part of the current cell."""
    rows: int = 1
    columns: int = 1
    has_heads: bool = False
    spans: dict[int, tuple[str, int]] = field(default_factory=dict)
    """For each column, the text of a cell that spans the next rows, and the number of these rows."""

    def spanning(self) -> str | None:
        """Return the cell of an earlier row that spans this column; None if there is none."""
        if (spanned := self.spans.pop(self.column, None)) is None:
            return None
        text, left = spanned
        if left > 1:
            self.spans[self.column] = (text, left - 1)
        return text


def _count(node: LexborNode, name: str) -> int:
    value = (node.attributes.get(name) or "").strip()
    return min(int(value), _MOST_SPANNED) if re.fullmatch(r"[0-9]{1,4}", value) and int(value) else 1


def to_text(text: str) -> str | None:
    """Return the title and the text of a page; None for another text, or if it is too deep or would grow."""
    if not _PAGE.match(text) or _is_deep(text):
        return None
    tree = LexborHTMLParser(text)
    title = tree.css_first("title")
    lowered = text.lower()
    writer = _Writer("hidden" in lowered, "rowspan" in lowered or "colspan" in lowered, len(text))
    if tree.body is not None:
        writer.walk(tree.body)
    if writer.space < 0:
        return None
    heading = _BLANKS.sub(" ", title.text()).strip() if title is not None else ""
    lines = ([f"# {heading}"] if heading else []) + writer.finish()
    return "\n".join(lines) + "\n"


def _is_deep(text: str) -> bool:
    """Return whether elements are nested too deeply. Only elements that need an end tag are counted."""
    if text.count("<") - text.count("</") <= _DEEPEST:
        return False
    depth = deepest = 0
    for match in _TAG.finditer(text):
        closing, name = match.groups()
        if name.lower() in _CHILDLESS:
            continue
        depth = max(0, depth - 1) if closing else depth + 1
        deepest = max(deepest, depth)
    return deepest > _DEEPEST


class _Writer:
    """A `_Writer` collects lines while the tree is walked."""

    def __init__(self, hides: bool, spans: bool, space: int) -> None:
        self.hides, self.spans = hides, spans
        """True if elements may be hidden or cells may span other cells. Attributes are read only then."""
        self.space = space
        """The number of characters that spanning cells may still add."""
        self.lines: list[str] = []
        self.parts: list[str] = []
        self.verbatim = 0
        self.paragraph = False
        self.links: list[tuple[int, str]] = []
        self.tables: list[_Table] = []
        self.is_inline = False
        """True within a cell that is written on one line."""

    def walk(self, root: LexborNode) -> None:
        """Write everything below a node."""
        # A string on the stack is the name of an element that ends here.
        stack: list[LexborNode | str] = [root]
        nodes = 0
        while stack:
            nodes += 1
            if not nodes % time_budget.PIECE:
                time_budget.check()
            node = stack.pop()
            if isinstance(node, str):
                self._leave(node)
                continue
            tag = node.tag or ""
            if tag == "-text":
                self._text(node.text_content or "")
                continue
            if tag in _UNSEEN or tag[:1] == "-" or tag == "_comment":
                continue
            if self.hides and "hidden" in node.attributes:
                continue
            if tag in _WRITTEN:
                self._enter(tag, node)
                stack.append(tag)
            first = len(stack)
            child = node.child
            while child is not None:
                stack.append(child)
                child = child.next
            stack[first:] = reversed(stack[first:])

    def finish(self) -> list[str]:
        """Return the lines. Of several empty lines in a row, one stays."""
        self._end_line()
        kept: list[str] = []
        for line in self.lines:
            if line or (kept and kept[-1]):
                kept.append(line)
        return kept

    def _text(self, text: str) -> None:
        if self.verbatim:
            first, *rest = text.split("\n")
            self.parts.append(first)
            for line in rest:
                self._end_line()
                self.parts.append(line)
            return
        text = _BLANKS.sub(" ", text)
        if text.strip() or self.parts:
            self.parts.append(text)

    def _enter(self, tag: str, node: LexborNode) -> None:
        if tag == "table":
            self.tables.append(_Table())
        if tag in _BLOCKS and self.is_inline:
            self.parts.append(" ")
        elif tag in _BLOCKS and not (tag in _CONTINUING and self._is_begun()):
            self._end_line()
            self.paragraph = tag in _SPACED
            if self.paragraph:
                self.lines.append("")
        if tag == "a":
            self.links.append((len(self.parts), (node.attributes.get("href") or "").strip()))
        elif tag == "li":
            self.parts.append("- ")
        elif tag in _HEADINGS:
            self.parts.append("#" * int(tag[1]) + " ")
        elif tag in ("td", "th"):
            self._enter_cell(tag, node)
        elif tag == "tr" and self.tables:
            self.tables[-1].column = self.tables[-1].bars = 0
        elif tag == "pre":
            self.verbatim += 1
        elif tag == "img" and (description := (node.attributes.get("alt") or "").strip()):
            self.parts.append(f"[image: {description}]")

    def _leave(self, tag: str) -> None:
        if tag == "a" and self.links:
            self._link(*self.links.pop())
        elif tag in ("td", "th"):
            self._leave_cell()
        elif tag == "tr" and self.tables:
            table = self.tables[-1]
            for column in sorted(table.spans):
                table.column = max(table.column, column)
                self._write_spanning(table)
        if tag == "table" and self.tables:
            self.tables.pop()
        if tag in _BLOCKS and self.is_inline:
            self.parts.append(" ")
        elif tag in _BLOCKS and not (tag in _CONTINUING and tag not in _HEADINGS and self._is_begun()):
            self.paragraph = tag in _SPACED
            self._end_line()
        if tag == "pre":
            self.verbatim -= 1

    def _enter_cell(self, tag: str, node: LexborNode) -> None:
        if not self.tables:
            self.tables.append(_Table())
        table = self.tables[-1]
        table.has_heads = table.has_heads or tag == "th"
        self._write_spanning(table)
        self._write_bars(table)
        table.start = len(self.parts)
        table.rows = table.columns = 1
        if self.spans:
            table.rows, table.columns = _count(node, "rowspan"), _count(node, "colspan")
        child = node.child
        is_word = child is None or (child.tag == "-text" and child.next is None)
        if not self.is_inline and not (is_word and table.rows == 1) and len(self.tables) <= _NESTED:
            is_short = len(node.text().strip()) <= _LONGEST_LABEL
            self.is_inline = is_short and node.css_first("table, pre") is None

    def _leave_cell(self) -> None:
        if not self.tables:
            return
        table = self.tables[-1]
        if self.is_inline:
            text = _BLANKS.sub(" ", "".join(self.parts[table.start :])).strip()
            self.parts[table.start :] = [text]
            self.is_inline = False
            if table.rows > 1:
                table.spans[table.column] = (text, table.rows - 1)
        table.column += table.columns

    def _write_spanning(self, table: _Table) -> None:
        """Write the cells of earlier rows that span this place in the row."""
        while self.space >= 0 and (text := table.spanning()) is not None:
            self._write_bars(table)
            self._add(text)
            table.column += 1

    def _write_bars(self, table: _Table) -> None:
        """Write the bars before a cell. Empty first cells get bars only if the columns have heads."""
        missing = table.column - table.bars
        table.bars = table.column
        if table.has_heads or any(part.strip() for part in self.parts):
            self._add(" | " * missing if missing == 1 else " |" * missing + " ")

    def _add(self, text: str) -> None:
        self.space -= len(text)
        if self.space >= 0:
            self.parts.append(text)

    def _link(self, start: int, address: str) -> None:
        words = "".join(self.parts[start:]).strip()
        useless = not address or address[0] == "#" or address.startswith(("javascript:", "data:"))
        if words and not useless and len(address) <= _LONGEST_LINK:
            self.parts[start:] = [f"[{words}]({address})"]

    def _is_begun(self) -> bool:
        """Return whether the line has only the mark of an item or a heading."""
        return bool(self.parts) and not "".join(self.parts).strip("#- ") and "".join(self.parts).strip() != ""

    def _end_line(self) -> None:
        if not self.parts:
            if self.verbatim or self.paragraph:
                self.lines.append("")
            self.links = [(0, address) for _, address in self.links] if self.links else self.links
            return
        line = "".join(self.parts)
        line = line.rstrip() if self.verbatim else line.strip()
        if line and line.strip("#-| "):
            self.lines.append(line)
        elif self.verbatim or self.paragraph:
            self.lines.append("")
        self.parts.clear()
        self.links = [(0, address) for _, address in self.links]
