"""Print tool results, each above the form that the model gets, for people to read and judge.

    scripts/bench examples > docs/examples.md

Outputs of commands are the examples of rules/commands; longer ones are made from a fixed seed. Each one is
sent as the last result of a conversation, through the proxy's own functions, in the standard mode.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from bench_cost import Body, Forwarder, anthropic
from bench_quality import WAYS, results

from penumbra.compress import token_estimate
from penumbra.compress.families.examples import examples
from penumbra.redaction import default

ORIGINAL, SENT = (3, 1), (6, 2)
"""First and last lines that the page shows of a long text."""
WIDTH = 160
"""Characters of a line that the page shows."""
SHOWN = (
    *("read", "read again", "read after an edit", "search", "list of files", "JSON", "table", "web page"),
    *("unknown tool", "service log", "tests", "script", "git-status", "git-diff", "npm", "docker-build"),
    *("rustc", "eslint", "jest", "terraform"),
)
"""Kinds that the page shows, one result of each."""
SEED = 7
WORDS = (
    "anchor", "ballast", "cargo", "dinghy", "ferry", "galley", "harbour", "jetty", "keel", "ledger", "mast",
    "net", "oar", "pier", "quay", "rudder", "sail", "tide", "vessel", "winch",
)  # fmt: skip
INTRODUCTION = """# What becomes of tool results

