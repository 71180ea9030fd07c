"""Measure the speed of shortening: MB of tool output per second of one processor core.

Mixed results of 1 KB to 256 KB in the proportions of real sessions (half of all bytes are files that were
read) go through `pipeline.shorten`, and through each stage by itself. Then each kind goes in sizes of 64 KB,
256 KB and 1 MB, and texts that are made to be slow go in sizes up to `--most`. `growth` is the time per byte
in the largest size, divided by that in the smallest: about 1 where time is linear. Each figure is the least
processor time of `--rounds`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from bench_outputs import Outputs, Result, hostile

from penumbra.compress import pipeline
from penumbra.compress.result import Mode, Policy, Redact, Redacted, ToolOutput
from penumbra.compress.size import size
from penumbra.compress.stage import Trial
from penumbra.expand.reference import SAMPLE
from penumbra.redaction.redactor import Redactor

PREFIX = f"<<<SHADOW:{SAMPLE}>>>\n"
LINE = "{:<30}" + "{:>14}" * 4


def seconds(results: Sequence[Result], policy: Policy, redact: Redact, rounds: int) -> float:
    """Return the processor time of shortening all these results once."""
    outputs = [ToolOutput(result.text, result.tool, result.arguments, "call_1") for result in results]
    best = float("inf")
    for _ in range(rounds):
        begun = time.process_time()
        for output in outputs:
            pipeline.shorten(output, policy, redact, lambda original: SAMPLE)
        best = min(best, time.process_time() - begun)
    return best


def speed(results: Sequence[Result], policy: Policy, redact: Redact, rounds: int) -> float:
    """Return MB per second."""
    return sum(size(result.text) for result in results) / seconds(results, policy, redact, rounds) / 1e6


def mixed(wanted: argparse.Namespace, policy: Policy, redactor: Redactor) -> None:
    """Print the speed of the mix, by kind and as a whole, without and with the search for secrets."""
    by_kind: dict[str, list[Result]] = {}
    for name, result in Outputs(1).mix(wanted.size):
        by_kind.setdefault(name, []).append(result)
    by_kind["all"] = [result for results in by_kind.values() for result in results]
    print(LINE.format(f"{policy.mode}, MB/s", "results", "bytes", "pipeline", "+ redaction"))
    for name, results in by_kind.items():
        found = [speed(results, policy, redact, wanted.rounds) for redact in (Redacted, redactor.redact)]
        length = sum(size(result.text) for result in results)
        cells = (name, f"{len(results):,}", f"{length:,}", *(f"{value:.1f}" for value in found))
        print(LINE.format(*cells), flush=True)


def stages(results: Sequence[Result], policy: Policy) -> None:
    """Print the speed of each stage over the texts that reach it, and its share of the time."""
    spent: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    begun = 0.0

    def note(trial: Trial) -> None:
        nonlocal begun
        spent[trial.stage] += int((time.perf_counter() - begun) * 1e9)
        seen[trial.stage] += len(trial.before)
        begun = time.perf_counter()

    for result in results:
        output = ToolOutput(result.text, result.tool, result.arguments, "call_1")
        begun = time.perf_counter()
        pipeline.shorten(output, policy, Redacted, lambda original: SAMPLE, trace=note)
    print("\n" + LINE.format("stage", "characters", "ms", "MB/s", "% of the time"))
    for stage, time_spent in spent.most_common():
        share = 100 * time_spent / spent.total()
        cells = (f"{seen[stage]:,}", f"{time_spent / 1e6:.1f}", f"{seen[stage] * 1e3 / time_spent:.1f}")
        print(LINE.format(stage, *cells, f"{share:.1f}"), flush=True)


def growth(title: str, series: Iterable[tuple[str, Sequence[Result]]], policy: Policy, rounds: int) -> None:
    """Print for each name its speed at three sizes, and the growth of the time per byte."""
    print("\n" + LINE.format(title, "1x", "4x", "16x", "growth"))
    for name, results in series:
        found = [speed([result], policy, Redacted, rounds) for result in results]
        cells = (*(f"{value:.1f}" for value in found), f"{found[0] / found[-1]:.2f}")
        print(LINE.format(name, *cells), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench text", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mode", choices=[mode.value for mode in Mode], default=Mode.STANDARD.value)
    parser.add_argument(
        "--lossless", action="store_true", help="without what the model would have to ask for"
    )
    parser.add_argument("--size", type=int, default=8_000_000, help="bytes of the mix")
    parser.add_argument(
        "--most", type=int, default=10_000_000, help="bytes of the largest slow text; 0: none"
    )
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    policy = Policy(Mode(wanted.mode), lossy=not wanted.lossless, overhead="" if wanted.lossless else PREFIX)
    redactor = Redactor(b"k" * 32)
    redactor.redact("the rules are read before time counts")
    mixed(wanted, policy, redactor)
    stages([result for _, result in Outputs(1).mix(wanted.size)], policy)
    sizes = (64_000, 256_000, 1_024_000)
    outputs = Outputs(2)
    kinds = ((name, [outputs.result(name, each) for each in sizes]) for name in outputs.kinds())
    growth("MB/s at 64 KB, 256 KB, 1 MB", kinds, policy, wanted.rounds)
    if wanted.most:
        shapes = zip(*(hostile(wanted.most // part) for part in (16, 4, 1)), strict=True)
        slow = ((one[0][0], [result for _, result in one]) for one in shapes)
        growth(f"MB/s up to {wanted.most:,} bytes", slow, policy, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
