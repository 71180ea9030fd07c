"""Content encodings, whole and piece by piece."""

import gzip
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli
import zstandard

DECODED_LIMIT = 48 * 1024 * 1024
"""Greatest size in bytes of a decoded body."""
_PIECE = 16_384


class DecodeError(ValueError):
    """Raised for a body that can't be decoded or is too large."""


def encode(encoding: str, data: bytes) -> bytes:
    """Return the data in a content encoding; empty or identity: unchanged. Raise KeyError for another."""
    return {
        "": lambda: data,
        "identity": lambda: data,
        "gzip": lambda: gzip.compress(data, 6, mtime=0),
        "deflate": lambda: zlib.compress(data),
        "br": lambda: bytes(brotli.compress(data, quality=4)),
        "zstd": lambda: zstandard.ZstdCompressor(level=3).compress(data),
    }[encoding]()


@dataclass(frozen=True)
class _Decoder:
    step: Callable[[bytes], bytes]
    finished: Callable[[], bool]


def _zlib_decoder() -> _Decoder:
    machine = zlib.decompressobj(47)
    return _Decoder(
        lambda piece: machine.decompress(piece, DECODED_LIMIT + 1),
        lambda: machine.eof and not machine.unused_data,
    )


def _brotli_decoder() -> _Decoder:
    machine = brotli.Decompressor()
    return _Decoder(machine.process, machine.is_finished)


def _zstd_decoder() -> _Decoder:
    machine = zstandard.ZstdDecompressor().decompressobj()
    return _Decoder(machine.decompress, lambda: machine.eof)


_DECODERS = {"gzip": _zlib_decoder, "deflate": _zlib_decoder, "br": _brotli_decoder, "zstd": _zstd_decoder}


def _decode_one(encoding: str, data: bytes) -> bytes:
    if encoding in ("", "identity"):
        return data
    if encoding not in _DECODERS:
        raise DecodeError(f"unknown encoding {encoding}")
    decoder = _DECODERS[encoding]()
    out = bytearray()
    try:
        for start in range(0, len(data), _PIECE):
            out += decoder.step(data[start : start + _PIECE])
            if len(out) > DECODED_LIMIT:
                raise DecodeError("too large")
    except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
        raise DecodeError(str(error)) from None
    if not decoder.finished():
        raise DecodeError("it ends too early")
    return bytes(out)


def decode(encodings: str, data: bytes) -> bytes:
    """Return the data without the content encodings that the header's value lists. Raise DecodeError."""
    for name in reversed([part.strip().lower() for part in encodings.split(",")]):
        data = _decode_one(name, data)
    return data


class StreamEncoder:
    """A `StreamEncoder` encodes a stream so that every piece can be decoded when it arrives."""

    def __init__(self, encoding: str) -> None:
        self._feed: Callable[[bytes], bytes]
        self._end: Callable[[], bytes]
        if encoding in ("gzip", "deflate"):
            squeeze = zlib.compressobj(6, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
            self._feed = lambda data: squeeze.compress(data) + squeeze.flush(zlib.Z_SYNC_FLUSH)
            self._end = squeeze.flush
        elif encoding == "br":
            brotli_machine = brotli.Compressor(quality=4)
            self._feed = lambda data: brotli_machine.process(data) + brotli_machine.flush()
            self._end = brotli_machine.finish
        elif encoding == "zstd":
            zstd = zstandard.ZstdCompressor(level=3).compressobj()
            self._feed = lambda data: zstd.compress(data) + zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            self._end = zstd.flush
        else:
            self._feed = lambda data: data
            self._end = bytes

    def feed(self, data: bytes) -> bytes:
        return self._feed(data)

    def end(self) -> bytes:
        return self._end()
