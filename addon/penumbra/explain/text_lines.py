"""This module makes the lines of texts for people, and limits their number, length and time."""

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
from penumbra.redaction.redact_calls import Redact

MOST_LINES = 8_000
_LONGEST = 2_000
_COLUMNS = 84
LONGEST_SEARCHED, _MOST_SEARCHED, _SECONDS = 250_000, 1_000_000, 1.0
"""The search for secrets is limited, because all requests wait for it: to these numbers of characters, in one
text and in all texts together, and to these seconds."""
_MOST_BRACES = 1_000_000
"""A body with more braces is not read, since each JSON object takes time."""
TOO_MUCH_TO_READ = "There is too much in it to be shown here."
NOT_SEARCHED = "(not shown: it could not be searched for secrets)"
TOO_MUCH = "(not shown: this is too long to be searched for secrets here)"


class Mark(Enum):
    HEAD = auto()
    TEXT = auto()
    NOTE = auto()
    """Penumbra's own words among quoted text."""
    REMOVED = auto()
    ADDED = auto()


class Line(NamedTuple):
    """A `Line` is one line without line breaks and control characters."""

    mark: Mark
    text: str


def head(text: str) -> Line:
    return Line(Mark.HEAD, plain(text))


def note(text: str) -> Line:
    return Line(Mark.NOTE, plain(text))


def wrapped(mark: Callable[[str], Line], text: str, indent: str = "") -> list[Line]:
    """Return Penumbra's own words as lines of limited width, since not every program wraps long lines."""
    return [mark(f"{indent}{line}") for line in textwrap.wrap(plain(text), _COLUMNS)]


def quoted(text: str) -> Line:
    return Line(Mark.TEXT, plain(text))


def plain(text: str) -> str:
    """Return a line of text with control characters escaped."""
    text = one_line(text.replace("\t", "    "))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@dataclass
class Search:
    """A `Search` removes secrets from texts of flows, within limits of characters and time."""

    redact: Redact
    left: int = _MOST_SEARCHED
    found: Counter[str] = field(default_factory=Counter)
    """The number of secrets, by rule, that the flow itself contains."""
    clock: Callable[[], float] = time.monotonic
    until: float = math.inf
    """The deadline, which is set after the first search, because this search may have to load the rules."""

    def text(self, text: str, hint: str = "") -> str:
        """Return the whole text without secrets, or a note if it could not be searched."""
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
        """Return the redacted name. Raises RedactionError if the search fails or the deadline is over."""
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
        """Return a line about the secrets that were found, if there are any."""
        if not self.found:
            return []
        named = ", ".join(f"{rule} {count}" for rule, count in sorted(self.found.items()))
        return [note(f"The flow still has these secrets, which this view replaces by placeholders: {named}")]

    def beginning(self, text: str, length: int, hint: str = "") -> str:
        """Return at most the first `length` characters, without secrets. More of the text is searched, so a
        secret that begins in these characters is found as a whole."""
        clean = self.text(text[: length + _MORE_SEARCHED], hint)
        if len(text) <= length and len(clean) <= length:
            return clean
        return f"{clean[:length].rstrip()}…"


_MORE_SEARCHED = 4_000
Show = Callable[[str], str]
"""A `Show` is a function that returns a client's name in a form that is safe to show."""


def is_too_much(body: bytes) -> bool:
    return body.count(b"{") > _MOST_BRACES


def bounded(lines: list[Line], most: int, what: str = "lines") -> list[Line]:
    """Return the first and last lines, with a note about the hidden lines between them."""
    if len(lines) <= most:
        return lines
    tail = most // 4
    hidden = len(lines) - most
    return [*lines[: most - tail], note(f"        … {hidden:,} more {what}"), *lines[len(lines) - tail :]]
