"""This module names earlier calls in references, by tool and path or command.

`Read a.py` means the last call of this name before the reference. `Read a.py (the 2nd)` is counted from the
first call of this name, so that later calls don't change the ordinal. No ordinal is used if the first call
may leave the request earlier than the reference.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import Any, NamedTuple

import msgspec
from cachetools import LRUCache
from msgspec import Struct

from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.tools import first_of
from penumbra.errors import RedactionError

_FARTHEST = 9
"""The greatest ordinal in a name."""
_ENDINGS = {1: "st", 2: "nd", 3: "rd"}
_LONGEST_TOOL = 256
"""The length in characters of the longest name of a tool in a reference."""


def is_plain(call_id: str) -> bool:
    """Return whether an id can be part of a reference."""
    return bool(call_id) and call_id.isprintable() and " " not in call_id


def call_key(call_id: str, arguments_hash: bytes) -> bytes:
    return f"call {call_id} ".encode("utf-8", "surrogatepass") + arguments_hash


def can_name(call_id: str, tool: str) -> bool:
    """Return whether a reference can name the result of a call with this id and tool."""
    return is_plain(call_id) and 0 < len(tool) <= _LONGEST_TOOL and tool.isprintable()


class NamedCall(Struct):
    """A `NamedCall` is one of the calls that share a name."""

    key: bytes
    text: bytes
    """The key of the call with the same result; the key of this call if there is no such call."""
    lasts: bool
    """True if the result of the call keeps its form when later results refer to it."""
    shown: list[tuple[int, int]] = msgspec.field(default_factory=list)
    """The parts of a file that the result shows, each by the numbers of its first and last line."""


class CallName(Struct, frozen=True):
    """A `CallName` is the name of a call in references."""

    name: str
    keys: frozenset[bytes]
    """The keys of the calls without which the name would be wrong."""


@dataclass(slots=True)
class NamedCalls:
    """A `NamedCalls` has the calls of one request so far, by name."""

    _calls: dict[str, list[NamedCall]] = field(default_factory=dict)
    _places: dict[bytes, tuple[str, int]] = field(default_factory=dict)

    def note(self, key: bytes, name: str, same_as: bytes = b"", *, lasts: bool = True) -> None:
        """Add a call. `same_as` is the key of the call with the same result; empty if there is none."""
        calls = self._calls.setdefault(name, [])
        self._places[key] = (name, len(calls))
        calls.append(NamedCall(key, same_as or key, lasts))

    def note_lines(self, name: str, first: int, last: int) -> None:
        """Record that the last call of this name shows the lines `first` to `last` of a file."""
        self._calls[name][-1].shown.append((first, last))

    def name(
        self, key: bytes, *, is_whole: bool = False, lines: tuple[int, int] | None = None
    ) -> CallName | None:
        """Return the name of a result; None if the result can't be named. The name must not mean a later call
        of the same name. With `is_whole`, later calls with the same result don't matter. With `lines`, the
        numbers of the first and the last line in a file, later calls that show none of these lines don't
        matter."""
        name, place = self._places[key]
        calls = self._calls[name]
        rivals = [call for call in calls[place + 1 :] if not is_whole or call.text != calls[place].text]
        if lines is not None:
            rivals = [call for call in rivals if any(a <= lines[1] and lines[0] <= b for a, b in call.shown)]
        if not rivals:
            return CallName(name, frozenset({key}))
        if place >= _FARTHEST or not calls[0].lasts:
            return None
        ordinal = f"{place + 1}{_ENDINGS.get(place + 1, 'th')}"
        return CallName(f"{name} (the {ordinal})", frozenset({key, calls[0].key}))


_LONGEST = 60
"""The length in characters of the longest path or command in a name. A longer path loses its beginning. A
longer command loses its middle."""
_BEGINNING = 40
"""The length in characters of the beginning of a longer command."""
_SEARCHED = 16_000
"""The length in characters of the longest text that is searched for secrets. A longer command is cut, and a
longer path is left out."""
_FOLDER = re.compile(r"\A(?:cd [^\s;&|]{1,400} ?(?:&&|;)\s*)+")
"""Commands such as `cd src && ` before the command itself. Names leave them out."""
_DELIMITER = re.compile(r"<<-?[ \t]*\\?['\"]?([\w.-]{1,80})")
"""The operator of a here-document with its delimiter, such as `<<'EOF'`."""
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (\S[^\r\n]{0,400})\r?$", re.MULTILINE)
_PLACEHOLDER = re.compile(r"\[REDACTED:[^\[\]]{1,100}\]")
_ASKED = ("pattern", "query", "url", "uri", "prompt", "name")
"""Arguments that distinguish calls without path and command."""
Clean = Callable[[str], str]
"""A function that returns a text without its secrets. Raises RedactionError."""
Remembered = Callable[[str, bool, Clean], str]
"""A function like `ShownTexts.shown` for one scope."""


class ShownTexts:
    """A `ShownTexts` caches the names of paths and commands. The keys are hashes: possible secrets must
    not stay in memory."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._shown: LRUCache[bytes, str] = LRUCache(4_096)

    def shown(self, scope: bytes, text: str, is_path: bool, clean: Clean) -> str:
        """Return the part of a text that a name shows. `scope` identifies the set of values that `clean`
        redacts. Raises RedactionError."""
        data = text.encode("utf-8", "surrogatepass")
        key = blake2b(data, digest_size=16, key=scope[:64], salt=bytes([is_path])).digest()
        with self._lock:
            known = self._shown.get(key)
        if known is None:
            known = _shown(text, is_path, clean)
            with self._lock:
                self._shown[key] = known
        return known


