"""This module reads the session logs of Claude Code.

A session is in `projects/<folder>/<session>.jsonl`, and its agents are in `…/subagents/**/agent-*.jsonl`.
Older releases wrote the lines of these agents into the file of the session. The place is documented
(code.claude.com/docs). The format is not documented and was found by reading logs. Each line has this form:

    {"type": "user" | "assistant" | …, "uuid", "parentUuid", "timestamp", "message": {"role", "content", …}}

`parentUuid` makes the lines of a file a tree. A message of the model has a line for each content block. These
lines have the same `message.id`, and the last line has the final `usage`. The parent of a result is the line
of its call. A session that was rewound has branches. After a compaction, a new root begins with the summary.
A session that is resumed or forked into another file repeats lines with their `uuid` and `message.id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penumbra.session_logs import log_entries as log
from penumbra.session_logs.log_entries import mapping, objects, objects_in, seconds, text, texts_of, whole

NAME = "claude-code"
PATTERNS = ("**/*.jsonl",)
_SYNTHETIC = "<synthetic>"
"""The `model` of lines that Claude Code itself wrote in place of a model."""


def roots(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    if named := environment.get("CLAUDE_CONFIG_DIR"):
        yield from (Path(folder.strip()).expanduser() / "projects" for folder in named.split(","))
        return
    yield home / ".claude" / "projects"
    yield Path(environment.get("XDG_CONFIG_HOME") or home / ".config") / "claude" / "projects"


def is_first(value: Mapping[str, Any]) -> bool:
    return "parentUuid" in value or value.get("type") in (
        "file-history-snapshot",
        "summary",
        "queue-operation",
    )


def read(path: Path, counts: log.LogCounts) -> Iterator[log.LoggedConversation]:
    tree = _Tree()
    for line in objects(path, counts):
        tree.add(line)
    yield from tree.conversations()


@dataclass(slots=True)
class _Node:
    """A `_Node` is a message of the model with all its lines, or one other line."""

    parent: str
    """Uuid of the parent line."""
    prompt: str = ""
    message: Mapping[str, Any] | None = None
    blocks: list[Mapping[str, Any]] = field(default_factory=list)
    at: float = 0.0
    usage: log.LoggedUsage | None = None


@dataclass(slots=True)
class _Tree:
    nodes: dict[str, _Node] = field(default_factory=dict)
    """Nodes by the uuid of their lines; all lines of a message share a node."""
    messages: dict[str, _Node] = field(default_factory=dict)
    results: dict[str, log.LoggedResult] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> None:
        uuid, message = text(line.get("uuid")), mapping(line.get("message"))
        if not uuid or uuid in self.nodes:
            return
        parent = text(line.get("parentUuid"))
        if line.get("type") == "assistant" and message.get("model") != _SYNTHETIC:
            self._add_response(uuid, parent, line, message)
            return
        node = self.nodes[uuid] = _Node(parent)
        if line.get("type") != "user":
            return
        content = message.get("content")
        for block in objects_in(content):
            if block.get("type") == "tool_result":
                call_id = text(block.get("tool_use_id"))
                is_error = block.get("is_error") is True
                result = log.LoggedResult(call_id, texts_of(block.get("content")), is_error)
                self.results.setdefault(call_id, result)
        node.prompt = "\n".join(texts_of(content))

    def _add_response(
        self, uuid: str, parent: str, line: Mapping[str, Any], message: Mapping[str, Any]
    ) -> None:
        id_ = text(message.get("id")) or uuid
        node = self.messages.get(id_)
        if node is None:
            node = self.messages[id_] = _Node(
                parent, message={"id": id_, "model": text(message.get("model"))}
            )
        self.nodes[uuid] = node
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else objects_in(content)
        node.blocks += [block for block in blocks if block.get("type") in ("text", "tool_use")]
        # A message has several lines, and its last line has the final count.
        node.at = seconds(line.get("timestamp")) or node.at
        node.usage = _usage(mapping(message.get("usage"))) or node.usage

    def conversations(self) -> Iterator[log.LoggedConversation]:
        """Yield one conversation for each branch, up to its last message of the model."""
        continued: set[int] = set()
        """The `id()` of each message of the model that is not the last in its branch."""
        for node in self.messages.values():
            before = self._before(node)
            if before is not None:
                continued.add(id(before))
        for node in self.messages.values():
            if id(node) not in continued:
                yield log.LoggedConversation(NAME, tuple(self._entries(node)))

    def _before(self, node: _Node) -> _Node | None:
        """Return the last message of the model before a node; None if there is none."""
        return next((each for each in self._upwards(node) if each.message is not None), None)

    def _upwards(self, node: _Node) -> Iterator[_Node]:
        """Yield the nodes before a node, the last node first. In a cycle of parents, each node is yielded
        once."""
        seen = {id(node)}
        while (before := self.nodes.get(node.parent)) is not None and id(before) not in seen:
            seen.add(id(before))
            yield before
            node = before

    def _entries(self, last: _Node) -> Iterator[log.Entry]:
        for node in reversed([last, *self._upwards(last)]):
            if node.message is None:
                if node.prompt:
                    yield log.LoggedPrompt(node.prompt)
                continue
            response = _response(node, node.message)
            yield response
            yield from (self.results[call.id] for call in response.calls if call.id in self.results)


def _response(node: _Node, message: Mapping[str, Any]) -> log.LoggedResponse:
    calls = {
        text(block.get("id")): log.LoggedCall(
            text(block.get("id")), text(block.get("name")), dict(mapping(block.get("input")))
        )
        for block in node.blocks
        if block.get("type") == "tool_use"
    }
    words = "\n".join(text(block.get("text")) for block in node.blocks if block.get("type") == "text")
    return log.LoggedResponse(
        message["id"], words, tuple(calls.values()), message["model"], node.at, node.usage
    )


def _usage(usage: Mapping[str, Any]) -> log.LoggedUsage | None:
    cached, written = (
        whole(usage.get(name)) for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )
    total = whole(usage.get("input_tokens")) + cached + written
    return log.LoggedUsage(total, cached, written) if total else None
