"""Why the command ends: one line, and an exit code."""

from __future__ import annotations

WRONG = 2
"""The exit code of wrong arguments and settings."""


class Failure(Exception):
    """The message is what the user reads."""

    def __init__(self, message: str, code: int = 1, *, is_abrupt: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.is_abrupt = is_abrupt
        """The process ends at once, without what Python does at its end."""
