"""Logs of Codex: items become requests and responses."""

from pathlib import Path

import zstandard

from penumbra.session_logs import codex
from penumbra.session_logs.log_entries import (
    Entry,
    LogCounts,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
    LoggedUsage,
    response_keys,
)
from support.session_log_files import CodexLog, write_lines


def _read(tmp_path: Path, log: CodexLog) -> list[LoggedConversation]:
    return list(codex.read(write_lines(tmp_path / "rollout-1.jsonl", log.lines), LogCounts()))


def _responses(entries: tuple[Entry, ...]) -> list[LoggedResponse]:
    return [entry for entry in entries if isinstance(entry, LoggedResponse)]


def _session() -> CodexLog:
    log = CodexLog()
    log.prompt("why?")
    log.item("reasoning", summary=[], encrypted_content="x")
    log.said("I look.")
    log.called("c1", "ls")
    log.counted(100, cached=40)
    log.gave("c1", "a.py")
    log.said("Done.")
    log.counted(200)
    log.counted(200)
    return log


def test_a_response_has_all_messages_of_the_model_up_to_the_next_turn(tmp_path: Path) -> None:
    (conversation,) = _read(tmp_path, _session())
    first, second = _responses(conversation.entries)
    assert first.text == "I look."
    assert [(call.id, call.arguments) for call in first.calls] == [("c1", {"command": ["bash", "-lc", "ls"]})]
    assert (first.usage, first.model) == (LoggedUsage(100, cached=40), "gpt-5-codex")
    assert second.usage == LoggedUsage(200)
    assert second.at > first.at > 0


def test_custom_calls_and_outputs_in_several_texts(tmp_path: Path) -> None:
    log = CodexLog()
    log.item("custom_tool_call", call_id="c1", name="exec", input="await tools.exec_command()")
    texts = [{"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": "data:"}]
    log.item("custom_tool_call_output", call_id="c1", output=[*texts, {"type": "input_text", "text": "two"}])
    log.said("Done.")
    (conversation,) = _read(tmp_path, log)
    assert conversation.entries[0].calls[0].arguments == "await tools.exec_command()"  # type: ignore[union-attr]
    assert conversation.entries[1] == LoggedResult("c1", ("one", "two"))


def test_a_compaction_begins_another_conversation(tmp_path: Path) -> None:
    log = _session()
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "summary"}]}
    log.line("compacted", {"message": "", "replacement_history": [kept]})
    log.prompt("go on")
    log.said("Yes.")
    before, behind = _read(tmp_path, log)
    assert len(_responses(before.entries)) == 2
    assert behind.entries[:2] == (LoggedPrompt("summary"), LoggedPrompt("go on"))


def test_a_fork_has_the_keys_of_the_copied_messages(tmp_path: Path) -> None:
    fork = _session()
    fork.lines = [{**line, "timestamp": "2026-11-21T00:00:00Z"} for line in fork.lines]
    fork.prompt("and now?")
    fork.said("More.")
    (old,), (new,) = _read(tmp_path, _session()), _read(tmp_path, fork)
    old_keys, new_keys = list(response_keys(old.entries)), list(response_keys(new.entries))
    assert new_keys[:2] == old_keys
    assert len(set(new_keys)) == 3


def test_a_compressed_log_is_read_and_a_broken_one_up_to_where_it_is_whole(tmp_path: Path) -> None:
    plain = write_lines(tmp_path / "rollout-1.jsonl", _session().lines).read_bytes()
    packed = zstandard.ZstdCompressor().compress(plain)
    path = tmp_path / "rollout-1.jsonl.zst"
    path.write_bytes(packed)
    counts = LogCounts()
    (conversation,) = codex.read(path, counts)
    assert (len(_responses(conversation.entries)), counts.cut) == (2, 0)
    path.write_bytes(packed[:-20] + b"\0" * 20)
    list(codex.read(path, counts))
    assert counts.cut == 1


def test_items_without_an_envelope_are_read(tmp_path: Path) -> None:
    log = _session()
    log.lines = [{"id": "s", "timestamp": "t", "instructions": None}] + [
        line["payload"] for line in log.lines if line["type"] == "response_item"
    ]
    assert codex.is_first(log.lines[0])
    (conversation,) = _read(tmp_path, log)
    assert len(_responses(conversation.entries)) == 2
