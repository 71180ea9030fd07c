"""Measure how long a request takes: without a proxy, through mitmproxy, and with Penumbra in it.

The conversations are an agent's: many turns of file reads, greps, test runs, logs and JSON. Three cases are
measured. `first`: the proxy sees the conversation for the first time and may change all of it. `adopted`: the
proxy sees it for the first time, but the provider has it in its cache, so it stays unchanged. `next`: the
conversation was sent before and has one new result.

Client, proxy and provider are processes of their own on one machine, over plain HTTP with keep-alive
(`--tls`: TLS on both sides). The ways are measured in turn, so that a busy machine slows all of them.
The column `processor` is the proxy's processor time per request, work after the response included (Linux).

`--stream` measures a response of 50 deltas, 40 ms apart: when its first text arrives, and the gaps after it.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import multiprocessing
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench_conversations import bodies

from support.sandbox import Mitmdump, tls

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


DELTAS, DELTA_PAUSE = 50, 0.04
"""The number of pieces of text, and the seconds before each."""
STREAM_MARK = b',"stream":true}'
"""The end of a request that asks for a stream."""


def stream_events() -> Iterator[tuple[str, dict[str, Any]]]:
    message = {**json.loads(ANSWER), "content": [], "stop_reason": None}
    yield "message_start", {"type": "message_start", "message": message}
    block = {"type": "text", "text": ""}
    yield "content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}
    for number in range(DELTAS):
        delta = {"type": "text_delta", "text": f"word {number} "}
        yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": {"output_tokens": DELTAS}}
    yield "message_stop", {"type": "message_stop"}


# The provider.


class Provider(asyncio.Protocol):
    """A `Provider` reads each request on one connection to its end and sends a fixed response."""

    def __init__(self) -> None:
        self._missing = self._length = 0
        self._head = b""
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    async def stream(self) -> None:
        """Write a response of one delta after the other."""
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        for name, event in stream_events():
            if name == "content_block_delta":
                await asyncio.sleep(DELTA_PAUSE)
            data = f"event: {name}\ndata: {json.dumps(event)}\n\n".encode()
            self._transport.write(b"%x\r\n%s\r\n" % (len(data), data))
        self._transport.write(b"0\r\n\r\n")

    def data_received(self, data: bytes) -> None:
        if not self._missing:
            self._head += data
            head, end, rest = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            fields = head.lower().split(b"\r\n")
            length = next((line for line in fields if line.startswith(b"content-length:")), b":0")
            self._missing, self._head, data = int(length.partition(b":")[2]), b"", rest
            self._length = self._missing
        self._missing -= len(data)
        self._tail = (self._tail + data)[-len(STREAM_MARK) :]
        if self._missing:
            return
        if self._tail == STREAM_MARK:
            self._streaming = asyncio.ensure_future(self.stream())
        else:
            head = (
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                b"request-id: %d bytes\r\ncontent-length: %d\r\n\r\n"
            )
            answer = self.answer()
            self._transport.write(head % (self._length, len(answer)) + answer)

    def answer(self) -> bytes:
        """Return the body of a response that is no stream."""
        return ANSWER


@dataclass(frozen=True)
class Address:
    """An `Address` names the ports and the CA certificate of the provider."""

    port: int
    tls_port: int
    ca_file: Path


def provide(folder: Path, connection: Connection, kind: type[Provider] = Provider) -> None:
    """Run the provider and send its address; `kind` is the protocol of its connections."""

    async def run() -> None:
        ca_file, context = tls.make(folder)
        context.set_alpn_protocols(["http/1.1"])
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(kind, "127.0.0.1", 0, ssl=secure) for secure in (None, context)]
        ports = [server.sockets[0].getsockname()[1] for server in servers]
        connection.send(Address(*ports, ca_file))
        await asyncio.Event().wait()

    asyncio.run(run())


@contextmanager
def provider(kind: type[Provider] = Provider) -> Iterator[tuple[Address, Path]]:
    """Start the provider in its own process, so that its work is not measured as the client's.

    Yield its address and a folder that is deleted at the end.
    """
    with tempfile.TemporaryDirectory(prefix="penumbra-bench-", ignore_cleanup_errors=True) as name:
        here, there = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=provide, args=(Path(name), there, kind), daemon=True
        )
        process.start()
        try:
            yield here.recv(), Path(name)
        finally:
            process.terminate()
            process.join()


# The ways to the provider.


def processor(process: int) -> float:
    """Return a process's processor time so far in milliseconds; 0 where the system does not tell."""
    # The clock id is that of clock_getcpuclockid(3).
    return time.clock_gettime((~process << 3) | 2) * 1000 if sys.platform.startswith("linux") else 0.0


class Way:
    """A `Way` is a kept-alive connection to the provider, through a proxy or direct."""

    def __init__(self, name: str, port: int, context: ssl.SSLContext | None, proxy: Mitmdump | None) -> None:
        self.name = name
        self.proxy = proxy
        self.received = 0
        """Size in bytes of the last request at the provider."""
        if context is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        else:
            self._connection = http.client.HTTPSConnection("localhost", port, timeout=120, context=context)

    def send(self, body: bytes, key: str) -> float:
        """Send a request and return the milliseconds until the whole response is there."""
        headers = {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}
        begun = time.perf_counter()
        self._connection.request("POST", "/v1/messages", body, headers)
        answer = self._connection.getresponse()
        content = answer.read()
        self.received = int((answer.getheader("request-id") or "0").split()[0])
        milliseconds = (time.perf_counter() - begun) * 1000
        if answer.status != 200:
            raise SystemExit(f"{self.name}: {answer.status} {content[:300]!r}")
        return milliseconds

    def processor(self) -> float:
        """Return the proxy's processor time so far in milliseconds; 0 without a proxy."""
        return processor(self.proxy.process.pid) if self.proxy and self.proxy.process else 0.0

    def listen(self, body: bytes, key: str) -> list[float]:
        """Return the milliseconds from the request to each delta of a streamed response."""
        headers = {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}
        begun = time.perf_counter()
        self._connection.request("POST", "/v1/messages", body, headers)
        answer = self._connection.getresponse()
        times: list[float] = []
        seen = b""
        while data := answer.read1():
            seen += data
            times += [(time.perf_counter() - begun) * 1000] * (seen.count(b"text_delta") - len(times))
        return times


