"""The framings of streams: server-sent events, JSON lines, one JSON array, or Amazon's messages."""

from __future__ import annotations

import json

from support.upstream import amazon
from support.upstream.api import Event

CONTENT_TYPES = {
    "events": "text/event-stream; charset=utf-8",
    "lines": "application/x-ndjson",
    "array": "application/json; charset=UTF-8",
    "messages": "application/vnd.amazon.eventstream",
}


def write_piece(framing: str, number: int, event: Event, *, crlf: bool = False) -> bytes:
    """Return the `number`th piece of a stream, from 0, with its separators."""
    if framing == "events":
        return write_event(event, crlf=crlf)
    if framing == "messages":
        return amazon.event(*event)
    data = json.dumps(event[1], ensure_ascii=False).encode()
    return data + b"\n" if framing == "lines" else (b",\r\n" if number else b"[") + data


def write_end(framing: str) -> bytes:
    """Return the bytes after the last piece."""
    return b"]" if framing == "array" else b""


def write_event(event: Event, *, crlf: bool = False) -> bytes:
    """Return a server-sent event, with the empty line that ends it."""
    name, value = event
    data = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    text = (f"event: {name}\n" if name else "") + f"data: {data}\n\n"
    return (text.replace("\n", "\r\n") if crlf else text).encode()
