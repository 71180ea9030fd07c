"""This module splits Amazon's binary event streams into messages, and keeps the exact bytes of each message.

A message has two lengths with a checksum, headers, a payload, and a checksum of the whole message. botocore
reads and checks messages, but cannot write them. After invalid bytes, no further message can be found, so all
bytes from there on are forwarded unchanged.

botocore is an optional dependency. Only modules that need it import this module.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from zlib import crc32

from botocore.eventstream import EventStreamBuffer, EventStreamMessage, ParserError

_LENGTHS = struct.Struct(">II")
_NUMBER = struct.Struct(">I")
_PRELUDE_BYTES = 12
_AROUND_BYTES = 16
"""The number of bytes in a message apart from its headers and payload."""
_STRING = 7
_ODD = (ParserError, struct.error, UnicodeDecodeError, KeyError)
"""The errors that botocore raises for invalid bytes."""


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A `StreamMessage` is one message, or bytes that are not a valid message."""

    raw: bytes
    data: bytes | None
    """The payload; None for bytes that are not a valid message."""
    event: str = ""
    """The type of the event; empty for exceptions and invalid bytes."""
    exception: str = ""

    @property
    def is_exception(self) -> bool:
        return self.data is not None and not self.event

    def with_data(self, data: bytes) -> bytes:
        """Return the message's bytes with another payload and the same headers."""
        _, headers = _LENGTHS.unpack_from(self.raw)
        return _framed(self.raw[_PRELUDE_BYTES : _PRELUDE_BYTES + headers], data)


def message_bytes(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return the bytes of a new message. The name of a header may have up to 255 bytes, its value 65,535."""
    return _framed(
        b"".join([_header(name.encode(), value.encode()) for name, value in headers.items()]), payload
    )


@dataclass(slots=True)
class MessageReader:
    """A `MessageReader` splits a stream into messages, in time linear in the number of bytes."""

    _buffer: bytearray = field(default_factory=bytearray)
    _decoder: EventStreamBuffer = field(default_factory=EventStreamBuffer)
    _total: int = 0
    """The number of bytes in the current message; 0 until its lengths have arrived."""
    _broken: bool = False

    def feed(self, data: bytes) -> list[StreamMessage]:
        self._buffer += data
        messages: list[StreamMessage] = []
        while not self._broken and self._is_complete():
            raw = bytes(self._buffer[: self._total])
            if (message := self._decoded(raw[_PRELUDE_BYTES:])) is None:
                break
            del self._buffer[: self._total]
            self._total = 0
            messages.append(_read(raw, message))
        return messages + self.close() if self._broken else messages

    def close(self) -> list[StreamMessage]:
        """Return the bytes left at the end of the stream, if there are any."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return [StreamMessage(rest, None)] if rest else []

    def _is_complete(self) -> bool:
        if not self._total and len(self._buffer) >= _PRELUDE_BYTES:
            total, headers = _LENGTHS.unpack_from(self._buffer)
            # The decoder checks the lengths as soon as they arrive.
            self._decoded(bytes(self._buffer[:_PRELUDE_BYTES]))
            self._broken = self._broken or total < headers + _AROUND_BYTES
            self._total = total
        return not self._broken and 0 < self._total <= len(self._buffer)

    def _decoded(self, data: bytes) -> EventStreamMessage | None:
        self._decoder.add_data(data)
        try:
            return next(self._decoder, None)
        except _ODD:
            self._broken = True
            return None


def _read(raw: bytes, message: EventStreamMessage) -> StreamMessage:
    headers = message.headers
    is_event = headers.get(":message-type") == "event"
    if is_event:
        return StreamMessage(raw, message.payload, str(headers.get(":event-type") or "?"))
    return StreamMessage(raw, message.payload, exception=str(headers.get(":exception-type") or ""))


def _header(name: bytes, value: bytes) -> bytes:
    return bytes((len(name),)) + name + struct.pack(">BH", _STRING, len(value)) + value


def _framed(headers: bytes, payload: bytes) -> bytes:
    lengths = _LENGTHS.pack(len(headers) + len(payload) + _AROUND_BYTES, len(headers))
    data = lengths + _NUMBER.pack(crc32(lengths)) + headers + payload
    return data + _NUMBER.pack(crc32(data))
