"""Measures how long a request takes: without a proxy, through mitmproxy, and with Penumbra in it.

The conversations are an agent's: many turns of file reads, greps, test runs, logs and JSON. `first`: the
proxy has never seen any of it, and all of it may change. `adopted`: never seen, but the provider holds
it in its cache, so it stays as it is. `next`: all of it was sent before, and one result is new.
Client, proxy and provider are processes of their own on one machine, over plain HTTP with keep-alive
(--tls: TLS on both sides). The ways are taken in turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import random
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mitm import Mitmdump
from upstream import tls

SIZES = {"10 KB": 10_000, "300 KB": 300_000, "1.2 MB": 1_200_000}
CASES = ("first", "adopted", "next")
ANSWER = json.dumps(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "ok"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
).encode()


# The provider: reads a request to its end and gives a fixed answer, as cheaply as can be.


class Provider(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._missing = 0
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            self._missing, self._head, data = int(length.partition(b":")[2]), b"", rest
        self._missing -= len(data)
        if not self._missing:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(head % len(ANSWER) + ANSWER)


@dataclass(frozen=True)
class Address:
    """Where the provider listens, and its CA."""

    port: int
    tls_port: int
    ca_file: Path


def provide(folder: Path, told: Connection) -> None:
    """The provider's process."""

    async def run() -> None:
        ca_file, context = tls.make(folder)
        context.set_alpn_protocols(["http/1.1"])
        loop = asyncio.get_running_loop()
        servers = [
            await loop.create_server(Provider, "127.0.0.1", 0, ssl=secure) for secure in (None, context)
        ]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        told.send(Address(*ports, ca_file))
        await asyncio.Event().wait()

    asyncio.run(run())


# The conversations.


def words(text: str) -> list[str]:
    """A list of words, written as one text."""
    return text.split()


WORDS = words(
    "request response cache reader stream header body parse encode decode buffer socket retry timeout handler"
    " session worker queue result error config option value string number list table index path file line"
)


class Tools:
    """What an agent's tools print; `chance` makes every print another one."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def number(self, most: int) -> int:
        return self.chance.randint(1, most)

    def source(self) -> str:
        """A file with line numbers, as reading tools show it."""
        lines: list[str] = []
        for _ in range(self.chance.randint(6, 28)):
            name = f"{self.word()}_{self.word()}"
            lines += [
                f"def {name}({self.word()}: {self.word()}, {self.word()}: int = {self.number(99)}):",
                f'    """{self.word().title()} of the {self.word()}, or the {self.word()}."""',
                f"    if {self.word()} is None or {self.word()} > {self.number(900)}:",
                f"        raise ValueError(f'{self.word()} {{{self.word()}}} has no {self.word()}')",
                f"    return [{self.word()}.{self.word()} for {self.word()} in {self.word()}s]",
                "",
                "",
            ]
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))

    def hits(self) -> str:
        """What grep finds."""
        files = [f"src/{self.word()}/{self.word()}.py" for _ in range(self.chance.randint(3, 9))]
        return "\n".join(
            f"{file}:{number * 7}:    {self.word()} = {self.word()}({self.word()}, {self.word()})"
            for file in files
            for number in range(1, self.chance.randint(3, 14))
        )

    def tests(self) -> str:
        """A coloured test run, mostly green."""
        lines = [
            f"tests/test_{self.word()}.py::test_{self.word()}_{number} \x1b[32mPASSED\x1b[0m [{number:3}%]"
            for number in range(self.chance.randint(30, 90))
        ]
        lines += [
            "=================================== FAILURES ===================================",
            f">       assert {self.word()} == {self.number(999)}",
            f"\x1b[31mE       assert {self.number(999)} == {self.number(999)}\x1b[0m",
            f"tests/test_{self.word()}.py:{self.number(400)}: AssertionError",
            f"\x1b[31m1 failed\x1b[0m, {len(lines)} passed in {self.chance.random() * 9:.2f}s",
        ]
        return "\n".join(lines)

    def log(self) -> str:
        """A service's log with lines that repeat."""
        lines: list[str] = []
        for _ in range(self.chance.randint(8, 30)):
            stamp = f"2026-11-20T0{self.chance.randint(0, 9)}:{self.chance.randint(10, 59)}:07Z"
            lines.append(f"{stamp} INFO {self.word()} {self.word()} id={self.chance.getrandbits(64):016x}")
            lines += [f"{self.word()} worker: no {self.word()}, waiting"] * self.chance.randint(1, 9)
        return "\n".join(lines)

    def answer(self) -> str:
        """An API's answer, indented."""
        items = [
            {
                "id": self.chance.getrandbits(40),
                "name": self.word(),
                "tags": [self.word(), self.word()],
                "rate": 0.5,
            }
            for _ in range(self.chance.randint(10, 50))
        ]
        return json.dumps({"items": items, "next": None}, indent=2)

    def call(self) -> tuple[str, dict[str, str], str]:
        """Tool, arguments and what it prints, in the proportions of real sessions."""
        kinds: list[tuple[int, str, dict[str, str], Callable[[], str]]] = [
            (55, "Read", {"file_path": f"/srv/app/src/{self.word()}/{self.word()}.py"}, self.source),
            (15, "Grep", {"pattern": self.word(), "path": "src"}, self.hits),
            (10, "Bash", {"command": "pytest -v"}, self.tests),
            (10, "Bash", {"command": "docker compose logs app"}, self.log),
            (10, "Bash", {"command": f"curl -s localhost:8000/api/{self.word()}"}, self.answer),
        ]
        [(_, tool, arguments, make)] = self.chance.choices(kinds, [kind[0] for kind in kinds])
        return tool, arguments, make()