def open_ways(address: Address, folder: Path, secure: bool, options: dict[str, str]) -> list[Way]:
    """Connect directly, through mitmproxy, and through one Penumbra for each value of `penumbra_adopt`."""
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


def measure(
    ways: dict[str, Way], case: str, made: list[bytes], rounds: int
) -> tuple[dict[str, list[float]], list[float]]:
    """Return the milliseconds of every round by way, and both proxies' processor time per request."""
    ours = ways["adopted" if case == "adopted" else "first"]
    taken = {"direct": ways["direct"], "mitmproxy": ways["mitmproxy"], "penumbra": ours}
    times: dict[str, list[float]] = {name: [] for name in taken}
    begun: list[float] = []
    proxies = (taken["mitmproxy"], taken["penumbra"])
    for number in range(-WARM_UP, rounds):
        if not number:
            time.sleep(AFTER_RESPONSE)
            begun = [way.processor() for way in proxies]
        # A new key is a new caller, of whom no state exists.
        key = f"key {case}" if case == "next" else f"key {case} {number}"
        body = made[number + WARM_UP + 1] if case == "next" else made[0]
        if case == "next" and number == -WARM_UP:
            ours.send(made[0], key)
        for name, way in taken.items():
            milliseconds = way.send(body, key)
            if number >= 0:
                times[name].append(milliseconds)
    time.sleep(AFTER_RESPONSE)
    return times, [(way.processor() - before) / rounds for way, before in zip(proxies, begun, strict=True)]


WARM_UP = 5
AFTER_RESPONSE = 0.1
"""Seconds that the work after a response takes at most."""


def quantiles(values: list[float]) -> tuple[float, float]:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return cuts[49], cuts[98]


def run_streams(wanted: argparse.Namespace, address: Address, folder: Path) -> None:
    """Print first text and gaps for each way and for conversations of several sizes."""
    options = dict(item.split("=", 1) for item in wanted.set)
    ways = open_ways(address, folder, wanted.tls, options)[:3]
    line = "{:>7}  {:<10} {:>22} {:>22} {:>14}"
    print(f"milliseconds, p50 / p99; {DELTAS} deltas, {DELTA_PAUSE * 1000:.0f} ms apart")
    print(line.format("body", "way", "first text", "gap between deltas", "longest gap"))
    try:
        for size in wanted.sizes:
            made = list(bodies(SIZES[size], wanted.rounds))
            found: dict[str, list[list[float]]] = {way.name: [] for way in ways}
            for way in ways[1:]:
                way.send(made[0], "key")
            for body in made[1:]:
                for way in ways:
                    found[way.name].append(way.listen(body[:-1] + STREAM_MARK, "key"))
            for name, streams in found.items():
                first = [times[0] for times in streams]
                gaps = [after - before for times in streams for before, after in itertools.pairwise(times)]
                cells = ["{:.1f} / {:.1f}".format(*quantiles(values)) for values in (first, gaps)]
                shown = "Penumbra" if name == "first" else name
                print(line.format(size, shown, *cells, f"{max(gaps):.1f}"), flush=True)
    finally:
        for way in ways:
            if way.proxy is not None:
                way.proxy.stop()


def run(wanted: argparse.Namespace, address: Address, folder: Path) -> None:
    options = dict(item.split("=", 1) for item in wanted.set)
    ways = {way.name: way for way in open_ways(address, folder, wanted.tls, options)}
    head = ("body", "request", "direct", "mitmproxy", "Penumbra", "added by mitmproxy", "added by Penumbra")
    line = "{:>7}  {:<8} {:>14} {:>16} {:>16} {:>19} {:>19} {:>22}"
    print("milliseconds, p50 / p99; processor: the mean of mitmproxy, and what Penumbra adds to it")
    print(line.format(*head, "processor"))
    try:
        for size in wanted.sizes:
            rounds = wanted.rounds
            made = list(bodies(SIZES[size], rounds + WARM_UP))
            for case in wanted.cases:
                times, (alone, with_ours) = measure(ways, case, made, rounds)
                own = [b - a for a, b in zip(times["direct"], times["mitmproxy"], strict=True)]
                added = [b - a for a, b in zip(times["mitmproxy"], times["penumbra"], strict=True)]
                cells = [
                    "{:.1f} / {:.1f}".format(*quantiles(values)) for values in (*times.values(), own, added)
                ]
                cells.append(f"{alone:.1f} + {with_ours - alone:.1f}")
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
    parser.add_argument("--stream", action="store_true", help="measure a streamed answer instead")
    parser.add_argument("--tls", action="store_true", help="TLS from the client and to the provider")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="Penumbra's options"
    )
    parser.add_argument("--stats", action="store_true", help="print Penumbra's own figures at the end")
    wanted = parser.parse_args()
    with provider() as (address, folder):
        (run_streams if wanted.stream else run)(wanted, address, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
