"""This module reads the session logs of Codex.

The logs are `sessions/Y/M/D/rollout-*.jsonl` and `archived_sessions/rollout-*.jsonl` below `CODEX_HOME`
(`~/.codex`); older ones may be compressed (`.jsonl.zst`). The format is that of `RolloutItem` in
codex-rs/protocol. Each line has this form:

    {"timestamp", "type": "session_meta" | "turn_context" | "response_item" | …, "payload"}

Payloads of `response_item` are items of the Responses API. `turn_context` names the model. `event_msg` of
type `token_count` follows each response and has its usage. After `compacted`, its `replacement_history` or
its `message` is the whole history. Releases before September 2025 wrote only the payloads as lines. A forked
session begins with a copy of the other session's items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from penumbra.session_logs import log_entries as log
from penumbra.session_logs.log_entries import mapping, objects, objects_in, seconds, text, texts_of, whole

NAME = "codex"
PATTERNS = ("**/rollout-*.jsonl", "**/rollout-*.jsonl.zst")
_CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
}
"""Maps the type of a call item to the name of its tool, for items without `name`, and to the member with the
arguments."""
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
_ENVELOPES = ("session_meta", "turn_context", "response_item", "compacted", "event_msg")


def roots(home: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    folder = Path(environment.get("CODEX_HOME") or home / ".codex").expanduser()
    yield from (folder / "sessions", folder / "archived_sessions")


def is_first(value: Mapping[str, Any]) -> bool:
    has_envelope = value.get("type") in _ENVELOPES and isinstance(value.get("payload"), dict)
    return has_envelope or {"id", "timestamp", "instructions"} <= value.keys()


def read(path: Path, counts: log.LogCounts) -> Iterator[log.LoggedConversation]:
    """Yield the conversations of a log. Each compaction begins another conversation. Raises OSError."""
    reader = _Rollout(NAME)
    for line in objects(path, counts):
        yield from reader.add(line)
    reader.close()
    yield from reader.end()


@dataclass(slots=True)
class _Rollout(log.Builder):
    response: log.LoggedResponse | None = None
    """The response that is being read. A result, a prompt, a compaction or usage ends the response."""
    model: str = ""

    def add(self, line: Mapping[str, Any]) -> Iterator[log.LoggedConversation]:
        kind, payload = line.get("type"), mapping(line.get("payload"))
        if kind == "turn_context":
            self.model = text(payload.get("model")) or self.model
        elif kind == "event_msg":
            if payload.get("type") == "token_count":
                self._count(mapping(payload.get("info")))
        elif kind == "compacted":
            self.close()
            yield from self.end(*_replaced(payload))
        elif kind != "session_meta":
            self._item(payload or line, seconds(line.get("timestamp")))

    def _item(self, item: Mapping[str, Any], at: float) -> None:
        kind, role = text(item.get("type")), item.get("role")
        if kind in _CALLS:
            self._respond(at, call=_call(kind, item))
        elif kind == "message" and role == "assistant":
            self._respond(at, words="\n".join(texts_of(item.get("content"))))
        elif kind == "reasoning":
            self._respond(at)
        elif kind in _RESULTS:
            self.close()
            self.entries.append(log.LoggedResult(text(item.get("call_id")), _output(item.get("output"))))
        elif kind == "message":
            self.close()
            self.entries.append(log.LoggedPrompt("\n".join(texts_of(item.get("content")))))

    def _respond(self, at: float, words: str = "", call: log.LoggedCall | None = None) -> None:
        response = self.response or log.LoggedResponse("")
        self.response = replace(
            response,
            text="\n".join(filter(None, (response.text, words))),
            calls=(*response.calls, *((call,) if call is not None else ())),
            model=self.model,
            at=at or response.at,
        )

    def close(self) -> None:
        """Add the response that is being read to the entries."""
        if self.response is not None:
            self.entries.append(self.response)
            self.response = None

    def _count(self, info: Mapping[str, Any]) -> None:
        """Add usage to the last response. The response may already be in `entries`, and results of its calls
        may follow it there."""
        last = mapping(info.get("last_token_usage"))
        if not whole(last.get("input_tokens")):
            return
        usage = log.LoggedUsage(whole(last.get("input_tokens")), whole(last.get("cached_input_tokens")))
        if self.response is not None:
            self.response = replace(self.response, usage=usage)
            # Text of the model after the usage of a response belongs to the next response.
            self.close()
            return
        for position in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[position]
            if isinstance(entry, log.LoggedResponse):
                if entry.usage is None:
                    self.entries[position] = replace(entry, usage=usage)
                return


def _call(kind: str, item: Mapping[str, Any]) -> log.LoggedCall:
    name, member = _CALLS[kind]
    arguments = item.get(member)
    if kind == "function_call" and isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            arguments = {}
    return log.LoggedCall(text(item.get("call_id")), text(item.get("name")) or name, arguments)


def _output(output: Any) -> tuple[str, ...]:
    """Return the texts of an output. Releases of 2025 wrapped the text in an object."""
    return texts_of(output.get("content") if isinstance(output, dict) else output)


def _replaced(payload: Mapping[str, Any]) -> Iterator[log.Entry]:
    history = list(objects_in(payload.get("replacement_history")))
    for item in history:
        if item.get("type") == "message":
            yield log.LoggedPrompt("\n".join(texts_of(item.get("content"))))
    if not history and text(payload.get("message")):
        yield log.LoggedPrompt(text(payload.get("message")))
