"""Streams, messages and documents without an end: above a limit they pass as they arrive, and nothing is
kept."""

import json
import re
import struct
import zlib
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from typing import Any
from zlib import crc32

import brotli
import pytest
import wsproto.extensions
import zstandard
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, TextMessage

from penumbra.apis import gemini
from penumbra.apis.formats import FORMATS
from penumbra.flow import websocket_streams
from penumbra.wire.event_stream import MessageReader
from penumbra.wire.framing import MOST_BLANK_BYTES, ArrayReader, LineReader, Piece, SseReader
from support.upstream import Raw

READERS = [SseReader, LineReader, ArrayReader]
WHOLE = {SseReader: b'data: {"a":1}\n\n', LineReader: b'{"a":1}\n', ArrayReader: b'[{"a":1}'}
ENDLESS = {SseReader: b"data: x\ndata: ", LineReader: b'{"b":"', ArrayReader: b',{"b":"'}


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
    # All bytes have passed, and later ones pass at once, in one piece, unread.
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


@pytest.fixture
def ends(monkeypatch):
    """The server has the extension that mitmproxy would make, the client the usual one."""
    monkeypatch.setattr(wsproto.extensions, "PerMessageDeflate", wsproto.extensions.PerMessageDeflate)
    client_deflate = wsproto.extensions.PerMessageDeflate()
    websocket_streams.bound_messages()
    server_deflate = wsproto.extensions.PerMessageDeflate()
    assert isinstance(server_deflate, websocket_streams.BoundedDeflate)
    for one in (client_deflate, server_deflate):
        one.finalize("permessage-deflate")
    return (
        Connection(ConnectionType.CLIENT, [client_deflate]),
        Connection(ConnectionType.SERVER, [server_deflate]),
    )


def _received(server, data):
    server.receive_data(data)
    return list(server.events())


def _whole(events):
    return b"".join(event.data for event in events if isinstance(event, BytesMessage))


def test_messages_arrive_and_the_limit_is_one_of_each_message(ends, monkeypatch):
    client, server = ends
    monkeypatch.setattr(websocket_streams, "MOST_BYTES", 100_000)
    for number in range(5):
        message = bytes([number]) * 90_000
        assert _whole(_received(server, client.send(BytesMessage(message)))) == message
    (event,) = _received(server, client.send(TextMessage("é" * 100)))
    assert event.data == "é" * 100
    parts = [b"a" * 40_000, b"b" * 40_000]
    sent = client.send(BytesMessage(parts[0], message_finished=False)) + client.send(BytesMessage(parts[1]))
    assert _whole(_received(server, sent)) == b"".join(parts)


@pytest.mark.parametrize("parts", [1, 30])
def test_a_message_that_decodes_to_more_closes_its_connection(ends, monkeypatch, parts):
    client, server = ends
    monkeypatch.setattr(websocket_streams, "MOST_BYTES", 1_000_000)
    data = b"\0" * (30_000_000 // parts)
    bomb = b"".join(
        client.send(BytesMessage(data, message_finished=number == parts - 1)) for number in range(parts)
    )
    assert len(bomb) < 100_000
    events = _received(server, bomb)
    assert len(_whole(events)) <= 1_000_000
    assert isinstance(events[-1], CloseConnection)


_PLAIN = 700_000_000
_MARGIN_KB = 450_000
"""Kilobytes; far less than a bomb decodes to, far more than the limit lets through."""
EVENT = b'data: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n'
BODY = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 9,
    "tools": [{"name": "Bash", "input_schema": {"type": "object"}}],
    "messages": [{"role": "user", "content": "hi"}],
}


@cache
def _bomb(coding: str, begin: bytes) -> bytes:
    """Return an encoded body: `begin`, and then only blanks."""
    parts = [begin] + [b" " * 1_000_000] * (_PLAIN // 1_000_000)
    if coding == "br":
        machine = brotli.Compressor(quality=1)
        return b"".join([machine.process(part) for part in parts]) + machine.finish()
    if coding == "zstd":
        frames = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join([frames.compress(part) for part in parts]) + frames.flush()
    gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = gzip.compress(begin) + gzip.flush(zlib.Z_FULL_FLUSH)
    # Bytes after a full flush do not refer to earlier ones, so one part represents all.
    return head + (gzip.compress(parts[1]) + gzip.flush(zlib.Z_FULL_FLUSH)) * (len(parts) - 1)


def _peak(running: Any) -> int:
    """Return the kilobytes that the process used at most so far."""
    status = Path(f"/proc/{running.process.pid}/status")
    found = re.search(r"VmHWM:\s+([0-9]+)", status.read_text()) if status.exists() else None
    if found is None:
        pytest.skip("the memory of a process can't be read here")
    return int(found[1])


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_an_answer_that_decodes_to_gigabytes_takes_no_memory(
    coding: str, http2: bool, clients: Any, proxy: Any, upstream: Any, api_key: str
) -> None:
    running = proxy("reverse-tls")
    client = clients.http(running, http2=http2)
    base = clients.base(running, running.url, http2=http2)
    headers = {"x-api-key": api_key, "accept-encoding": "gzip, br, zstd", "anthropic-version": "2023-06-01"}

    def ask(kind: str, begin: bytes) -> tuple[int, Any, bytes]:
        upstream.answers(
            Raw(200, (("content-type", kind), ("content-encoding", coding)), _bomb(coding, begin))
        )
        body = json.dumps({**BODY, "stream": "event" in kind}).encode()
        url = f"{base}/v1/messages"
        with client.stream(
            "POST", url, content=body, headers={**headers, "content-type": "application/json"}
        ) as got:
            pieces: list[bytes] = []
            # A stream that exceeds the limit breaks off; a document passes as it came.
            with pytest.raises(Exception, match=r"closed|StreamReset") if "event" in kind else nullcontext():
                pieces.extend(got.iter_raw())
            return got.status_code, got.headers, b"".join(pieces)

    before = _peak(running)
    status, _, body = ask("text/event-stream", EVENT)
    assert status == 200
    assert len(body) < 100_000_000
    assert b"event: error" not in body[-400:]
    status, found, body = ask("application/json", b"{")
    assert (status, found["content-encoding"]) == (200, coding)
    assert body == _bomb(coding, b"{")
    assert _peak(running) - before < _MARGIN_KB
