"""The first words of a text and nothing else: free, constant, and made for trying expansions out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penumbra.external.strategy import Response, Task

WORDS = 50
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class Simple:
    """Keeps the first `words` words with the blanks between them, and says so with three dots."""

    words: int = WORDS
    name: str = "simple"
    model: str = ""
    protects: bool = False

    @property
    def identity(self) -> str:
        return f"{self.words} words"

    def fits(self, task: Task) -> bool:
        return True

    async def shorten(self, task: Task) -> Response:
        return Response(first_words(task.text, self.words))


def first_words(text: str, count: int = WORDS) -> str:
    """The text up to its word number `count`; the whole text if it has no more."""
    for number, found in enumerate(_WORD.finditer(text)):
        if number == count:
            return f"{text[: found.start()].rstrip()}..."
    return text
