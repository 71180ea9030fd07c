"""Values that the steps of a request pass on: the request that was read, plans, results, and what is sent.

`Mentions` are the names that a conversation uses before one of its results. Later messages don't count, so
that every later request finds the same names; of a long conversation only its latest part is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.identity import Caller
from penumbra.apis.parts import Conversation, ResultText
from penumbra.apis.prefix_hash import Chain
from penumbra.apis.recognise import Api
from penumbra.compress.facts import NAME
from penumbra.config.settings import Settings
from penumbra.conversation.items import Item, Searched
from penumbra.errors import one_line
from penumbra.redaction.json_text import Structured
from penumbra.redaction.redact_calls import ShowName
from penumbra.store.conversations import NO_LIMITS, LearnedLimits
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document

_CHARACTERS = 64_000
"""Characters that are read, at most, latest first."""
_OLDEST = 0.3
"""Weight of a name that was used long ago; the latest one has 1."""
_ESCAPE = re.compile(r"(?<!\\)\\++[a-z]")
"""A line end or the like, as JSON writes it, once or within a string of JSON."""


class Mentions:
    """Names that one request's texts and calls use, found once for all of its results."""

    def __init__(self) -> None:
        self._said: list[tuple[int, Raw]] | None = None
        self._read: dict[int, tuple[list[str], int]] = {}
        """Names and number of characters of each text, by the text's identity."""
        self._last: tuple[int, Mapping[str, float]] = -1, {}
        """The number of texts before the last requested result, and its names."""

    def before(
        self, document: Document, wire: ApiFormat, conversation: Conversation, result: ResultText
    ) -> Mapping[str, float]:
        """Return the names that were used before a result, in texts and in calls, each with its weight."""
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
    """Return the names in what was said, each of them once, and how many characters of it were read."""
    text = source[:_CHARACTERS].decode("utf-8", "replace")
    return list(dict.fromkeys(NAME.findall(_ESCAPE.sub(" ", text)))), len(text)


@dataclass(frozen=True, slots=True)
class Request:
    """A recognised request, read. `chain`: what stands before each message."""

    api: Api
    settings: Settings
    document: Document
    conversation: Conversation
    items: tuple[Item, ...]
    searched: tuple[Searched, ...] = ()
    structured: Structured = field(default_factory=Structured)
    mentions: Mentions = field(default_factory=Mentions)
    caller: Caller = field(default_factory=lambda: Caller(b""))
    """The caller, and the conversation where that is known."""
    uncalled: frozenset[str] = frozenset()
    """Ids of the calls that its results answer and that it does not show."""
    chain: Chain = field(default_factory=Chain)
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""

    @property
    def scope(self) -> bytes:
        """Keyed hash of the caller."""
        return self.caller.scope

    @property
    def format(self) -> str:
        """Name of the API's format."""
        return self.api.format

    @property
    def wire(self) -> ApiFormat:
        """Return the reader of the API's format."""
        return self.api.wire


@dataclass(frozen=True, slots=True)
class Outside:
    """The outcome of the search of a request's texts outside of tool results."""

    decisions: Mapping[bytes, Decision] = field(default_factory=dict)
    """New ones."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Secrets in texts not seen before, by rule."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Decisions that are made before a request is rewritten."""

    decisions: Mapping[bytes, Decision] = field(default_factory=dict)
    originals: Mapping[str, str] = field(default_factory=dict)
    """Redacted originals by reference."""
    line: str = ""
    """Why, for a log."""
    limits: LearnedLimits = NO_LIMITS
    """Limits that are learned if the provider accepts the request."""

    def plus(self, other: Plan) -> Plan:
        """Merges two plans; `other` wins where both decide about the same text."""
        return Plan(
            {**self.decisions, **other.decisions},
            {**self.originals, **other.originals},
            "; ".join(line for line in (self.line, other.line) if line),
            self.limits.learned(other.limits),
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """One result text and what became of it, for logs and metrics."""

    item: Item
    facts: Facts
    new: bool
    show: ShowName = one_line

    @property
    def tool(self) -> str:
        """Name of the tool, as it may be shown; empty if unknown."""
        return self.show(self.item.tool)

    @property
    def call_id(self) -> str:
        """Return the call's id as the result spells it, safe to show, or nothing if the result has none."""
        return self.show(self.item.result.call_id)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A body to send, and decisions to remember."""

    body: bytes
    shown: tuple[Shown, ...]
    decisions: Mapping[bytes, Decision]
    """New ones only."""
    originals: Mapping[str, str]
    """Redacted originals of newly shortened results that lost something, by reference."""
    is_cut: bool = False
    """Not all of what is shown stands in the body: it was bounded as a whole."""
