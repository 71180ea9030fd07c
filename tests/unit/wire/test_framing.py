"""Streams are split into events with their exact bytes, for any division into chunks."""

import json
import struct
from typing import Any
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.event_stream import MessageReader, StreamMessage, message_bytes
from penumbra.wire.framing import SseEvent, SseReader, event_bytes, is_stream
from support.examples import examples
from support.upstream.amazon import event, message


@pytest.mark.parametrize(
    ("content_type", "path", "found"),
    [
        ("text/event-stream; charset=utf-8", "/v1/messages", True),
        ("application/vnd.amazon.eventstream", "/model/m/converse-stream", True),
        ("application/x-ndjson", "/api/chat", True),
        ("application/json", "/v1beta/models/m:streamGenerateContent?key=k", True),
        ("application/json", "/v1beta/models/m:generateContent", False),
        ("text/html", "/v1beta/models/m:streamGenerateContent", False),
        ("", "/v1/messages", False),
    ],
)
def test_streams_are_recognised(content_type: str, path: str, found: bool) -> None:
    assert is_stream(content_type, path) is found


STREAM = (
    b'\xef\xbb\xbfevent: message_start\ndata: {"a":1}\n\n'
    b": keep-alive\n\n"
    b"data: first\ndata:second\ndata\nid: 7\n\n"
    b"event: ping\r\ndata: {}\r\n\r\n"
    b"data: caf\xc3\xa9 \xe2\x80\xa8 x\n\n"
    b"data: [DONE]\n\n"
)


def read(chunks: list[bytes]) -> list[SseEvent]:
    reader = SseReader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


def test_names_and_data() -> None:
    events = read([STREAM])
    assert [(event.name, event.data) for event in events] == [
        ("message_start", b'{"a":1}'),
        ("", None),
        ("", b"first\nsecond\n"),
        ("ping", b"{}"),
        ("", b"caf\xc3\xa9 \xe2\x80\xa8 x"),
        ("", b"[DONE]"),
    ]
    assert b"".join(event.raw for event in events) == STREAM


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_every_cut_gives_the_same_events(end: bytes) -> None:
    stream = STREAM.replace(b"\r\n", b"\n").replace(b"\n", end)
    whole = read([stream])
    for cut in range(len(stream) + 1):
        assert read([stream[:cut], stream[cut:]]) == whole
    assert read([stream[at : at + 1] for at in range(len(stream))]) == whole


def test_the_fast_reader_reads_as_the_one_byte_by_byte() -> None:
    usual = b'event: message\ndata: {"a":1}\n\n'
    others = (
        *(b"data:x\n\n", b"data:  x\n\n", b"data: \n\n", b"data:\n\n", b"data\n\n", b"event:a\ndata:b\n\n"),
        *(b"event: \xff\ndata: b\n\n", b"data: b\nevent: a\n\n", b"data: a\ndata: b\n\n", b"data: a\rb\n\n"),
        *(b"data: a\r\n\r\n", b"data: a\n\r", b"\n", b"\ndata: a\n\n", b"datax: a\n\n"),
        *(b"event: a\n\ndata: b\n\n", b"event: a\nevent: b\ndata: c\n\n", b"\xef\xbb\xbfdata: a\n\n"),
    )
    for other in others:
        stream = usual + other + usual + usual
        assert read([stream]) == read([stream[at : at + 1] for at in range(len(stream))]), other


def test_bare_carriage_returns_are_not_waited_for() -> None:
    reader = SseReader()
    assert [event.data for event in reader.feed(b"data: a\r\r")] == [b"a"]
    assert [event.data for event in reader.feed(b"data: b\r\r")] == [b"b"]


def test_an_event_without_its_blank_line_comes_at_the_end() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a\n\ndata: [DONE]\n") == [SseEvent(b"data: a\n\n", "", b"a")]
    assert reader.close() == [SseEvent(b"data: [DONE]\n", "", b"[DONE]")]
    assert reader.close() == []


def test_a_long_line_in_small_chunks_is_scanned_once() -> None:
    reader = SseReader()
    line = b"data: " + b"x" * 300_000
    for at in range(0, len(line), 3):
        assert reader.feed(line[at : at + 3]) == []
    assert reader.feed(b"\n\n")[0].raw == line + b"\n\n"


