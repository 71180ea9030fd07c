"""This module finds secrets in the output of commands that print a secret (`rules/printed_secrets.yaml`).

Only the command shows that its output is a secret. A line with several words is a message and stays.

A text may also contain such a command after a prompt, as in `$ op read op://shop/db/password`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Any

from penumbra import rules
from penumbra.compress.calls.command_match import Commands
from penumbra.compress.calls.programs import shell_rules
from penumbra.compress.calls.shell import Part, parse
from penumbra.linear import LinearText
from penumbra.redaction import shared_patterns
from penumbra.redaction.judgement import is_secret, judge
from penumbra.redaction.names import NAMES, Name, Strength
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style, has_digit, is_opaque, kinds
from penumbra.short_texts import forgettable

_LINES = 12
"""If an output has more lines that are not empty, only its random words are secrets."""
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
"""This pattern matches a name with a value. Other finders find such values."""
_ENTRY = re.compile(rb"[\"']\s{0,4}:")
_ANYTHING = Name(Strength.PASSWORD, "credential")


@dataclass(frozen=True, slots=True)
class Printed:
    """A `Printed` describes the secret that a command line prints."""

    name: Name
    only: bool = True
    """True if the command prints the secret and nothing else."""


_knowledge = partial(rules.table, "printed_secrets.yaml")


@cache
def _commands() -> tuple[Commands, Commands]:
    printers = _knowledge()
    always, naming = (Commands.of(printers[key], printers["unless"]) for key in ("commands", "naming"))
    return always, naming


@cache
def _patterns() -> tuple[Any, Any]:
    return LinearText("|".join(_knowledge()["paths"])), LinearText(_knowledge()["never"])


def printed_by(call: str) -> Printed | None:
    """Return the secret that `call` prints; None if there is none. `call` is a command line or the path of
    a file."""
    parts = parse(call)
    # `pwd` is a command and not a file with passwords.
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
    """Return the name of the secret that a command prints; None if there is none."""
    always, naming = _commands()
    if always.name_of(argv):
        return _ANYTHING
    words = argv[1:]
    if naming.name_of(argv):
        found = (match[0] for word in words for match in _IDENTIFIER.finditer(word[:2_000]))
        return _strongest(map(NAMES.judge, found))
    if argv[0] in shell_rules().echoes or argv[0].startswith("$"):
        return _echoed(argv, depth)
    if argv[0] in _knowledge()["readers"]:
        return _strongest(_file(word) for word in words if not word.startswith("-"))
    return None


def _echoed(argv: Sequence[str], depth: int) -> Name | None:
    """Return the name of the secret in the arguments of a command such as `echo`; None if there is none."""
    nested = (match for word in argv for match in _NESTED.finditer(word[:4_000]))
    for match in nested if depth < _DEEPEST else ():
        if (name := _of_parts(parse(match[1] or match[2]), depth + 1)) is not None:
            return name.name
    variables = (match for word in argv for match in _VARIABLE.finditer(word[:2_000]))
    return _strongest(NAMES.judge(match[1] or match[2]) for match in variables)


def _strongest(names: Iterable[Name | None]) -> Name | None:
    strong = [name for name in names if name is not None and name.strength >= Strength.STRONG]
    return max(strong, key=lambda name: name.strength, default=None)


def _file(path: str) -> Name | None:
    """Return the name of the secret if the file contains only a secret; None for other files."""
    path = path[:1_000].replace("\\", "/")
    if path in _knowledge()["public_paths"]:
        return None
    paths, _ = _patterns()
    if paths.search(path):
        return _ANYTHING
    stem, dot, ending = path.rpartition("/")[2].lstrip(".").rpartition(".")
    if dot and ending not in _knowledge()["path_endings"]:
        return None
    return _ANYTHING if _strongest([NAMES.judge(stem or ending)]) else None


def values(data: bytes, what: Printed) -> Iterator[Span]:
    """Yield the secrets in the output of a command that prints the secret `what`."""
    sure = what.only and len(data) <= _LONGEST and data.count(b"\n") <= 4 * _LINES
    sure = sure and sum(1 for line in data.split(b"\n") if line.strip()) <= _LINES
    in_json = data.lstrip()[:1] in (b"{", b"[")
    at = 0
    while (match := _PIECE.search(data, at)) is not None:
        at = match.end(1)
        if not _ENTRY.match(data, at) and _is_value(match[1], what.name, sure, in_json):
            yield Span(*match.span(1), what.name.label, "printed-secret", Rank.STRUCTURE)


def programs() -> frozenset[str]:
    """Return the names of the programs that may print a secret."""
    known = _knowledge()
    lines = (*known["commands"], *known["naming"])
    first = (line.split()[0] for line in lines)
    return frozenset(known["readers"]) | {
        name for word in first for name in word.split("|") if "*" not in name
    }


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


_SIGNS = (b"$ ", b"\xe2\x9d\xaf ")
_WEAK_SIGNS = (b"# ", b"% ", b"> ")
"""These signs also begin other lines, so they count as prompts only before known programs."""
_BEFORE = ("sudo", "env", "curl")
"""Further programs: a weak sign before one of these names counts as a prompt."""
_REACH = 240
"""The beginning of a line is looked for in at most this number of bytes before a prompt's sign."""
_TAG = b">"
"""A prompt may follow an HTML tag, which ends with this byte."""
_QUOTES = (b'"', b"'", b"`")
_MOST = 2_000
"""The greatest number of prompts in one text that are read."""
_LONGEST_OUT = 1_000
_FRONT = rb"(?:" + shared_patterns.LINE_START + rb"|\x1b\[[0-9;]{0,8}m|[ \t]){0,6}+"
_ESCAPED = rb"\\{0,31}r?\\{1,31}n"
_REAL = rb"\r?\n"
_WHERE = (
    rb"(?:\([\w.-]{1,40}\) )?"
    rb"(?:(\[?[\w.-]{1,40}@[\w.-]{1,60}[: ][\w~/. -]{0,80}\]?|(?:PS [A-Z]:|[A-Z]:\\)[^\s>]{0,80}"
    rb"|[\w.~/-]{1,40} )|)[ ]?"
)
"""This pattern matches the text before a prompt's sign, such as `user@host:path` or a folder."""
_PROMPT = late(_FRONT + _WHERE + rb"\Z")
_FRONTS = late(_FRONT)
_NEXT = late(_FRONT + _WHERE + rb"(?:" + rb"|".join(map(re.escape, _SIGNS + _WEAK_SIGNS)) + rb")")
_LINE = late(rb"([^\r\n]{0,%d})(" % _LONGEST_OUT + _REAL + rb"|\Z)")
_LINE_OF_STRING = late(
    rb"((?:[^\r\n\\]|\\{1,31}(?!r\\{1,31}n)[^n\\\n]){0,%d}+)(" % _LONGEST_OUT
    + _ESCAPED
    + rb"|"
    + _REAL
    + rb"|\Z)"
)
_VALUE = late(
    rb"([^\s\"'\\\x1b<]{4,%d})(?:\x1b\[[0-9;]{0,8}m|[ \t]){0,4}(?=\\{0,31}[\"'`]|</|\Z)" % _LONGEST_OUT
)
_TELLING = late(
    rb"(?i)token|secret|passw|credential|api.?key|\.key\b|netrc|pgpass|auth|rand\b|id_rsa|genkey|genpsk"
)
"""This pattern matches words in commands that may print a secret."""
_QUOTE = late(rb"(?<!\\)\\++(?=[\"'`$])")