def exchange(tools: Tools, number: int) -> list[dict[str, Any]]:
    """A call and its result."""
    tool, arguments, text = tools.call()
    name = f"toolu_{tools.chance.getrandbits(96):024x}"
    say = {"type": "text", "text": f"Step {number}: the {tools.word()} next."}
    call = {"type": "tool_use", "id": name, "name": tool, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": name, "content": text}
    return [{"role": "assistant", "content": [say, call]}, {"role": "user", "content": [result]}]


def dump(messages: list[dict[str, Any]]) -> bytes:
    """A request with these messages, the newest marked for the cache."""
    *rest, last = messages
    block = {**last["content"][-1], "cache_control": {"type": "ephemeral"}}
    body = {
        "model": "claude-bench",
        "max_tokens": 8192,
        "system": "You are a careful engineer. " * 40,
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in ("Bash", "Read", "Grep")],
        "messages": [*rest, {**last, "content": [*last["content"][:-1], block]}],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def bodies(size: int, rounds: int) -> Iterator[bytes]:
    """A conversation of about `size` bytes; then the same with another exchange at its end, each time."""
    tools = Tools(random.Random(size))
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Find out why it is slow, and mend it."}]}
    ]
    length = len(dump(messages))
    while length < size:
        more = exchange(tools, len(messages))
        length += len(json.dumps(more, ensure_ascii=False, separators=(",", ":")).encode())
        messages += more
    yield dump(messages)
    for _ in range(rounds):
        yield dump([*messages, *exchange(tools, len(messages))])


# The ways to the provider.