def test_other_data_leaves_other_lines_alone() -> None:
    raw = b"event: x\r\nid: 3\r\ndata: {\r\ndata: }\r\n: note\r\n\r\n"
    assert read([raw])[0].with_data(b"[]") == b"event: x\r\nid: 3\r\ndata: []\r\n: note\r\n\r\n"
    assert read([b"data:1\n\n"])[0].with_data(b"2") == b"data:2\n\n"
    assert read([b"\xef\xbb\xbfdata: 1\n\n"])[0].with_data(b"2") == b"\xef\xbb\xbfdata: 2\n\n"


def test_new_events() -> None:
    assert event_bytes("ping", b"{}") == b"event: ping\ndata: {}\n\n"
    assert event_bytes("", b"[DONE]") == b"data: [DONE]\n\n"


_names = st.text(min_size=1, max_size=20)
_headers = st.dictionaries(_names, st.text(max_size=40), max_size=5)
_messages = st.lists(st.tuples(_headers, st.binary(max_size=60)), max_size=5)


def botocore(data: bytes) -> list[tuple[dict[str, Any], bytes]]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(one.headers, one.payload) for one in buffer]


def messages_of(data: bytes, *cuts: int) -> list[StreamMessage]:
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
    assert [(one.raw, one.data) for one in messages_of(data)] == [
        (message_bytes(headers, payload), payload) for headers, payload in messages
    ]


@given(_messages, st.binary(max_size=60), st.data())
@settings(max_examples=examples(60))
def test_other_payloads_and_every_cut(
    messages: list[tuple[dict[str, str], bytes]], payload: bytes, drawn: Any
) -> None:
    data = b"".join(message_bytes(*one) for one in messages)
    cuts = sorted(drawn.draw(st.lists(st.integers(0, len(data)), max_size=8)))
    whole = messages_of(data)
    assert messages_of(data, *cuts) == whole
    assert b"".join(one.raw for one in whole) == data
    changed = b"".join(one.with_data(payload) for one in whole)
    assert botocore(changed) == [(headers, payload) for headers, _ in messages]


def test_headers_of_every_kind_stay() -> None:
    kinds = (
        *(b"\x00", b"\x01", b"\x02a", b"\x03ab", b"\x04abcd", b"\x05abcdefgh", b"\x06\x00\x01x"),
        b"\x08abcdefgh",
    )
    head = b"".join(b"\x01" + bytes((97 + n,)) + kind for n, kind in enumerate((*kinds, b"\x09" + b"u" * 16)))
    lengths = struct.pack(">II", 16 + len(head), len(head))
    raw = lengths + struct.pack(">I", crc32(lengths)) + head
    raw += struct.pack(">I", crc32(raw))
    (one,) = messages_of(raw)
    ((before, _), (after, payload)) = botocore(raw + one.with_data(b"{}"))
    assert len(before) == 9
    assert (after, payload) == (before, b"{}")


def test_kinds_of_messages() -> None:
    data = event("messageStart", {"role": "assistant"}) + event("throttlingException", {"message": "slow"})
    data += message({":message-type": "error", ":error-code": "500"}, b"") + message({}, b"x")
    first, *errors = messages_of(data)
    assert (first.event, first.is_exception) == ("messageStart", False)
    assert json.loads(first.data or b"") == {"role": "assistant"}
    assert [(one.event, one.is_exception) for one in errors] == [("", True)] * 3
    assert (
        message({":message-type": "event"}, b"")
        == messages_of(message({":message-type": "event"}, b""))[0].raw
    )
    assert not messages_of(message({":message-type": "event"}, b""))[0].is_exception


def damaged() -> dict[str, bytes]:
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
    cases = {"a text": b"event: ping\ndata: {}\n\n" * 3, "too short": short, "unknown type": unknown}
    cases |= {"a header twice": double, "no last byte": good[:-1], "five bytes": good[:5]}
    for at in range(len(good)):
        cases[f"a bit of byte {at}"] = bytes((*good[:at], good[at] ^ 1, *good[at + 1 :]))
    return cases


@pytest.mark.parametrize("bad", damaged().values(), ids=damaged())
def test_bytes_that_are_no_message_pass(bad: bytes) -> None:
    good = event("messageStart", {"role": "assistant"})
    data = good + bad + (good if len(bad) >= 12 else b"")
    for cuts in ((), tuple(range(1, len(data)))):
        first, *rest = messages_of(data, *cuts)
        assert first.raw == good
        assert rest
        assert {one.data for one in rest} == {None}
        assert b"".join(one.raw for one in rest) == data[len(good) :]
