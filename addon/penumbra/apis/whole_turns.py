"""A response that is one JSON document; several turns of them become one. See `turns.py`."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from msgspec import Raw

from penumbra.apis.base import Failure, Turn
from penumbra.apis.ending import Ending, EndingReader, EndingTable
from penumbra.apis.event import Filter
from penumbra.apis.turns import HiddenNames
from penumbra.apis.usage import Metrics, UsageTable, together
from penumbra.errors import place
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson

_log = logging.getLogger(__name__)


class WholeTurns(ABC):
    """What of an API's documents the client does not see."""

    usage: ClassVar[UsageTable]
    ends: ClassVar[EndingTable]

    def __init__(self, injected_tool: str) -> None:
        self.injected_tool = injected_tool
        self.hidden_usage: Metrics = {}
        """Of the turns that were continued."""

    @abstractmethod
    def turn(self, document: Document) -> Turn:
        """What a document says; its figures are added to it."""

    @abstractmethod
    def hide_turn(self, document: Document) -> None:
        """The turn is continued: keep of it what the client is to see."""

    @abstractmethod
    def put_right(self, document: Document) -> None:
        """Edit the last turn's document, so that it is the response to the client."""

    @abstractmethod
    def error(self, failure: Failure) -> bytes:
        """An error as the API writes it, in words of ours."""

    def owner(self, document: Document) -> Raw:
        """The object whose members hold figures."""
        return document.root

    def always_edits(self) -> bool:
        """Also a response in which nothing is hidden may have something that is not the client's."""
        return False


class WholeResponse:
    """See `base.Response`. Without turns, a response in which nothing is hidden."""

    keep_alive = b""

    def __init__(self, turns: WholeTurns | None = None, filters: Iterable[Filter] = ()) -> None:
        self._turns = turns
        self._filters = list(filters)
        self._body = bytearray()
        self._document: Document | None = None
        self._touched = turns is not None and turns.always_edits()
        self._hidden_names = HiddenNames()

    def attach(self, filter: Filter) -> None:
        self._filters.append(filter)

    @property
    def holding(self) -> bool:
        return bool(self._body)

    def feed(self, data: bytes) -> bytes:
        self._body += data
        return b""

    def end_turn(self) -> Turn:
        try:
            document = self._document = Document(bytes(self._body))
        except NotJson:
            self._document = None
            return Turn()
        if self._turns is None:
            return Turn()
        turn = self._turns.turn(document)
        self._touched |= bool(turn.injected)
        self._hidden_names.note([name for call in turn.injected for name in call.names], hidden=True)
        self._hidden_names.note(turn.real_calls, hidden=False)
        owner = self._turns.owner(document)
        metrics, said = self._turns.usage.read(document, owner), EndingReader(self._turns.ends)
        said.note(document, owner)
        ending = said.ending() if turn.finished else Ending(said.ending().model)
        return replace(turn, usage=self._turns.usage.of_turn(metrics), ending=ending)

    def go_on(self) -> bytes:
        if self._turns is not None and self._document is not None:
            turns, document = self._turns, self._document
            metrics = turns.usage.read(document, turns.owner(document))
            turns.hidden_usage = together(turns.hidden_usage, turns.usage.summed(metrics))
            turns.hide_turn(document)
        self._touched = True
        self.restart()
        return b""

    def restart(self) -> None:
        self._body.clear()
        self._document = None

    def finish(self) -> bytes:
        document = self._document
        if document is None:
            return bytes(self._body)
        if self._turns is not None and self._touched:
            self._turns.usage.add(document, self._turns.owner(document), self._turns.hidden_usage, {})
            self._turns.put_right(document)
            if self._hidden_names.stand_in(document.data):
                document = Document(document.render())
                self._hidden_names.take_out(document, document.root)
        return _filtered(document, self._filters)

    def fail(self, failure: Failure) -> bytes:
        return self._turns.error(failure) if self._turns is not None else b""

    def close(self) -> bytes:
        """The end of a response that nobody continues."""
        self.end_turn()
        return self.finish()


def _filtered(document: Document, filters: Sequence[Filter]) -> bytes:
    """What goes to the client. Never raises: what can't be read goes on as it is."""
    for filter in filters:
        document = Document(document.render()) if document.edits else document
        try:
            filter.document(document)
            # Edits that contradict one another are found here.
            document.render()
        except Exception as error:
            _log.warning("Penumbra passes a response on as it came: %s", place(error))
            document = Document(document.data)
    return document.render()
