"""This module counts the tools that clients declare, and their calls, by project and agent. Penumbra does not
change declarations. The counts show users which MCP servers to remove from a client's configuration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import Struct

from penumbra import rules
from penumbra.linear import LinearText
from penumbra.metrics.amounts import label

LEAST_REQUESTS = 10
"""A tool counts as never called only after this number of declarations by one project and agent."""
_MOST_TOOLS = 400
"""The greatest number of tools that are counted for one project and agent."""
_MOST_GROUPS = 100
"""The greatest number of (project, agent) pairs that are counted between two writes of the history."""
Tree = dict[str, Any]


class DeclaredTool(Struct, frozen=True):
    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class UnusedTools:
    """An `UnusedTools` names the tools of one MCP server that no counted conversation called. The agent's own
    tools are left out, because the agent needs them and their removal saves little."""

    project: str
    agent: str
    names: tuple[str, ...]
    server: str
    requests: int
    """Largest number of requests in which one of the tools was declared."""
    tokens: int
    """Tokens of the declarations in all requests."""
    dollars: float
    """Dollars for these tokens at the price of cached input; 0 if no price is known."""
    file: str
    """The client's configuration file."""
    setting: str
    """The setting in `file` that removes the tools."""


class ToolUses:
    """A `ToolUses` adds up requests, calls, tokens and dollars by project, agent and tool."""

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
        """Count one request. `called` names the tools that the request's history calls. `rate` is the price
        of a cached token."""
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
        taken, self._sums = self._sums, defaultdict(dict)
        tree: Tree = {}
        for (project, agent), sums in taken.items():
            tree.setdefault(project, {})[agent] = {
                name: dict(zip(("requests", "called", "tokens", "dollars"), counts, strict=True))
                for name, counts in sums.items()
            }
        return tree


def unused(tree: Mapping[str, Any]) -> list[UnusedTools]:
    """Return the MCP servers' tools that have no calls in a tree of sums. Tools with the most tokens come
    first."""
    found = [
        each
        for project, agents in tree.items()
        for agent, tools in agents.items()
        if (rule := _rule(agent)) is not None
        for each in _of_agent(project, agent, tools, rule)
    ]
    return sorted(found, key=lambda each: -each.tokens)


def _of_agent(project: str, agent: str, tools: Tree, rule: Mapping[str, Any]) -> Iterator[UnusedTools]:
    servers = defaultdict[str, list[str]](list)
    for name in tools:
        if server := server_of(agent, name):
            servers[server].append(name)
    for server, names in servers.items():
        idle = [
            name for name in names if not tools[name]["called"] and tools[name]["requests"] >= LEAST_REQUESTS
        ]
        is_whole = idle == names
        for group in [idle] if is_whole else [[name] for name in idle]:
            template = rule["all" if is_whole else "one"]
            yield UnusedTools(
                project=project,
                agent=agent,
                names=tuple(sorted(group)),
                server=server,
                requests=max(int(tools[name]["requests"]) for name in group),
                tokens=int(sum(tools[name]["tokens"] for name in group)),
                dollars=sum(tools[name]["dollars"] for name in group),
                file=rule["file"],
                setting=template.replace("{server}", server).replace("{tool}", group[0]),
            )


def server_of(agent: str, tool: str) -> str:
    """Return the MCP server in a tool's name; empty if there is none."""
    rule = _rule(agent)
    found = LinearText(rule["server"]).match(tool) if rule is not None else None
    return str(found[1]) if found is not None else ""


@cache
def _rule(agent: str) -> Mapping[str, Any] | None:
    rows = rules.load("unused_tools.yaml")["agents"]
    return next((row for row in rows if agent.lower().startswith(row["agent"].lower())), None)
