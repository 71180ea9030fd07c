"""Logs of Gemini CLI, OpenCode and Copilot CLI, with repeated and replaced messages; places of all logs."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penumbra.session_logs import agents, copilot_cli, gemini_cli, log_entries, opencode
from penumbra.session_logs.log_entries import (
    LogCounts,
    LoggedCall,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
    LoggedUsage,
    objects,
    response_keys,
)
from support.session_log_files import Line, moment, write_lines


def _said(conversation: LoggedConversation) -> list[str]:
    return [entry.text for entry in conversation.entries if not isinstance(entry, LoggedResult)]


def _gemini(id_: str, said: str, **more: Any) -> Line:
    return {
        "id": id_,
        "type": "gemini",
        "timestamp": moment(1),
        "content": said,
        "model": "gemini-2.5-pro",
        **more,
    }


GEMINI: list[Line] = [
    {"sessionId": "s", "projectHash": "p", "startTime": moment(0)},
    {"id": "u1", "type": "user", "content": [{"text": "look"}]},
    _gemini(
        "g1", "I look.", toolCalls=[{"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}}]
    ),
    _gemini(
        "g1",
        "I look.",
        tokens={"input": 100, "cached": 60, "output": 4},
        toolCalls=[
            {
                "id": "c1",
                "name": "run_shell_command",
                "args": {"command": "ls"},
                "status": "success",
                "result": [{"functionResponse": {"id": "c1", "response": {"output": "a.py"}}}],
            }
        ],
    ),
    {"id": "i1", "type": "info", "content": "updated"},
    _gemini("g2", "Done."),
]


def test_gemini_the_last_line_of_a_message_holds(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "session-1.jsonl", GEMINI)
    (conversation,) = gemini_cli.read(path, LogCounts())
    call = LoggedCall("c1", "run_shell_command", {"command": "ls"})
    at = conversation.entries[1].at  # type: ignore[union-attr]
    assert at > 0
    assert conversation.entries == (
        LoggedPrompt("look"),
        LoggedResponse("g1", "I look.", (call,), "gemini-2.5-pro", at, LoggedUsage(100, cached=60)),
        LoggedResult("c1", ("a.py",)),
        LoggedResponse("g2", "Done.", (), "gemini-2.5-pro", at),
    )


def test_gemini_messages_count_even_if_taken_back_or_replaced(tmp_path: Path) -> None:
    replaced = {"$set": {"messages": [{"id": "u3", "type": "user", "content": "summary"}]}}
    lines = [*GEMINI, {"$rewindTo": "g2"}, _gemini("g3", "Otherwise."), replaced, _gemini("g4", "On.")]
    read = list(gemini_cli.read(write_lines(tmp_path / "session-1.jsonl", lines), LogCounts()))
    keys = [list(response_keys(conversation.entries)) for conversation in read]
    assert keys == [["g1", "g2"], ["g1", "g3"], ["g4"]]


def test_gemini_an_older_log_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps({**GEMINI[0], "messages": GEMINI[1:]}, indent=1))
    (conversation,) = gemini_cli.read(path, LogCounts())
    assert _said(conversation) == ["look", "I look.", "Done."]
    owner = agents.of_log(path)
    assert owner is not None
    assert owner.name == "gemini-cli"


def _event(kind: str, **data: Any) -> Line:
    return {"type": kind, "id": "e", "timestamp": moment(1), "parentId": None, "data": data}


def test_copilot_events_and_those_of_its_agents(tmp_path: Path) -> None:
    request = {"toolCallId": "c1", "name": "bash", "arguments": {"command": "ls"}}
    said = _event("assistant.message", messageId="m1", content="I look.", toolRequests=[request])
    lines = [
        _event("session.start", sessionId="s", selectedModel="claude-sonnet-4.5"),
        _event("user.message", content="look", transformedContent="look <now>"),
        said,
        _event("user.message", content="the agent's task", parentToolCallId="c1"),
        _event("assistant.message", messageId="m2", content="I am the agent.", parentToolCallId="c1"),
        said,
        _event("tool.execution_complete", toolCallId="c1", success=True, result={"content": "a.py"}),
        _event("tool.execution_complete", toolCallId="c2", success=False, error={"message": "no such tool"}),
        _event("assistant.message", messageId="m3", content="Done."),
        _event("session.compaction_complete", summaryContent="summary"),
        _event("assistant.message", messageId="m4", content="On."),
    ]
    path = write_lines(tmp_path / "events.jsonl", lines)
    before, *others = copilot_cli.read(path, LogCounts())
    assert _said(before) == ["look <now>", "I look.", "Done."]
    assert next(before.models) == "claude-sonnet-4.5"
    assert [entry for entry in before.entries if isinstance(entry, LoggedResult)] == [
        LoggedResult("c1", ("a.py",)),
        LoggedResult("c2", ("no such tool",), is_error=True),
    ]
    assert sorted(map(_said, others)) == [["summary", "On."], ["the agent's task", "I am the agent."]]


def _database(path: Path, messages: list[tuple[str, Line, list[Line]]]) -> Path:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
        database.execute(
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT)"
        )
        for id_, message, parts in messages:
            database.execute("INSERT INTO message VALUES (?, 's', ?)", (id_, json.dumps(message)))
            for number, part in enumerate(parts):
                row = (f"{id_}-{number:03}", id_, json.dumps(part))
                database.execute("INSERT INTO part VALUES (?, ?, 's', ?)", row)
    database.close()
    return path


def test_the_journal_of_opencode_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE message (id, session_id, data)")
        database.execute("CREATE TABLE part (id, message_id, session_id, data)")
        database.execute("INSERT INTO message VALUES ('m1', 's', '{\"role\":\"user\"}')")
        database.execute("INSERT INTO part VALUES ('p1', 'm1', 's', '{\"type\":\"text\",\"text\":\"look\"}')")
        database.commit()
        before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert before["opencode.db-wal"]
        (conversation,) = opencode.read(path, LogCounts())
        assert _said(conversation) == ["look"]
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_opencode_steps_of_a_message_are_requests(tmp_path: Path) -> None:
    tool = {"type": "tool", "callID": "c1", "tool": "bash"}
    done = {"status": "completed", "input": {"command": "ls"}, "output": "a.py"}
    tokens = {"input": 10, "cache": {"read": 90, "write": 5}}
    model = {"role": "assistant", "modelID": "claude-sonnet-4-5", "time": {"completed": 1_700_000_000_000}}
    steps: list[Line] = [
        {"type": "step-start"},
        {"type": "text", "text": "I look."},
        {**tool, "state": done},
        {"type": "step-finish", "tokens": tokens},
        {"type": "step-start"},
        {"type": "text", "text": "Done."},
    ]
    path = _database(
        tmp_path / "opencode.db",
        [
            ("m1", {"role": "user"}, [{"type": "text", "text": "look"}]),
            ("m2", model, steps),
            ("m3", {**model, "summary": True}, [{"type": "text", "text": "summary"}]),
            ("m4", {**model, "tokens": tokens}, [{**tool, "state": {"status": "error", "error": "no"}}]),
        ],
    )
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO part VALUES ('x', 'm1', 's', '{broken')")
    database.close()
    content, counts = path.read_bytes(), LogCounts()
    before, behind = opencode.read(path, counts)
    assert _said(before) == ["look", "I look.", "Done.", "summary"]
    assert before.entries[1].usage == LoggedUsage(105, cached=90, written=5)  # type: ignore[union-attr]
    assert before.entries[1].at == 1_700_000_000  # type: ignore[union-attr]
    assert before.entries[2] == LoggedResult("c1", ("a.py",))
    assert behind.entries[0] == LoggedPrompt("summary")
    assert behind.entries[-1] == LoggedResult("c1", ("no",), is_error=True)
    assert counts.broken == 1
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["opencode.db"]
    owner = agents.of_log(path)
    assert owner is not None
    assert owner.name == "opencode"


@pytest.mark.parametrize(
    ("agent", "moved", "places"),
    [
        ("claude-code", {}, ["/h/.claude/projects", "/h/.config/claude/projects"]),
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/a, /b"}, ["/a/projects", "/b/projects"]),
        ("codex", {}, ["/h/.codex/sessions", "/h/.codex/archived_sessions"]),
        ("codex", {"CODEX_HOME": "/c"}, ["/c/sessions", "/c/archived_sessions"]),
        ("gemini-cli", {}, ["/h/.gemini/tmp"]),
        ("gemini-cli", {"GEMINI_CLI_HOME": "/g"}, ["/g/.gemini/tmp"]),
        ("opencode", {}, ["/h/.local/share/opencode"]),
        ("opencode", {"XDG_DATA_HOME": "/d"}, ["/d/opencode"]),
        ("copilot-cli", {}, ["/h/.copilot/session-state"]),
        ("copilot-cli", {"COPILOT_HOME": "/c"}, ["/c/session-state"]),
    ],
)
def test_logs_have_their_places(agent: str, moved: dict[str, str], places: list[str]) -> None:
    (found,) = [each for each in agents.AGENTS if each.name == agent]
    assert list(map(str, found.roots(Path("/h"), moved))) == places


def test_a_line_that_is_too_long_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entries, "LONGEST_LINE", 20)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n{"b":"' + b"x" * 3_000_000 + b'"}\n{"c":2}\n{"d":3}')
    counts = LogCounts()
    assert list(objects(path, counts)) == [{"a": 1}, {"c": 2}, {"d": 3}]
    assert (counts.lines, counts.too_long, counts.broken) == (3, 1, 0)


def test_a_log_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_entries, "MOST_BYTES", 17)
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"a":1}\n' * 10)
    counts = LogCounts()
    assert len(list(objects(path, counts))) == 2
    assert counts.cut == 1
