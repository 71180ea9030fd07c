"""Measure one client's waits while another client sends requests that are expensive to process.

A hostile client and a second one share a real mitmdump with the addon. The second client, in a process of its
own, sends a small request every 50 ms, or as soon as the one before is answered; both clients have addresses
and credentials of their own. For each case: the second client's worst and median wait in milliseconds, the
seconds until the hostile client is answered, and the most memory that the proxy's process took. Of several
runs, each with a new proxy, the one with the smallest worst wait is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import multiprocessing
import random
import re
import socket
import ssl
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from bench import ANSWER, Address, Provider, provider
from bench_streams import Used
from h2.connection import H2Connection
from h2.events import PingAckReceived

from support.sandbox import Mitmdump

PAUSE = 0.05
"""Seconds between the second client's requests."""
ASKS_MARK = b',"asks":1}'
"""The end of a request whose answer asks for originals."""
CALLS = 5_000
"""The number of originals that such an answer asks for."""
_REF = re.compile(rb"shadow_[0-9a-f]{18,32}")
_KEPT = 4 << 20
LINE = "{:<34} {:>11} {:>12} {:>10} {:>6}  {}"


class Asking(Provider):
    """A provider that answers a marked request with many calls of the injected tool, and all others with
    text."""

    asked = False
    _body = b""

    def data_received(self, data: bytes) -> None:
        if len(self._body) < _KEPT:
            self._body += data
        super().data_received(data)

    def answer(self) -> bytes:
        body, self._body = self._body, b""
        if self._tail[-len(ASKS_MARK) :] != ASKS_MARK or Asking.asked:
            Asking.asked = False
            return ANSWER
        Asking.asked = True
        found = _REF.search(body)
        ref = found[0].decode() if found else "shadow_" + "0" * 18
        calls = [
            {
                "type": "tool_use",
                "id": f"toolu_{number:05}",
                "name": "expand_context",
                "input": {"id": ref, "pattern": f"line {number}"},
            }
            for number in range(CALLS)
        ]
        return json.dumps({**json.loads(ANSWER), "content": calls, "stop_reason": "tool_use"}).encode()


