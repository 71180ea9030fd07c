"""Declarations of the client's tools, and whether a model ever calls them: by project and agent.

Declarations stand in every request. Penumbra changes none; the count of their tokens lets people remove
unused tools from a client's configuration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from penumbra import rules
from penumbra.metrics.amounts import label

LEAST_REQUESTS = 10
"""Requests of a project and agent before a tool counts as one that is never called."""
_MOST_TOOLS = 400
"""Tools of one project and agent that are counted."""
_MOST_GROUPS = 100
"""Pairs of project and agent that are counted between two writes."""
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class UnusedTools:
    """A tool, or all tools of an MCP server, that no counted conversation called."""

    project: str
    agent: str
    names: tuple[str, ...]
    server: str
    """The MCP server, if all of its tools are unused; empty for one tool."""
    requests: int
    """The largest number of requests that declared one of them."""
    tokens: int
    """Tokens of the declarations in all requests."""
    dollars: float
    """Cost as cached input; 0 if no price is known."""
    file: str
    setting: str
    """The setting that takes them out of the client's configuration; empty if unknown."""

    def record(self) -> Tree:
        """Return the fields for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


class ToolUses:
    """Sums since they were last taken: project, agent, tool -> requests, called, tokens, dollars."""

    def __init__(self) -> None:
        self._sums = defaultdict[tuple[str, str], dict[str, list[float]]](dict)

    def add(
        self,
        project: str,
        agent: str,
        declared: Collection[DeclaredTool],
        called: Collection[str],
        rate: float,
    ) -> None:
        """Count one request. `called`: names in its history; `rate`: dollars for a token of cached input."""
        group = (project, agent)
        if not declared or (group not in self._sums and len(self._sums) >= _MOST_GROUPS):
            return
        sums = self._sums[group]
        for tool in declared:
            name = label(tool.name)
            if name in sums or len(sums) < _MOST_TOOLS:
                counts = sums.setdefault(name, [0, 0, 0, 0.0])
                counts[0] += 1
                counts[1] += tool.name in called
                counts[2] += tool.tokens
                counts[3] += tool.tokens * rate

    def take(self) -> Tree:
        """Return the sums as a tree and begin anew."""
        taken, self._sums = self._sums, defaultdict(dict)
        tree: Tree = {}
        for (project, agent), sums in taken.items():
            tree.setdefault(project, {})[agent] = {
                name: dict(zip(("requests", "called", "tokens", "dollars"), counts, strict=True))
                for name, counts in sums.items()
            }
        return tree


def unused(tree: Mapping[str, Any]) -> list[UnusedTools]:
    """Return what a tree of sums says was never called, the most tokens first."""
    found = [
        each
        for project, agents in tree.items()
        for agent, tools in agents.items()
        for each in _of_agent(project, agent, tools)
    ]
    return sorted(found, key=lambda each: -each.tokens)


def _of_agent(project: str, agent: str, tools: Mapping[str, Any]) -> Iterator[UnusedTools]:
    servers = defaultdict[str, list[str]](list)
    for name in tools:
        servers[server_of(agent, name)].append(name)
    for server, names in servers.items():
        idle = [name for name in names if not tools[name]["called"]]
        idle = [name for name in idle if tools[name]["requests"] >= LEAST_REQUESTS]
        if server and len(idle) == len(names):
            yield _made(project, agent, idle, server, tools)
        else:
            yield from (_made(project, agent, [name], "", tools) for name in idle)


def _made(project: str, agent: str, names: list[str], server: str, tools: Mapping[str, Any]) -> UnusedTools:
    place = _place(agent)
    setting = ""
    if place is not None:
        template = place["all"] if server else place["one"]
        setting = template.replace("{server}", server).replace("{tool}", names[0])
    return UnusedTools(
        project=project,
        agent=agent,
        names=tuple(sorted(names)),
        server=server,
        requests=max(int(tools[name]["requests"]) for name in names),
        tokens=int(sum(tools[name]["tokens"] for name in names)),
        dollars=sum(tools[name]["dollars"] for name in names),
        file=place["file"] if place is not None else "",
        setting=setting,
    )


def server_of(agent: str, tool: str) -> str:
    """Return the MCP server that a tool's name states, empty if it states none."""
    place = _place(agent)
    found = re2.match(place["server"], tool) if place is not None else None
    return str(found[1]) if found is not None else ""


@cache
def _place(agent: str) -> Mapping[str, Any] | None:
    """Return the rule for an agent."""
    rows = rules.load("unused_tools.yaml")["agents"]
    return next((row for row in rows if agent.lower().startswith(row["agent"].lower())), None)
