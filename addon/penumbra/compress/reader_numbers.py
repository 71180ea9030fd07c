"""The owner of the numbers before a file's lines: a reader, which counts them, or the file itself."""

from __future__ import annotations

from penumbra.compress.calls.classify import Call
from penumbra.compress.calls.envelope import has_own_tags, is_in_tags
from penumbra.compress.stages import line_numbers

_HEADING = 2_000
"""Characters in which a thinned text says that it is thinned."""


def may_be_the_files(text: str, original: str, call: Call) -> bool:
    """True if the numbers in what a tool has read may be the file's. `original`: the result as it came."""
    if has_own_tags(text):
        return True
    first = line_numbers.first_number(text)
    is_asked = first is not None and first > 1 and first in call.numbers
    is_told = is_asked or is_in_tags(original, call.path)
    return not is_told and line_numbers.may_be_of_the_file(text, call.signs)


def count_lines(text: str, call: Call, original: str | None = None) -> bool:
    """True if the numbers in a text of files, if it has any, are known to count its lines. `original`: the
    output that it was made of, if that has other lines."""
    if line_numbers.LEGEND in text[:_HEADING]:
        return True
    if call.shell or call.category != "read":
        return call.is_numbered
    came = text if original is None else original
    return not may_be_the_files(came, came, call)