def conversation(results: list[str], command: str = "./x", end: bytes = b"}") -> bytes:
    calls = [
        {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
        for number in range(len(results))
    ]
    answers = [
        {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}
        for number, text in enumerate(results)
    ]
    body = {
        "model": "m",
        "max_tokens": 100,
        "tools": [{"name": "Bash", "input_schema": {"type": "object", "properties": {}}}],
        "messages": [
            {"role": "user", "content": "Go on."},
            {"role": "assistant", "content": calls},
            {"role": "user", "content": answers},
        ],
    }
    return json.dumps(body).encode()[:-1] + end


def _words(number: int, size: int) -> str:
    chance = random.Random(number)
    lines, length = [], 0
    while length < size:
        lines.append(f"{chance.getrandbits(64):x} of {chance.getrandbits(40)} in {chance.getrandbits(30):o}")
        length += len(lines[-1]) + 1
    return "\n".join(lines)


def _passwords(size: int) -> str:
    """Return a table of users with a password each."""
    chance = random.Random(7)
    rows = (
        f"user{number},user{number}@example.com,{chance.getrandbits(72):x}Xy!" for number in range(size // 42)
    )
    return "name,email,password\n" + "\n".join(rows)


RESETS = 1_000
RESET = "1,000 streams reset"
CASES: dict[str, Callable[[], list[bytes]]] = {
    "nothing": list,
    RESET: list,
    "quotes in an excerpt": lambda: [conversation(['{"a":1}\n' + '\\"' * 18_000])],
    "5,000 calls in an answer": lambda: [conversation([_words(1, 300_000)], end=ASKS_MARK)],
    "passwords in CSV, 4 MB": lambda: [conversation([_passwords(4_000_000)])],
    "assignments of passwords, 1 MB": lambda: [
        conversation(["\n".join(f"password_{n} = '{n * 7919:x}Zq!{n:o}'" for n in range(30_000))])
    ],
    "20,000 results": lambda: [conversation([f"result {number}\nok\n" for number in range(20_000)])],
    "a result of 30 MB": lambda: [conversation(["line of a log that says ok\n" * 1_150_000])],
    "a result of 60 MB": lambda: [conversation(["line of a log that says ok\n" * 2_300_000])],
    "a result of 120 MB": lambda: [conversation(["line of a log that says ok\n" * 4_600_000])],
    "8 callers, 4 MB of new lines each": lambda: [
        conversation([_words(number, 4_000_000)]) for number in range(8)
    ],
}


@dataclass(frozen=True)
class Waits:
    """A `Waits` has the figures of one run."""

    worst: float
    median: float
    """Worst and median wait are in milliseconds."""
    taken: float
    """Seconds until the hostile client was answered."""
    megabytes: float
    responses: str
    """The hostile client's responses in short."""


def ask(connection: http.client.HTTPConnection, body: bytes, key: str) -> tuple[int, bytes]:
    """Send a request and return the status and body of its response."""
    headers = {"content-type": "application/json", "x-api-key": key, "anthropic-version": "2023-06-01"}
    connection.request("POST", "/v1/messages", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def second_client(port: int, pipe: Connection) -> None:
    """Send small requests until a message comes, then send the wait of each in milliseconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300, source_address=("127.0.0.2", 0))
    waits: list[float] = []
    for number in range(10):
        ask(connection, conversation([f"warm {number}\n" * 40]), "second")
    pipe.send("ready")
    while not pipe.poll():
        begun = time.perf_counter()
        status, _ = ask(connection, conversation([f"{len(waits)} ok\n" * 60]), "second")
        assert status == 200, status
        waits.append((time.perf_counter() - begun) * 1000)
        time.sleep(max(0.0, PAUSE - waits[-1] / 1000))
    pipe.send(waits)


def send(port: int, number: int, body: bytes) -> str:
    """Send one hostile request and read its response to the end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    status, content = 0, b""
    with suppress(OSError, http.client.HTTPException):
        status, content = ask(connection, body, f"hostile {number}")
    return f"{status}" if status == 200 else f"{status} {content[:80]!r}"


def reset(port: int) -> str:
    """Send many requests over one HTTP/2 connection and reset each stream at once."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    client = H2Connection()
    client.initiate_connection()
    head = [(":method", "POST"), (":path", "/v1/messages"), (":scheme", "https"), (":authority", "localhost")]
    for _ in range(RESETS):
        stream = client.get_next_available_stream_id()
        client.send_headers(stream, [*head, ("content-type", "application/json"), ("x-api-key", "hostile")])
        client.send_data(stream, b"{")
        client.reset_stream(stream)
    client.ping(b"all read")
    with context.wrap_socket(
        socket.create_connection(("127.0.0.1", port)), server_hostname="localhost"
    ) as to:
        to.settimeout(60)
        to.sendall(client.data_to_send())
        while data := to.recv(65_536):
            if any(isinstance(event, PingAckReceived) for event in client.receive_data(data)):
                return "all read"
    return "closed"


async def attack(port: int, made: list[bytes], case: str) -> str:
    """Send all hostile requests at once and return a summary of their responses."""
    if case == RESET:
        return await asyncio.to_thread(reset, port)
    if not made:
        await asyncio.sleep(3)
        return ""
    found = await asyncio.gather(
        *(asyncio.to_thread(send, port, number, body) for number, body in enumerate(made))
    )
    return ", ".join(sorted(set(found)))


def run(case: str, address: Address, folder: Path, options: dict[str, str]) -> Waits:
    made = CASES[case]()
    proxy = Mitmdump(
        address,
        folder / "conf",
        folder / "home",
        mode="reverse",
        options={"penumbra_adopt": "compress", **options},
        environment={"KEEPS_NO_FLOWS": "1"},
    ).start()
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=second_client, args=(proxy.port, there), daemon=True
    )
    process.start()
    try:
        here.recv()
        begun = time.perf_counter()
        responses = asyncio.run(attack(proxy.port, made, case))
        taken = time.perf_counter() - begun
        here.send("end")
        waits: list[float] = here.recv()
        assert proxy.process is not None
        megabytes = Used.by(proxy.process.pid).megabytes
    finally:
        process.terminate()
        proxy.stop()
    return Waits(max(waits), statistics.median(waits), taken, megabytes, responses)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/neighbour",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), metavar="CASE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="Penumbra's options"
    )
    wanted = parser.parse_args()
    options = dict(item.split("=", 1) for item in wanted.set)
    print(LINE.format("case", "worst wait", "median wait", "answered", "MB", "with"))
    with provider(Asking) as (address, folder):
        for case in wanted.cases:
            runs = [run(case, address, folder / f"{case} {n}", options) for n in range(wanted.runs)]
            best = min(runs, key=lambda waits: waits.worst)
            cells = (f"{best.worst:.0f} ms", f"{best.median:.0f} ms", f"{best.taken:.1f} s")
            peak = max(each.megabytes for each in runs)
            print(LINE.format(case, *cells, f"{peak:.0f}", best.responses), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
