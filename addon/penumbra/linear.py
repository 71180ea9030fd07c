"""This module has patterns of RE2 for bytes and for texts, and converts texts to UTF-8.

RE2 and hashes need UTF-8, which can't encode unpaired surrogates. Texts from outside may contain surrogates,
for example in names of files that are not UTF-8. `utf8` and `LinearText` accept every text.

The package `re2` makes a generator and a match object for each search, which takes longer than most searches.
The internal engine of `re2` is therefore called directly if it is available.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import re2

_Spans = list[tuple[int, int]]
"""Start and end of the match and of each group; (-1, -1) for a group that did not match."""
NOWHERE = (-1, -1)
"""The span of a group, or of a search, without a match."""


def utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text. An unpaired surrogate is encoded like a character."""
    return text.encode("utf-8", "surrogatepass")


def without_surrogates(text: str) -> str:
    """Return a text of the same length with a question mark for each unpaired surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def quiet(memory: int = 0) -> Any:
    """Return options of RE2 that suppress its log. RE2 logs, for example, that an automaton has no memory
    left. RE2 then only searches more slowly. `memory` limits the bytes of the automaton; 0 means RE2's own
    limit."""
    options = re2.Options()
    options.log_errors = False
    if memory:
        options.max_mem = memory
    return options


QUIET = quiet()


def latin1(memory: int = 0) -> Any:
    """Return the options `quiet` for patterns over bytes instead of UTF-8."""
    options = quiet(memory)
    options.encoding = re2.Options.Encoding.LATIN1
    return options


class LinearText:
    """A `LinearText` is a pattern for texts, with some of the methods of `re.Pattern`. An unpaired surrogate
    counts as a question mark. Raises re2.error."""

    __slots__ = ("_compiled",)

    def __init__(self, pattern: str, options: Any = QUIET) -> None:
        self._compiled = re2.compile(without_surrogates(pattern), options)

    @property
    def groupindex(self) -> Mapping[str, int]:
        """Return the numbers of the named groups."""
        named: Mapping[str, int] = self._compiled.groupindex
        return named

    def search(self, text: str, *place: int) -> Any:
        """Return the first match, which has the interface of `re.Match`."""
        return self._compiled.search(without_surrogates(text), *place)

    def match(self, text: str, *place: int) -> Any:
        return self._compiled.match(without_surrogates(text), *place)

    def fullmatch(self, text: str) -> Any:
        return self._compiled.fullmatch(without_surrogates(text))

    def finditer(self, text: str, *place: int) -> Iterator[Any]:
        matches: Iterator[Any] = self._compiled.finditer(without_surrogates(text), *place)
        return matches

    def sub(self, new: str, text: str) -> str:
        changed: str = self._compiled.sub(new, without_surrogates(text))
        return changed

    def split(self, text: str) -> list[str]:
        parts: list[str] = self._compiled.split(without_surrogates(text))
        return parts


class Found:
    """A `Found` is a match with some of the methods of `re.Match`."""

    __slots__ = ("_spans", "_text")

    def __init__(self, text: bytes, spans: _Spans) -> None:
        self._text = text
        self._spans = spans

    def __getitem__(self, group: int) -> Any:
        start, end = self._spans[group]
        return self._text[start:end] if start >= 0 else None

    def span(self, group: int = 0) -> tuple[int, int]:
        """Return start and end of a group; (-1, -1) if the group did not match."""
        return self._spans[group]

    def start(self, group: int = 0) -> int:
        return self._spans[group][0]

    def end(self, group: int = 0) -> int:
        return self._spans[group][1]


class Linear:
    """A `Linear` is a pattern for bytes. Raises re2.error."""

    __slots__ = ("_ask", "groups", "here", "pattern")

    def __init__(self, pattern: bytes, options: Any = QUIET) -> None:
        compiled = re2.compile(pattern, options)
        self.pattern = pattern
        self.groups: int = compiled.groups
        self._ask: _Ask = compiled._regexp.Match if HAS_ENGINE else _package(compiled)
        self.here: Callable[[bytes, int, int], _Spans] = partial(self._ask, _HERE)
        """This function takes (text, start, end) and returns the spans of the match that begins at `start`,
        or only `NOWHERE`. 0 <= start <= end <= length must hold. The function is faster than `match`."""

    def search(self, text: bytes, start: int = 0, end: int | None = None) -> Found | None:
        stop = len(text) if end is None or end > len(text) else end
        if start > stop and (start := min(start, len(text))) > stop:
            return None
        spans = self._ask(_ANYWHERE, text, start, stop)
        return None if spans[0] == NOWHERE else Found(text, spans)

    def match(self, text: bytes, start: int = 0, end: int | None = None) -> Found | None:
        stop = len(text) if end is None or end > len(text) else end
        if start > stop and (start := min(start, len(text))) > stop:
            return None
        spans = self._ask(_HERE, text, start, stop)
        return None if spans[0] == NOWHERE else Found(text, spans)

    def fullmatch(self, text: bytes) -> Found | None:
        spans = self._ask(_WHOLE, text, 0, len(text))
        return None if spans[0] == NOWHERE else Found(text, spans)

    def place(self, text: bytes, start: int, end: int) -> tuple[int, int]:
        """Return the span of the first match; (-1, -1) if there is none. 0 <= `start` <= `end` <= length."""
        return self._ask(_ANYWHERE, text, start, end)[0]

    def finditer(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[Found]:
        stop = len(text) if end is None or end > len(text) else end
        start = min(start, len(text))
        while start <= stop:
            spans = self._ask(_ANYWHERE, text, start, stop)
            found = spans[0]
            if found == NOWHERE:
                return
            yield Found(text, spans)
            if start == stop:
                return
            # After an empty match at `start`, the next search must begin one place later.
            start = found[1] + (found[1] == start)


def lines_with(pattern: Linear, data: bytes) -> Iterator[int]:
    """Yield the indexes of the lines in which a pattern matches. One search covers many lines."""
    index = start = 0
    while start <= len(data) and (at := pattern.place(data, start, len(data))[0]) >= 0:
        index += data.count(b"\n", start, at)
        yield index
        end = data.find(b"\n", at)
        if end < 0:
            return
        index, start = index + 1, end + 1


_Ask = Callable[[Any, bytes, int, int], _Spans]
"""A function that takes (anchor, text, start, end) and returns spans, or only `NOWHERE`."""


def _has_engine() -> bool:
    """Return whether the internal engine of `re2` has the interface that is used here."""
    try:
        ask, anchors = re2.compile(b"(b)c")._regexp.Match, re2._Anchor
        return bool(
            [*ask(anchors.UNANCHORED, b"abc", 0, 3)] == [(1, 3), (1, 2)]
            and ask(anchors.UNANCHORED, b"abc", 2, 3)[0] == NOWHERE
            and ask(anchors.ANCHOR_START, b"abc", 0, 3)[0] == NOWHERE
            and ask(anchors.ANCHOR_BOTH, b"bc", 0, 2)[0] == (0, 2)
        )
    except (AttributeError, TypeError, IndexError):
        return False


HAS_ENGINE = _has_engine()
_ANYWHERE, _HERE, _WHOLE = (
    (re2._Anchor.UNANCHORED, re2._Anchor.ANCHOR_START, re2._Anchor.ANCHOR_BOTH) if HAS_ENGINE else (0, 1, 2)
)


def _package(compiled: Any) -> _Ask:
    """Return a search by the public interface of `re2`."""
    ways = (compiled.search, compiled.match, compiled.fullmatch)

    def ask(anchor: int, text: bytes, start: int, end: int) -> _Spans:
        found = ways[anchor](text, start, end)
        return [found.span(group) for group in range(compiled.groups + 1)] if found else [NOWHERE]

    return ask
