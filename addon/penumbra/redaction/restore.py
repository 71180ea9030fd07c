"""Puts values back where the model wrote placeholders into the arguments of a file edit.

The arguments of a call arrive in fragments of any size. A fragment is passed on at once, but for a tail
that may be the beginning of a placeholder. A placeholder waits until it is known which file the call
edits: the path may stand behind it. What is not known at the call's end stays a placeholder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from penumbra.redaction.files import Kind, edit_kind, path_keys, resolved
from penumbra.redaction.placeholder import MAX_LENGTH, PATTERN
from penumbra.redaction.vault import Values
from penumbra.wire.json_text import JsonText, Object, Sort, unescaped

_HEAD = "[REDACTED:"
_BEGUN = re.compile(r"[a-z0-9][a-z0-9-]{0,39}(?::[a-z2-7]{0,6})?|")
_SECTION = re.compile(r"\*\*\* (?:Update|Add|Delete) File: ([^\n]+)")
_NOWHERE = ("*** Move to: ", "*** End Patch", "*** Begin Patch")
_LONGEST_LINE = 5_000
"""Characters of a patch's line that may name a file."""


class Restorer(Protocol):
    """The arguments of one call, as text."""

    @property
    def used(self) -> Mapping[str, str]:
        """Placeholder -> value, of what was put back so far."""
        ...

    def feed(self, fragment: str) -> str:
        """What can be passed on after this fragment; may be empty."""
        ...

    def finish(self) -> str:
        """What was held back, at the end of the call."""
        ...


def restorer(tool: str, values: Values, root: str, *, freeform: bool) -> Restorer | None:
    """For the arguments of a call; None if nothing may be put back into them.

    `freeform`: they are text, else JSON. `root`: the folder that relative paths start from.
    """
    kind = edit_kind(tool)
    if not kind or not values or (freeform and kind != "patch"):
        return None
    return PatchRestorer(values, root) if freeform else JsonRestorer(values, root, kind)


def json_escaped(value: str) -> str:
    """The value as it is written inside of a JSON string, without the quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def may_become(text: str) -> bool:
    """Whether a text that begins with a bracket may be the beginning of a placeholder."""
    if len(text) <= len(_HEAD):
        return _HEAD.startswith(text)
    return text.startswith(_HEAD) and _BEGUN.fullmatch(text, len(_HEAD)) is not None


@dataclass(slots=True)
class Patch:
    """Follows a patch, and knows the file of the section that it is in."""

    path: str = ""
    _line: str = ""

    def add(self, text: str) -> None:
        """More of the patch."""
        *lines, rest = text.split("\n")
        for line in lines:
            self._end(self._line + line)
            self._line = ""
        self._line = (self._line + rest)[:_LONGEST_LINE]

    def _end(self, line: str) -> None:
        if section := _SECTION.fullmatch(line.rstrip()):
            self.path = section[1].strip()
        elif line.startswith(_NOWHERE):
            self.path = ""


def fits_patch(value: str) -> bool:
    """A patch is made of lines with a sign in front: a value of several lines can't stand there."""
    return "\n" not in value and "\r" not in value


@dataclass(slots=True)
class PatchRestorer:
    """A patch as it is."""

    values: Values
    root: str
    used: dict[str, str] = field(default_factory=dict)
    _patch: Patch = field(default_factory=Patch)
    _held: str = ""

    def feed(self, fragment: str) -> str:
        text, self._held = self._held + fragment, ""
        out: list[str] = []
        at = 0
        while (bracket := text.find("[", at)) >= 0:
            out.append(self._plain(text[at:bracket]))
            mark = PATTERN.match(text, bracket)
            if mark is None and may_become(text[bracket:]):
                self._held = text[bracket:]
                return "".join(out)
            at = mark.end() if mark else bracket + 1
            out.append(self._value(mark[0]) if mark else self._plain("["))
        return "".join([*out, self._plain(text[at:])])

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held

    def _plain(self, text: str) -> str:
        self._patch.add(text)
        return text

    def _value(self, mark: str) -> str:
        self._patch.add(mark)
        value = self.values.of(resolved(self._patch.path, self.root)).get(mark)
        if value is None or not fits_patch(value):
            return mark
        self.used[mark] = value
        return value


