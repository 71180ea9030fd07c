"""This module defines parts of patterns that several finders share, and compiles patterns at their first
use."""

from __future__ import annotations

import re
from typing import Any, cast

# Tools write these prefixes before lines: numbers, file names, signs of diffs and comments, times, and names
# of services.
NUMBERED = rb"[ \t]{0,8}[0-9]{1,7}(?:\xe2\x86\x92|\t)"
FILE = rb"[\w./-]{1,80}[:-][0-9]{1,7}[:-]"
_TIME = (
    rb"\[?[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-9:.,]{5,20}(?:Z|[+-][0-9]{2}:?[0-9]{2})?\]?[ \t]"
    rb"(?:(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL)[ ]{1,3})?(?:\[[\w.:/-]{1,40}\] ){0,3}"
)
_SYSLOG = (
    rb"[A-Z][a-z]{2} [ 0-3][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2} [\w.-]{1,60} [\w./@-]{1,60}(?:\[[0-9]{1,8}\])?: "
)
_SERVICE = rb"[\w.-]{1,60} {1,40}\| "
_POD = rb"\[[a-z]{1,12}/[\w./-]{1,120}\][ ]"
_JOB = rb"[^\t\n\\]{1,60}\t[^\t\n\\]{1,60}\t(?=[0-9]{4}-)"
"""Prefix that `gh run view --log` writes before the time."""
_BLAME = (
    rb"\^?[0-9a-f]{7,40} \([^()\n]{2,60} "
    rb"[0-9]{4}-[01][0-9]-[0-3][0-9] [0-9:]{8} [+-][0-9]{4} {1,7}[0-9]{1,7}\)[ ]"
)
_COMMENT = rb"(?:#|//|--|;)[ ]"
SAYING = rb"|".join((rb"(?:" + _JOB + rb")?" + _TIME, _SYSLOG, _SERVICE, _POD, _BLAME, _COMMENT))
"""Prefixes with the time or the author of a line, and the signs of comments."""
WORDS = rb"|".join((NUMBERED, SAYING, FILE))
"""All prefixes of lines except the signs of diffs and quotations."""
LINE_START = WORDS + rb"|(?:> ?){2,8}|[+>-]"
LINE_BREAK = (
    rb"(?:[ \t]{0,8}(?:\r?\n|\\{1,31}(?:r\\{1,31})?n)(?:[ \t]{0,8}(?:"
    + rb"|".join((NUMBERED, _TIME, _SYSLOG, _SERVICE, _COMMENT, FILE, rb"[+>-]"))
    + rb")){0,2}[ \t]{0,8})"
)
"""In rules, `{LINE}` means this pattern for RE2: a line break and any prefix of the next line."""
QUOTE = rb"(?:\\{0,31}[\"'`])"
BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
LEAD = rb"(?:" + LINE_START + rb")?"
_PARTS = {"QUOTE": QUOTE, "BREAK": BREAK, "LEAD": LEAD}


class _Late:
    def __init__(self, pattern: bytes, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.pattern, self._flags)
        # Later look-ups find these attributes and do not call this method.
        for method in ("match", "search", "fullmatch", "finditer", "split", "sub"):
            self.__dict__[method] = getattr(compiled, method)
        return getattr(compiled, name)


def late(pattern: bytes, flags: int = 0, **parts: bytes) -> re.Pattern[bytes]:
    """Return a pattern that is compiled at its first use. An error in the pattern is raised at that time. In
    the pattern, `{QUOTE}` means a quote with its backslashes, `{BREAK}` a plain or escaped line break, and
    `{LEAD}` an optional prefix of a line. `parts` defines further names."""
    for name, part in (parts | _PARTS).items():
        pattern = pattern.replace(b"{%b}" % name.encode(), part)
    return cast("re.Pattern[bytes]", _Late(pattern, flags))
