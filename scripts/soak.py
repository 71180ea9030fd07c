"""Send an hour of a team's traffic as fast as possible and check that a proxy's memory and handles do not
grow."""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.agents.model import expand, log
from support.agents.requests import hidden_results
from support.faults.arena import Arena, asker, memory, what_is_remembered, what_is_there, words
from support.faults.clients import Ending, Http2, Manners, Question, ask
from support.mitm import Mitmdump
from support.mitm.starter import POSSIBLE, Starter
from support.upstream import Received, Response, Text, Upstream, turn

_STORE = "2m"
_AT_ONCE = 12
_PARTS = 12
_MORE = 0.1
"""Growth from the middle third to the last one above which the test fails, as a share."""
_LINE = "{:>8} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7}"


def model(received: Received) -> Response:
    """Return a conversation's words; in every third one, first call the tool for an original."""
    name = asker(received)
    if name.endswith(("0", "3", "6")) and not hidden_results(received):
        return turn("One moment. ", expand("shadow_1"))
    return turn(Text(words(name)), event_delay=0.001)


@dataclass(frozen=True)
class Sample:
    """A `Sample` has the resources that a proxy uses at one time; sizes are in MB."""

    turns: int
    seconds: float
    rss: float
    caches: float
    """Memory in bounded caches, by their own count."""
    threads: int
    files: int
    flows: int
    states: int
    store: float
    wrong: int

    @property
    def beside_caches(self) -> float:
        """Memory outside the bounded caches."""
        return self.rss - self.caches

    def line(self) -> str:
        numbers = (
            f"{self.seconds:.0f}",
            f"{self.rss:.0f}",
            f"{self.caches:.1f}",
            self.threads,
            self.files,
            self.flows,
            self.states,
        )
        return _LINE.format(self.turns, *numbers, f"{self.store:.1f}", self.wrong)


def questions(number: int) -> list[tuple[Question, Manners]]:
    """Return a conversation's requests, each with a new result; one in ten clients goes away."""
    name = f"soak-{number}"
    leaves = Manners(leaves_at=f"{name}.3".encode()) if number % 10 == 9 else Manners()
    texts = [log(f"{name}-{part}", 100 + 20 * (number % 4)) for part in range(3)]
    return [(Question(name, "\n".join(texts[: part + 1])), leaves) for part in range(len(texts))]


async def part(proxies: Sequence[Mitmdump], numbers: Sequence[int]) -> int:
    """Run conversations, every second one over HTTP/2, and return the number of wrong responses."""
    waiting = iter(numbers)

    async def work() -> int:
        wrong = 0
        async with Http2.opened(proxies[1]) as client:
            for number in waiting:
                for question, manners in questions(number):
                    one = client.ask if number % 2 else None
                    ending = await (one(question, manners) if one else ask(proxies[0], question, manners))
                    wrong += _is_wrong(question, manners, ending)
        return wrong

    return sum(await asyncio.gather(*(work() for _ in range(_AT_ONCE))))


def _is_wrong(question: Question, manners: Manners, ending: Ending) -> bool:
    expected = words(question.name)
    said = ending.says.removeprefix("One moment. ")
    return not (expected.startswith(said) if manners.leaves_at else ending.whole and said == expected)


def sampled(proxies: Sequence[Mitmdump], turns: int, begun: float, wrong: int) -> Sample:
    there = [what_is_there(proxy) for proxy in proxies]
    sums = {name: sum(one[name] for one in there) for name in there[0]}
    files = [file for proxy in proxies for file in proxy.state.rglob("penumbra.sqlite*")]
    store = sum(file.stat().st_size for file in files) / 1e6
    rss = sum(map(memory, proxies))
    caches = sum(what_is_remembered(proxy)[0] for proxy in proxies)
    counts = (sums["threads"], sums["files"], sums["flows"], sums["states"])
    return Sample(turns, time.perf_counter() - begun, rss, caches, *counts, store, wrong)


def verdict(samples: Sequence[Sample]) -> list[str]:
    """Return what grew from the middle third to the last one, except caches that are not full yet."""
    third = len(samples) // 3
    grown = []
    for name in ("beside_caches", "threads", "files", "flows", "states", "store"):
        middle, last = (
            statistics.median(getattr(one, name) for one in some)
            for some in (samples[third : 2 * third], samples[-third:])
        )
        if last > middle * (1 + _MORE) + 1:
            grown.append(f"{name.replace('_', ' ')} {middle:.0f} -> {last:.0f}")
    return grown


def main() -> int:
    """Print a line for each part. Exit code 1 if something grows, or a response was wrong."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument(
        "--turns", type=int, default=3_600, help="turns (default: %(default)s, an hour of a team)"
    )
    given = parser.parse_args()
    starter = Starter() if POSSIBLE else None
    folder = Path(tempfile.mkdtemp(prefix="penumbra-soak-"))
    (folder / "upstream").mkdir()
    each = max(1, given.turns // 3 // _PARTS)
    samples: list[Sample] = []
    options = {"penumbra_database_max_bytes": _STORE, "penumbra_page": "off"}
    with Upstream(folder / "upstream") as upstream, Arena(upstream, folder, starter) as arena:
        proxies = [arena.proxy(mode, options=options) for mode in ("reverse", "reverse-tls")]
        upstream.script(model)
        most = sum(what_is_remembered(proxy)[1] for proxy in proxies)
        print(
            f"two proxies, each with a store of {_STORE}; memory, caches (at most {most:.0f}) and store in MB"
        )
        names = ("turns", "seconds", "RSS", "caches", "threads", "files", "flows", "states", "store", "wrong")
        print(_LINE.format(*names))
        begun, wrong = time.perf_counter(), 0
        for numbers in (range(first, first + each) for first in range(0, each * _PARTS, each)):
            wrong += asyncio.run(part(proxies, numbers))
            upstream.requests.clear()
            turns = 3 * (numbers[-1] + 1)
            samples.append(sampled(proxies, turns, begun, wrong))
            print(samples[-1].line(), flush=True)
    if starter is not None:
        starter.close()
    grown = verdict(samples)
    first, last = samples[2 * len(samples) // 3], samples[-1]
    print(
        f"in the last third: {last.rss - first.rss:+.0f} MB in {last.turns - first.turns} turns, "
        f"caches {last.caches - first.caches:+.0f} MB"
    )
    print("flat" if not grown else "grows: " + ", ".join(grown))
    return int(bool(grown or wrong))


if __name__ == "__main__":
    sys.exit(main())
