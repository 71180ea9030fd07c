"""A JSON text that arrives in fragments, read piece by piece.

What is read is not checked: whoever wants to know whether the text is JSON parses it when it is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

# Nothing stands behind the group, so it never goes back.
_PLAIN = re.compile(r'(?:[^"\\\[]+|\\[^u]|\[(?=[^R]))+', re.DOTALL)
_KEY = re.compile(r'(?:[^"\\]+|\\[^u])+', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|[^u])", re.DOTALL)
_LONGEST_ESCAPE = 6
_BETWEEN = re.compile(r'[^"{}\[\],:]+')


class Sort(Enum):
    """What a piece is."""

    BETWEEN = auto()
    """Brackets, commas, quotes, white space, numbers, and the names of members."""
    TEXT = auto()
    """Some of a string that is a value."""
    BRACKET = auto()
    """A `[` in such a string that may begin something: an `R` follows, or it is not known yet what does."""
    BEGIN = auto()
    """The quote that opens such a string."""
    END = auto()
    """The quote that closes it."""


@dataclass(slots=True, eq=False)
class Object:
    """An object, or the text as a whole, that is open or was."""

    parent: Object | None = None
    key: str = ""
    """The name of the member that is being read."""
    wants_key: bool = False


@dataclass(slots=True)
class JsonText:
    """Reads pieces off the front of what has been given to `add`. Time grows with the characters."""

    at: Object = field(default_factory=Object)
    """The object that the last piece stands in."""
    _text: str = ""
    _next: int = 0
    """Offset of the first character that was not read yet."""
    _stack: list[Object | None] = field(default_factory=list)
    """Open containers; None: an array."""
    _in_key: bool = False
    _in_value: bool = False
    _name: list[str] = field(default_factory=list)

    def add(self, fragment: str) -> None:
        """More of the text."""
        self._text = self._text[self._next :] + fragment
        self._next = 0

    def ahead(self, length: int) -> str:
        """The next characters, at most so many, without reading them."""
        return self._text[self._next : self._next + length]

    def take(self, length: int) -> str:
        """Reads this many characters, whatever they are."""
        start = self._next
        self._next = min(start + length, len(self._text))
        return self._text[start : self._next]

    def take_all(self) -> str:
        """Reads all that is left."""
        return self.take(len(self._text))

    def pieces(self) -> Iterator[tuple[Sort, str]]:
        """What can be read for certain, in order. After a BRACKET, which is not read yet, the caller
        takes at least one character, or stops."""
        while self._next < len(self._text):
            piece = self._in_string() if self._in_key or self._in_value else self._between()
            if piece is None:
                return
            yield piece

    def _match(self, pattern: re.Pattern[str]) -> str:
        """Reads what matches; empty if nothing does."""
        match = pattern.match(self._text, self._next)
        return self.take(match.end() - self._next) if match else ""

    def _between(self) -> tuple[Sort, str]:
        if text := self._match(_BETWEEN):
            return Sort.BETWEEN, text
        sign = self.take(1)
        if sign == '"':
            self._in_key = bool(self._stack) and self._stack[-1] is self.at and self.at.wants_key
            self._in_value = not self._in_key
            self._name.clear()
            return (Sort.BETWEEN if self._in_key else Sort.BEGIN), sign
        if sign == "{":
            self.at = Object(self.at, wants_key=True)
            self._stack.append(self.at)
        elif sign == "[":
            self._stack.append(None)
        elif sign in "}]":
            closed = self._stack.pop() if self._stack else None
            if closed is not None and closed.parent is not None:
                self.at = closed.parent
        elif self._stack and self._stack[-1] is self.at:
            self.at.wants_key = sign == ","
        return Sort.BETWEEN, sign

    def _in_string(self) -> tuple[Sort, str] | None:
        text = self._match(_KEY if self._in_key else _PLAIN)
        sign = self.ahead(1)
        if not text and sign == "[":
            return Sort.BRACKET, sign
        if not text and sign == '"':
            return self._end()
        if not text and not (text := self._match(_ESCAPE)):
            if len(self.ahead(_LONGEST_ESCAPE)) < _LONGEST_ESCAPE:
                return None
            text = self.take(1)
        if self._in_key:
            self._name.append(text)
        return (Sort.BETWEEN if self._in_key else Sort.TEXT), text

    def _end(self) -> tuple[Sort, str]:
        quote = self.take(1)
        if self._in_key:
            self._in_key = False
            self.at.key = unescaped("".join(self._name))
            return Sort.BETWEEN, quote
        self._in_value = False
        return Sort.END, quote


def unescaped(raw: str) -> str:
    """What stands between the quotes of a JSON string; as it is if that is not valid."""
    if "\\" not in raw:
        return raw
    try:
        text = json.loads(f'"{raw}"', strict=False)
    except ValueError:
        return raw
    return text if isinstance(text, str) else raw
