"""This module has the exceptions that several packages share, and describes exceptions in one line. A
description has the type and the place of an exception. The message is left out, because it may quote a
private text."""

from __future__ import annotations

import logging
from pathlib import PurePath


class RedactionError(Exception):
    """A `RedactionError` is raised if a text could not be searched for secrets. The message contains no part
    of the text."""

    status = 500
    """HTTP status of the refusal. Many clients repeat requests that fail with a status from 500 up."""


class Unreadable(RedactionError):
    """An `Unreadable` is raised if a text that must be searched can't be read."""

    status = 400


class TooLarge(RedactionError):
    """A `TooLarge` is raised if a text that must be searched exceeds a limit."""

    status = 413


def place(error: BaseException) -> str:
    """Return a line such as `KeyError at cap.py:41`."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    name = type(error).__name__
    if frame is None:
        return name
    return f"{name} at {PurePath(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}"


class contained:
    """A `contained` logs an exception of its `with` block after the text `words`, and the code below the
    block continues. Exceptions of the types in `raises` leave the block."""

    def __init__(
        self,
        log: logging.Logger,
        words: str,
        level: int = logging.ERROR,
        raises: tuple[type[Exception], ...] = (),
    ) -> None:
        self._log, self._words, self._level, self._raises = log, words, level, raises

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception) or isinstance(error, self._raises):
            return False
        self._log.log(self._level, "%s: %s", self._words, place(error))
        return True


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun: `1 request`, `1,200 requests`."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def one_line(text: str) -> str:
    """Return the text with escapes for line breaks, control and other unprintable characters."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text
    )
