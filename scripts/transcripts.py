"""Print which secrets leave in requests that carry earlier tool results as plain text.

Each shape in which an agent writes results into a request is sent with each secret: by a new caller (`cold`),
and after the value was redacted in a result of the same caller (`known`). `bare` is the value without its
name and punctuation, after it was redacted in a result.

usage: scripts/transcripts [--tools]        with tools declared in each request
"""

from __future__ import annotations

import argparse
import sys

from support.engines import Callers
from support.transcripts import LINES, SECRETS, SHAPES, WITH_TOOLS, Shape

WAYS = ("cold", "known", "bare")


def leaves(callers: Callers, shape: Shape, kind: str, way: str) -> bool:
    """Return whether a secret is in what is sent for a new caller."""
    api, headers = shape.api, shape.api.credential(f"{shape.name} {kind} {way}")
    if way != "cold":
        turns = [("user", "deploy it"), ("call", "call_1", "cat .env"), ("result", "call_1", LINES[kind])]
        callers.send(api, api.body(turns), headers)
    output = SECRETS[kind] if way == "bare" else LINES[kind]
    return SECRETS[kind].encode() in callers.send(api, shape.body(output), headers).rewritten.body


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tools", action="store_true", help="declare tools in each request")
    shapes = WITH_TOOLS if parser.parse_args().tools else SHAPES
    columns = [(kind, way) for kind in LINES for way in WAYS]
    print(f"{'':38}" + "".join(f"{kind + ', ' + way:>14}" for kind, way in columns))
    callers, counts = Callers(), [0] * len(columns)
    try:
        for shape in shapes:
            left = [leaves(callers, shape, kind, way) for kind, way in columns]
            counts = [count + one for count, one in zip(counts, left, strict=True)]
            print(f"{shape.name:38}" + "".join(f"{'LEAVES' if one else '-':>14}" for one in left))
    finally:
        callers.close()
    print(f"{f'leave, of {len(shapes)}':38}" + "".join(f"{count:>14}" for count in counts))
    return 1 if any(counts) else 0


if __name__ == "__main__":
    sys.exit(main())
