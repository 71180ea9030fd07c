"""Let every function on a request's way raise in turn, and see what reaches the provider and the client."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from support.faults import broken_steps
from support.mitm import Mitmdump
from support.mitm.starter import POSSIBLE, Starter
from support.upstream import Upstream


def main() -> int:
    """Print the table. Exit code 1 if a secret was sent, a client hangs, or a foreign request was lost."""
    parser = argparse.ArgumentParser(prog="scripts/fail_closed", description=__doc__)
    parser.add_argument("words", nargs="*", help="only functions with one of these in their names")
    parser.add_argument("--kind", action="append", help="only requests of this kind")
    parser.add_argument("--error", default="ZeroDivisionError", help="what is raised")
    parser.add_argument("--all", action="store_true", help="every row, good ones too")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penumbra-fail-closed-"))
    (folder / "upstream").mkdir()
    starter = Starter() if POSSIBLE else None
    wrong = 0
    with Upstream(folder / "upstream") as upstream:
        proxy = Mitmdump(upstream, folder / "conf", folder / "proxy", starter=starter).start()
        breaker = broken_steps.Breaker(proxy, upstream)
        for kind in broken_steps.KINDS:
            if given.kind and kind.name not in given.kind:
                continue
            steps = breaker.steps(kind)
            counted: Counter[str] = Counter()
            for step in steps:
                if given.words and not any(word in step for word in given.words):
                    continue
                outcome = breaker.outcome(kind, step, given.error)
                counted[outcome] += 1
                if outcome not in broken_steps.GOOD:
                    wrong += 1
                if given.all or outcome not in broken_steps.GOOD:
                    print(f"{kind.name:<18}{outcome:<14}{step}", flush=True)
            summary = ", ".join(f"{outcome} {count}" for outcome, count in sorted(counted.items()))
            print(f"{kind.name}: {sum(counted.values())} steps: {summary}", flush=True)
        proxy.stop()
    if starter is not None:
        starter.close()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
