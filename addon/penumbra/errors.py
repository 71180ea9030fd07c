"""Failures that several packages speak of, and how one is told: its kind and its place, never its message,
and on one line.

An exception's own words may quote the text that caused it, and that text is somebody's.
"""

from __future__ import annotations

from pathlib import PurePath


class RedactionError(Exception):
    """A text could not be scanned. The message never holds any part of the text."""

    status = 500
    """HTTP status of the refusal. Clients repeat what fails with 500 and above."""


class Unreadable(RedactionError):
    """A text that must be scanned can't be read."""

    status = 400


class TooLarge(RedactionError):
    """A text that must be scanned is above a limit."""

    status = 413


def place(error: BaseException) -> str:
    """One line such as `KeyError at cap.py:41`."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = type(error).__name__
    if frame is None:
        return name
    return f"{name} at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """A number of things in a message: `1 request`, `1,200 requests`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def one_line(text: str) -> str:
    """The text with all that a terminal would obey, or take for the end of a line, as escapes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
