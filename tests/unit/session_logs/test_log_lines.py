"""Lines of logs: bounded, and whatever is no object is counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from penumbra.session_logs import log_entries
from penumbra.session_logs.log_entries import LogCounts, objects


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
