"""This module reads the session logs of Gemini CLI.

The logs are `tmp/<project>/chats/session-*.jsonl` below `~/.gemini` (`GEMINI_CLI_HOME` replaces the home
folder). Logs of agents are in subfolders. Older logs are one JSON object (`.json`). The format is that of
`ConversationRecord` in packages/core/src/services/chatRecordingService.ts. A line describes the session, or
is a message:

    {"id", "timestamp", "type": "user" | "gemini" | …, "content", "model", "tokens": {"input", "cached", …},
     "toolCalls": [{"id", "name", "args", "result": [{"functionResponse": {"response": {"output"}}}]}]}

If several lines have the same id, the last one counts. `{"$rewindTo": id}` removes the message with this id
and all later messages. `{"$set": {"messages": […]}}` replaces all messages, for example after a compression
of the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from penumbra.session_logs import log_entries as log
from penumbra.session_logs.log_entries import mapping, objects, objects_in, seconds, text, texts_of, whole

NAME = "gemini-cli"
PATTERNS = ("**/chats/**/*.jsonl", "**/chats/**/*.json")


def roots(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    yield Path(environment.get("GEMINI_CLI_HOME") or home).expanduser() / ".gemini" / "tmp"


def is_first(value: Mapping[str, Any]) -> bool:
    return "projectHash" in value or {"sessionId", "startTime"} <= value.keys()


def read(path: Path, counts: log.LogCounts) -> Iterator[log.LoggedConversation]:
    """Yield the final conversation of a log, and each conversation that was rewound or replaced. Raises
    OSError."""
    reader = _Chat()
    for line in objects(path, counts):
        yield from reader.add(line)
    yield from reader.end()


@dataclass(slots=True)
class _Chat:
    messages: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def add(self, line: Mapping[str, Any]) -> Iterator[log.LoggedConversation]:
        if isinstance(line.get("$rewindTo"), str):
            ids = list(self.messages)
            at = ids.index(line["$rewindTo"]) if line["$rewindTo"] in self.messages else 0
            yield from self.end()
            for id_ in ids[at:]:
                del self.messages[id_]
        elif isinstance(line.get("id"), str):
            self.messages[line["id"]] = line
        else:
            patch = mapping(line.get("$set")) or line
            if isinstance(patch.get("messages"), list):
                yield from self.end()
                self.messages = {text(each.get("id")): each for each in objects_in(patch["messages"])}

    def end(self) -> Iterator[log.LoggedConversation]:
        """Yield the conversation with the current messages."""
        entries = tuple(entry for message in self.messages.values() for entry in _entries(message))
        if entries:
            yield log.LoggedConversation(NAME, entries)


def _entries(message: Mapping[str, Any]) -> Iterator[log.Entry]:
    words = "\n".join(texts_of(message.get("content")))
    if message.get("type") == "user":
        yield log.LoggedPrompt(words)
    elif message.get("type") == "gemini":
        made = list(objects_in(message.get("toolCalls")))
        calls = tuple(
            log.LoggedCall(text(call.get("id")), text(call.get("name")), dict(mapping(call.get("args"))))
            for call in made
        )
        tokens = mapping(message.get("tokens"))
        total = whole(tokens.get("input"))
        yield log.LoggedResponse(
            text(message.get("id")),
            words,
            calls,
            text(message.get("model")),
            seconds(message.get("timestamp")),
            log.LoggedUsage(total, whole(tokens.get("cached"))) if total else None,
        )
        for call in made:
            if call.get("result"):
                yield log.LoggedResult(
                    text(call.get("id")), tuple(_texts(call["result"])), call.get("status") == "error"
                )


def _texts(result: Any) -> Iterator[str]:
    yield from texts_of(result)
    for part in objects_in(result):
        response = mapping(mapping(part.get("functionResponse")).get("response"))
        output = response.get("output", response.get("error"))
        if isinstance(output, str):
            yield output
        elif response:
            yield orjson.dumps(response).decode()