@dataclass(slots=True)
class _Mark:
    """A placeholder that waits for the path of its call."""

    text: str
    scope: Object
    settled: bool = False
    """`text` is what goes out."""


class JsonRestorer:
    """Arguments that are JSON."""

    def __init__(self, values: Values, root: str, kind: Kind) -> None:
        self.used: dict[str, str] = {}
        self._values = values
        self._root = root
        self._is_patch = kind == "patch"
        self._json = JsonText()
        self._paths: dict[Object, str] = {}
        """The file that an object names; empty if it names two."""
        self._patch = Patch()
        self._path: list[str] | None = None
        """Pieces of the string that is being read, if it is a path."""
        self._waiting: list[str | _Mark] = []
        """What goes out as soon as everything before it is settled."""
        self._open: list[_Mark] = []

    def feed(self, fragment: str) -> str:
        self._json.add(fragment)
        for sort, text in self._json.pieces():
            if sort is not Sort.BRACKET:
                self._plain(sort, text)
            elif not self._bracket():
                break
        return self._ready(final=False)

    def finish(self) -> str:
        self._waiting.append(self._json.take_all())
        return self._ready(final=True)

    def _plain(self, sort: Sort, text: str) -> None:
        self._waiting.append(text)
        if sort is Sort.BEGIN:
            self._patch = Patch()
            self._path = [] if self._json.at.key in path_keys() else None
        elif sort is Sort.TEXT:
            self._note(text)
        elif sort is Sort.END and self._path is not None:
            path = resolved(unescaped("".join(self._path)), self._root)
            known = self._paths.setdefault(self._json.at, path)
            if known != path:
                self._paths[self._json.at] = ""
            self._path = None
            self._open = [mark for mark in self._open if not self._settles(mark)]

    def _note(self, text: str) -> None:
        if self._path is not None:
            self._path.append(text)
        elif self._is_patch:
            self._patch.add(unescaped(text))

    def _bracket(self) -> bool:
        """Read what begins with a bracket; False if that can't be told yet."""
        rest = self._json.ahead(MAX_LENGTH)
        mark = PATTERN.match(rest)
        if mark is None and may_become(rest):
            return False
        if mark is None or self._path is not None or mark[0] not in self._values:
            text = self._json.take(1)
            self._waiting.append(text)
            self._note(text)
            return True
        text = self._json.take(mark.end())
        if self._is_patch and self._patch.path:
            self._waiting.append(self._value(text, resolved(self._patch.path, self._root)))
        else:
            found = _Mark(text, self._json.at)
            self._waiting.append(found)
            if not self._settles(found):
                self._open.append(found)
        self._note(text)
        return True

    def _settles(self, mark: _Mark) -> bool:
        """Decide about a placeholder as soon as its file is known: never by what comes later, which a
        stream could not wait for."""
        path = self._path_of(mark.scope)
        if path is not None:
            mark.text, mark.settled = self._value(mark.text, path), True
        return mark.settled

    def _ready(self, *, final: bool) -> str:
        """What can be passed on: up to the first placeholder whose file is not known yet."""
        out: list[str] = []
        for item in self._waiting:
            if isinstance(item, _Mark):
                if not item.settled and not final:
                    break
                item = item.text
            out.append(item)
        del self._waiting[: len(out)]
        return "".join(out)

    def _path_of(self, scope: Object | None) -> str | None:
        while scope is not None:
            if scope in self._paths:
                return self._paths[scope]
            scope = scope.parent
        return None

    def _value(self, mark: str, path: str) -> str:
        value = self._values.of(path).get(mark)
        if value is None or (self._is_patch and not fits_patch(value)):
            return mark
        self.used[mark] = value
        return json_escaped(value)
