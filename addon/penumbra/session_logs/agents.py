"""This module lists the agents whose session logs can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penumbra.session_logs import claude_code, codex, copilot_cli, gemini_cli, opencode
from penumbra.session_logs.log_entries import LogCounts, LoggedConversation, objects

_LINES_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class Agent:
    """An `Agent` describes where an agent writes its logs, and has the functions that read these logs."""

    name: str
    patterns: tuple[str, ...]
    """Globs of log files, relative to a folder of logs."""
    roots: Callable[[Path, Mapping[str, str]], Iterator[Path]]
    """Function that takes the home folder and the environment, and returns the folders that may contain
    logs."""
    is_first: Callable[[Mapping[str, Any]], bool]
    """Function that gets an object from a log, and returns whether the object may be the first of the agent's
    logs."""
    read: Callable[[Path, LogCounts], Iterator[LoggedConversation]]

    def logs(self, folder: Path) -> Iterator[Path]:
        for pattern in self.patterns:
            yield from (path for path in folder.glob(pattern) if path.is_file())


AGENTS = tuple(
    Agent(module.NAME, module.PATTERNS, module.roots, module.is_first, module.read)
    for module in (claude_code, codex, gemini_cli, opencode, copilot_cli)
)
NAMES = tuple(agent.name for agent in AGENTS)


def of_log(path: Path) -> Agent | None:
    """Read the beginning of a log, and return the agent that wrote it; None if unknown. Raises OSError."""
    if opencode.is_database(path):
        return next(agent for agent in AGENTS if agent.name == opencode.NAME)
    for number, value in enumerate(objects(path, LogCounts())):
        for agent in AGENTS:
            if agent.is_first(value):
                return agent
        if number >= _LINES_LOOKED_AT:
            break
    return None
