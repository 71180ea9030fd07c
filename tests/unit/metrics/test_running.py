"""The file by which a shell asks a running proxy, where it can't be written or removed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson

from penumbra.metrics.running import SECONDS, StatsFile, running


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stats = StatsFile(tmp_path / "file" / "1.json", dict)
    stats.start()
    stats.close()


def test_what_is_left_of_a_process_and_stays_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "999999999.json").mkdir()
    assert list(running(tmp_path)) == []


def test_a_first_change_is_there_at_once_and_many_are_written_together(tmp_path: Path) -> None:
    """Whoever asks just behind the first request is told of it."""
    path, written = tmp_path / "1.json", []

    def content() -> dict[str, int]:
        written.append(len(written))
        return {"n": written[-1]}

    async def changes() -> None:
        stats = StatsFile(path, content)
        stats.start()
        stats.changed()
        await asyncio.sleep(SECONDS / 10)
        assert orjson.loads(path.read_bytes()) == {"n": 1}
        for _ in range(50):
            stats.changed()
        assert len(written) == 2
        await asyncio.sleep(SECONDS * 2)
        assert len(written) == 3
        stats.close()

    asyncio.run(changes())
    assert not path.exists()
