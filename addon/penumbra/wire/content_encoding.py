"""Bodies as they travel: gzip, deflate, br and zstd, undone and done again.

mitmproxy's own encoder is not used: with brotli it needs seconds for a megabyte on some versions.
Decoding stops at a limit, so a small body can't become a huge one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli
import zstandard


class NotDecodable(ValueError):
    """Unknown coding, or broken data. The message holds nothing of the data."""


class TooLarge(NotDecodable):
    """More plain bytes than the limit."""


def codings(header: str) -> tuple[str, ...]:
    """The codings of a Content-Encoding header in the order in which they were applied."""
    names = (name.strip().lower() for name in header.split(","))
    return tuple(name for name in names if name not in ("", "identity"))


def decode(data: bytes, header: str, limit: int) -> bytes:
    """The plain body, at most `limit` bytes. Raises NotDecodable, TooLarge."""
    for name in reversed(codings(header)):
        decoder = _DECODERS.get(name)
        if decoder is None:
            raise NotDecodable(f"unknown coding {name[:20]!r}")
        try:
            data = decoder(data, limit)
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
            raise NotDecodable(f"{name}: {error}") from None
    if len(data) > limit:
        raise TooLarge(f"more than {limit} bytes")
    return data


def encode(data: bytes, header: str) -> bytes:
    """A plain body in the codings that `decode` undid. The same input gives the same bytes."""
    for name in codings(header):
        data = _ENCODERS[name](data)
    return data


def _inflate(window: int) -> Callable[[bytes, int], bytes]:
    def inflate(data: bytes, limit: int) -> bytes:
        decoder = zlib.decompressobj(window)
        plain = decoder.decompress(data, limit + 1)
        if len(plain) > limit:
            raise TooLarge(f"more than {limit} bytes")
        if not decoder.eof or decoder.unused_data:
            raise NotDecodable("broken stream")
        return plain

    return inflate


def _deflate(data: bytes, limit: int) -> bytes:
    # "deflate" means zlib's format, but some clients send the raw one.
    try:
        return _inflate(zlib.MAX_WBITS)(data, limit)
    except zlib.error:
        return _inflate(-zlib.MAX_WBITS)(data, limit)


def _brotli(data: bytes, limit: int) -> bytes:
    decoder = brotli.Decompressor()
    plain = _Bounded(limit)
    # One command takes at least three bytes and writes up to 16 MiB.
    for start in range(0, len(data), 32):
        plain.add(decoder.process(data[start : start + 32]))
    if not decoder.is_finished():
        raise NotDecodable("broken stream")
    return plain.joined()


def _zstd(data: bytes, limit: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    decoder = decompressor.decompressobj()
    plain = _Bounded(limit)
    # One block takes at least four bytes and writes up to 128 KiB.
    for start in range(0, len(data), 256):
        piece = data[start : start + 256]
        while piece:
            if decoder.eof:
                decoder = decompressor.decompressobj()
            plain.add(decoder.decompress(piece))
            piece = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise NotDecodable("broken stream")
    return plain.joined()


class _Bounded:
    """Pieces of a plain body, up to a limit: looked at so often that little can be written between."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise TooLarge(f"more than {self._limit} bytes")

    def joined(self) -> bytes:
        return b"".join(self._pieces)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _inflate(zlib.MAX_WBITS | 16),
    "x-gzip": _inflate(zlib.MAX_WBITS | 16),
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}


def _gzip(data: bytes) -> bytes:
    encoder = zlib.compressobj(6, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return encoder.compress(data) + encoder.flush()


_ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": lambda data: zlib.compress(data, 6),
    "br": lambda data: bytes(brotli.compress(data, quality=4)),
    "zstd": lambda data: zstandard.ZstdCompressor(level=3).compress(data),
}
