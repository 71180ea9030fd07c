"""This stage shortens a JSON value to the members that matter most, as in:

{"users":[{"id":1,"bio":"Born in\\n[21 lines left out]\\nof May"},"[41 items left out]"],"[more keys]":3}

The selection chooses among units: values without members, lines of long strings, and the brackets around
them. A unit is shown only with the brackets around it. Numbers keep their spelling. Members that repeat the
row above are no units. URLs that begin with another URL of the object are no units either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from penumbra.compress import facts, failure_lines, selection
from penumbra.compress.facts import TextFacts
from penumbra.compress.selection import Selection, Units
from penumbra.compress.size import counted, size
from penumbra.compress.stages import json_minify
from penumbra.compress.stages.json_minify import quoted
from penumbra.linear import utf8

_TEXT = msgspec.json.Decoder(str)
_ADDRESS = re.compile(r'"[a-z]{2,8}://[^\s"\\]+"')
_LONGEST_NAME, _NAMES = 120, 4
"""A value of at most `_LONGEST_NAME` characters may name its object. An object has at most `_NAMES` names."""
_WHOLE, _STRING = 40, 300
"""An array or object of at most `_WHOLE` characters, or a string of at most `_STRING`, is one unit."""
_DEEPEST = 64
"""At this depth, members are only counted."""
_OF_NAMES, _OF_BEGINNINGS, _OF_FAILURES = 60, 30, 30
"""The percentages of the byte limit for names of objects, beginnings of long strings, and failures."""
_LEAST = 16
"""A shorter unit counts as this number of characters, since the time grows with the number of units."""
_MARK = 6
"""The average size in bytes of the mark for a gap."""
_MORE, _TRIES = 1.5, 8
"""The first budget is `_MORE` times the limit. At most `_TRIES` budgets are tried."""


@dataclass(slots=True)
class _Tree:
    """A `_Tree` is a JSON value as a list of units in the order of the text. A unit for an object, an array
    or a long string is followed by the units of its members or lines."""

    above: str = ""
    """The JSON in the row above; empty if there is none."""
    texts: list[str] = field(default_factory=list)
    """The JSON of each unit with its key. Units with members or lines have only brackets or quotes."""
    parents: list[int] = field(default_factory=list)
    """The number of the unit that encloses each unit; 0 for the first."""
    ends: list[int] = field(default_factory=list)
    """For each unit, the number after the number of the last unit within it."""
    members: list[int] = field(default_factory=list)
    """The number of all items or keys of each unit, also of those that are no units."""
    names: list[list[int]] = field(default_factory=list)
    """By depth, the numbers of the units that name their object or have members of their own."""
    beginnings: list[int] = field(default_factory=list)
    """The numbers of the first lines of long strings."""
    left: int = facts.LONGEST
    """The number of characters that further units may take. If none are left, members are only counted."""

    def add(self, source: str, parent: int = 0, depth: int = 0, key: str = "") -> None:
        """Add the units of a value."""
        longest = _STRING if source[0] == '"' else _WHOLE
        is_whole = (len(source) <= longest and depth > 0) or source[0] not in '"[{'
        number = self._append(key + (source if is_whole else source[0] + source[-1]), parent)
        if is_whole:
            return
        if source[0] == "{":
            self._add_members(source, number, depth)
        elif source[0] == "[":
            items = json_minify.items(source)
            self.members[number] = len(items)
            for item in items:
                if self.left <= 0 or depth == _DEEPEST:
                    break
                self.add(item, number, depth + 1)
        else:
            self.beginnings.append(number + 1)
            for line in Units.of(utf8(_TEXT.decode(utf8(source)))).texts():
                self._append(line.decode("utf-8", "surrogatepass"), number)
        self.ends[number] = len(self.texts)

    def _append(self, text: str, parent: int) -> int:
        self.texts.append(text)
        self.parents.append(parent)
        self.members.append(0)
        self.ends.append(len(self.texts))
        self.left -= max(len(text), _LEAST)
        return len(self.texts) - 1

    def _add_members(self, source: str, number: int, depth: int) -> None:
        members = json_minify.members(source)
        self.members[number] = len(members)
        derived, names = _derived(members), 0
        if not depth:
            derived |= _repeated(members, self.above)
        while len(self.names) <= depth:
            self.names.append([])
        for key, value in members.items():
            if self.left <= 0 or depth == _DEEPEST:
                break
            if key in derived:
                continue
            is_name = _is_name(value) and names < _NAMES
            names += is_name
            if is_name or (value[0] in "[{" and len(value) > _WHOLE):
                self.names[depth].append(len(self.texts))
            self.add(value, number, depth + 1, f"{quoted(key)}:")

    def written(self, shown: bytearray, number: int = 0) -> str:
        """Return the JSON of a unit, with marks for hidden units in it."""
        text, end = self.texts[number], self.ends[number]
        if end == number + 1 and not self.members[number]:
            return text
        if text[-1] == '"':
            inner = Selection(Units.joined([utf8(self.texts[at]) for at in range(number + 1, end)], b""), 0)
            inner.shown = shown[number + 1 : end]
            return text[:-2] + quoted(inner.written())
        children, at = [], number + 1
        while at < end:
            children.append(at)
            at = self.ends[at]
        beyond = self.members[number] - len(children)
        parts: list[str] = []
        if text[-1] == "]":
            for is_shown, run in groupby(children, key=shown.__getitem__):
                same = list(run)
                parts += [self.written(shown, at) for at in same] if is_shown else [_left_out(len(same))]
            parts += [_left_out(beyond)] if beyond else []
        else:
            parts = [self.written(shown, at) for at in children if shown[at]]
            if missing := self.members[number] - len(parts):
                parts.append(f'"[more keys]":{missing}')
        return f"{text[:-1]}{','.join(parts)}{text[-1]}"


def prune(
    text: str, space: int, compared: Callable[[Units], TextFacts] | None = None, above: str = ""
) -> str | None:
    """Return a JSON value in at most `space` bytes; None for other texts, for repeated keys, and if no budget
    is small enough. `compared` returns the facts of units. Without `compared`, the order of the text counts.
    `above` is the JSON in the row above."""
    body = text.strip(" \t\r\n")
    tree = _Tree(above)
    try:
        if body[:1] not in ("{", "[") or _has_repeated_members(body):
            return None
        tree.add(body)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None
    units = Units.joined([utf8(unit) for unit in tree.texts])
    weighed = compared(units) if compared else None
    needs = {at: [parent] for at, parent in enumerate(tree.parents) if at}
    names = [name for of_depth in tree.names for name in of_depth]
    failures = failure_lines.ranked([unit.replace("\n", " ") for unit in tree.texts])
    budget = int(space * _MORE)
    for _ in range(_TRIES):
        chosen = Selection(units, budget + selection.ASIDE, weighed, needs, _MARK)
        chosen.take([0], 100)
        chosen.take(names, _OF_NAMES)
        chosen.take(tree.beginnings, _OF_BEGINNINGS)
        chosen.take(failures, _OF_FAILURES)
        chosen.fill()
        written = tree.written(chosen.shown)
        if (taken := size(written)) <= space:
            return written
        budget = min(budget - 1, budget * space * 9 // (taken * 10))
    return None


def _left_out(items: int) -> str:
    return f'"[{counted(items, "item")} left out]"'


def _has_repeated_members(source: str) -> bool:
    """Return whether an object has two members with the same name. A decoder would drop one of them."""
    repeated: list[bool] = []

    def hook(members: list[tuple[str, object]]) -> None:
        repeated.append(len(dict(members)) < len(members))

    json.loads(source, object_pairs_hook=hook, parse_float=str, parse_int=str)
    return any(repeated)


def _is_name(value: str) -> bool:
    """Return whether a value may name its object: a number, or a short string that is no URL."""
    if value[0] != '"':
        return value[0] in "-0123456789"
    return 2 < len(value) <= _LONGEST_NAME and "://" not in value


def _derived(members: Mapping[str, str]) -> frozenset[str]:
    """Return the keys of URLs that are templates or begin with another URL; empty if all URLs do so."""
    addresses = sorted((value[1:-1], key) for key, value in members.items() if _ADDRESS.match(value))
    derived: set[str] = set()
    base = ""
    for address, key in addresses:
        continued = address[len(base) :]
        if "{" in address or (base and address.startswith(base) and continued[:1] in ("/", "?", "#")):
            derived.add(key)
        else:
            base = address
    return frozenset(derived) if len(derived) < len(addresses) else frozenset()


def _repeated(members: Mapping[str, str], above: str) -> frozenset[str]:
    """Return the keys of members whose value is the same in the row above; empty if all members are."""
    try:
        earlier = json_minify.members(above)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return frozenset()
    repeated = {key for key, value in earlier.items() if members.get(key) == value}
    return frozenset(repeated) if len(repeated) < len(members) else frozenset()
