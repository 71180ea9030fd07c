"""A small disk for an agent's tools, and responses whose calls hold placeholders."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from penumbra.redaction.placeholder import PATTERN
from support.agents.agent import Agent
from support.planted import PASSWORD
from support.upstream import Received, turn

PATH = "/repo/.env"
TOOLS = (("Bash", "command"), ("Read", "file_path"), ("Edit", "file_path"), ("Write", "file_path"))


@dataclass
class Disk:
    """A `Disk` holds files, and the commands that were run on it."""

    files: dict[str, str] = field(
        default_factory=lambda: {PATH: f"DEBUG=true\nDB_PASSWORD={PASSWORD}\nPORT=80\n"}
    )
    ran: list[str] = field(default_factory=list)
    prints: dict[str, str] = field(default_factory=dict)
    """The output of commands that print more than `ok`."""

    def run(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run a tool and return its output."""
        if name == "Bash":
            self.ran.append(arguments["command"])
            return self.prints.get(arguments["command"], "ok")
        path = arguments["file_path"]
        if name == "Read":
            return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(self.files[path].split("\n"), 1))
        if name == "Write":
            self.files[path] = arguments["content"]
            return "written"
        if arguments["old_string"] not in self.files[path]:
            return "old_string was not found"
        self.files[path] = self.files[path].replace(arguments["old_string"], arguments["new_string"])
        return f"The file was changed:\n{self.files[path]}"


def give_tools(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Let the agents of all APIs work on one new disk; return the disk."""
    disk = Disk()
    monkeypatch.setattr(Agent, "run_tool", staticmethod(disk.run))
    monkeypatch.setattr(Agent, "TOOLS", TOOLS)
    return disk


def made_calls(body: Any, name: str) -> list[Any]:
    """Return the arguments of all calls of a tool in a request of any API, in order."""
    found: list[Any] = []
    waiting = [body]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, dict):
            given = next((value[key] for key in ("input", "arguments", "args") if key in value), None)
            if value.get("name") == name and given is not None:
                found.append(json.loads(given) if isinstance(given, str) else given)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return found


OPTIONS = {"penumbra_restore_secrets": "edits"}


def mark(received: Received) -> str:
    found = PATTERN.search(received.body.decode())
    assert found, received.body
    return found[0]


def play(upstream: Any, *answers: Any, **delivery: Any) -> None:
    """Script the model: each answer is a list of blocks, or a function that returns them for the request that
    arrived."""
    waiting = list(answers)

    def script(received: Received) -> Any:
        blocks = waiting.pop(0) if waiting else ("Done.",)
        blocks = blocks(received) if callable(blocks) else blocks
        return turn(*blocks, **delivery)

    upstream.script(script)
