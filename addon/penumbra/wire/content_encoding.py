"""This module decodes and encodes bodies with the content codings gzip, deflate, br and zstd.

mitmproxy's own encoder is not used, because some versions need seconds for a megabyte of brotli. A small body
can decode to a huge body. Bodies are therefore decoded in small steps and up to a limit, and at most three
nested codings are decoded.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

import brotli
import zstandard

from penumbra.short_texts import remembered

MOST_CODINGS = 3
"""The greatest number of nested codings of a body."""
_PIECE = 65_536
"""The greatest number of decoded bytes in one step, for libraries that accept a limit."""
_ZLIB_STEP, _ZSTD_STEP, _BROTLI_STEP = 4_096, 256, 32
"""The number of encoded bytes in one step. A block of zstd has at least four bytes and decodes to up to 128
KiB. A block of brotli has at least a few bytes and decodes to up to 16 MiB. zlib copies all bytes after a
gzip member."""
_ZSTD_WINDOW = 1 << 23
"""The greatest window size that RFC 9659 allows."""
_BROTLI_TAKES_A_BOUND = hasattr(brotli.Decompressor, "can_accept_more_data")


class NotDecodable(ValueError):
    """A `NotDecodable` is raised for an unknown coding, too many codings or broken data, and quotes none."""


class OverLimit(NotDecodable):
    """An `OverLimit` is raised if the decoded body exceeds the limit."""


@remembered(256)
def codings(header: str) -> tuple[str, ...]:
    """Return the codings of a Content-Encoding header in the order in which they were applied."""
    names = (name.strip().lower() for name in header.split(","))
    return tuple(name for name in names if name not in ("", "identity"))


def decode(data: bytes, header: str, limit: int) -> bytes:
    """Return the decoded body. Raises NotDecodable, or OverLimit if the body has more than `limit` bytes."""
    decoder = Decoder(header, limit)
    plain = decoder.feed(data)
    if not decoder.is_complete:
        raise NotDecodable("broken stream")
    return plain


def encode(data: bytes, header: str) -> bytes:
    """Return the body encoded with the codings in `header`. Equal bodies give equal bytes."""
    for name in codings(header):
        data = _ENCODERS[name](data)
    return data


class Decoder:
    """A `Decoder` decodes one body as it arrives. After an error, each call raises the same error."""

    def __init__(self, header: str, limit: int) -> None:
        """Create a decoder. After each coding, the body may have at most `limit` bytes. Raises
        NotDecodable."""
        names = codings(header)
        if len(names) > MOST_CODINGS:
            raise NotDecodable(f"{len(names)} codings, at most {MOST_CODINGS} are undone")
        for name in names:
            if name not in _STEPS:
                raise NotDecodable(f"unknown coding {name[:20]!r}")
        self._steps = [_STEPS[name]() for name in reversed(names)]
        self._names = list(reversed(names))
        self._left = [limit] * max(1, len(names))
        self._limit = limit
        self._error: NotDecodable | None = None

    def feed(self, data: bytes) -> bytes:
        """Decode the next bytes. Raises NotDecodable, OverLimit."""
        if self._error is not None:
            raise self._error
        if not self._steps:
            self._count(0, data)
            return data
        try:
            pieces: Iterable[bytes] = (data,)
            for number in range(len(self._steps)):
                pieces = self._undone(number, pieces)
            return b"".join(pieces)
        except NotDecodable as error:
            self._error = error
            raise

    @property
    def is_complete(self) -> bool:
        """True if every coding has reached its end and no bytes follow."""
        return self._error is None and all(step.is_complete for step in self._steps)

    def _undone(self, number: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
        step = self._steps[number]
        try:
            for coded in pieces:
                for plain in step.feed(coded):
                    self._count(number, plain)
                    yield plain
        except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
            raise NotDecodable(f"{self._names[number]}: {error}") from None

    def _count(self, number: int, plain: bytes) -> None:
        self._left[number] -= len(plain)
        if self._left[number] < 0:
            self._error = OverLimit(f"more than {self._limit:,} bytes")
            raise self._error


class _Step(Protocol):
    """A `_Step` decodes one coding of one body."""

    @property
    def is_complete(self) -> bool: ...

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded bytes in pieces of limited size."""
        ...


