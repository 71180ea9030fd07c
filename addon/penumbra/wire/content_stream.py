"""Content codings undone as the bytes arrive, for responses that are streamed."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import brotli
import zstandard

from penumbra.wire.content_encoding import codings

Decode = Callable[[bytes], bytes]
"""Takes the next bytes, gives what they decode to. Raises what the coding's library raises."""

SUPPORTED = ("gzip", "x-gzip", "deflate", "br", "zstd")


def decoder(header: str) -> Decode | None:
    """A decoder for a Content-Encoding header; None if one of its codings is unknown."""
    steps = []
    for name in reversed(codings(header)):
        if name not in _DECODERS:
            return None
        steps.append(_DECODERS[name]())

    def decode(data: bytes) -> bytes:
        for step in steps:
            data = step(data)
        return data

    return decode


def acceptable(header: str) -> str:
    """An Accept-Encoding header without the codings that can't be undone here; `identity` if none is left."""
    offered = [part.strip() for part in header.split(",") if part.strip()]
    kept = [part for part in offered if part.split(";")[0].strip().lower() in _ACCEPTED]
    if len(kept) == len(offered):
        return header
    return ", ".join(kept) or "identity"


_ACCEPTED = (*SUPPORTED, "identity")


def _gzip() -> Decode:
    return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress


def _deflate() -> Decode:
    # "deflate" means zlib's format, but some servers send the raw one.
    chosen: list[Decode] = []

    def decode(data: bytes) -> bytes:
        if not data:
            return b""
        if not chosen:
            zlib_header = data[0] & 0x0F == 8
            window = zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS
            chosen.append(zlib.decompressobj(window).decompress)
        return chosen[0](data)

    return decode


def _brotli() -> Decode:
    state = brotli.Decompressor()

    def decode(data: bytes) -> bytes:
        return bytes(state.process(data)) if data else b""

    return decode


def _zstd() -> Decode:
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj().decompress


_DECODERS: dict[str, Callable[[], Decode]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _brotli,
    "zstd": _zstd,
}
