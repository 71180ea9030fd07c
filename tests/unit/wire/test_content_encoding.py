"""Content codings of whole bodies and of streams."""

import gzip
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire import content_encoding
from penumbra.wire.content_encoding import Decoder, NotDecodable, OverLimit, codings, decode, encode
from support.examples import examples

HEADERS = ["", "identity", "gzip", "x-gzip", "deflate", "br", "zstd", "gzip, zstd", "br,GZIP"]
LIMIT = 1_000_000


@pytest.mark.parametrize("header", HEADERS)
@settings(max_examples=examples(25))
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
def test_bodies_of_other_encoders_are_read(header, packed):
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


@pytest.mark.parametrize("size", [1, 13, 5000, 1 << 20])
@pytest.mark.parametrize(
    ("header", "packed"),
    [
        ("gzip", gzip.compress(b"one ", mtime=0) + gzip.compress(b"two", mtime=0)),
        ("gzip", gzip.compress(b"one two", mtime=0) + b"\0" * 512),
        ("zstd", zstandard.ZstdCompressor().compress(b"one ") + zstandard.ZstdCompressor().compress(b"two")),
    ],
)
def test_successive_members_and_frames_are_one_body(header, packed, size):
    decoder = Decoder(header, LIMIT)
    plain = b"".join(decoder.feed(packed[at : at + size]) for at in range(0, len(packed), size))
    assert plain == b"one two"
    assert decoder.is_complete


@pytest.mark.parametrize("header", ["gzip", "deflate"])
def test_bytes_after_the_end_are_ignored_in_a_stream_and_refused_in_a_body(header):
    packed = encode(b"hello", header) + b"something else"
    assert Decoder(header, LIMIT).feed(packed) == b"hello"
    with pytest.raises(NotDecodable):
        decode(packed, header, LIMIT)


def test_at_most_three_codings_are_undone():
    assert decode(encode(b"x", "gzip, br, zstd"), "gzip, br, zstd", LIMIT) == b"x"
    with pytest.raises(NotDecodable, match="61 codings"):
        Decoder(", ".join(["gzip"] * 61), LIMIT)


def test_each_of_several_codings_stops_at_the_limit():
    inner = encode(b"", "gzip") * 100_000
    with pytest.raises(OverLimit):
        decode(encode(inner, "gzip"), "gzip, gzip", LIMIT)


def test_an_error_is_the_same_for_ever():
    decoder = Decoder("gzip", 10)
    for data in (encode(b"x" * 11, "gzip"), b"", b"more"):
        with pytest.raises(OverLimit):
            decoder.feed(data)


def test_a_frame_that_asks_for_a_huge_window_is_refused():
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True, write_content_size=False)
    packing = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = packing.compress(b"x" * 100) + packing.flush()
    with pytest.raises(NotDecodable):
        decode(packed, "zstd", LIMIT)


DATA = "data: é und 日本 {}\n\n".encode() * 50


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
def test_encodings_that_are_offered_to_the_upstream(offered: str, kept: str) -> None:
    assert content_encoding.acceptable(offered) == kept
