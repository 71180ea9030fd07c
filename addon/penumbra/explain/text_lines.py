"""Lines of a text for people, and how much of it there may be."""

from __future__ import annotations

import math
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from penumbra.compress.result import Redacted
from penumbra.errors import RedactionError, one_line
from penumbra.redaction.unsearchable import Redact

MOST_LINES = 8_000
_LONGEST = 2_000
"""Characters of a line."""
_COLUMNS = 84
"""Of what is ours to break."""
LONGEST_SEARCHED, _MOST_SEARCHED, _SECONDS = 250_000, 1_000_000, 1.0
"""Characters of one piece, and of all pieces, of a text for people that are searched for secrets, and seconds
after which no other piece is: whoever asks for it waits, and all whose requests come meanwhile."""
_MOST_BRACES = 1_000_000
"""What may be objects in a body that is read: that takes time, too."""
TOO_MUCH_TO_READ = "There is too much in it to be shown here."
NOT_SEARCHED = "(not shown: it could not be searched for secrets)"
TOO_MUCH = "(not shown: this is longer than what is searched for secrets here)"


class Mark(Enum):
    """What a line is."""

    HEAD = auto()
    TEXT = auto()
    NOTE = auto()
    """Words of ours between those of others."""
    REMOVED = auto()
    ADDED = auto()


class Line(NamedTuple):
    """One line: nothing in it moves a cursor or ends it."""

    mark: Mark
    text: str


def head(text: str) -> Line:
    """A heading."""
    return Line(Mark.HEAD, plain(text))


def note(text: str) -> Line:
    """Words of ours."""
    return Line(Mark.NOTE, plain(text))


def wrapped(mark: Callable[[str], Line], text: str, indent: str = "") -> list[Line]:
    """Words of ours in as many lines as they take: not every program breaks them."""
    return [mark(f"{indent}{line}") for line in textwrap.wrap(plain(text), _COLUMNS)]


def said(text: str) -> Line:
    """Words of others."""
    return Line(Mark.TEXT, plain(text))


def plain(text: str) -> str:
    """One line of a text as it may be shown: what a terminal would obey is an escape."""
    text = one_line(text.replace("\t", "    "))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@dataclass
class Search:
    """Takes secrets out of what flows hold, within a budget. State: what is left, and what was found."""

    redact: Redact
    left: int = _MOST_SEARCHED
    found: Counter[str] = field(default_factory=Counter)
    """Secrets by rule: they are in the flow as they are."""
    clock: Callable[[], float] = time.monotonic
    until: float = math.inf
    """Time goes from the first piece on: at the start that one waits for the rules."""

    def text(self, text: str, hint: str = "") -> str:
        """The whole text without its secrets, or a note in its place."""
        if len(text) > min(self.left, LONGEST_SEARCHED) or self._is_late():
            return TOO_MUCH
        self.left -= len(text)
        try:
            clean = self._searched(text, hint)
            self.found.update(clean.counts)
            return clean.text
        except RedactionError:
            return NOT_SEARCHED

    def name(self, name: str, hint: str) -> Redacted:
        """What `redact` gives, while there is time. Raises RedactionError."""
        if self._is_late():
            raise RedactionError("no time")
        return self._searched(name, hint)

    def _searched(self, text: str, hint: str) -> Redacted:
        clean = self.redact(text, hint)
        self.until = min(self.until, self.clock() + _SECONDS)
        return clean

    def _is_late(self) -> bool:
        return self.clock() > self.until

    def warning(self) -> list[Line]:
        """What was found, where anything was."""
        if not self.found:
            return []
        named = ", ".join(f"{rule} {count}" for rule, count in sorted(self.found.items()))
        return [note(f"In the flow as they are, and shown as placeholders here only: {named}")]

    def beginning(self, text: str, length: int, hint: str = "") -> str:
        """At most the first `length` characters. Secrets that end a good way behind these are seen, too."""
        clean = self.text(text[: length + _BEHIND], hint)
        if len(text) <= length and len(clean) <= length:
            return clean
        return f"{clean[:length].rstrip()}…"


_BEHIND = 4_000
Show = Callable[[str], str]
"""A name from outside, as it may be shown."""


def is_too_much(body: bytes) -> bool:
    """Whether a body is not read here."""
    return body.count(b"{") > _MOST_BRACES


def bounded(lines: list[Line], most: int, what: str = "lines") -> list[Line]:
    """The beginning and the end of a block of lines, and how many stand between."""
    if len(lines) <= most:
        return lines
    tail = most // 4
    hidden = len(lines) - most
    return [*lines[: most - tail], note(f"        … {hidden:,} more {what}"), *lines[len(lines) - tail :]]
