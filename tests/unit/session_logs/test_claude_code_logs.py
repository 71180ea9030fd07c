"""Logs of Claude Code: a tree of lines becomes conversations."""

from pathlib import Path

from penumbra.session_logs import claude_code
from penumbra.session_logs.log_entries import (
    LogCounts,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
    LoggedUsage,
    response_keys,
)
from support.session_log_files import ClaudeCodeLog, text_block, write_lines


def _read(tmp_path: Path, log: ClaudeCodeLog) -> list[LoggedConversation]:
    return list(claude_code.read(write_lines(tmp_path / "s.jsonl", log.lines), LogCounts()))


def test_lines_of_one_message_are_one_response_and_its_usage_counts_once(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.prompt("why?")
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7}
    log.said("m1", {"type": "thinking", "thinking": "…", "signature": "x"}, usage=usage)
    log.said("m1", text_block("I look."), usage=usage)
    log.called("m1", "c1", "ls", usage=usage)
    log.gave("c1", "a.py")
    log.said("m2", text_block("Done."))
    (conversation,) = _read(tmp_path, log)
    first, second = (entry for entry in conversation.entries if isinstance(entry, LoggedResponse))
    assert (first.text, [call.id for call in first.calls]) == ("I look.", ["c1"])
    assert first.usage == LoggedUsage(110, cached=100, written=7)
    assert second.usage is None
    assert [type(entry) for entry in conversation.entries] == [
        LoggedPrompt,
        LoggedResponse,
        LoggedResult,
        LoggedResponse,
    ]


def test_results_of_parallel_calls_hang_on_the_lines_of_their_calls(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.prompt("both")
    first = log.called("m1", "c1", "ls a")
    second = log.called("m1", "c2", "ls b")
    log.gave("c1", "A", behind=first)
    log.gave("c2", "B", behind=second)
    log.said("m2", text_block("Done."))
    (conversation,) = _read(tmp_path, log)
    results = [entry for entry in conversation.entries if isinstance(entry, LoggedResult)]
    assert [(result.call_id, result.texts) for result in results] == [("c1", ("A",)), ("c2", ("B",))]


def test_a_rewound_session_and_a_compacted_one_are_several_conversations(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    asked = log.prompt("one")
    log.said("m1", text_block("first"))
    log.prompt("two")
    log.said("m2", text_block("second"))
    log.prompt("two, but otherwise", behind=asked)
    log.said("m3", text_block("third"))
    log.prompt("This session is being continued.", behind=None)
    log.said("m4", text_block("fourth"))
    read = _read(tmp_path, log)
    assert [list(response_keys(each.entries)) for each in read] == [["m1", "m2"], ["m3"], ["m4"]]


def test_lines_in_a_circle_end(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.prompt("one", behind="s-1")
    log.said("m1", text_block("first"))
    assert len(_read(tmp_path, log)) == 1


def test_broken_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    log = ClaudeCodeLog()
    log.prompt("one")
    log.said("m1", text_block("first"))
    log.lines.append({"type": "assistant", "uuid": "x", "parentUuid": [], "message": "no message"})
    path = write_lines(tmp_path / "s.jsonl", log.lines)
    path.write_bytes(b'{"type": "user", "mess\n[1]\n\xff\n\n' + path.read_bytes())
    counts = LogCounts()
    assert len(list(claude_code.read(path, counts))) == 2
    assert (counts.broken, counts.lines) == (3, 6)
