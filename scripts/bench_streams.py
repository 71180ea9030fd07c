"""Measure many streamed responses at once: requests per second, time to the first text, processor time,
memory.

Each client sends its own conversation, all at the same time, through mitmproxy alone (which streams) and
through mitmproxy with Penumbra; a response is a stream of two seconds. Each number of clients gets new
proxies. Processor time and peak memory are those of the proxy's process. As with any mitmdump, finished flows
are not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import DELTAS, STREAM_MARK, Address, provider
from bench_conversations import bodies

from support.sandbox import Mitmdump

STREAMS = (1, 20, 200)
WAYS: dict[str, dict[str, str]] = {
    "mitmproxy": {"stream_large_bodies": "1"},
    "Penumbra": {"penumbra_adopt": "compress"},
}
LINE = "{:>7}  {:<10} {:>7} {:>11} {:>22} {:>13} {:>8}"


@dataclass(frozen=True)
class Stream:
    """A `Stream` has the figures of one response."""

    first: float
    """Seconds until the first text."""
    deltas: int


@dataclass(frozen=True)
class Used:
    """A `Used` has the processor time and memory of a process so far."""

    seconds: float
    """Processor time."""
    megabytes: float
    """Peak memory."""

    @classmethod
    def by(cls, process: int) -> Used:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{process}/status").read_text()
        peak = re.search(r"VmHWM:\s+([0-9]+) kB", status)
        ticks = int(fields[11]) + int(fields[12])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), int(peak[1]) / 1024 if peak else 0.0)


async def send(port: int, body: bytes, key: str) -> Stream:
    """Send one client's request and read its response to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = (
        "POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"x-api-key: {key}\r\nanthropic-version: 2023-06-01\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    begun = time.perf_counter()
    first, seen = 0.0, b""
    writer.write(head.encode() + body)
    try:
        while data := await reader.read(1 << 16):
            seen += data
            if not first and b"text_delta" in seen:
                first = time.perf_counter() - begun
    except ConnectionError:
        pass
    finally:
        writer.close()
    return Stream(first, seen.count(b"text_delta"))


async def at_once(port: int, made: list[bytes], streams: int) -> list[Stream]:
    """Send the requests of all clients at the same time, each with its own credential."""
    return await asyncio.gather(
        *(send(port, made[number % len(made)], f"key {number}") for number in range(streams))
    )


@contextmanager
def proxy(address: Address, folder: Path, name: str, options: dict[str, str]) -> Iterator[Mitmdump]:
    """Start a proxy and send it one request, so that its rules are compiled."""
    running = Mitmdump(
        address,
        folder / "conf",
        folder / name,
        mode="reverse",
        addon=name != "mitmproxy",
        options=options,
        environment={"KEEPS_NO_FLOWS": "1"},
    ).start()
    try:
        yield running
    finally:
        running.stop()


def measure(wanted: argparse.Namespace, address: Address, folder: Path) -> None:
    made = [body[:-1] + STREAM_MARK for body in bodies(wanted.size, 7)]
    extra = dict(item.split("=", 1) for item in wanted.set)
    print(f"conversations of {wanted.size:,} bytes; answers of {DELTAS} deltas")
    print(LINE.format("streams", "way", "whole", "requests/s", "first text, p50/max s", "CPU ms each", "MB"))
    for streams in wanted.streams:
        for name, options in WAYS.items():
            options = options if name == "mitmproxy" else {**options, **extra}
            with proxy(address, folder / str(streams), name, options) as running:
                assert running.process is not None
                asyncio.run(send(running.port, made[0], "key of nobody else"))
                before, begun = Used.by(running.process.pid), time.perf_counter()
                found = asyncio.run(at_once(running.port, made, streams))
                seconds, used = time.perf_counter() - begun, Used.by(running.process.pid)
                firsts = [each.first for each in found if each.first] or [0.0]
                whole = sum(each.deltas == DELTAS for each in found)
                cells = (
                    f"{whole}",
                    f"{streams / seconds:.1f}",
                    f"{statistics.median(firsts):.2f} / {max(firsts):.2f}",
                    f"{(used.seconds - before.seconds) * 1000 / streams:.1f}",
                    f"{used.megabytes:.0f}",
                )
                print(LINE.format(streams, name, *cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--streams", nargs="+", type=int, default=STREAMS, help="at the same time")
    parser.add_argument("--size", type=int, default=100_000, help="bytes of each conversation")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="Penumbra's options"
    )
    wanted = parser.parse_args()
    with provider() as (address, folder):
        measure(wanted, address, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
