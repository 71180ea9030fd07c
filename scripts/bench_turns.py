"""Measure the processor time of a turn, in process: of a conversation with many results, then of one more.

`first`: the conversation is seen for the first time. `next`: all but the last call and its result was sent in
the turn before. `--profile` prints where that time goes, by part of the package.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench_conversations import Tools, dump, exchange
from bench_profile import Profile

from penumbra.apis.recognise import Api, by_request_line
from penumbra.config.settings import Settings, load
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import EngineSettings, Incoming

RESULTS = (10, 100, 1_000)
PATH = "/v1/messages"
HEADERS = {"content-type": "application/json", "x-api-key": "key", "anthropic-version": "2023-06-01"}


def bodies(results: int, rounds: int) -> list[bytes]:
    """Return a conversation turn by turn; the first request has `results` results."""
    tools = Tools(random.Random(results))
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "Why is it slow?"}]}
    ]
    for number in range(results):
        messages += exchange(tools, number)
    made = [dump(messages)]
    for number in range(rounds):
        messages += exchange(tools, results + number)
        made.append(dump(messages))
    return made


async def milliseconds(engine: Engine, settings: Settings, api: Api, body: bytes) -> float:
    """Return the processor time of all threads for one request."""
    incoming = Incoming(api, body, HEADERS, {}, "127.0.0.1", "localhost:443", PATH)
    begun = time.process_time()
    await engine.process(incoming, settings)
    return (time.process_time() - begun) * 1000


async def measure(results: int, rounds: int, folder: Path, profiles: Sequence[Profile] = ()) -> None:
    """Measure one size; `profiles` are those of the first request and of the turns after it."""
    settings = load({"adopt": "compress", "database": str(folder / f"{results}.sqlite")}, {})
    engine = Engine(EngineSettings.of(settings))
    api = by_request_line("POST", PATH)
    assert api is not None
    try:
        # The rules are compiled for the first request of all.
        await milliseconds(engine, settings, api, dump([{"role": "user", "content": [{"type": "text"}]}]))
        if profiles:
            # All of it in this thread, whose stack can be looked at.
            engine._workers.run = lambda caller, work, **more: asyncio.sleep(0, work())  # type: ignore[method-assign]
        made = bodies(results, rounds)
        with profiles[0].counting() if profiles else nullcontext():
            first = await milliseconds(engine, settings, api, made[0])
        with profiles[1].counting() if profiles else nullcontext():
            times = [await milliseconds(engine, settings, api, body) for body in made[1:]]
        print(
            f"{results:>7,}  {len(made[0]):>10,}  {first:>8.1f}  {statistics.median(times):>8.2f}", flush=True
        )
    finally:
        engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench turns", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", nargs="+", type=int, default=RESULTS, help="in the conversation")
    parser.add_argument("--rounds", type=int, default=30, help="measured turns")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    wanted = parser.parse_args()
    print("milliseconds of processor time")
    print(f"{'results':>7}  {'bytes':>10}  {'first':>8}  {'next':>8}")
    with tempfile.TemporaryDirectory(prefix="penumbra-bench-") as name:
        profiles = (Profile(), Profile()) if wanted.profile else ()
        for results in wanted.results:
            asyncio.run(measure(results, wanted.rounds, Path(name), profiles))
    for title, profile in zip(("first", "next"), profiles, strict=False):
        print(f"\n{title}: {profile.table()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
