"""Commands that print one bare secret, and what of their output it is: `rules/printed_secrets.yaml`.

Nothing in such an output tells that it is a secret; the call does. Only values are taken out: lines of
several words are messages, and stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from penumbra import rules
from penumbra.compress.calls.command_match import Commands
from penumbra.compress.calls.programs import shell_rules
from penumbra.compress.calls.shell import Part, parse
from penumbra.linear import LinearText
from penumbra.redaction.judgement import is_secret
from penumbra.redaction.names import Name, Names, Strength
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.values import Style, has_digit, is_opaque, kinds

_LINES = 12
"""Lines with something in them; of a longer output, only what a machine has made is taken for the secret."""
_LONGEST = 65_536
_DEEPEST = 4
_NESTED = re.compile(r"\$\(([^()]{1,1000})\)|`([^`]{1,1000})`")
_VARIABLE = re.compile(r"\$\{?(?:env:)?([A-Za-z_]\w{0,80})|%([A-Za-z_]\w{0,80})%")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w-]{1,80}")
_PIECE = re.compile(
    rb"(?:^|[\n\"']|\\{1,3}[nr\"])(?:\x1b\[[0-9;]{0,8}m){0,2}[ \t]{0,8}"
    rb"((?:[^\s\"'\\\x1b]|\\{1,3}/){4,4096}+)"
    rb"[ \t]{0,8}(?=\r?\n|\Z|[\"'\x1b]|\\{1,3}[nr\"])"
)
_LABEL = re.compile(r"\S{0,80}:$|[A-Za-z_][A-Za-z_.-]{0,80}=[^=]")
"""What names a value, beside it or on the next line: that is for others to judge."""
_ENTRY = re.compile(rb"[\"']\s{0,4}:")
_ANYTHING = Name(Strength.PASSWORD, "credential")


@dataclass(frozen=True, slots=True)
class Printed:
    """A command line that prints a secret."""

    name: Name
    only: bool = True
    """It prints nothing else."""


@cache
def _knowledge() -> dict[str, Any]:
    loaded: dict[str, Any] = rules.load("printed_secrets.yaml")
    return loaded


@cache
def _commands() -> tuple[Commands, Commands]:
    printers = _knowledge()
    return Commands(printers["commands"], printers["unless"]), Commands(
        printers["naming"], printers["unless"]
    )


@cache
def _patterns() -> tuple[Any, Any]:
    return LinearText("|".join(_knowledge()["paths"])), LinearText(_knowledge()["never"])


_names = cache(Names)


def printed(call: str) -> Printed | None:
    """Whether a command line, or the reading of a file with this path, prints a bare secret."""
    parts = parse(call)
    # `pwd` is a command, and no file of passwords.
    is_command = "/" not in call and bool(parts) and all(part.brief for part in parts)
    if not is_command and not any(space in call for space in " \t\n") and (file := _file(call)):
        return Printed(file)
    return _of_parts(parts, 0)


def _of_parts(parts: Sequence[Part], depth: int) -> Printed | None:
    names = [_of_part(part, depth) for part in parts]
    printed_names = [name for name in names if name is not None]
    if not printed_names:
        return None
    others = (part for part, name in zip(parts, names, strict=True) if name is None)
    only = not any(not part.echo and not part.brief for part in others)
    return Printed(max(printed_names, key=lambda name: name.strength), only)


def _of_part(part: Part, depth: int) -> Name | None:
    if part.argv[0] in _knowledge()["masks"]:
        return None
    for argv in (part.argv, *part.fed):
        if (name := _of_command(argv, depth)) is not None:
            return name
    return None


def _of_command(argv: Sequence[str], depth: int) -> Name | None:
    """The name of the secret that a command prints; None if it prints none that is known."""
    always, naming = _commands()
    if always.hold(argv):
        return _ANYTHING
    words = argv[1:]
    if naming.hold(argv):
        return _strongest(match[0] for word in words for match in _IDENTIFIER.finditer(word[:2_000]))
    if argv[0] in shell_rules().echoes or argv[0].startswith("$"):
        return _echoed(argv, depth)
    if argv[0] in _knowledge()["readers"]:
        return _strongest_name(_file(word) for word in words if not word.startswith("-"))
    return None


def _echoed(argv: Sequence[str], depth: int) -> Name | None:
    """What is secret of the words that a command prints again."""
    for line in (nested for word in argv for nested in _nested(word)) if depth < _DEEPEST else ():
        if (name := _of_parts(parse(line), depth + 1)) is not None:
            return name.name
    variables = (match for word in argv for match in _VARIABLE.finditer(word[:2_000]))
    return _strongest(match[1] or match[2] for match in variables)


def _nested(word: str) -> Iterator[str]:
    return (match[1] or match[2] for match in _NESTED.finditer(word[:4_000]))


def _strongest(words: Iterable[str]) -> Name | None:
    return _strongest_name(_names().judge(word) for word in words)


def _strongest_name(names: Iterable[Name | None]) -> Name | None:
    strong = [name for name in names if name is not None and name.strength >= Strength.STRONG]
    return max(strong, key=lambda name: name.strength, default=None)


def _file(path: str) -> Name | None:
    """What a file holds that is all one secret."""
    path = path[:1_000].replace("\\", "/")
    if path in _knowledge()["public_paths"]:
        return None
    paths, _ = _patterns()
    if paths.search(path):
        return _ANYTHING
    stem, dot, ending = path.rpartition("/")[2].lstrip(".").rpartition(".")
    if dot and ending not in _knowledge()["path_endings"]:
        return None
    return _ANYTHING if _strongest([stem or ending]) else None


def values(data: bytes, what: Printed) -> Iterator[Span]:
    """The values in the output of such a command."""
    sure = what.only and len(data) <= _LONGEST and data.count(b"\n") <= 4 * _LINES
    sure = sure and sum(1 for line in data.split(b"\n") if line.strip()) <= _LINES
    in_json = data.lstrip()[:1] in (b"{", b"[")
    at = 0
    while (match := _PIECE.search(data, at)) is not None:
        at = match.end(1)
        if not _ENTRY.match(data, at) and _is_value(match[1], what.name, sure, in_json):
            yield Span(*match.span(1), what.name.label, "printed-secret", Rank.STRUCTURE)


def programs() -> frozenset[str]:
    """The programs that may print a bare secret, by their names."""
    known = _knowledge()
    lines = (*known["commands"], *known["naming"])
    first = (line.split()[0] for line in lines)
    return frozenset(known["readers"]) | {
        name for word in first for name in word.split("|") if "*" not in name
    }


def is_lone_secret(raw: bytes, name: Name) -> bool:
    """Whether what stands alone in a line, where a command prints a secret of that name, is one."""
    return _is_value(raw, name, sure=True, in_json=False)


def _is_value(raw: bytes, name: Name, sure: bool, in_json: bool) -> bool:
    text = raw.decode("utf-8", "replace")
    _, never = _patterns()
    if PATTERN.search(text) or never.search(text[:200]) or _LABEL.match(text):
        return False
    if not sure:
        return is_opaque(text, 12) and has_digit(text)
    if in_json and kinds(text) < 2:
        return False
    return is_secret(text, name.strength, Style.ENV)