class _Zlib:
    """A `_Zlib` decodes deflate, or gzip with any number of members."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._inflate = zlib.decompressobj(window)
        self._is_followed = False
        """True if bytes follow the last gzip member. Clients ignore these bytes."""

    @property
    def is_complete(self) -> bool:
        return self._inflate.eof and not self._is_followed

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZLIB_STEP):
            yield from self._inflated(data[start : start + _ZLIB_STEP])

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        while data and not self._is_followed:
            if self._inflate.eof:
                if not (self._has_members and data[:1] == b"\x1f"):
                    # Zeros after a member are padding and are ignored.
                    self._is_followed = bool(data.strip(b"\0")) or not self._has_members
                    return
                self._inflate = zlib.decompressobj(self._window)
            plain = self._inflate.decompress(data, _PIECE)
            if plain:
                yield plain
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        while len(plain := self._rest()) > 0:
            yield plain

    def _rest(self) -> bytes:
        """Return the decoded bytes of the input that zlib has buffered."""
        return b"" if self._inflate.eof else self._inflate.decompress(b"", _PIECE)

    @property
    def _has_members(self) -> bool:
        return self._window == zlib.MAX_WBITS | 16


class _Deflate:
    """A `_Deflate` decodes the zlib format or raw deflate. The first two bytes show the format."""

    def __init__(self) -> None:
        self._begun = b""
        self._inflate: _Zlib | None = None

    @property
    def is_complete(self) -> bool:
        return self._inflate is not None and self._inflate.is_complete

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._begun = self._begun + data
            if len(data) < 2:
                return
            zlibs = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._inflate = _Zlib(zlib.MAX_WBITS if zlibs else -zlib.MAX_WBITS)
            self._begun = b""
        yield from self._inflate.feed(data)


class _Brotli:
    def __init__(self) -> None:
        self._state = brotli.Decompressor()
        self._is_followed = False

    @property
    def is_complete(self) -> bool:
        return bool(self._state.is_finished()) and not self._is_followed

    def feed(self, data: bytes) -> Iterator[bytes]:
        step = _ZLIB_STEP if _BROTLI_TAKES_A_BOUND else _BROTLI_STEP
        for start in range(0, len(data), step):
            if self._state.is_finished():
                self._is_followed = True
                return
            yield from self._processed(data[start : start + step])

    def _processed(self, data: bytes) -> Iterator[bytes]:
        if not _BROTLI_TAKES_A_BOUND:
            yield bytes(self._state.process(data))
            return
        plain = self._state.process(data, output_buffer_limit=_PIECE)
        # One call may return only a part of the output, so the call is repeated until no output is left.
        while plain or not self._state.can_accept_more_data():
            yield bytes(plain)
            if self._state.is_finished():
                return
            plain = self._state.process(b"", output_buffer_limit=_PIECE)


class _Zstd:
    """A `_Zstd` decodes concatenated frames."""

    def __init__(self) -> None:
        self._frames = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = self._frames.decompressobj()
        self._begun = False

    @property
    def is_complete(self) -> bool:
        return self._begun and self._frame.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_STEP):
            piece = data[start : start + _ZSTD_STEP]
            while piece:
                if self._frame.eof:
                    self._frame = self._frames.decompressobj()
                self._begun = True
                yield self._frame.decompress(piece)
                piece = self._frame.unused_data if self._frame.eof else b""


_STEPS: dict[str, Callable[[], _Step]] = {
    "gzip": partial(_Zlib, zlib.MAX_WBITS | 16),
    "x-gzip": partial(_Zlib, zlib.MAX_WBITS | 16),
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
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
Decode = Callable[[bytes], bytes]
"""A function that decodes the next bytes. After the first NotDecodable, each call raises NotDecodable."""
SUPPORTED = tuple(_STEPS)
MOST_BYTES = 64 * 1024 * 1024
"""The greatest number of decoded bytes of one response. Models write far fewer."""


def decoder(header: str, limit: int = MOST_BYTES) -> Decode | None:
    """Return the decoder of supported codings, or None. A body without a coding has no limit."""
    try:
        undone = Decoder(header, limit)
    except NotDecodable:
        return None
    return undone.feed if codings(header) else bytes


def acceptable(header: str) -> str:
    """Return an Accept-Encoding header without the codings that this module cannot decode, or else
    `identity`."""
    offered = [part.strip() for part in header.split(",") if part.strip()]
    kept = [part for part in offered if part.split(";")[0].strip().lower() in _ACCEPTED]
    if len(kept) == len(offered):
        return header
    return ", ".join(kept) or "identity"


_ACCEPTED = (*SUPPORTED, "identity")
