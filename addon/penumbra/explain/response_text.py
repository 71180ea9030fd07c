"""This module writes responses and WebSocket frames as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penumbra.apis import responses_socket
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Turn
from penumbra.apis.formats import FORMATS
from penumbra.explain.request_text import in_full
from penumbra.explain.text_lines import (
    MOST_LINES,
    TOO_MUCH_TO_READ,
    Line,
    Search,
    Show,
    bounded,
    head,
    is_too_much,
    note,
    quoted,
    wrapped,
)
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson


@dataclass(frozen=True, slots=True)
class ResponseContext:
    """A `ResponseContext` has facts about a response that its body does not show."""

    line: str = ""
    """Summary of the outcome; empty if there is none."""
    hidden: Sequence[str] = ()
    """One line for each part of the response that the client did not get."""
    injected_tool: str = ""


def lines(
    wire: ApiFormat, body: bytes, context: ResponseContext, search: Search, show: Show, *, stream: bool
) -> list[Line]:
    """Return the lines of a response. `stream` is true if the body consists of events."""
    if is_too_much(body):
        return [*wrapped(head, context.line), note(TOO_MUCH_TO_READ)]
    reader = wire.stream("") if stream else wire.body("")
    reader.feed(body)
    return of_turn(wire, reader.end_turn(), context, search, show)


def of_turn(wire: ApiFormat, turn: Turn, context: ResponseContext, search: Search, show: Show) -> list[Line]:
    shown = wrapped(head, context.line)
    shown += [line for each in context.hidden for line in wrapped(note, each)]
    message = _message(wire, turn, search, show, context.injected_tool)
    shown += search.warning()
    shown += [*([quoted("")] if shown else ()), *message]
    if turn.failed or not turn.finished:
        shown.append(note("The response ended before the provider said that it was complete."))
    if turn.usage:
        figures = ", ".join(f"{show(name)} {count:,}" for name, count in turn.usage.items())
        shown += [quoted(""), *wrapped(note, f"tokens: {figures}")]
    return bounded(shown, MOST_LINES)


def _message(wire: ApiFormat, turn: Turn, search: Search, show: Show, hidden: str) -> list[Line]:
    try:
        # Some formats write a message as several items.
        document = Document(b"[" + (turn.message or b"") + b"]")
        messages = [wire.message(document, item) for item in document.items(document.root)]
    except NotJson:
        messages = []
    shown = [line for message in messages for line in in_full(document, message, search, show, hidden)]
    if not shown:
        shown = [quoted(line) for line in search.text(turn.text).split("\n")] if turn.text else []
    return shown or [note("There is no message in it.")]


_FORMAT = "openai_responses_socket"


def is_shown(frame: bytes) -> bool:
    """Return whether a frame belongs to a response and reports no failure."""
    envelope = responses_socket.envelope(frame)
    return envelope is not None and not envelope.fails


def is_end(frame: bytes) -> bool:
    envelope = responses_socket.envelope(frame)
    return envelope is not None and envelope.ends


def is_request(frame: bytes) -> bool:
    envelope = responses_socket.envelope(frame)
    return envelope is not None and envelope.type == responses_socket.CREATE


def frame_lines(frame: bytes, earlier: Iterable[bytes], search: Search, show: Show) -> list[Line]:
    """Return the lines of a frame. `earlier` has the client's earlier frames. The latest comes first."""
    envelope = responses_socket.envelope(frame)
    if envelope is None:
        return [note("Penumbra: this is no event of a response.")]
    if not envelope.ends:
        return [note(f"{show(envelope.type)}: a part of a response; its last frame shows the message.")]
    wire = FORMATS[_FORMAT]
    reader = wire.stream("")
    for piece in reversed(_response(frame, envelope.stream, earlier)):
        reader.feed(piece)
    return of_turn(wire, reader.end_turn(), ResponseContext(), search, show)


def _response(frame: bytes, stream_id: str, earlier: Iterable[bytes]) -> Sequence[bytes]:
    pieces = [frame]
    for piece in earlier:
        envelope = responses_socket.envelope(piece)
        if envelope is None or envelope.stream != stream_id:
            continue
        pieces.append(piece)
        if envelope.type == responses_socket.BEGIN:
            break
    return pieces
