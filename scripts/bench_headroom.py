"""Measure the same requests through headroom's proxy and through mitmproxy with Penumbra.

headroom (PyPI: headroom-ai) is installed into its own environment, `.venv-headroom`, of some 800 MB. Both
proxies start with an empty state and are measured in turn. headroom's response cache, its rate limit and its
telemetry are off.

    first       the proxy sees the conversation for the first time
    next        the conversation was sent before and has one new result
    added       milliseconds more than without a proxy
    processor   processor time of the proxy, work after the response included
    bytes       the share of the client's bytes that reaches the provider
"""

from __future__ import annotations

import argparse
import http.client
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import AFTER_RESPONSE, SIZES, WARM_UP, Address, Way, processor, provider
from bench_conversations import bodies

from support.sandbox import Mitmdump

PACKAGE = "headroom-ai[proxy]"
ENVIRONMENT = Path(".venv-headroom")
READY = 120.0
"""Seconds that its proxy may take to start."""
CASES = ("first", "next")
LINE = "{:>7}  {:<8} {:<10} {:>16} {:>10} {:>8}"


class Headroom(Way):
    """A `Headroom` is a kept-alive connection to the provider through headroom."""

    def __init__(self, port: int, process: int) -> None:
        super().__init__("headroom", port, None, None)
        self._process = process

    def processor(self) -> float:
        return processor(self._process)


@dataclass
class Measured:
    """A `Measured` has the figures of one way to the provider for one case."""

    times: list[float] = field(default_factory=list)
    processor: float = 0.0
    received: list[int] = field(default_factory=list)


def installed() -> Path:
    """Install headroom if it is missing, and return the path of its command."""
    command = ENVIRONMENT / "bin" / "headroom"
    if not command.exists():
        print(f"Installing {PACKAGE} into {ENVIRONMENT} ...", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
        subprocess.run([str(ENVIRONMENT / "bin" / "pip"), "install", "--quiet", PACKAGE], check=True)
    return command.absolute()


def environment(folder: Path, upstream: int) -> dict[str, str]:
    """Return variables that give headroom its own home and the vocabulary of its package: no network."""
    vocabulary = next(
        ENVIRONMENT.glob("lib/python*/site-packages/litellm/litellm_core_utils/tokenizers"), None
    )
    own = {
        "HOME": str(folder),
        "ANTHROPIC_TARGET_API_URL": f"http://127.0.0.1:{upstream}",
        "HEADROOM_TELEMETRY": "off",
        "HEADROOM_BEACON": "off",
    }
    if vocabulary is not None:
        own["TIKTOKEN_CACHE_DIR"] = str(vocabulary.absolute())
    return {**os.environ, **own}


def is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def headroom(command: Path, folder: Path, address: Address) -> Iterator[tuple[int, int]]:
    """Start headroom's proxy before the provider; yield its port and its process id."""
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    options = ["--port", str(port), "--no-cache", "--no-rate-limit", "--no-subscription-tracking"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(command), "proxy", *options],
            env=environment(folder, address.port),
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        end = time.monotonic() + READY
        while not is_ready(port):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"headroom does not start:\n{(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(30)


def memory(process: int) -> str:
    """Return the megabytes that a process uses, or `?` where the system does not tell."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return "?"
    return f"{int(status.partition('VmRSS:')[2].split()[0]) / 1024:.0f} MB"


def measure(ways: list[Way], case: str, made: list[bytes], rounds: int) -> dict[str, Measured]:
    """Send every request of a case through each way in turn."""
    found = {way.name: Measured() for way in ways}
    before: dict[str, float] = {}
    for number in range(-WARM_UP, rounds):
        if not number:
            time.sleep(AFTER_RESPONSE)
            before = {way.name: way.processor() for way in ways}
        # A new key is a new caller, of whom no state exists.
        key = f"key {case}" if case == "next" else f"key {case} {number}"
        body = made[number + WARM_UP + 1] if case == "next" else made[number + WARM_UP]
        for way in ways:
            if case == "next" and number == -WARM_UP:
                way.send(made[0], key)
            milliseconds = way.send(body, key)
            if number >= 0:
                one = found[way.name]
                one.times.append(milliseconds)
                one.received.append(way.received)
    time.sleep(AFTER_RESPONSE)
    for way in ways:
        found[way.name].processor = (way.processor() - before[way.name]) / rounds
    return found


def show(size: str, case: str, found: dict[str, Measured]) -> None:
    direct = found.pop("direct")
    for name, one in found.items():
        added = [time - bare for time, bare in zip(one.times, direct.times, strict=True)]
        cuts = statistics.quantiles(added, n=100, method="inclusive")
        share = sum(one.received) / sum(direct.received)
        clock = f"{cuts[49]:.1f} / {cuts[98]:.1f}"
        print(LINE.format(size, case, name, clock, f"{one.processor:.1f}", f"{share:.0%}"), flush=True)


def compare(wanted: argparse.Namespace, address: Address, folder: Path) -> None:
    command = installed()
    begun = time.perf_counter()
    with headroom(command, folder / "headroom", address) as (port, process):
        starts = {"headroom": time.perf_counter() - begun}
        begun = time.perf_counter()
        penumbra = Mitmdump(
            address,
            folder / "conf",
            folder / "penumbra",
            mode="reverse",
            options={"penumbra_adopt": "compress"},
        ).start()
        starts["Penumbra"] = time.perf_counter() - begun
        ways = [
            Way("direct", address.port, None, None),
            Headroom(port, process),
            Way("Penumbra", penumbra.port, None, penumbra),
        ]
        try:
            print("milliseconds, p50 / p99")
            print(LINE.format("body", "request", "way", "added", "processor", "bytes"))
            for size in wanted.sizes:
                made = list(bodies(SIZES[size], wanted.rounds + WARM_UP))
                for case in wanted.cases:
                    show(size, case, measure(ways, case, made, wanted.rounds))
            processes = {"headroom": process, "Penumbra": penumbra.process.pid if penumbra.process else 0}
            for name, seconds in starts.items():
                print(f"{name}: ready after {seconds:.1f} s, {memory(processes[name])}")
        finally:
            penumbra.stop()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench headroom",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=30, help="measured requests of each kind")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    wanted = parser.parse_args()
    with provider() as (address, folder):
        compare(wanted, address, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
