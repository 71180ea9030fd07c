"""Lines of an output that the request has shown before, here and there: one line says how many there were.

    $ ./watch
    [14 lines said before, but for times]
    step 9 of 12: uploading

What a screen showed a minute ago, or a run that is made again, is mostly known by then; what is new stays.
Only for what programs tell of a run: in states, lists, hits and differences it matters which lines are there
again. Where nobody knows what a command tells, only what it told the last time counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import repeat

import re2

from penumbra.compress import token_estimate
from penumbra.compress.calls.classify import Call, printing_parts
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.family_rules import prints
from penumbra.compress.size import counted, encode
from penumbra.conversation.staying_lines import StayingLines, quotes
from penumbra.short_texts import forgettable

MARKER = re.compile(r"\[[0-9]+ lines? said before(?:, but for times)?\]")
_TELLING = 12
"""Characters that a line must have (blanks aside) to be known again."""
_LEAST = 40
"""Estimated tokens that a marker must stand for."""
_LONGEST = 1_000
"""Characters of a line in which times are looked for."""
_TIME = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[T ])?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
    r"|\b[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m|h|us|µs|ns)\b(?: ?[0-9]+(?:\.[0-9]+)? ?(?:ms|s|m)\b)?"
)
"""When something was, and how long it took."""
_SIGN = re.compile("[0-9](?::[0-9]| ?(?:[mnuµ]?s|[mh])\\b)")
"""A part that every such line has and few others: found in a tenth of the time."""
_SOME_SIGN = re2.compile(_SIGN.pattern.encode())
"""A wider form of `_SIGN` for whole texts: most have none."""
_MEASURED = re.compile(
    r"(?i)\b(?:median|mean|avg|average|min|max|best|worst|p[0-9]{2}|std(?:dev|ev)?|bench\w*|latency|throughput|real"
    r"|user|sys|elapsed)\b|/(?:op|s|sec|iter)\b"
)
"""Signs that a time is the very output that was asked for."""
_NO_STATEMENT = re.compile(
    r"[+-](?![+-])|~[A-Z]+ |\[(?:[0-9]+ (?:lines?|bytes|more)\b"
    r"|table [0-9]|patterns;|end of |not every |failures in |what is left out )"
)
"""How lines begin that say nothing by themselves: those of a difference, and those that we have made."""
_LEFT_TO_DO = frozenset({"tsc", "eslint", "biome", "prettier", "rustc", "cargo-json", "diagnostics"})
"""Families of what tells what is left to do: there it matters which lines are there again."""


class From(Enum):
    """Where lines must have been shown to be left out of a result."""

    NOWHERE = auto()
    LAST = auto()
    """In what the same call told the last time."""
    ANYWHERE = auto()


def known_from(call: Call) -> From:
    """Where the lines of a result must have been shown: anywhere if programs tell of a run, in the last such
    result if nobody knows what it is."""
    if not call.shell or call.category != "bash" or quotes(call):
        return From.NOWHERE
    parts = printing_parts(call.parts)
    families = {call.family} if call.family or not parts else {family_of(part.argv) for part in parts}
    if any(family in _LEFT_TO_DO or prints(family) not in ("", "run") for family in families):
        return From.NOWHERE
    return From.LAST if "" in families else From.ANYWHERE


@dataclass(frozen=True, slots=True)
class Said:
    """Lines that were shown before."""

    start: int
    end: int
    """Position behind the last one."""
    but_for_times: bool
    keys: frozenset[bytes]
    """Keys of the texts that show the lines."""

    def __len__(self) -> int:
        return self.end - self.start

    @property
    def marker(self) -> str:
        """The marker that replaces the lines."""
        times = ", but for times" if self.but_for_times else ""
        return f"[{counted(len(self), 'line')} said before{times}]"


@dataclass(slots=True)
class SaidLines:
    """The lines that the texts of a request have shown so far."""

    _keys: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    """By line, without its times: the key of the last text that shows it, and how that has it."""
    _waiting: list[tuple[bytes, Sequence[str | None]]] = field(default_factory=list)
    """Texts whose lines are not there yet: many requests never ask for them."""

    def note(self, key: bytes, lines: Sequence[str | None]) -> None:
        """A text shows these lines, which are not to be changed; None for what it does not show."""
        self._waiting.append((key, lines))

    def is_known(self, line: str) -> bool:
        """Whether a line, without the blanks around it and but for its times, was shown."""
        self._read()
        return len(line) >= _TELLING and _timeless(line) in self._keys

    def _read(self) -> None:
        if not self._waiting:
            return
        for key, lines in self._waiting:
            shown = [bare for line in lines if line is not None and (bare := line.strip())]
            has_times = _SOME_SIGN.search(encode("\n".join(shown))) is not None
            timeless = map(_timeless, shown) if has_times else shown
            self._keys.update(zip(timeless, zip(repeat(key), shown, strict=False), strict=False))
        self._waiting.clear()

    def stretches(
        self,
        lines: Sequence[str],
        gaps: Iterable[tuple[int, int]],
        staying_of: Callable[[], StayingLines],
        key: bytes | None = None,
    ) -> Iterator[Said]:
        """Stretches that were shown before, in order. `gaps`: (start, end) of what may become a marker;
        `staying_of` tells which of its lines stay; `key`: of the only text in which they count as shown."""
        self._read()
        for start, end in gaps:
            for first, behind in self._runs(lines, start, end, key):
                staying = staying_of()
                for one, next_one in staying.stretches(first, behind):
                    yield from self._said(lines, one, next_one, staying)

    def _runs(
        self, lines: Sequence[str], start: int, end: int, key: bytes | None
    ) -> Iterator[tuple[int, int]]:
        """(first, behind) of lines that are all known, from a telling one to a telling one."""
        first = behind = start
        for position in range(start, end + 1):
            bare = lines[position].strip() if position < end else ""
            is_known = position < end and (not bare or self._is_shown(bare, key))
            if is_known and len(bare) >= _TELLING:
                behind = position + 1
            elif not is_known:
                if behind > first + 1:
                    yield first, behind
                first = behind = position + 1
            elif behind <= first:
                first = behind = position + 1

    def _is_shown(self, bare: str, key: bytes | None) -> bool:
        """Whether a line was. Short ones with a digit are values: 12 is no other 12."""
        if (len(bare) < _TELLING and any(map(str.isdigit, bare))) or _NO_STATEMENT.match(bare):
            return False
        found = self._keys.get(_timeless(bare))
        # Of what nobody knows, the times may be what was asked for.
        return found is not None and (key is None or found == (key, bare))

    def _said(self, lines: Sequence[str], start: int, end: int, staying: StayingLines) -> Iterator[Said]:
        """A known stretch without the headings of lines that stay; nothing if it is too short."""
        if end - start < 2:
            return
        hidden = lines[start:end]
        if token_estimate.estimate("\n".join(hidden)) < _LEAST:
            return
        heading = staying.heading(start, end)
        if heading is not None:
            yield from self._said(lines, start, heading, staying)
            yield from self._said(lines, heading + 1, end, staying)
            return
        known = [(bare, self._keys.get(_timeless(bare))) for bare in map(str.strip, hidden)]
        found = [(bare, *entry) for bare, entry in known if entry is not None]
        but_for_times = any(bare != shown for bare, _, shown in found)
        yield Said(start, end, but_for_times, frozenset(key for _, key, _ in found))


def _timeless(line: str) -> str:
    """A line without its times, where they are not what it tells."""
    return _remembered(line) if len(line) <= _LONGEST else line


@forgettable(4_096)
def _remembered(line: str) -> str:
    """Cached part of `_timeless`: each line is looked up when it is new and again when it was shown."""
    if _SIGN.search(line) is None or _MEASURED.search(line) is not None:
        return line
    timeless = _TIME.sub("·", line)
    return timeless if len(timeless) >= _TELLING else line
