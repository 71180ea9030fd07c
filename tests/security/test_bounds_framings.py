"""An event that never ends: at a limit the stream goes on as it arrives, and nothing is kept."""

from __future__ import annotations

import struct
from functools import partial
from zlib import crc32

import pytest

from penumbra.apis import gemini
from penumbra.apis.formats import FORMATS
from penumbra.wire.event_stream import MessageReader
from penumbra.wire.framing import MOST_BLANK_BYTES, ArrayReader, LineReader, Piece, SseReader

READERS = [SseReader, LineReader, ArrayReader]
WHOLE = {
    SseReader: b'data: {"a":1}\n\n',
    LineReader: b'{"a":1}\n',
    ArrayReader: b'[{"a":1}',
}
ENDLESS = {
    SseReader: b"data: x\ndata: ",
    LineReader: b'{"b":"',
    ArrayReader: b',{"b":"',
}


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize("reader", READERS)
def test_an_event_without_an_end_goes_on_as_it_arrives(reader, size):
    stream = WHOLE[reader] + ENDLESS[reader] + b"y" * 500
    later = b']}\n\ndata: {"type":"error"}\n\n"}]\n'
    cut = reader(limit=100)
    out: list[Piece] = []
    for at in range(0, len(stream), size):
        out += cut.feed(stream[at : at + size])
        assert len(stream[: at + size]) - sum(len(one.raw) for one in out) <= 100
    assert out[0].data
    # All of it has gone on, and what comes then goes on at once, in one piece, unread.
    assert b"".join(one.raw for one in out) == stream
    (piece,) = cut.feed(later)
    assert (piece.raw, piece.data) == (later, None)
    assert list(cut.close()) == []


@pytest.mark.parametrize("reader", READERS)
def test_many_events_in_one_chunk_are_no_long_event(reader):
    separator = b"," if reader is ArrayReader else b""
    one = WHOLE[reader].lstrip(b"[")
    stream = (b"[" if separator else b"") + separator.join([one] * 1000)
    assert len([piece for piece in reader(limit=100).feed(stream) if piece.data]) == 1000


def test_a_frame_that_announces_gigabytes_is_none():
    lengths = struct.pack(">II", 0xFFFFFF00, 0)
    begin = lengths + struct.pack(">I", crc32(lengths))
    reader = MessageReader()
    out = [one for data in (begin, b"x" * 1000, b"y" * 1000) for one in reader.feed(data)]
    assert b"".join(one.raw for one in out) == begin + b"x" * 1000 + b"y" * 1000
    assert all(one.data is None for one in out)


def test_a_stream_of_white_space_is_not_gathered():
    edited = FORMATS["gemini"].responses.passed([], stream=True)
    answer = FORMATS["gemini"].stream("expand_context")
    for feed in (edited.feed, answer.feed):
        out = [feed(b" " * 100) for _ in range(100)]
        assert not any(out[: MOST_BLANK_BYTES // 100])
        line = feed(b"\n\n")
        assert b"".join(out) + line == b" " * 10_000 + b"\n\n"


def test_a_part_of_a_long_item_is_not_taken_for_the_end_of_its_array(monkeypatch):
    monkeypatch.setattr(gemini, "ArrayReader", partial(ArrayReader, limit=20))
    answer = FORMATS["gemini"].stream("expand_context")
    answer.feed(b'[{"candidates":[]}')
    out = answer.feed(b',{"a":"' + b"z" * 30)
    assert out, "the item is given up"
    for piece in (b"]", b"a]b", b'"}]'):
        out += answer.feed(piece)
    answer.end_turn()
    assert out + answer.finish() == b',{"a":"' + b"z" * 30 + b"]" + b"a]b" + b'"}]'
