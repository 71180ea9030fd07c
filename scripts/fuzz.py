"""Search for inputs that break a property of `tests/support/properties`.

With atheris, coverage of the code leads the search; without it, inputs are random. Each target runs in its
own process, one after the other. An input that breaks a property is written to `crash-*` and named.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "addon"), str(ROOT / "tests")]
TARGETS = ("redaction", "framings", "codings", "bodies", "answers", "sockets", "rules")
_LONGEST = 2_000
_RUNS = re.compile(r"stat::number_of_executed_units:\s+([0-9]+)")


def _target(name: str) -> Callable[[bytes], None]:
    from support import properties

    return properties.TARGETS[name]


def _led(name: str, seconds: int, folder: str) -> None:
    """Run one target with atheris; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["penumbra"]):
        target = _target(name)
    limits = [f"-max_total_time={seconds}", f"-max_len={_LONGEST}", "-timeout=20", "-rss_limit_mb=4096"]
    arguments = [sys.argv[0], *limits, "-print_final_stats=1", *([folder] if folder else [])]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


def _random(name: str, seconds: int) -> None:
    """Run one target with random bytes."""
    target, seed, runs = _target(name), random.SystemRandom().randrange(1 << 32), 0
    chance, end = random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        data = chance.randbytes(chance.randrange(_LONGEST if chance.random() < 0.1 else 200))
        runs += 1
        try:
            target(data)
        except Exception:
            traceback.print_exc()
            Path(f"crash-{name}-{seed}-{runs}").write_bytes(data)
            print(f"crash-{name}-{seed}-{runs}: {data.hex()}", file=sys.stderr)
            raise SystemExit(77) from None
    print(f"stat::number_of_executed_units: {runs}", file=sys.stderr)


def _has_atheris() -> bool:
    return find_spec("atheris") is not None


def _all(names: list[str], seconds: int, folder: str) -> int:
    """Run every target in its own process and return the number of those that broke."""
    print(
        f"{'led by atheris' if _has_atheris() else 'random, without atheris'}, {seconds} s in all", flush=True
    )
    broken = 0
    for name in names:
        began = time.monotonic()
        kept = Path(folder, name) if folder else None
        if kept is not None:
            kept.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "--one", name, "--seconds", str(max(1, seconds // len(names)))]
        command += ["--corpus", str(kept)] if kept is not None else []
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        found = _RUNS.search(done.stdout)
        summary = "no finding" if done.returncode == 0 else f"BROKEN (status {done.returncode})"
        runs = f"{int(found[1]):,}" if found else "?"
        print(f"{name:10} {runs:>12} inputs  {time.monotonic() - began:7.1f} s  {summary}", flush=True)
        if done.returncode:
            broken += 1
            said = [line for line in done.stdout.splitlines() if not line.startswith("INFO: Instrumenting")]
            print("\n".join(said[-60:]), flush=True)
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=70, help="for all targets together")
    parser.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    parser.add_argument("--corpus", default="", help="folder that keeps what was interesting")
    parser.add_argument("--one", choices=TARGETS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        raise SystemExit(min(1, _all(given.target or list(TARGETS), given.seconds, given.corpus)))
    if _has_atheris():
        _led(given.one, given.seconds, given.corpus)
    else:
        _random(given.one, given.seconds)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
