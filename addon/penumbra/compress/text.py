from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

from penumbra.compress import token_estimate
from penumbra.compress.calls.envelope import Envelope
from penumbra.compress.line_flags import LineFlags
from penumbra.linear import utf8

_LONGEST = 8_000_000
"""The stages don't read the lines of a text with more characters."""
MOST_LINES = 400_000
"""The greatest number of lines that the stages read."""


class Text(str):
    """A `Text` is a string that caches its bytes, its lines, its envelope and its estimated tokens. All users
    share the list of lines and must not change it."""

    @classmethod
    def of(cls, string: str) -> Self:
        """Return the string as a `Text`. A `Text` is returned unchanged."""
        return string if isinstance(string, cls) else cls(string)

    @classmethod
    def of_lines(cls, lines: Sequence[str]) -> Self:
        """Return the text of these lines, which contain no line breaks."""
        text = cls("\n".join(lines))
        text.__dict__["lines"] = [*lines]
        return text

    @cached_property
    def data(self) -> bytes:
        """The UTF-8 bytes. A lone surrogate is encoded like a character."""
        return utf8(self)

    @cached_property
    def size(self) -> int:
        """The number of UTF-8 bytes."""
        return len(self) if self.isascii() else len(self.data)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their line breaks."""
        return self.split("\n")

    @cached_property
    def lines_envelope(self) -> Envelope:
        """The output, and the whole lines that the agent put around it."""
        return Envelope.of_lines(self)

    @cached_property
    def envelope(self) -> Envelope:
        """The output, and the text that the agent put around it."""
        return self.lines_envelope.within_json()

    @cached_property
    def flags(self) -> LineFlags:
        return LineFlags(self.lines)

    @cached_property
    def tokens(self) -> int:
        """The estimated number of tokens."""
        return token_estimate.estimate(str(self))

    @cached_property
    def is_readable(self) -> bool:
        """True if the text is small enough for the stages that read its lines."""
        return len(self) <= _LONGEST and self.count("\n") <= MOST_LINES
