"""The commands of conversations to a shared store, turn by turn, as the store sees them."""

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
"""Seconds in which a proxy writes what a response leaves."""


@dataclass(frozen=True)
class Asked:
    """An `Asked` is one command."""

    command: str
    table: str
    row: int
    """The number of the row within its conversation; -1: none."""
    sent: int
    """The size of the command in bytes."""
    value: int = 0
    """The size of the value that the command writes, in bytes."""


Turns = list[list[Asked]]
"""The commands of one conversation, by turn."""


def recorded(fleet: Fleet, count: int, turns: int) -> list[Turns]:
    """Record conversations through two proxies, one after the other, so that each command belongs to one
    turn. Turns land on the proxies alternately, so that each asks for the rows that the other has put."""
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
    """Return the size in bytes of a command whose words have these lengths."""
    words = list(lengths)
    return 3 + len(str(len(words))) + sum(length + 5 + len(str(length)) for length in words)


class _Monitor:
    """A `_Monitor` reads the commands that a Redis gets."""

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
