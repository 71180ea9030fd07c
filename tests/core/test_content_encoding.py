"""Content codings: there and back, and never more than the limit."""

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.content_encoding import NotDecodable, codings, decode, encode

HEADERS = ["", "identity", "gzip", "x-gzip", "deflate", "br", "zstd", "gzip, zstd", "br,GZIP"]
LIMIT = 1_000_000


@pytest.mark.parametrize("header", HEADERS)
@settings(max_examples=25, deadline=None)
@given(data=st.binary(max_size=2000))
def test_there_and_back(header, data):
    assert decode(encode(data, header), header, LIMIT) == data
    assert encode(data, header) == encode(data, header)


@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ("gzip", gzip.compress(b"hello", mtime=0)),
        ("deflate", zlib.compress(b"hello")),
        ("deflate", zlib.compress(b"hello", wbits=-15)),
        ("br", brotli.compress(b"hello")),
        ("zstd", zstandard.ZstdCompressor().compress(b"hello")),
        ("zstd", zstandard.ZstdCompressor(write_content_size=False).compress(b"hello")),
    ],
)
def test_what_others_packed_is_read(header, packed):
    assert decode(packed, header, LIMIT) == b"hello"


@pytest.mark.parametrize("header", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_stops_at_the_limit(header):
    bomb = encode(b"\0" * 20_000_000, header)
    assert len(bomb) < 100_000
    with pytest.raises(NotDecodable, match="more than"):
        decode(bomb, header, LIMIT)


def test_exactly_the_limit_is_allowed():
    for header in HEADERS:
        assert len(decode(encode(b"x" * 5000, header), header, 5000)) == 5000
        with pytest.raises(NotDecodable):
            decode(encode(b"x" * 5001, header), header, 5000)


@pytest.mark.parametrize("header", ["gzip", "deflate", "br", "zstd"])
def test_broken_and_cut_off_bodies_are_refused(header):
    packed = encode(bytes(range(256)) * 40, header)
    with pytest.raises(NotDecodable):
        decode(packed[:-6], header, LIMIT)
    with pytest.raises(NotDecodable):
        decode(b"this is not packed at all", header, LIMIT)


def test_unknown_codings_are_refused():
    assert codings(" GZIP , identity") == ("gzip",)
    with pytest.raises(NotDecodable, match="compress"):
        decode(b"x", "compress", LIMIT)
