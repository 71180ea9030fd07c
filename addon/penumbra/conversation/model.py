"""This module defines the values that steps pass on: requests, plans, results and the sent body.

A `Mentions` finds the names that a conversation uses before one of its results. Later messages don't
count, so that later requests find the same names. Only the latest part of a long conversation is read.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from operator import itemgetter

import msgspec
from msgspec import Raw, Struct

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.identity import Caller
from penumbra.apis.parts import Conversation, ResultText
from penumbra.apis.prefix_hash import Chain
from penumbra.apis.recognise import Api
from penumbra.compress.facts import NAME
from penumbra.config.settings import Settings
from penumbra.conversation.items import Item, OutsideText, Searched
from penumbra.errors import one_line
from penumbra.redaction.json_text import Structured
from penumbra.redaction.redact_calls import ShowName
from penumbra.store.conversations import NO_LIMITS, LearnedLimits
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document

_CHARACTERS = 64_000
"""After this number of characters, older texts are not read."""
_OLDEST = 0.3
"""The weight of the oldest names. The latest names have weight 1."""
_ESCAPE = re.compile(r"(?<!\\)\\++[a-z]")
"""The escape of a control character such as a newline, in JSON or in JSON within a JSON string."""


class Mentions:
    """A `Mentions` finds the names that one request's texts and calls use."""

    def __init__(self) -> None:
        self._places: list[tuple[int, Raw]] | None = None
        self._read: dict[int, tuple[list[str], int]] = {}
        """For each text, by its offset in the body: its names, and the number of characters read."""
        self._last: tuple[int, Mapping[str, float]] = -1, {}
        """The number of texts before the last result that `before` was asked about, and the names that
        `before` returned."""

    def before(
        self, document: Document, wire: ApiFormat, conversation: Conversation, result: ResultText
    ) -> Mapping[str, float]:
        """Return the names in texts and calls before a result, each with its weight."""
        if self._places is None:
            start = 0 if conversation.messages is None else document.place(conversation.messages)[0]
            places = ((document.place(value)[0], value) for value in wire.outside_results(document))
            self._places = sorted((place for place in places if place[0] >= start), key=itemgetter(0))
        count = bisect_left(self._places, document.place(result.value)[0], key=itemgetter(0))
        if self._last[0] != count:
            self._last = count, self._weights(document, self._places[:count])
        return self._last[1]

    def _weights(self, document: Document, places: Sequence[tuple[int, Raw]]) -> dict[str, float]:
        weights: dict[str, float] = {}
        read = 0
        for age, (place, value) in enumerate(reversed(places)):
            if place not in self._read:
                self._read[place] = _names(document.source(value))
            names, characters = self._read[place]
            weight = 1 - (1 - _OLDEST) * age / len(places)
            for name in names:
                if name not in weights:
                    weights[name] = weight
            read += characters
            if read >= _CHARACTERS:
                break
        return weights


def _names(source: bytes) -> tuple[list[str], int]:
    """Return the names in a JSON value without repetitions, and the number of characters that were read."""
    text = source[:_CHARACTERS].decode("utf-8", "replace")
    return list(dict.fromkeys(NAME.findall(_ESCAPE.sub(" ", text)))), len(text)


class Request(Struct, frozen=True):
    """A `Request` is a recognised request that was read."""

    api: Api
    settings: Settings
    document: Document
    conversation: Conversation
    items: tuple[Item, ...]
    searched: tuple[Searched, ...] = ()
    structured: Structured = msgspec.field(default_factory=Structured)
    mentions: Mentions = msgspec.field(default_factory=Mentions)
    caller: Caller = msgspec.field(default_factory=lambda: Caller(b""))
    uncalled: frozenset[str] = frozenset()
    """The ids of the calls that are missing from the request although the request has their results."""
    chain: Chain = msgspec.field(default_factory=Chain)
    """The hashes of the prefix before each message."""
    outside: tuple[OutsideText, ...] = ()
    """The texts outside of tool results that are to be searched."""
    is_ambiguous: bool = False
    """True if the request has a repeated member through which text to be searched could be missed."""
    path: str = ""
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Names in lower case."""

    @property
    def scope(self) -> bytes:
        return self.caller.scope

    @property
    def format(self) -> str:
        return self.api.format

    @property
    def wire(self) -> ApiFormat:
        return self.api.wire


class Outside(Struct, frozen=True):
    """An `Outside` is the outcome of searching a request's texts outside of tool results."""

    decisions: Mapping[bytes, Decision] = msgspec.field(default_factory=dict)
    """New decisions."""
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Numbers of secrets in new texts, by rule."""


class Plan(Struct, frozen=True):
    """A `Plan` has decisions that are made before the request is rewritten."""

    decisions: Mapping[bytes, Decision] = msgspec.field(default_factory=dict)
    originals: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Redacted originals by reference."""
    line: str = ""
    """The reason, for a log."""
    limits: LearnedLimits = NO_LIMITS
    """The limits that are remembered if the provider accepts the request."""

    def plus(self, other: Plan) -> Plan:
        """Return both plans as one. `other` wins if both decide about the same text."""
        return Plan(
            {**self.decisions, **other.decisions},
            {**self.originals, **other.originals},
            "; ".join(line for line in (self.line, other.line) if line),
            self.limits.learned(other.limits),
        )


class Shown(Struct, frozen=True):
    """A `Shown` is one result text and the facts of its form, for logs and metrics."""

    item: Item
    facts: Facts
    new: bool
    show: ShowName = one_line

    @property
    def tool(self) -> str:
        """Return the name of the tool without secrets; empty if unknown."""
        return self.show(self.item.tool)

    @property
    def call_id(self) -> str:
        """Return the id of the call without secrets; empty if there is none."""
        return self.show(self.item.result.call_id)


class Rewritten(Struct, frozen=True):
    """A `Rewritten` is a body to send, with the decisions to remember."""

    body: bytes
    shown: tuple[Shown, ...]
    decisions: Mapping[bytes, Decision]
    """New decisions."""
    originals: Mapping[str, str]
    """The redacted originals of texts that got a reference in this request, by that reference."""
    is_cut: bool = False
    """True if the body as a whole was cut. The body then lacks some results in `shown`."""
