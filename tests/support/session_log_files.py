"""Session logs in the formats of agents."""

import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]
BEGINS = "2026-11-20T08:00:"


def moment(second: int) -> str:
    """Return a time in the logs."""
    return f"{BEGINS}{second:02}.000Z"


def write_lines(path: Path, lines: list[Line]) -> Path:
    """Write lines to a log and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


class ClaudeCodeLog:
    """A `ClaudeCodeLog` has the lines of one file. By default, each line's parent is the line before it."""

    def __init__(self, session: str = "s") -> None:
        self.session = session
        self.lines: list[Line] = []
        self.last: str | None = None

    def line(self, kind: str, message: Line, behind: str | None = "", **more: Any) -> str:
        uuid = f"{self.session}-{len(self.lines)}"
        parent = self.last if behind == "" else behind
        at = moment(len(self.lines) % 60)
        self.lines.append(
            {"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": at, "message": message, **more}
        )
        self.last = uuid
        return uuid

    def prompt(self, text: str, behind: str | None = "") -> str:
        return self.line("user", {"role": "user", "content": text}, behind)

    def said(self, id_: str, *blocks: Line, usage: Line | None = None, model: str = "claude-opus-4-5") -> str:
        """Add a message of the model with one line for each block."""
        for block in blocks:
            message = {"id": id_, "role": "assistant", "model": model, "content": [block]}
            self.line("assistant", {**message, "usage": usage or {}})
        assert self.last is not None
        return self.last

    def called(self, id_: str, call_id: str, command: str, **more: Any) -> str:
        use = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        return self.said(id_, use, **more)

    def gave(self, call_id: str, text: str, behind: str | None = "") -> str:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        return self.line("user", {"role": "user", "content": [block]}, behind)


def text_block(text: str) -> Line:
    return {"type": "text", "text": text}


class CodexLog:
    """A `CodexLog` has the lines of one rollout."""

    def __init__(self, model: str = "gpt-5-codex") -> None:
        self.lines: list[Line] = []
        self.line("session_meta", {"id": "s", "cwd": "/work"})
        self.line("turn_context", {"model": model})

    def line(self, kind: str, payload: Line) -> None:
        self.lines.append({"timestamp": moment(len(self.lines) % 60), "type": kind, "payload": payload})

    def item(self, kind: str, **members: Any) -> None:
        self.line("response_item", {"type": kind, **members})

    def prompt(self, text: str) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])

    def said(self, text: str) -> None:
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def called(self, call_id: str, command: str) -> None:
        arguments = json.dumps({"command": ["bash", "-lc", command]})
        self.item("function_call", name="shell", call_id=call_id, arguments=arguments)

    def gave(self, call_id: str, text: str) -> None:
        self.item("function_call_output", call_id=call_id, output=text)

    def counted(self, tokens: int, cached: int = 0) -> None:
        usage = {"input_tokens": tokens, "cached_input_tokens": cached, "output_tokens": 1}
        self.line("event_msg", {"type": "token_count", "info": {"last_token_usage": usage}})