def call_name(
    tool: str,
    arguments: Any,
    clean: Clean = str,
    show: Callable[[str], str] = str,
    remembered: Remembered | None = None,
    call: Call | None = None,
) -> str:
    """Return the name of a call, such as `Read src/a.ts`; only the tool if the call has no path, command or
    argument in `_ASKED`. `arguments` are decoded. `show` returns the part of a tool's name that may be shown.
    `call` is the classified call, if known. A path or command that can't be searched for secrets is not
    shown."""
    call = call or classify(tool, arguments)
    path = posixpath.normpath(call.path.replace("\\", "/")) if call.path else ""
    shown = _shown if remembered is None else remembered
    asked = _asked(call, path, arguments)
    try:
        what = shown(asked.text, asked.is_path, clean)
    except RedactionError:
        what = ""
    name = f"{show(tool)} {asked.before}{what}{asked.after}" if what else show(tool)
    return name if name.isprintable() else "".join([each if each.isprintable() else "?" for each in name])


class _Asked(NamedTuple):
    """An `_Asked` is the argument that distinguishes a tool's calls, with the text around it in a name."""

    text: str = ""
    is_path: bool = False
    before: str = ""
    after: str = ""


def _asked(call: Call, path: str, arguments: Any) -> _Asked:
    if call.shell and call.line:
        if call.first_line and len(path) <= _SEARCHED:
            # The reference itself names the lines of the file.
            return _Asked(path, is_path=True, before=f"{posixpath.basename(call.command[0])} ")
        body, _, end = call.line[:_SEARCHED].rstrip().rpartition("\n")
        ends_document = end.strip() in _DELIMITER.findall(body)
        return _Asked(_FOLDER.sub("", body if ends_document else call.line[:_SEARCHED]))
    patched = [] if path else _patched(arguments)
    if patched:
        return _Asked(patched[0], is_path=True, after=f" and {len(patched) - 1} more" if patched[1:] else "")
    if path:
        return _Asked(path if len(path) <= _SEARCHED else "", is_path=True)
    value = first_of(arguments, _ASKED) if isinstance(arguments, Mapping) else None
    return _Asked(value[:_SEARCHED] if isinstance(value, str) else "")


def _patched(arguments: Any) -> list[str]:
    values = arguments.values() if isinstance(arguments, Mapping) else (arguments,)
    patch = next((text for text in values if isinstance(text, str) and "*** Begin Patch" in text), "")
    return list(dict.fromkeys(_PATCHED.findall(patch)))


def _shown(text: str, is_path: bool, clean: Clean) -> str:
    """Return a text without its secrets. A long path loses its beginning, and any other long text its
    middle. Raises RedactionError."""
    clear = clean(text) if text else ""
    line = clear if is_path else " ".join(clear.split())
    if len(line) <= _LONGEST:
        return line
    beginning = 0 if is_path else _BEGINNING
    start, _ = _around(line, beginning)
    _, end = _around(line, len(line) - _LONGEST + beginning + 1)
    return f"{line[:start]}…{line[end:]}"


def _around(text: str, place: int) -> tuple[int, int]:
    """Return the range of the placeholder around a place; an empty range if there is no placeholder."""
    found = _PLACEHOLDER.finditer(text, max(0, place - 120), place + 120)
    return next((each.span() for each in found if each.start() < place < each.end()), (place, place))
