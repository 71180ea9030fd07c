"""A provider's frame of a WebSocket for people: the last one of a response shows the message of all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penumbra.apis import responses_socket
from penumbra.apis.formats import FORMATS
from penumbra.explain import response_text
from penumbra.explain.response_text import ResponseContext
from penumbra.explain.text_lines import Line, Search, Show, note

_FORMAT = "openai_responses_socket"


def is_shown(frame: bytes) -> bool:
    """Whether a frame belongs to a response that is no error: those say best themselves what they are."""
    envelope = responses_socket.envelope(frame)
    return envelope is not None and not envelope.fails


def is_end(frame: bytes) -> bool:
    """Whether a frame is the last one of a response."""
    envelope = responses_socket.envelope(frame)
    return envelope is not None and envelope.ends


def is_request(frame: bytes) -> bool:
    """Whether a client's frame asks for a response."""
    envelope = responses_socket.envelope(frame)
    return envelope is not None and envelope.type == responses_socket.CREATE


def lines(frame: bytes, earlier: Iterable[bytes], search: Search, show: Show) -> list[Line]:
    """`earlier`: the frames before it that the client has got too, the latest first."""
    envelope = responses_socket.envelope(frame)
    if envelope is None:
        return [note("Penumbra: this is no event of a response.")]
    if not envelope.ends:
        return [note(f"{show(envelope.type)}: a part of a response; its last frame shows the message.")]
    wire = FORMATS[_FORMAT]
    reader = wire.stream("")
    for piece in reversed(_response(frame, envelope.lane, earlier)):
        reader.feed(piece)
    return response_text.of_turn(wire, reader.end_turn(), ResponseContext(), search, show)


def _response(frame: bytes, lane: str, earlier: Iterable[bytes]) -> Sequence[bytes]:
    """The frames of the response that a frame ends, the latest first."""
    pieces = [frame]
    for piece in earlier:
        envelope = responses_socket.envelope(piece)
        if envelope is None or envelope.lane != lane:
            continue
        pieces.append(piece)
        if envelope.type == responses_socket.BEGIN:
            break
    return pieces
