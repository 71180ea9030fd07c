"""An answer that is edited on its way to the client, event by event.

`EditedBytes` takes the bytes that would go to the client and gives those that go; `EditedResponse` does it
behind an `Response`, which itself knows only what the provider wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from penumbra.apis.base import Failure, Response, Turn
from penumbra.errors import place
from penumbra.wire.framing import MOST_BLANK_BYTES, Piece, Reader
from penumbra.wire.json_array import ArrayReader
from penumbra.wire.ndjson import LineReader
from penumbra.wire.sse import SseReader

_log = logging.getLogger(__name__)


class Edits(Protocol):
    """What is done to one answer."""

    def piece(self, piece: Piece) -> bytes:
        """One piece of a stream: what the client gets for it."""
        ...

    def close(self) -> bytes:
        """The stream has ended: what was held back."""
        ...

    def document(self, body: bytes) -> bytes:
        """An answer that is one document; the same object if nothing changes."""
        ...


class EditedBytes:
    """One answer, as it goes to the client. Never raises: what can't be read goes on as it is."""

    def __init__(self, edits: Edits, format_name: str, *, stream: bool) -> None:
        self._edits = edits
        self._format = format_name
        self._stream = stream
        self._reader: Reader | None = None
        self._begun = bytearray()
        """Of a document, all of it; of a stream, what came before its first byte that says something."""

    def feed(self, data: bytes) -> bytes:
        """Bytes of the answer in, bytes for the client out."""
        if self._reader is None:
            self._begun += data
            if not self._stream or (not data.strip() and len(self._begun) <= MOST_BLANK_BYTES):
                return b""
            self._reader = _reader(self._format, self._begun)
            data = bytes(self._begun)
        return self._pieces(self._reader.feed(data))

    def close(self) -> bytes:
        """The end."""
        if self._reader is not None:
            return self._pieces(self._reader.close()) + self._edits.close()
        body = bytes(self._begun)
        self._begun.clear()
        if self._stream:
            return body
        try:
            return self._edits.document(body)
        except Exception as error:
            _log.warning("Penumbra passes an answer on as it came: %s", place(error))
            return body

    def _pieces(self, pieces: Sequence[Piece]) -> bytes:
        return b"".join([self._piece(piece) for piece in pieces])

    def _piece(self, piece: Piece) -> bytes:
        try:
            return self._edits.piece(piece)
        except Exception as error:
            _log.warning("Penumbra passes an event on as it came: %s", place(error))
            return piece.raw


def _reader(format_name: str, begin: bytes | bytearray) -> Reader:
    """How a stream that begins like this is read."""
    if format_name == "ollama":
        return LineReader()
    if format_name == "gemini" and begin.lstrip()[:1] == b"[":
        return ArrayReader()
    # Read by botocore, which only is there where Bedrock is used.
    if format_name == "bedrock":
        from penumbra.wire.event_stream import MessageReader

        return MessageReader()
    if format_name == "bedrock_invoke":
        from penumbra.apis.bedrock_invoke_response import ChunkReader

        return ChunkReader()
    return SseReader()


class EditedResponse:
    """See Answer."""

    def __init__(self, answer: Response, edited: EditedBytes) -> None:
        self._answer = answer
        self._edited = edited
        self.keep_alive = answer.keep_alive

    @property
    def holding(self) -> bool:
        return self._answer.holding

    def feed(self, data: bytes) -> bytes:
        return self._edited.feed(self._answer.feed(data))

    def end_turn(self) -> Turn:
        return self._answer.end_turn()

    def go_on(self) -> bytes:
        return self._edited.feed(self._answer.go_on())

    def restart(self) -> None:
        self._answer.restart()

    def finish(self) -> bytes:
        return self._edited.feed(self._answer.finish()) + self._edited.close()

    def fail(self, failure: Failure) -> bytes:
        return self._edited.feed(self._answer.fail(failure)) + self._edited.close()
