"""Make tool outputs of any size from this clone's files and a seed, for `bench_text.py` to shorten."""

from __future__ import annotations

import difflib
import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench_conversations import Tools

ROOT = Path(__file__).resolve().parents[1]
SIZES = (1_000, 2_000, 4_000, 8_000, 16_000, 64_000, 256_000)
"""Bytes of the results of a mix; each size has as many bytes of it as every other."""


@dataclass(frozen=True)
class Kind:
    """A `Kind` makes outputs of one tool."""

    share: float
    """Per cent of all bytes of tool results in real sessions."""
    tool: str
    arguments: dict[str, Any]
    make: Callable[[], str]
    """Another piece of it."""


@dataclass(frozen=True)
class Result:
    """A `Result` is a tool's output with its call."""

    tool: str
    arguments: dict[str, Any]
    text: str


class Outputs:
    """`Outputs` make the outputs of tools; every output is a different one."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tools = Tools(self.chance)
        files = sorted(path for pattern in ("**/*.py", "**/*.yaml") for path in ROOT.glob(f"addon/{pattern}"))
        self.sources = [path.read_text(encoding="utf-8") for path in files]
        self.paths = [str(path.relative_to(ROOT)) for path in files]

    def source(self) -> str:
        return self.chance.choice(self.sources)

    def diff(self) -> str:
        before = self.source().split("\n")
        after = [line if self.chance.random() < 0.95 else f"{line}  # {self.tools.word()}" for line in before]
        path = self.chance.choice(self.paths)
        head = f"diff --git a/{path} b/{path}\nindex 1234567..89abcde 100644\n"
        return head + "\n".join(difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", lineterm=""))

    def listing(self) -> str:
        return "\n".join(f"./{path}".replace("penumbra", self.tools.word()) for path in self.paths)

    def hits(self) -> str:
        path, text = self.chance.choice(self.paths), self.source()
        found = [
            (number, line) for number, line in enumerate(text.split("\n"), 1) if "self" in line or "=" in line
        ]
        return "\n".join(f"{path}:{number}:{line}" for number, line in found)

    def page(self) -> str:
        words = " ".join(self.tools.word() for _ in range(60))
        rows = "".join(f'<li><a href="/{self.tools.word()}">{self.tools.word()}</a></li>' for _ in range(9))
        return f"<script>var a = 1;</script><h2>{self.tools.word()}</h2><p>{words}</p><ul>{rows}</ul>"

    def job(self) -> str:
        lines: list[str] = []
        for _ in range(60):
            stamp = f"2026-11-20T0{self.chance.randint(0, 9)}:{self.chance.randint(10, 59)}:07.1234567Z"
            doing = self.chance.choice(("##[group]Run", "Downloading", "Collecting", "Building"))
            version = f"{self.tools.number(99)}.{self.tools.number(9)}"
            lines.append(f"{stamp} {doing} {self.tools.word()}-{version} in {self.tools.word()}")
        return "\n".join(lines)

    def prose(self) -> str:
        return "\n".join(
            " ".join(self.tools.word() for _ in range(self.chance.randint(2, 16)))
            + f" {self.tools.number(999)}"
            for _ in range(40)
        )

    def kinds(self) -> dict[str, Kind]:
        path = {"file_path": "/srv/app/src/reader.py"}
        tools = self.tools
        return {
            "file, numbered": Kind(35, "Read", path, self.source),
            "file, by a shell": Kind(
                17, "Bash", {"command": "cd /srv/app && cat src/reader.py"}, self.source
            ),
            "search": Kind(11, "Grep", {"pattern": "self", "path": "src"}, self.hits),
            "patch": Kind(5, "Bash", {"command": "git diff HEAD~1"}, self.diff),
            "tests": Kind(3.4, "Bash", {"command": "python -m pytest -v"}, tools.tests),
            "web page": Kind(3.5, "WebFetch", {"url": "https://example.org/"}, self.page),
            "edit": Kind(3.3, "Edit", path, self.source),
            "CI log": Kind(2.5, "Bash", {"command": "gh run view 1 --log"}, self.job),
            "list": Kind(2.9, "Bash", {"command": "find . -name '*.py'"}, self.listing),
            "JSON": Kind(2.4, "Bash", {"command": "curl -s localhost:8000/api"}, tools.answer),
            "service log": Kind(4, "Bash", {"command": "docker compose logs app"}, tools.log),
            "script": Kind(10, "Bash", {"command": "./run.sh 2>&1"}, self.prose),
        }

    def result(self, name: str, size: int) -> Result:
        """Return a result of about `size` bytes."""
        kind = self.kinds()[name]
        pieces: list[str] = []
        while sum(map(len, pieces)) < size:
            pieces.append(kind.make())
        if name == "JSON":
            items_shown = max(1, size // 130)
            items = itertools.chain.from_iterable(json.loads(piece)["items"] for piece in pieces)
            return Result(
                kind.tool, kind.arguments, json.dumps(list(itertools.islice(items, items_shown)), indent=2)
            )
        text = "\n".join(pieces)[:size]
        if name == "web page":
            text = f"<!doctype html><html><body>{text}</body></html>"
        if name == "file, numbered":
            lines = text[: size * 85 // 100].split("\n")
            text = "\n".join(f"{number:6}→{line}" for number, line in enumerate(lines, 1))
        return Result(kind.tool, kind.arguments, text)

    def mix(self, size: int) -> Iterator[tuple[str, Result]]:
        """Return about `size` bytes of results of all kinds and sizes."""
        for name, kind in self.kinds().items():
            for each in SIZES:
                # A large result of a rare kind is one result all the same.
                for _ in range(max(1, round(size * kind.share / 100 / len(SIZES) / each))):
                    yield name, self.result(name, min(each, max(1_000, int(size * kind.share / 100))))


def hostile(size: int) -> Iterator[tuple[str, Result]]:
    """Return texts of `size` bytes that are made to be slow, by name."""
    numbers = range(size // 10)
    shapes = {
        "one line": "ab, " * (size // 4),
        "one word": "a" * size,
        "lines that all differ": "".join(f"{number:09}\n" for number in numbers),
        "lines that are all the same": "the same\n" * (size // 9),
        "two lines in turns": "this one\nthat one\n" * (size // 18),
        "empty lines": "\n" * size,
        "blanks": " " * size,
        "blanks before line ends": (" " * 999 + "x \n") * (size // 1_002),
        "errors": "error: it failed\n" * (size // 17),
        "numbers": "".join(f"{number:06} 1.5\n" for number in range(size // 11)),
        "hits": "".join(f"src/a{number % 97}.py:{number}:x\n" for number in range(size // 18)),
        "numbered lines": "".join(f"{number}→x\n" for number in range(1, size // 9)),
        "deep JSON": "[" * (size // 2) + "]" * (size // 2),
        "JSON within JSON": json.dumps(
            [{"a": {"b": {"c": [number, {"d": "x" * 20}]}}} for number in numbers[::6]]
        ),
        "a string of JSON": json.dumps({"a": "x\\\n" * (size // 4)}),
        "escape sequences": "\x1b[31m" * (size // 5),
        "escape sequences without end": "\x1b]" * (size // 2),
        "carriage returns": "50 %\r" * (size // 5),
        "backspaces": "ab\x08" * (size // 3),
        "moves": "\x1b[3A\x1b[2B x" * (size // 10),
        "bars": "| a | b |\n" * (size // 10),
        "tags": "<!doctype html><html>" + "<p>x" * (size // 4),
        "frames": '  File "a.py", line 3, in f\n' * (size // 28),
        "base64": "Zm9vYmFy" * (size // 8),
        "not ASCII": "é→ \n" * (size // 7),
    }
    for name, text in shapes.items():
        yield name, Result("Bash", {"command": "./x"}, text)
