"""Responses that are streamed, decoded as they arrive, and what an upstream may be offered for that."""

from __future__ import annotations

from collections.abc import Callable

from penumbra.wire.content_encoding import Decoder, NotDecodable

Decode = Callable[[bytes], bytes]
"""Takes the next bytes, gives what they decode to. Raises NotDecodable, and from then on always."""

SUPPORTED = ("gzip", "x-gzip", "deflate", "br", "zstd")
MOST_BYTES = 64 * 1024 * 1024
"""Plain bytes of one response: far more than any model writes, images included."""


def decoder(header: str, limit: int = MOST_BYTES) -> Decode | None:
    """A decoder for a Content-Encoding header; None if its codings can't be undone.

    What comes without coding passes whatever its size: each of its bytes was sent.
    """
    try:
        undone = Decoder(header, limit)
    except NotDecodable:
        return None
    return undone.feed if undone.has_codings else bytes


def acceptable(header: str) -> str:
    """An Accept-Encoding header without the codings that can't be undone here; `identity` if none is left."""
    offered = [part.strip() for part in header.split(",") if part.strip()]
    kept = [part for part in offered if part.split(";")[0].strip().lower() in _ACCEPTED]
    if len(kept) == len(offered):
        return header
    return ", ".join(kept) or "identity"


_ACCEPTED = (*SUPPORTED, "identity")
