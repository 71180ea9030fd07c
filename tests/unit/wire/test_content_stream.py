"""Content codings undone as the bytes arrive."""

from __future__ import annotations

import pytest

from penumbra.wire import content_encoding
from support.cases import each

DATA = "data: é und 日本 {}\n\n".encode() * 50


@each("coding", ["", "identity", "gzip", "x-gzip", "deflate", "br", "zstd", "gzip, br"])
@each("size", [1, 7, 100_000])
def test_any_cut(coding: str, size: int) -> None:
    encoded = content_encoding.encode(DATA, coding)
    decode = content_encoding.decoder(coding)
    assert decode is not None
    plain = b"".join(decode(encoded[at : at + size]) for at in range(0, len(encoded), size))
    assert plain == DATA


def test_raw_deflate() -> None:
    import zlib

    encoder = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    encoded = encoder.compress(DATA) + encoder.flush()
    decode = content_encoding.decoder("deflate")
    assert decode is not None
    assert decode(b"") == b""
    assert decode(encoded[:1]) + decode(encoded[1:]) == DATA


def test_unknown_codings() -> None:
    assert content_encoding.decoder("dcb") is None
    assert content_encoding.decoder("gzip, dcz") is None


@pytest.mark.parametrize(
    ("offered", "kept"),
    [
        ("gzip, deflate, br, zstd", "gzip, deflate, br, zstd"),
        ("gzip,br;q=0.5", "gzip,br;q=0.5"),
        ("gzip, dcz, br;q=0.5", "gzip, br;q=0.5"),
        ("dcb", "identity"),
        ("*", "identity"),
        ("", ""),
    ],
)
def test_what_is_offered_to_the_upstream(offered: str, kept: str) -> None:
    assert content_encoding.acceptable(offered) == kept
