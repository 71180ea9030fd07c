"""Functions that feed an answer to a reader, cut into chunks, and return what the client gets."""

from collections.abc import Callable, Iterator

from penumbra.apis.base import Turn
from penumbra.apis.responses import Response
from support.cuts import places


def chunks(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def drive(
    answer: Response, turns: list[bytes], cut: Callable[[bytes], Iterator[bytes]]
) -> tuple[bytes, list[Turn]]:
    """Feed turns of which all but the last are continued."""
    out = b""
    seen = []
    for number, turn in enumerate(turns):
        for chunk in cut(turn):
            out += answer.feed(chunk)
        seen.append(answer.end_turn())
        out += answer.go_on() if number < len(turns) - 1 else answer.finish()
    return out, seen


def byte_by_byte(make: Callable[[], Response], turns: list[bytes]) -> tuple[bytes, list[Turn]]:
    """Feed the turns at once and byte by byte, and return the result, which must be equal."""
    whole = drive(make(), turns, lambda data: chunks(data, max(1, len(data))))
    assert drive(make(), turns, lambda data: chunks(data, 1)) == whole
    return whole


def every_cut(make: Callable[[], Response], turns: list[bytes]) -> tuple[bytes, list[Turn]]:
    """Feed the turns cut at many places and byte by byte, and return the result, which must be equal."""
    whole = byte_by_byte(make, turns)
    for at in places(*turns):
        assert drive(make(), turns, lambda data, at=at: iter([data[:at], data[at:]])) == whole
    return whole
