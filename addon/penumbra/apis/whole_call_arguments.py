"""The same for APIs whose calls arrive in one piece: Gemini and Ollama. See `call_arguments`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from msgspec import Raw

from penumbra.apis.call_arguments import Open, edit_value, rendered
from penumbra.apis.gemini import member
from penumbra.apis.gemini_response import members
from penumbra.wire.document import Document, NotJson
from penumbra.wire.framing import Piece


class WholeEdits(ABC):
    """Each piece of a stream is a document with the same members."""

    def __init__(self, open_: Open) -> None:
        self._open = open_

    def piece(self, piece: Piece) -> bytes:
        if piece.data is None:
            return piece.raw
        try:
            document = Document(piece.data)
        except NotJson:
            return piece.raw
        self._edit(document)
        return rendered(piece, document)

    def close(self) -> bytes:
        return b""

    def document(self, body: bytes) -> bytes:
        document = Document(body)
        self._edit(document)
        return document.render()

    def _edit(self, document: Document) -> None:
        for name, arguments in self._made(document):
            edit_value(document, arguments, self._open(name))

    @abstractmethod
    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        """Name and arguments of each call."""


class GeminiEdits(WholeEdits):
    """Google Gemini."""

    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        for candidate in document.items(members(document).get("candidates")):
            content = document.members(document.members(candidate).get("content"))
            for part in document.items(content.get("parts")):
                call = document.members(member(document.members(part), "functionCall"))
                yield document.string(call.get("name")) or "", call.get("args")


class OllamaEdits(WholeEdits):
    """Ollama's own chat API."""

    def _made(self, document: Document) -> Iterator[tuple[str, Raw | None]]:
        message = document.members(document.members(document.root).get("message"))
        for value in document.items(message.get("tool_calls")):
            function = document.members(document.members(value).get("function"))
            yield document.string(function.get("name")) or "", function.get("arguments")
