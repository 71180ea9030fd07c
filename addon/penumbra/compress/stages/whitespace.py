"""The stage that removes blanks at line ends and shortens runs of empty lines."""

from __future__ import annotations

import re

_BLANK_ENDS = (" ", "\t", " \r", "\t\r")
_EMPTY_LINES = re.compile(r"\n(?:\r?\n){2,}")


def trim(text: str) -> str | None:
    """Return the text without blanks at line ends and with at most one consecutive empty line; None if
    nothing changes.

    Line breaks stay LF or CRLF.
    """
    trimmed = text
    # A search for one character is faster than a search for two.
    has_returns = "\r" in text
    if (
        " \n" in text
        or ("\t" in text and "\t\n" in text)
        or (has_returns and (" \r\n" in text or "\t\r\n" in text))
        or text[-1:] in (" ", "\t")
    ):
        trimmed = _trim_ends(text)
    if "\n\n\n" in trimmed or (has_returns and "\n\r\n\r\n" in trimmed):
        trimmed = _EMPTY_LINES.sub(_one_empty, trimmed)
    return None if trimmed == text else trimmed


def _trim_ends(text: str) -> str:
    return "\n".join(_trim_end(line) if line.endswith(_BLANK_ENDS) else line for line in text.split("\n"))


def _trim_end(line: str) -> str:
    ending = "\r" if line.rstrip(" \t").endswith("\r") else ""
    return line.rstrip(" \t\r") + ending


def _one_empty(match: re.Match[str]) -> str:
    return "\n\r\n" if match[0].endswith("\r\n") else "\n\n"
