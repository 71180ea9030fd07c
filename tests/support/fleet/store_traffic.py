"""What conversations ask of a shared store, turn by turn, as the store itself sees it."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from support.fleet import conversations
from support.fleet.conversations import Conversation
from support.fleet.fleet import Fleet

_PART = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(?:x[0-9a-f]{2}|.)")
_NAME = b"penumbra:"
_TURN = "a-turn-begins"
_PAUSE = 0.05
"""Seconds in which what a response leaves behind is written."""


@dataclass(frozen=True)
class Asked:
    """One command."""

    command: str
    table: str
    row: int
    """Which of the conversation's rows; -1: none."""
    sent: int
    """Bytes of the command, as they go over the wire."""
    value: int = 0
    """Bytes of the value that it writes."""


Turns = list[list[Asked]]
"""Of one conversation."""


def recorded(fleet: Fleet, count: int, turns: int) -> list[Turns]:
    """Conversations through two proxies, one after the other, so that each command is some turn's. Turns land on
    one and the other: what one has put, the other asks for as soon as it needs it."""
    ports = [proxy.port for proxy in fleet.proxies[-2:]]
    with _Monitor(fleet.redis.port) as monitor:
        for number in range(count):
            one = Conversation(f"{conversations.ASKS}recorded{number}", 0)
            for turn in range(turns):
                one.port = ports[turn % 2]
                fleet.redis.client.echo(f"{_TURN} {number}")
                one.say(turn)
                time.sleep(_PAUSE)
        lines = monitor.lines()
    return _read(lines, count)


def _read(lines: Sequence[bytes], count: int) -> list[Turns]:
    made: list[Turns] = [[] for _ in range(count)]
    rows: dict[bytes, int] = defaultdict(lambda: len(rows))
    turn: list[Asked] | None = None
    for line in lines:
        parts = [_ESCAPED.sub(b".", part) for part in _PART.findall(line)]
        names = _PART.findall(line)[1:2]
        command = parts[0].decode().upper()
        if command == "ECHO":
            turn = []
            made[int(parts[1].split()[1])].append(turn)
        elif turn is not None and command in ("GETEX", "SET", "PEXPIRE"):
            table = parts[1].removeprefix(_NAME).partition(b":")[0].decode()
            value = len(parts[2]) if command == "SET" else 0
            turn.append(Asked(command, table, rows[names[0]], on_the_wire(map(len, parts)), value))
        elif turn is not None and command == "PUBLISH":
            turn.append(Asked(command, "", -1, on_the_wire(map(len, parts)), len(parts[2])))
    return made


def on_the_wire(lengths: Iterable[int]) -> int:
    """Bytes of a command whose words have these lengths."""
    words = list(lengths)
    return 3 + len(str(len(words))) + sum(length + 5 + len(str(length)) for length in words)


class _Monitor:
    """Reads what a Redis is asked."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._data = bytearray()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> _Monitor:
        self._socket.sendall(b"MONITOR\r\n")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def lines(self) -> list[bytes]:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        return bytes(self._data).split(b"\r\n")[1:-1]

    def _read(self) -> None:
        while data := self._socket.recv(1 << 16):
            self._data += data
