"""What a terminal shows below a command that prints one bare secret: `$ op read op://shop/db/password`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from penumbra.compress.calls.programs import shell_rules
from penumbra.redaction import fronts
from penumbra.redaction.finders.printed import Printed, is_lone_secret, printed, programs
from penumbra.redaction.late import late
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import has_digit, is_address, is_opaque
from penumbra.short_texts import forgettable

_SIGNS = (b"$ ", b"\xe2\x9d\xaf ")
_WEAK_SIGNS = (b"# ", b"% ", b"> ")
"""These stand in texts of all kinds: they are looked at in front of known programs only."""
_BEFORE = ("sudo", "env", "curl")
"""Programs that others stand behind."""
_REACH = 240
"""Bytes in front of a prompt's sign that are read."""
_TAG = b">"
"""What may end in front of a prompt, and says nothing of how lines do."""
_QUOTES = (b'"', b"'", b"`")
_MOST = 2_000
"""Prompts of one text that are looked at."""
_LINES = 12
"""Of an output that are read, empty ones among them."""
_LONGEST = 1_000
_FRONT = rb"(?:" + fronts.ANY + rb"|\x1b\[[0-9;]{0,8}m|[ \t]){0,6}+"
_ESCAPED = rb"\\{0,31}r?\\{1,31}n"
_REAL = rb"\r?\n"
_WHERE = (
    rb"(?:\([\w.-]{1,40}\) )?"
    rb"(?:(\[?[\w.-]{1,40}@[\w.-]{1,60}[: ][\w~/. -]{0,80}\]?|(?:PS [A-Z]:|[A-Z]:\\)[^\s>]{0,80}"
    rb"|[\w.~/-]{1,40} )|)[ ]?"
)
"""What may stand in front of a prompt's sign: nothing, `user@host:path`, `PS C:\\shop`, a folder."""
_PROMPT = late(_FRONT + _WHERE + rb"\Z")
_FRONTS = late(_FRONT)
_NEXT = late(_FRONT + _WHERE + rb"(?:" + rb"|".join(map(re.escape, _SIGNS + _WEAK_SIGNS)) + rb")")
_LINE = late(rb"([^\r\n]{0,%d})(" % _LONGEST + _REAL + rb"|\Z)")
_LINE_OF_STRING = late(
    rb"((?:[^\r\n\\]|\\{1,31}(?!r\\{1,31}n)[^n\\\n]){0,%d}+)(" % _LONGEST
    + _ESCAPED
    + rb"|"
    + _REAL
    + rb"|\Z)"
)
_VALUE = late(rb"([^\s\"'\\\x1b<]{4,%d})(?:\x1b\[[0-9;]{0,8}m|[ \t]){0,4}(?=\\{0,31}[\"'`]|</|\Z)" % _LONGEST)
_TELLING = late(
    rb"(?i)token|secret|passw|credential|api.?key|\.key\b|netrc|pgpass|auth|rand\b|id_rsa|genkey|genpsk"
)
"""What a command speaks of that may print a secret."""
_QUOTE = late(rb"(?<!\\)\\++(?=[\"'`$])")


@forgettable(256)
def _secret_of(command: bytes) -> Printed | None:
    return printed(_QUOTE.sub(b"", command).decode("utf-8", "replace"))


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
    """Where a prompt's sign stands, whether it can be nothing else, and how lines end there; None if it is
    none."""
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
    # A comment, a heading, a quotation begin as prompts do that say nothing of who and where.
    is_sure = before[1] is not None or data[sign] not in b"#>%"
    return sign, is_sure, _LINE if real >= of_string else _LINE_OF_STRING


def _below(data: bytes, lines: Iterator[re.Match[bytes]], what: Printed) -> Iterator[Span]:
    """The values that are alone in their lines, up to the next prompt."""
    for line in islice(lines, _LINES):
        start, end = _alone(data, line)
        if is_lone_secret(data[start:end], what.name):
            yield Span(start, end, what.name.label, "printed-secret", Rank.STRUCTURE)


def _first(data: bytes, lines: Iterator[re.Match[bytes]]) -> Iterator[Span]:
    """The first line, if a machine has made it."""
    for line in islice(lines, 1):
        start, end = _alone(data, line)
        text = data[start:end].decode("utf-8", "replace")
        if is_opaque(text, 16) and has_digit(text) and not is_address(text):
            yield Span(start, end, "credential", "printed-credential", Rank.STRUCTURE)


def _alone(data: bytes, line: re.Match[bytes]) -> tuple[int, int]:
    """Where the only word of a line stands; nowhere if there are more."""
    # A front ends in a blank, which what stood behind it may have taken along.
    front = _FRONTS.match(line[1] + b" ")
    value = _VALUE.match(data, line.start(1) + (front.end() if front else 0), line.end(1))
    return value.span(1) if value else (0, 0)


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Iterator[re.Match[bytes]]:
    """The line that begins at `at`, and those behind it up to the next prompt."""
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
