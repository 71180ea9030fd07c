"""Amazon's event streams: what botocore reads, byte by byte, and what is written reads as well."""

from __future__ import annotations

import json
import struct
from typing import Any
from zlib import crc32

from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.framing import MessageReader, StreamMessage, message_bytes
from support.cases import each
from support.examples import examples
from support.upstream.amazon import event, message

_names = st.text(min_size=1, max_size=20)
_headers = st.dictionaries(_names, st.text(max_size=40), max_size=5)
_messages = st.lists(st.tuples(_headers, st.binary(max_size=60)), max_size=5)


def botocore(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(one.headers, one.payload) for one in buffer]


def read(data: bytes, *cuts: int) -> list[StreamMessage]:
    reader = MessageReader()
    found = []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        found += reader.feed(data[start:end])
    return found + reader.close()


@given(_messages)
@settings(max_examples=examples(60))
def test_botocore_reads_what_is_written(messages: list[tuple[dict[str, str], bytes]]) -> None:
    data = b"".join(message_bytes(headers, payload) for headers, payload in messages)
    assert botocore(data) == messages
    assert [(one.raw, one.data) for one in read(data)] == [
        (message_bytes(headers, payload), payload) for headers, payload in messages
    ]


@given(_messages, st.binary(max_size=60), st.data())
@settings(max_examples=examples(60))
def test_other_payloads_and_every_cut(
    messages: list[tuple[dict[str, str], bytes]], payload: bytes, drawn: Any
) -> None:
    data = b"".join(message_bytes(*one) for one in messages)
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    whole = read(data)
    assert read(data, *cuts) == whole
    assert b"".join(one.raw for one in whole) == data
    changed = b"".join(one.with_data(payload) for one in whole)
    assert botocore(changed) == [(headers, payload) for headers, _ in messages]


def test_headers_of_every_kind_stay() -> None:
    kinds = (
        b"\x00",
        b"\x01",
        b"\x02a",
        b"\x03ab",
        b"\x04abcd",
        b"\x05abcdefgh",
        b"\x06\x00\x01x",
        b"\x08abcdefgh",
    )
    head = b"".join(b"\x01" + bytes((97 + n,)) + kind for n, kind in enumerate((*kinds, b"\x09" + b"u" * 16)))
    lengths = struct.pack(">II", 16 + len(head), len(head))
    raw = lengths + struct.pack(">I", crc32(lengths)) + head
    raw += struct.pack(">I", crc32(raw))
    (one,) = read(raw)
    ((before, _), (after, payload)) = botocore(raw + one.with_data(b"{}"))
    assert len(before) == 9
    assert (after, payload) == (before, b"{}")


def test_kinds_of_messages() -> None:
    data = event("messageStart", {"role": "assistant"}) + event("throttlingException", {"message": "slow"})
    data += message({":message-type": "error", ":error-code": "500"}, b"") + message({}, b"x")
    first, *errors = read(data)
    assert (first.event, first.is_exception) == ("messageStart", False)
    assert json.loads(first.data or b"") == {"role": "assistant"}
    assert [(one.event, one.is_exception) for one in errors] == [("", True)] * 3
    assert message({":message-type": "event"}, b"") == read(message({":message-type": "event"}, b""))[0].raw
    assert not read(message({":message-type": "event"}, b""))[0].is_exception


def damaged() -> list[bytes]:
    good = event("metadata", {"usage": {}})
    lengths = struct.pack(">II", 4, 0)
    short = lengths + struct.pack(">I", crc32(lengths))
    head = b"\x01a\x0f"
    lengths = struct.pack(">II", 16 + len(head), len(head))
    unknown = lengths + struct.pack(">I", crc32(lengths)) + head
    unknown += struct.pack(">I", crc32(unknown))
    twice = message({"a": "b"}, b"")[12:-4] * 2
    lengths = struct.pack(">II", 16 + len(twice), len(twice))
    double = lengths + struct.pack(">I", crc32(lengths)) + twice
    double += struct.pack(">I", crc32(double))
    flips = [good[:at] + bytes((good[at] ^ 1,)) + good[at + 1 :] for at in range(len(good))]
    return [*flips, b"event: ping\ndata: {}\n\n" * 3, short, unknown, double, good[:-1], good[:5]]


@each("bad", damaged())
def test_what_is_no_message_goes_on_as_it_is(bad: bytes) -> None:
    good = event("messageStart", {"role": "assistant"})
    data = good + bad + (good if len(bad) >= 12 else b"")
    for cuts in ((), tuple(range(1, len(data)))):
        first, *rest = read(data, *cuts)
        assert first.raw == good
        assert rest
        assert {one.data for one in rest} == {None}
        assert b"".join(one.raw for one in rest) == data[len(good) :]