This page shows {count} results of {families} kinds as the client sent them and as the provider got
them, in standard mode. `scripts/bench examples` writes this page, with the beginning and the end of long
texts (`--whole`: whole texts; `--all`: every result). A result that would shrink by less than its marker and
hint is sent unchanged. Some lines are dropped without a marker, since they have no content: drawn rules and
gutters, progress that a later line replaces, and git's advice below the same headings each time.
"""


@dataclass(frozen=True)
class Call:
    """A `Call` is a tool call with its result and the earlier calls of its conversation."""

    kind: str
    tool: str
    arguments: dict[str, Any]
    text: str
    before: tuple[Call, ...] = ()


def commands() -> Iterator[Call]:
    """Return the examples of the command families."""
    for example in examples():
        if example.call[:1].isupper() and " " not in example.call:
            yield Call(example.family, example.call, {"pattern": "cart"}, example.text)
        else:
            yield Call(example.family, "Bash", {"command": example.call}, example.text)


class Made:
    """`Made` has outputs that are too long for an example of a rule."""

    def __init__(self) -> None:
        self.chance = random.Random(SEED)

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def words(self, count: int) -> str:
        return " ".join(self.word() for _ in range(count))

    def number(self, most: int) -> int:
        return self.chance.randrange(1, most)

    def source(self, functions: int) -> str:
        """Return lines of Python."""
        return "\n".join(
            f"def {self.word()}_{n}({self.word()}: int, limit: int = {self.number(99)}) -> int:\n"
            f'    """{self.words(5).capitalize()}."""\n'
            f"    if limit > {self.number(9_999)}:\n"
            f"        raise ValueError('{self.words(4)}')\n"
            f"    return {self.word()}.{self.word()}(limit) + {self.number(999)}\n\n"
            for n in range(functions)
        )

    def calls(self) -> Iterator[Call]:
        """Return one call of each kind."""
        source = self.source(60)
        read = {"file_path": "/srv/shop/src/orders.py"}
        numbered = self._numbered(source)
        yield Call("read", "Read", read, numbered)
        changed = source.replace("return", "return  # checked:", 1)
        first = Call("read", "Read", read, numbered)
        yield Call("read again", "Read", read, numbered, (first,))
        edit = {**read, "old_string": "return", "new_string": "return  # checked:"}
        edited = Call("edit", "Edit", edit, "The file has been updated.")
        yield Call("read after an edit", "Read", read, self._numbered(changed), (first, edited))
        long = self.source(700)
        yield Call("long file", "Read", {"file_path": "/srv/shop/src/all.py"}, self._numbered(long))
        yield from self._searches()
        yield from self._structured()
        yield from self._written()
        yield from self._logs()

    def _numbered(self, source: str) -> str:
        return "\n".join(f"{number:6}→{line}" for number, line in enumerate(source.split("\n"), 1))

    def _searches(self) -> Iterator[Call]:
        names = [f"src/{self.word()}/{self.word()}_{n}.py" for n in range(60)]
        hits = "\n".join(
            f"{name}:{n * 7 + 3}:    total = {self.word()}({self.number(999)})"
            for name in names
            for n in range(self.chance.randint(1, 6))
        )
        yield Call("search", "Grep", {"pattern": "total", "output_mode": "content"}, hits)
        yield Call("search in a shell", "Bash", {"command": "rg -n total src"}, hits)
        yield Call(
            "list of files",
            "Bash",
            {"command": "find src -name '*.py'"},
            "\n".join(f"src/{self.word()}/{self.word()}/{self.word()}_{n}.py" for n in range(900)),
        )

    def _structured(self) -> Iterator[Call]:
        orders = [
            {
                "id": 4_000 + n,
                "state": self.chance.choice(["open", "paid"]),
                "note": " ".join(self.word() for _ in range(12)),
                "total": self.number(99_999),
            }
            for n in range(160)
        ]
        orders[77] = {**orders[77], "state": "failed", "error": "card refused: limit"}
        yield Call("JSON", "mcp__shop__orders", {"day": 7}, json.dumps({"orders": orders}, indent=2))
        yield Call("JSON of a shell", "Bash", {"command": "curl -s localhost/orders"}, json.dumps(orders))
        rows = "\n".join(
            f"| {n:>5} | {order['note'][:30]:<30} | {order['total']:>7} |" for n, order in enumerate(orders)
        )
        yield Call("table", "Bash", {"command": "psql -c 'select * from orders'"}, rows)

    def _written(self) -> Iterator[Call]:
        rows = "".join(f"<li><a href='/{self.word()}'>{self.word()}</a></li>" for _ in range(40))
        text = "".join(
            f"<h2>{self.word()}</h2><p>{' '.join(self.word() for _ in range(90))}</p>" for _ in range(14)
        )
        page = f"<!doctype html><html><body><nav><ul>{rows}</ul></nav><main>{text}</main></body></html>"
        yield Call("web page", "WebFetch", {"url": "https://docs.example.org/orders"}, page)
        findings = "\n\n".join(
            f"**{self.word().title()} is read before it is written.**\n\n"
            f"`src/{self.word()}.py`, line {self.number(400)}: " + " ".join(self.word() for _ in range(45))
            for _ in range(40)
        )
        yield Call(
            "review", "Bash", {"command": "gh api repos/a/shop/pulls/7/reviews --jq '.[0].body'"}, findings
        )
        report = "\n".join(f"{self.words(14).capitalize()}." for _ in range(400))
        yield Call("unknown tool", "mcp__wiki__page", {"title": "Orders"}, report)

    def _logs(self) -> Iterator[Call]:
        log = "\n".join(
            f"2026-11-20T0{n // 360}:{n // 6 % 60:02}:{n % 60:02}Z INFO {self.word()} of order"
            f" {self.number(9_999)} took {self.number(900)} ms"
            for n in range(1_200)
        )
        log += "\n2026-11-20T04:00:00Z ERROR ledger refused order 4711: limit reached"
        yield Call("service log", "Bash", {"command": "docker compose logs app"}, log)
        yield Call("log file", "Read", {"file_path": "/var/log/shop.log"}, log)
        tests = "\n".join(
            f"tests/test_{WORDS[n // 40]}.py::test_{self.word()}_{n} PASSED [{n // 4:3}%]" for n in range(399)
        )
        tests = (
            f"=== test session starts ===\ncollected 400 items\n\n{tests}\n"
            "tests/test_mast.py::test_limit FAILED [100%]\n\n=== FAILURES ===\n___ test_limit ___\n\n"
            ">       assert limit(7) == 8\nE       assert 7 == 8\n\ntests/test_mast.py:41: AssertionError\n"
            "=== short test summary info ===\nFAILED tests/test_mast.py::test_limit - assert 7 == 8\n"
            "=== 1 failed, 399 passed in 3.12s ==="
        )
        yield Call("tests", "Bash", {"command": "python -m pytest -v"}, tests)
        meant = "\n".join(
            f"[Queue] Task {n} failed: {n} | throw\nerror: item {n} is meant to fail" for n in range(300)
        )
        ended = " 300 pass\n 0 fail\nRan 300 tests across 1 files."
        run = f"bun test v1.3.5\nsrc/queue.test.ts:\n{meant}\n\n{ended}"
        yield Call("tests that pass", "Bash", {"command": "bun test"}, run)
        steps = "\n".join(f"step {n}: {self.word()} of {self.word()} done" for n in range(900))
        steps += "\nerror: cannot open ledger.db: disk is full\nexit status 3"
        yield Call("script", "Bash", {"command": "./deploy --all"}, steps)


def sent(call: Call) -> str:
    """Return the form of a result that the provider gets."""
    calls = [
        {"tool": one.tool, "arguments": one.arguments, "result": one.text} for one in (*call.before, call)
    ]
    messages: list[Body] = [{"role": "user", "content": "make it work"}]
    for number, one in enumerate(calls):
        messages += [message for message in anthropic(f"t{number}", {"calls": [one]}) if message["content"]]
    tool = {"name": "Bash", "input_schema": {"type": "object"}}
    body = {
        "api": "anthropic-messages",
        "model": "claude-opus-5-5",
        "max_tokens": 9,
        "tools": [tool],
        "messages": messages,
    }
    return results(body["api"], Forwarder(WAYS["standard"], default().redact).forward(body))[-1].text


def fenced(text: str, ends: tuple[int, int] | None) -> str:
    """Return a text as a fenced block: its first and last lines, or all of it."""
    lines = text.split("\n")
    if ends and len(lines) > sum(ends) + 1:
        first, last = ends
        left = len(lines) - first - last
        lines = [*lines[:first], f"⋮ (this page leaves {left} lines out)", *lines[-last:]]
    shown = "\n".join(line if not ends or len(line) <= WIDTH else f"{line[:WIDTH]} ⋮" for line in lines)
    fence = "`" * 3
    while fence in shown:
        fence += "`"
    return f"{fence}text\n{shown}\n{fence}"


def section(call: Call, text: str, whole: bool) -> str:
    """Return one result above the form that is sent."""
    command = call.arguments.get("command") or f"{call.tool} {json.dumps(call.arguments)}"
    before, after = token_estimate.estimate(call.text), token_estimate.estimate(text)
    ends_before, ends_after = (None, None) if whole else (ORIGINAL, SENT)
    return (
        f"## {call.kind}: `{command}`\n\n"
        f"As it was, about {before:,} tokens:\n\n{fenced(call.text, ends_before)}\n\n"
        f"As it is sent, about {after:,} tokens:\n\n{fenced(text, ends_after)}\n"
    )


def page(shown: Collection[str], whole: bool) -> str:
    """Return the page: of each of these kinds the first result that changes; without kinds, all results."""
    chosen: list[str] = []
    kinds = set()
    for call in (*Made().calls(), *commands()):
        is_shown = not shown or (call.kind in shown and call.kind not in kinds)
        if is_shown and (text := sent(call)) != call.text:
            kinds.add(call.kind)
            chosen.append(section(call, text, whole))
    return "\n".join([INTRODUCTION.format(count=len(chosen), families=len(kinds)), *chosen])


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--all", action="store_true", help="all results that change, of all kinds")
    parser.add_argument("--whole", action="store_true", help="long texts in full")
    wanted = parser.parse_args()
    sys.stdout.write(page(() if wanted.all else SHOWN, wanted.whole))
    return 0


if __name__ == "__main__":
    sys.exit(main())
