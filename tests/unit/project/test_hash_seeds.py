"""Sent bytes do not depend on the process: the seed of `hash` has no influence."""

import os
import subprocess
import sys

from support import examples
from support.hash_seeds import PARTS

SEEDS = ("0", "77")


def test_every_process_sends_equal_bytes() -> None:
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "support.hash_seeds", str(examples.part)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in SEEDS
    ]
    first, *others = (process.communicate()[0].splitlines() for process in running)
    assert [process.returncode for process in running] == [0] * len(SEEDS)
    assert [line.split()[0] for line in first] == [part.__name__ for part in PARTS]
    assert all(int(line.split()[1]) > 1_000 for line in first)
    for other in others:
        assert other == first
