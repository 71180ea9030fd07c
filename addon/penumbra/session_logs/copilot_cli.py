"""This module reads the session logs of GitHub's Copilot CLI.

A log is `session-state/<session>/events.jsonl` below `COPILOT_HOME` (`~/.copilot`), and
`session-state/<session>.jsonl` in older releases. The events are those of the Copilot SDK
(github.com/github/copilot-sdk):

    {"type", "id", "timestamp", "parentId", "data"}

`user.message` has `content`, and `transformedContent`, which the model gets. `assistant.message` has
`messageId`, `content` and `toolRequests` (`toolCallId`, `name`, `arguments`). `tool.execution_complete` has
`toolCallId`, `success` and `result.content`, which the model gets; in older releases, `result` is that text.
`parentToolCallId` marks events of an agent that was called as a tool. `session.compaction_complete` replaces
the history by `summaryContent`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penumbra.session_logs import log_entries as log
from penumbra.session_logs.log_entries import mapping, objects, objects_in, seconds, text, texts_of

NAME = "copilot-cli"
PATTERNS = ("**/*.jsonl",)


def roots(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    yield Path(environment.get("COPILOT_HOME") or home / ".copilot").expanduser() / "session-state"


def is_first(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "session.start" and isinstance(value.get("data"), dict)


def read(path: Path, counts: log.LogCounts) -> Iterator[log.LoggedConversation]:
    """Yield a conversation for each agent. Each compaction begins another conversation. Raises OSError."""
    reader = _Events()
    for line in objects(path, counts):
        yield from reader.add(line)
    for agent in reader.agents.values():
        yield from agent.end()


@dataclass(slots=True)
class _Events:
    agents: dict[str, log.Builder] = field(default_factory=dict)
    """The conversation of each agent, by the id of the call that started the agent. The id of the session's
    own agent is empty."""
    seen: set[str] = field(default_factory=set)
    """Ids of the messages and of the results that were already read."""
    model: str = ""

    def add(self, line: Mapping[str, Any]) -> Iterator[log.LoggedConversation]:
        kind, data = line.get("type"), mapping(line.get("data"))
        agent = self.agents.setdefault(text(data.get("parentToolCallId")), log.Builder(NAME))
        self.model = text(data.get("newModel")) or text(data.get("selectedModel")) or self.model
        if kind == "user.message":
            agent.entries.append(
                log.LoggedPrompt(text(data.get("transformedContent")) or text(data.get("content")))
            )
        elif kind == "assistant.message" and self._is_new(text(data.get("messageId"))):
            agent.entries.append(self._response(data, seconds(line.get("timestamp"))))
        elif kind == "tool.execution_complete" and self._is_new(text(data.get("toolCallId"))):
            agent.entries.append(_result(data))
        elif kind == "session.compaction_complete" and text(data.get("summaryContent")):
            yield from agent.end(log.LoggedPrompt(text(data.get("summaryContent"))))

    def _is_new(self, id_: str) -> bool:
        is_new = id_ not in self.seen
        self.seen.add(id_)
        return is_new or not id_

    def _response(self, data: Mapping[str, Any], at: float) -> log.LoggedResponse:
        calls = tuple(
            log.LoggedCall(text(call.get("toolCallId")), text(call.get("name")), call.get("arguments") or {})
            for call in objects_in(data.get("toolRequests"))
        )
        model = text(data.get("model")) or self.model
        return log.LoggedResponse(text(data.get("messageId")), text(data.get("content")), calls, model, at)


def _result(data: Mapping[str, Any]) -> log.LoggedResult:
    result, error = data.get("result"), mapping(data.get("error"))
    texts = texts_of(mapping(result).get("content") if isinstance(result, dict) else result)
    if not texts and text(error.get("message")):
        texts = (text(error.get("message")),)
    return log.LoggedResult(text(data.get("toolCallId")), texts, data.get("success") is False)
