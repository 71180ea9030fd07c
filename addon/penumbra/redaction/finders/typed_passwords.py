"""What stands alone in the next line: the password below the prompt for it, a value below its name.

Prompts end with a colon, `Enter password:`; a name with nothing behind it has its line for itself, as keys
and values alternate in what Redis prints to a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from penumbra.redaction.finders.value_reading import Value
from penumbra.redaction.program_names import is_program_word
from penumbra.redaction.values import Style

_BEGINS = (b"", b" ", b"\n", b"n", b"\\", b'"')
_TYPED = re.compile(
    rb"(?::|\xef\xbc\x9a)[ \t]{0,4}(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)(?![a-z0-9]{0,60}_[a-z0-9_]{0,60}\b)"
    rb"([^\s\"'`<>\\:=]{4,128})(?=[ \t]{0,8}(?:\r?\n|\\{1,31}[nr]|\\{0,31}\"|\Z))"
)


_BELOW = re.compile(
    rb"[\"']?[ \t]{0,4}(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)[ \t]{0,12}[\"']?([^\s\"'`<>\\:=]{6,512}={0,2})"
    rb"(?=[\"']?[ \t]{0,8}(?:\r?\n|\\{1,31}[nr]|\\{0,31}\"|\Z))"
)
_FIGURES = b"0123456789"
_NAME_OF_SEVERAL = re.compile(rb"([A-Za-z]{2,20})[_.:-][A-Za-z0-9_.:-]{1,80}")
_HUMPS = re.compile(rb"([a-z]{2,8})(?:[A-Z][a-z]+){2,}[A-Z0-9]{0,6}")
_CONSTANT = re.compile(rb"[A-Z]{1,14}[0-9]?(?:_[A-Z]{1,14}[0-9]?)+")
_COMMIT = re.compile(rb"[0-9a-f]{40}")
_ALONE = re.compile(rb"(?:\A|\n|\\n|\\{0,31}\"|m)[ \t]{0,12}[\"']?\Z")


def typed(data: bytes, begin: int, end: int) -> Iterator[Value]:
    """The line below the prompt whose last word stands at `begin` to `end`."""
    if data[begin - 1 : begin] in _BEGINS and b"_" not in data[begin:end]:
        line = _TYPED.match(data, end)
        if line is not None:
            yield Value(*line.span(1), Style.PROSE)
    if data[begin:end] == b"pass":
        return  # A statement of Python.
    below = _BELOW.match(data, end)
    if below is None or _COMMIT.fullmatch(below[1]) or not _ALONE.search(data, max(0, begin - 16), begin):
        return
    if _is_next_name(data[begin:end], below[1]):
        return
    # Below `password` in a list of names, `Login42` is one of them.
    if not is_program_word(below[1].rstrip(_FIGURES).decode("utf-8", "replace").lower() or " "):
        yield Value(*below.span(1), Style.PROSE)


def _is_next_name(name: bytes, below: bytes) -> bool:
    """Return whether a line goes on a list of names that the one above it is of: both begin with one word, or
    both are written as constants are."""
    for form in (_NAME_OF_SEVERAL, _HUMPS):
        first, second = form.fullmatch(name), form.fullmatch(below)
        if first and second and first[1] == second[1]:
            return True
    return name.isupper() and _CONSTANT.fullmatch(below) is not None
