"""Make conversations of the size and mix of an agent's from a seed, for `bench.py` to send."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any


def words(text: str) -> list[str]:
    """Split a list of words that is written as one text."""
    return text.split()


WORDS = words(
    "request response cache reader stream header body parse encode decode buffer socket retry timeout handler"
    " session worker queue result error config option value string number list table index path file line"
)


class Tools:
    """`Tools` make the outputs of an agent's tools; `chance` makes every output a different one."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def word(self) -> str:
        return self.chance.choice(WORDS)

    def number(self, most: int) -> int:
        return self.chance.randint(1, most)

    def source(self) -> str:
        lines: list[str] = []
        for _ in range(self.chance.randint(6, 28)):
            name = f"{self.word()}_{self.word()}"
            lines += [
                f"def {name}({self.word()}: {self.word()}, {self.word()}: int = {self.number(99)}):",
                f'    """{self.word().title()} of the {self.word()}, or the {self.word()}."""',
                f"    if {self.word()} is None or {self.word()} > {self.number(900)}:",
                f"        raise ValueError(f'{self.word()} {{{self.word()}}} has no {self.word()}')",
                f"    return [{self.word()}.{self.word()} for {self.word()} in {self.word()}s]",
                "",
                "",
            ]
        return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(lines, 1))

    def hits(self) -> str:
        files = [f"src/{self.word()}/{self.word()}.py" for _ in range(self.chance.randint(3, 9))]
        return "\n".join(
            f"{file}:{number * 7}:    {self.word()} = {self.word()}({self.word()}, {self.word()})"
            for file in files
            for number in range(1, self.chance.randint(3, 14))
        )

    def tests(self) -> str:
        """Return a coloured test run in which most tests pass."""
        lines = [
            f"tests/test_{self.word()}.py::test_{self.word()}_{number} \x1b[32mPASSED\x1b[0m [{number:3}%]"
            for number in range(self.chance.randint(30, 90))
        ]
        lines += [
            "=================================== FAILURES ===================================",
            f">       assert {self.word()} == {self.number(999)}",
            f"\x1b[31mE       assert {self.number(999)} == {self.number(999)}\x1b[0m",
            f"tests/test_{self.word()}.py:{self.number(400)}: AssertionError",
            f"\x1b[31m1 failed\x1b[0m, {len(lines)} passed in {self.chance.random() * 9:.2f}s",
        ]
        return "\n".join(lines)

    def log(self) -> str:
        """Return a service's log with lines that repeat."""
        lines: list[str] = []
        for _ in range(self.chance.randint(8, 30)):
            stamp = f"2026-11-20T0{self.chance.randint(0, 9)}:{self.chance.randint(10, 59)}:07Z"
            lines.append(f"{stamp} INFO {self.word()} {self.word()} id={self.chance.getrandbits(64):016x}")
            lines += [f"{self.word()} worker: no {self.word()}, waiting"] * self.chance.randint(1, 9)
        return "\n".join(lines)

    def answer(self) -> str:
        """Return an indented JSON response of an API."""
        items = [
            {
                "id": self.chance.getrandbits(40),
                "name": self.word(),
                "tags": [self.word(), self.word()],
                "rate": 0.5,
            }
            for _ in range(self.chance.randint(10, 50))
        ]
        return json.dumps({"items": items, "next": None}, indent=2)

    def call(self) -> tuple[str, dict[str, str], str]:
        """Return a tool's name, its arguments and its output, in the proportions of real sessions."""
        kinds: list[tuple[int, str, dict[str, str], Callable[[], str]]] = [
            (55, "Read", {"file_path": f"/srv/app/src/{self.word()}/{self.word()}.py"}, self.source),
            (15, "Grep", {"pattern": self.word(), "path": "src"}, self.hits),
            (10, "Bash", {"command": "pytest -v"}, self.tests),
            (10, "Bash", {"command": "docker compose logs app"}, self.log),
            (10, "Bash", {"command": f"curl -s localhost:8000/api/{self.word()}"}, self.answer),
        ]
        [(_, tool, arguments, make)] = self.chance.choices(kinds, [kind[0] for kind in kinds])
        return tool, arguments, make()


def exchange(tools: Tools, number: int) -> list[dict[str, Any]]:
    """Return a tool call and its result as two messages."""
    tool, arguments, text = tools.call()
    name = f"toolu_{tools.chance.getrandbits(96):024x}"
    say = {"type": "text", "text": f"Step {number}: the {tools.word()} next."}
    call = {"type": "tool_use", "id": name, "name": tool, "input": arguments}
    result = {"type": "tool_result", "tool_use_id": name, "content": text}
    return [{"role": "assistant", "content": [say, call]}, {"role": "user", "content": [result]}]


def dump(messages: list[dict[str, Any]]) -> bytes:
    """Return a request with these messages and a cache breakpoint at the newest."""
    *rest, last = messages
    block = {**last["content"][-1], "cache_control": {"type": "ephemeral"}}
    body = {
        "model": "claude-bench",
        "max_tokens": 8192,
        "system": "You are a careful engineer. " * 40,
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in ("Bash", "Read", "Grep")],
        "messages": [*rest, {**last, "content": [*last["content"][:-1], block]}],
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def bodies(size: int, rounds: int) -> Iterator[bytes]:
    """Yield a conversation of about `size` bytes, then `rounds` copies with one more exchange each."""
    tools = Tools(random.Random(size))
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Find out why it is slow, and mend it."}]}
    ]
    length = len(dump(messages))
    while length < size:
        more = exchange(tools, len(messages))
        length += len(json.dumps(more, ensure_ascii=False, separators=(",", ":")).encode())
        messages += more
    yield dump(messages)
    for _ in range(rounds):
        yield dump([*messages, *exchange(tools, len(messages))])