@forgettable(256)
def _secret_of(command: bytes) -> Printed | None:
    return printed_by(_QUOTE.sub(b"", command).decode("utf-8", "replace"))


def _find(data: bytes, low: bytes, starts: list[int]) -> Iterator[Span]:
    prompts = (prompt for start in starts if (prompt := _prompt(data, start)) is not None)
    for sign, is_sure, form in islice(prompts, _MOST):
        lines = _lines(data, data.index(b" ", sign) + 1, form)
        line = next(lines, None)
        if line is None:
            continue
        command = line[1]
        what = _secret_of(command) if is_sure else None
        if what is not None and what.only:
            yield from _below(data, lines, what)
        elif what is not None or _TELLING.search(command):
            yield from _first(data, lines)


def _prompt(data: bytes, sign: int) -> tuple[int, bool, re.Pattern[bytes]] | None:
    """Return the offset of a prompt's sign, True if the prompt is certain, and the pattern for its lines;
    None if there is no prompt."""
    least = max(0, sign - _REACH)
    real = data.rfind(b"\n", least, sign)
    of_string = max(data.rfind(end, least, sign) for end in _QUOTES)
    if (escaped := data.rfind(b"\\n", max(least, of_string, real), sign)) >= 0:
        of_string = escaped + 1
    begin = max(real, of_string, data.rfind(_TAG, least, sign)) + 1
    if begin == 0 and least:
        return None
    before = _PROMPT.match(data, begin, sign)
    if before is None:
        return None
    # Without a user or folder, a comment, a heading or a quotation may look like a prompt.
    is_sure = before[1] is not None or data[sign] not in b"#>%"
    return sign, is_sure, _LINE if real >= of_string else _LINE_OF_STRING


def _below(data: bytes, lines: Iterator[re.Match[bytes]], what: Printed) -> Iterator[Span]:
    """Yield the secrets that are alone in their lines."""
    for line in islice(lines, _LINES):
        start, end = _alone(data, line)
        if _is_value(data[start:end], what.name, sure=True, in_json=False):
            yield Span(start, end, what.name.label, "printed-secret", Rank.STRUCTURE)


def _first(data: bytes, lines: Iterator[re.Match[bytes]]) -> Iterator[Span]:
    """Yield the first line if it consists of one random word."""
    for line in islice(lines, 1):
        start, end = _alone(data, line)
        text = data[start:end].decode("utf-8", "replace")
        if judge("lone_word", text):
            yield Span(start, end, "credential", "printed-credential", Rank.STRUCTURE)


def _alone(data: bytes, line: re.Match[bytes]) -> tuple[int, int]:
    """Return the range of the only word in a line, or (0, 0) if the line has several words."""
    # `_FRONTS` expects a space at the end of the prefix, and an empty line has no space.
    front = _FRONTS.match(line[1] + b" ")
    value = _VALUE.match(data, line.start(1) + (front.end() if front else 0), line.end(1))
    return value.span(1) if value else (0, 0)


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """Yield the line that begins at `at`, and the lines after it up to the next prompt."""
    while (line := form.match(data, at)) is not None:
        yield line
        at = line.end()
        if not line[2] or at == len(data) or _NEXT.match(data, at):
            return


def _anchors() -> tuple[bytes, ...]:
    names = sorted({*programs(), *shell_rules().echoes, *_BEFORE})
    weak = (sign + name.lower().encode() for sign in _WEAK_SIGNS for name in names)
    return (*_SIGNS, *weak)


TRANSCRIPTS = Finder("transcripts", _anchors(), _find)