class Way:
    """A kept-alive connection to the provider, by a proxy or not."""

    def __init__(self, name: str, port: int, context: ssl.SSLContext | None, proxy: Mitmdump | None) -> None:
        self.name = name
        self.proxy = proxy
        if context is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        else:
            self._connection = http.client.HTTPSConnection("localhost", port, timeout=120, context=context)

    def send(self, body: bytes, key: str) -> float:
        """Milliseconds until the answer is there."""
        headers = {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}
        begun = time.perf_counter()
        self._connection.request("POST", "/v1/messages", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        milliseconds = (time.perf_counter() - begun) * 1000
        if answer.status != 200:
            raise SystemExit(f"{self.name}: {answer.status} {content[:300]!r}")
        return milliseconds


def open_ways(address: Address, folder: Path, secure: bool, options: dict[str, str]) -> list[Way]:
    """Direct, through mitmproxy, and through Penumbra; its two settings are two proxies."""
    context = ssl.create_default_context(cafile=str(address.ca_file)) if secure else None
    ways = [Way("direct", address.tls_port if secure else address.port, context, None)]
    kinds = {"mitmproxy": None, "first": "compress", "adopted": "auto"}
    for name, adopt in kinds.items():
        chosen = {} if adopt is None else {"penumbra_adopt": adopt, **options}
        proxy = Mitmdump(
            address,
            folder / "conf",
            folder / name,
            mode="reverse-tls" if secure else "reverse",
            addon=adopt is not None,
            options=chosen,
        ).start()
        ways.append(Way(name, proxy.port, proxy.trust() if secure else None, proxy))
    return ways


def measure(ways: dict[str, Way], case: str, made: list[bytes], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of every round, by way: direct, mitmproxy, penumbra."""
    ours = ways["adopted" if case == "adopted" else "first"]
    taken = {"direct": ways["direct"], "mitmproxy": ways["mitmproxy"], "penumbra": ours}
    times: dict[str, list[float]] = {name: [] for name in taken}
    for number in range(-WARM_UP, rounds):
        # A new key is a new caller: nothing is known of what it sends.
        key = f"key {case}" if case == "next" else f"key {case} {number}"
        body = made[number + WARM_UP + 1] if case == "next" else made[0]
        if case == "next" and number == -WARM_UP:
            ours.send(made[0], key)
        for name, way in taken.items():
            milliseconds = way.send(body, key)
            if number >= 0:
                times[name].append(milliseconds)
    return times


WARM_UP = 5


def quantiles(values: list[float]) -> tuple[float, float]:
    """p50 and p99."""
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]


def run(wanted: argparse.Namespace, address: Address, folder: Path) -> None:
    options = dict(item.split("=", 1) for item in wanted.set)
    ways = {way.name: way for way in open_ways(address, folder, wanted.tls, options)}
    head = ("body", "request", "direct", "mitmproxy", "Penumbra", "added by mitmproxy", "added by Penumbra")
    line = "{:>7}  {:<8} {:>14} {:>16} {:>16} {:>19} {:>19}"
    print("milliseconds, p50 / p99")
    print(line.format(*head))
    try:
        for size in wanted.sizes:
            rounds = wanted.rounds
            made = list(bodies(SIZES[size], rounds + WARM_UP))
            for case in wanted.cases:
                times = measure(ways, case, made, rounds)
                own = [b - a for a, b in zip(times["direct"], times["mitmproxy"], strict=True)]
                added = [b - a for a, b in zip(times["mitmproxy"], times["penumbra"], strict=True)]
                cells = [
                    "{:.1f} / {:.1f}".format(*quantiles(values)) for values in (*times.values(), own, added)
                ]
                print(line.format(size, case, *cells), flush=True)
        for name in ("first", "adopted"):
            proxy = ways[name].proxy
            if wanted.stats and proxy is not None:
                print(f"\n{name}: {proxy.command('penumbra.stats')}")
    finally:
        for way in ways.values():
            if way.proxy is not None:
                way.proxy.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=60, help="measured requests of each kind")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--tls", action="store_true", help="TLS from the client and to the provider")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="Penumbra's options"
    )
    parser.add_argument("--stats", action="store_true", help="print Penumbra's own figures at the end")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penumbra-bench-") as name:
        folder = Path(name)
        here, there = multiprocessing.Pipe()
        provider = multiprocessing.get_context("spawn").Process(
            target=provide, args=(folder, there), daemon=True
        )
        provider.start()
        try:
            run(wanted, here.recv(), folder)
        finally:
            provider.terminate()
            provider.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
