"""The file with the figures of a running proxy: locks, owners, and failures."""

import asyncio
import errno
import fcntl
import os
import threading
from pathlib import Path

import orjson
import pytest

from penumbra.metrics.running import SECONDS, StatsFile, running


def test_a_folder_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    stats = StatsFile(tmp_path / "file" / "1.json", dict)
    stats.start()
    stats.close()


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch, caplog) -> None:
    def unsupported(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    stats = StatsFile(tmp_path / "1.json", dict)
    stats.start()
    stats.close()
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith(f"files in {tmp_path} can't be locked")


def test_a_left_entry_that_cannot_be_removed_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "999999999.json").mkdir()
    assert list(running(tmp_path)) == []


def test_a_first_change_is_there_at_once_and_many_are_written_together(tmp_path: Path) -> None:
    """The figures of the first request can be read at once."""
    path, written = tmp_path / "1.json", []

    def content() -> dict[str, int]:
        written.append(len(written))
        return {"n": written[-1]}

    async def changes() -> None:
        stats = StatsFile(path, content)
        stats.start()
        stats.changed()
        while orjson.loads(path.read_bytes()) != {"n": 1}:
            await asyncio.sleep(0.001)
        for _ in range(50):
            stats.changed()
        assert len(written) == 2
        while orjson.loads(path.read_bytes()) != {"n": 2}:
            await asyncio.sleep(0.001)
        await asyncio.sleep(SECONDS * 2)
        assert len(written) == 3
        stats.close()

    asyncio.run(changes())
    assert not path.exists()


@pytest.fixture
def entry(tmp_path: Path):
    """Return a function that writes an entry of this process, locked or not."""
    locked: dict[Path, int] = {}

    def write(name: str = f"{os.getpid()}.json", pid: object = os.getpid(), lock: bool = True) -> Path:
        path = tmp_path / name
        path.write_bytes(orjson.dumps({"pid": pid}))
        path.chmod(0o600)
        if lock and path not in locked:
            locked[path] = os.open(path, os.O_RDONLY)
            fcntl.flock(locked[path], fcntl.LOCK_EX | fcntl.LOCK_NB)
        return path

    yield write
    for descriptor in locked.values():
        os.close(descriptor)


def test_an_unlocked_entry_is_not_read_and_stays_while_its_process_id_is_in_use(entry, tmp_path) -> None:
    path = entry(lock=False)
    assert list(running(tmp_path)) == []
    assert path.exists()
    gone = entry("999999999.json", 999999999, lock=False)
    assert list(running(tmp_path)) == []
    assert not gone.exists()


def test_the_number_within_is_the_files_and_no_system_process(entry, tmp_path) -> None:
    for name, pid in (("1.json", 1), ("0.json", 0), (f"0{os.getpid()}.json", os.getpid())):
        entry(name, pid)
    for pid in (1, True, None, "x", str(os.getpid())):
        entry(pid=pid)
        assert list(running(tmp_path)) == []
    entry()
    assert len(list(running(tmp_path))) == 1


def test_files_that_another_user_can_write_are_not_read(entry, tmp_path, monkeypatch) -> None:
    path = entry()
    path.chmod(0o620)
    assert list(running(tmp_path)) == []
    path.chmod(0o600)
    tmp_path.chmod(0o777)
    assert list(running(tmp_path)) == []
    tmp_path.chmod(0o700)
    assert len(list(running(tmp_path))) == 1
    moved = path.rename(tmp_path / "elsewhere")
    path.symlink_to(moved)
    assert list(running(tmp_path)) == []
    path.unlink()
    moved.rename(path)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert list(running(tmp_path)) == []


def test_the_event_loop_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stats, path = StatsFile(tmp_path / "1.json", dict), tmp_path / "1.json"
    stats.start()
    others, seen = threading.Event(), []
    monkeypatch.setattr(fcntl, "flock", lambda *_: seen.append(others.wait(5)))

    async def change() -> None:
        stats.changed()
        await asyncio.sleep(SECONDS / 10)
        others.set()

    asyncio.run(change())
    assert seen == [True]
    stats.close()
    assert not path.exists()
