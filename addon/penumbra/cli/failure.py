"""Why the command ends: one line, and an exit code."""

from __future__ import annotations


class Failure(Exception):
    """The message is what the user reads."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
