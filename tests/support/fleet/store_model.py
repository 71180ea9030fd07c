"""The commands of conversations to a shared store, and the load of a store for any number of proxies,
computed from these commands. A proxy writes the same rows wherever turns go, and reads more rows if another
proxy has had a turn of the conversation meanwhile."""

from __future__ import annotations

import random
import re
import socket
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from support.fleet import conversations
from support.fleet.conversations import Conversation
from support.fleet.fleet import Fleet

_PART = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(rb"\\(?:x[0-9a-f]{2}|.)")
_PREFIX = b"penumbra:"
_TURN = "a-turn-begins"
_PAUSE = 0.05
"""Seconds in which a proxy writes the rows of a response."""


@dataclass(frozen=True)
class Asked:
    """An `Asked` is one command."""

    command: str
    table: str
    row: int
    """The number of the row within its conversation; -1 if there is none."""
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
            table = parts[1].removeprefix(_PREFIX).partition(b":")[0].decode()
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


_NAME = len("penumbra:") + len(":") + 16
_LATEST = "conversations"
"""The table that each turn reads again."""
_ROW = 150
"""Bytes that a Redis takes for a row beside its name and value: entries in two tables, and the allocator's
rounding."""
_MESSAGE = 120
"""Bytes that a subscriber gets beside an announcement."""
CONNECTIONS = 3
"""The connections of a proxy: two for commands, one for announcements."""
COMMANDS = ("getex", "pexpire", "set", "publish")


@dataclass
class Load:
    """A `Load` sums up some turns."""

    turns: int = 0
    commands: Counter[str] = field(default_factory=Counter)
    received: int = 0
    """Bytes that the store receives."""
    sent: int = 0
    """Bytes that the store sends."""
    rows: int = 0
    kept: int = 0
    """Bytes of the store's memory for all rows."""
    trips: list[int] = field(default_factory=list)
    """The number of commands of each round trip, roughly."""

    def a_turn(self) -> dict[str, float]:
        """Return figures that a real store can be asked for, too."""
        counts = {name: self.commands[name] / self.turns for name in COMMANDS}
        return {**counts, "bytes in": self.received / self.turns, "bytes out": self.sent / self.turns}


def simulated(
    recorded: Sequence[Turns], conversations: int, proxies: int, *, sticky: float = 0.0, seed: int = 1
) -> Load:
    """Return the load of so many conversations, each like one of the recorded ones. `sticky`: the share of
    turns that land where the one before did; all others land anywhere."""
    chance, load = random.Random(seed), Load()
    parts = [_Parted.of(turns) for turns in recorded]
    for number in range(conversations):
        one = parts[number % len(parts)]
        put: dict[int, Asked] = {}
        seen: list[set[int]] = [set() for _ in range(proxies)]
        where = chance.randrange(proxies)
        for turn in one.turns:
            if chance.random() >= sticky:
                where = chance.randrange(proxies)
            foreign = [each for row, each in put.items() if row not in seen[where]]
            more = [
                *(_read_of(each) for each in foreign if each.row in one.read),
                *(_use(each) for each in foreign if each.row in one.used),
            ]
            _add(load, [*turn, *more], put, proxies)
            seen[where].update(put)
        load.rows += len(put)
        load.kept += sum(each.value + _NAME + len(each.table) + _ROW for each in put.values())
    return load


@dataclass(frozen=True)
class _Parted:
    """A `_Parted` is a recorded conversation: the commands of its turns wherever they land, and the rows that
    a proxy reads or marks as used after another proxy has put them."""

    turns: list[list[Asked]]
    read: set[int]
    used: set[int]

    @classmethod
    def of(cls, turns: Turns) -> _Parted:
        made = cls([], set(), set())
        put: set[int] = set()
        for turn in turns:
            base = []
            for each in turn:
                if each.row not in put or each.table == _LATEST or each.command == "SET":
                    base.append(each)
                elif each.command in ("GETEX", "PEXPIRE"):
                    (made.read if each.command == "GETEX" else made.used).add(each.row)
            put |= {each.row for each in turn if each.command == "SET"}
            made.turns.append(base)
        return made


def _add(load: Load, asked: Sequence[Asked], put: dict[int, Asked], proxies: int) -> None:
    load.turns += 1
    for each in asked:
        load.commands[each.command.lower()] += 1
        load.received += each.sent
        there = put.get(each.row)
        if each.command == "GETEX":
            load.sent += 5 if there is None else there.value + 5 + len(str(there.value))
        elif each.command == "PUBLISH":
            load.sent += 4 + proxies * (each.value + _MESSAGE)
        else:
            load.sent += 5 if each.command == "SET" else 4
        if each.command == "SET":
            put[each.row] = each
    load.trips += _trips(asked)


def _read_of(row: Asked) -> Asked:
    return Asked("GETEX", row.table, row.row, on_the_wire([5, _NAME + len(row.table), 2, 10]))


def _use(row: Asked) -> Asked:
    return Asked("PEXPIRE", row.table, row.row, on_the_wire([7, _NAME + len(row.table), 10]))


def _trips(asked: Sequence[Asked]) -> Iterator[int]:
    """Yield the number of commands of each round trip: reads of a table go together, and so do writes."""
    kinds = [(each.table if each.command == "GETEX" else each.command != "GETEX") for each in asked]
    starts = [0, *(at + 1 for at, (one, other) in enumerate(pairwise(kinds)) if one != other), len(asked)]
    return (end - start for start, end in pairwise(starts) if end > start)


def p99_wait(load: Load, commands_a_second: float, service: float, seed: int = 1) -> float:
    """Return the longest wait in seconds of 99 of 100 round trips, if a command takes `service` seconds and
    round trips come at random. The wait is infinite beyond the load that one thread can take."""
    if not load.trips or commands_a_second * service >= 1:
        return float("inf")
    chance = random.Random(seed)
    between = sum(load.trips) / len(load.trips) / commands_a_second
    waits, wait = [], 0.0
    for _ in range(50_000):
        wait = max(0.0, wait + chance.choice(load.trips) * service - chance.expovariate(1 / between))
        waits.append(wait)
    return sorted(waits)[int(0.99 * len(waits))]
