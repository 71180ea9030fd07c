"""The names that a conversation has used before one of its results: what the result may be read for.

Of what stands in the request only what was said before the result counts, so that every later request
of the conversation says the same of it. Reading is bounded: of a long conversation its latest part.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.parts import Conversation, ResultText
from penumbra.compress.stages.passages import NAME
from penumbra.wire.document import Document

_CHARACTERS = 64_000
"""Of what was said, at most, latest first."""
_OLDEST = 0.3
"""Weight of a name that was used long ago; the latest one has 1."""
_ESCAPE = re.compile(r"(?<!\\)\\++[a-z]")
"""A line end or the like, as JSON writes it, once or within a string of JSON."""


class Mentions:
    """What was said in one request, found once for all of its results."""

    def __init__(self) -> None:
        self._said: list[tuple[int, Raw]] | None = None
        self._read: dict[int, tuple[list[str], int]] = {}
        """By what was said: its names, and its characters."""
        self._last: tuple[int, Mapping[str, float]] = -1, {}
        """How much was said before the result that was asked for last, and its names."""

    def before(
        self, document: Document, wire: ApiFormat, conversation: Conversation, result: ResultText
    ) -> Mapping[str, float]:
        """The names that were used before a result, in texts and in calls, each with its weight."""
        if self._said is None:
            start = 0 if conversation.messages is None else document.place(conversation.messages)[0]
            places = ((document.place(value)[0], value) for value in wire.outside_results(document))
            self._said = sorted((place for place in places if place[0] >= start), key=itemgetter(0))
        count = bisect_left(self._said, document.place(result.value)[0], key=itemgetter(0))
        if self._last[0] != count:
            self._last = count, self._weights(document, self._said[:count])
        return self._last[1]

    def _weights(self, document: Document, said: Sequence[tuple[int, Raw]]) -> dict[str, float]:
        weights: dict[str, float] = {}
        read = 0
        for age, (place, value) in enumerate(reversed(said)):
            if place not in self._read:
                self._read[place] = _names(document.source(value))
            names, characters = self._read[place]
            weight = 1 - (1 - _OLDEST) * age / len(said)
            for name in names:
                if name not in weights:
                    weights[name] = weight
            read += characters
            if read >= _CHARACTERS:
                break
        return weights


def _names(source: bytes) -> tuple[list[str], int]:
    """The names in what was said, each of them once, and how many characters of it were read."""
    text = source[:_CHARACTERS].decode("utf-8", "replace")
    return list(dict.fromkeys(NAME.findall(_ESCAPE.sub(" ", text)))), len(text)
