"""The file by which a shell asks a running proxy, where it can't be written or removed."""

from __future__ import annotations

from pathlib import Path

from penumbra.metrics.running import StatsFile, running


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stats = StatsFile(tmp_path / "file" / "1.json", dict)
    stats.start()
    stats.close()


def test_what_is_left_of_a_process_and_stays_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "999999999.json").mkdir()
    assert list(running(tmp_path)) == []
