"""Measure redaction: its start, ordinary text, results of 16 kB, and texts that are made to be slow.

usage: scripts/bench redaction [FOLDER]     of ordinary text files; this clone if no folder is named
"""

from __future__ import annotations

import random
import statistics
import string
import sys
import time
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

HOSTILE = {
    "password=x": 'password="x ',
    "cookies": "Cookie: a=b; ",
    "keys": "key",
    "bearer=": "bearer=",
    "headers": "x-api-key: ",
    "logins": "://app:pw@",
    "key=": "key=",
    "names and spaces": "token ",
    "names before a tag": "secret a ",
    "brackets": "password((((",
    "backslashes": 'password\\\\\\\\\\\\\\\\"',
    "colons": "pass:",
    "url": "://a:",
    "begin": "-----BEGIN RSA PRIVATE KEY-----\n",
    "begin end": "-----BEGIN PRIVATE KEY-----\nabcdefghijklmnopqrst\n-----END PRIVATE KEY-----\n",
    "ends": "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB\n-----END PRIVATE KEY-----\n",
    "base64 heads": "LS0tLS1CRUdJTiBSU0EgUFJJVkFURSBLRVkt",
    "jwt": "eyJhbGciOiJub25lIn0.",
    "jwt heads": "eyJ",
    "kubernetes": "kind: Secret\ndata:\n  a: YWJjZGVm\n",
    "prompts": "$ cat token\n",
    "escapes": "\x1b[",
    "links": "\x1b]8;;",
    "json escapes": "\\u0067",
    "zero width": "a\u200b",
    "anchors": "ghp_sk-xoxb-AKIA",
    "tokens": "ghp_" + "q8Zk2mVt41Lx9RwPz0bT6cq8Zk2mVt41Lx9R" + " ",
    "prefixes": "ab_" + "q8Zk2mVt41Lx9RwPz0bT6cq8Zk2m" + "-",
    "pairs": "- name: password\n  value: ",
    "tags": "<password>",
    "words": "secret value ",
    "placeholders": "[REDACTED:password:abcdef] ",
}


def seconds(redact, text: str, times: int = 1) -> float:
    best = 1e9
    for _ in range(times):
        start = time.process_time()
        redact(text)
        best = min(best, time.process_time() - start)
    return best


def hostile(redact) -> None:
    print(f"{'made to be slow':20s} {'100 kB':>9s} {'400 kB':>9s}  growth (4 is linear)")
    for name, piece in HOSTILE.items():
        small = seconds(redact, piece * (100_000 // len(piece)), 2)
        large = seconds(redact, piece * (400_000 // len(piece)))
        print(f"{name:20s} {small * 1e3:7.0f}ms {large * 1e3:7.0f}ms  {large / max(small, 1e-4):.1f}")


def main() -> None:
    start = time.process_time()
    from penumbra.redaction import default

    redactor = default()
    print(f"start: {(time.process_time() - start) * 1e3:.0f} ms")
    redact = redactor.redact
    redact("warm up")
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".git" not in path.parts)
    contents = (path.read_bytes() for path in files if path.stat().st_size < 2_000_000)
    # What holds such a byte is no text.
    texts = [
        each.decode("utf-8", "replace") for each in islice((c for c in contents if b"\0" not in c), 3000)
    ]
    total = sum(len(text.encode()) for text in texts)
    used = min(sum(seconds(redact, text) for text in texts) for _ in range(2))
    print(f"ordinary text: {total / 1e6:.1f} MB in {len(texts)} files, {total / 1e6 / used:.0f} MB/s (CPU)")
    whole = "\n".join(texts)
    slices = [whole[at : at + 16_000] for at in range(0, min(len(whole), 16_000_000), 16_000)]
    took = sorted(seconds(redact, text, 2) * 1e3 for text in slices)
    late = took[int(len(took) * 0.99)]
    print(f"16 kB: median {statistics.median(took):.2f} ms, 99th percentile {late:.2f} ms")
    rnd = random.Random(1)
    value = ["".join(rnd.choice(string.ascii_letters + string.digits) for _ in range(36)) for _ in range(200)]
    dense = "".join(f"SETTING_{n}_TOKEN=ghp_{each}\n" for n, each in enumerate(value))
    print(f"200 secrets in {len(dense) / 1e3:.0f} kB: {seconds(redact, dense, 3) * 1e3:.1f} ms")
    short = dense.rstrip("\n").split("\n")
    each = statistics.median(seconds(redact, text, 5) * 1e6 for text in short)
    print(f"a text of one secret and {len(short[0])} bytes: {each:.0f} µs")
    hostile(redact)


if __name__ == "__main__":
    main()
