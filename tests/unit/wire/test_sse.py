"""Events and their exact bytes, whatever the cut between two chunks."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.wire.framing import SseEvent, SseReader, event_bytes
from support.examples import examples

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


def test_what_is_read_at_a_glance_is_read_as_byte_by_byte() -> None:
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


PIECES = st.sampled_from([b"data: x", b"\r", b"\n", b"\r\n", b":", b"event: y", b"\xff", b"\n\n"])


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(PIECES), st.data())
def test_no_byte_is_lost(pieces: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(pieces)
    chunks: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        chunks.append(stream[:size])
        stream = stream[size:]
    assert b"".join(event.raw for event in read(chunks)) == b"".join(pieces)


def test_a_long_line_in_small_chunks_is_scanned_once() -> None:
    reader = SseReader()
    line = b"data: " + b"x" * 300_000
    for at in range(0, len(line), 3):
        assert reader.feed(line[at : at + 3]) == []
        assert reader._scanned == len(line[: at + 3])
    assert reader.feed(b"\n\n")[0].raw == line + b"\n\n"


def test_other_data_leaves_other_lines_alone() -> None:
    raw = b"event: x\r\nid: 3\r\ndata: {\r\ndata: }\r\n: note\r\n\r\n"
    assert read([raw])[0].with_data(b"[]") == b"event: x\r\nid: 3\r\ndata: []\r\n: note\r\n\r\n"
    assert read([b"data:1\n\n"])[0].with_data(b"2") == b"data:2\n\n"
    assert read([b"\xef\xbb\xbfdata: 1\n\n"])[0].with_data(b"2") == b"\xef\xbb\xbfdata: 2\n\n"


def test_new_events() -> None:
    assert event_bytes("ping", b"{}") == b"event: ping\ndata: {}\n\n"
    assert event_bytes("", b"[DONE]") == b"data: [DONE]\n\n"
