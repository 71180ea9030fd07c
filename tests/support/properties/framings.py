"""Framings of streams, and content codings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from penumbra.apis.formats import FORMATS
from penumbra.wire.content_encoding import Decoder, NotDecodable, decode, encode
from penumbra.wire.framing import ArrayReader, LineReader, Reader, SseReader
from support.properties.source import Source

_FRAMES = (
    *(
        b"data: ", b"event: x\n", b'{"a":1}', b"\n", b"\n\n", b"\r\n\r\n", b"\r", b"\r\r", b": c\n",
        b"data", b"\xef\xbb\xbf",
    ),
    *(
        b"[", b"]", b",", b"{", b"}", b'"', b"\\", b'\\"', b'{"a":"]}"}', b" ", b"\n{}\n", b'{"b":[[{}]]}',
        b"data:x\ndata: y\n",
    ),
)  # fmt: skip


def framings(data: bytes) -> None:
    """Whatever a stream holds and however it is cut: its bytes come out, and the same events."""
    source = Source(data)
    make = source.one(_readers())
    stream = b"".join(source.some(_FRAMES, bytes))
    whole, cut = make(), make()
    pieces = [*whole.feed(stream), *whole.close()]
    parts = [piece for part in source.cuts(stream) for piece in cut.feed(part)] + [*cut.close()]
    assert b"".join(piece.raw for piece in pieces) == stream
    assert b"".join(piece.raw for piece in parts) == stream
    if make in (SseReader, LineReader, ArrayReader):
        assert [piece.data for piece in pieces if piece.data] == [piece.data for piece in parts if piece.data]
    for piece in pieces:
        if piece.data and make is not ArrayReader:
            changed = make().feed(piece.with_data(b'{"c":2}'))
            assert not changed or changed[0].data is None or b'{"c":2}' in (changed[0].data or b"")


@cache
def _readers() -> Sequence[Callable[[], Reader]]:
    readers: list[Callable[[], Reader]] = [SseReader, LineReader, ArrayReader]
    if "bedrock" in FORMATS:
        from penumbra.wire.event_stream import MessageReader

        readers.append(MessageReader)
    # Limits that are reached.
    return (
        *readers,
        lambda: SseReader(limit=30),
        lambda: LineReader(limit=30),
        lambda: ArrayReader(limit=30),
    )


_CODINGS = ("gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate", "br, zstd, gzip", "x-gzip")


_LIMIT = 100_000


def codings(data: bytes) -> None:
    """Undone piece by piece as in one piece; never more than the limit; errors are of one kind."""
    source = Source(data)
    header = source.one(_CODINGS)
    plain = b"".join(source.some((b"abc" * 10, b"\0" * 5_000, b"{}", b"x" * 40_000), bytes, 30))
    coded = bytearray(encode(plain, header))
    broken = source.number(3) == 0
    if broken and coded:
        coded[source.number(len(coded))] ^= 1 + source.number(255)
        del coded[len(coded) - source.number(4) :]
        coded += source.bytes(source.number(9))
    found = _decoded(bytes(coded), header)
    assert found is not None or broken or len(plain) > _LIMIT
    assert found is None or len(found) <= _LIMIT
    assert broken or found is None or found == plain
    decoder, got = Decoder(header, _LIMIT), b""
    try:
        for part in source.cuts(bytes(coded)):
            got += decoder.feed(part)
    except NotDecodable:
        assert found is None
        return
    assert found is None or got == found


def _decoded(coded: bytes, header: str) -> bytes | None:
    try:
        return decode(coded, header, _LIMIT)
    except NotDecodable:
        return None
