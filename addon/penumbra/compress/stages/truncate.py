"""This stage applies the hard limit on a result's size.

Failure lines that are cut are written below the text. A marker in each gap has the number of missing bytes.
Markers count for the limit. A text within the limit stays unchanged.
"""

from __future__ import annotations

from functools import partial

from penumbra.compress import failure_lines, selection
from penumbra.compress.calls import log_files
from penumbra.compress.critical_lines import Severity
from penumbra.compress.failure_lines import FailureLines
from penumbra.compress.size import counted, exceeds, head
from penumbra.compress.text import Text


def truncate(text: str, limit: int, reserve: int = 0, file: str | None = None) -> str | None:
    """Return the text cut to `limit - reserve` bytes, with markers; None if the text has at most `limit`
    bytes. The caller adds `reserve` bytes before the text. If markers don't fit, only the beginning stays.
    `file` is the path of the file whose text this is; None for other texts. In files that are no logs, lines
    that look like failures are code."""
    if not exceeds(text, limit):
        return None
    space = max(0, limit - reserve)
    if space < selection.LEAST:
        return head(text, space)
    data = Text.of(text).data
    failures = FailureLines.of(data) if file is None or log_files.is_log(file, text) else FailureLines()
    body = partial(selection.ends_in_part, data, mark=_marker, failures=failures)
    return failure_lines.write(failures, space, body, Severity.COMPLAINT, least=selection.LEAST)


def _marker(start: int, end: int) -> str:
    return f"[Tool output capped: {counted(end - start, 'byte')} removed]"
