"""The names that a conversation has used before one of its results: what the result may be read for.

Of what stands in the request only what was said before the result counts, so that every later request
of the conversation says the same of it. Reading is bounded: of a long conversation its latest part.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
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
_ESCAPE = re.compile(r"\\+[a-z]")
"""A line end or the like, as JSON writes it, once or within a string of JSON."""


class Mentions:
    """What was said in one request, found once for all of its results."""

    def __init__(self) -> None:
        self._said: list[tuple[int, Raw]] | None = None

    def before(
        self, document: Document, wire: ApiFormat, conversation: Conversation, result: ResultText
    ) -> Mapping[str, float]:
        """The names that were used before a result, in texts and in calls, each with its weight."""
        if self._said is None:
            start = 0 if conversation.messages is None else document.place(conversation.messages)[0]
            places = ((document.place(value)[0], value) for value in wire.outside_results(document))
            self._said = sorted((place for place in places if place[0] >= start), key=itemgetter(0))
        count = bisect_left(self._said, document.place(result.value)[0], key=itemgetter(0))
        weights: dict[str, float] = {}
        read = 0
        for age in range(count):
            _, value = self._said[count - 1 - age]
            text = document.source(value)[:_CHARACTERS].decode("utf-8", "replace")
            weight = 1 - (1 - _OLDEST) * age / count
            for name in NAME.findall(_ESCAPE.sub(" ", text)):
                weights.setdefault(name, weight)
            read += len(text)
            if read >= _CHARACTERS:
                break
        return weights
