"""This module writes the figures of each running proxy to a small file, which `penumbra stats` reads. Files
contain counts, names and the link of the page, but no content of requests. A process locks its file until the
process ends. The next reader removes a killed process's file. Files that others could write are not read."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

try:
    import fcntl
except ImportError:
    # Windows lacks these locks, so a reader can't tell whether a file's process still runs.
    fcntl = None  # type: ignore[assignment]

SECONDS = 0.3
"""The seconds between a change of the figures and the write, which further changes in this time share."""
_MOST_BYTES = 4_000_000
_NO_LOCKS = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS, errno.EINVAL})
"""Errors of file systems that have no locks."""
_NO_FILE = "Penumbra keeps no file for `penumbra stats`, `pause` and `wrap`"
_log = logging.getLogger(__name__)


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    state = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "penumbra" / "running"


class StatsFile:
    """A `StatsFile` writes the file of one process in a thread. `content`, which runs in the event loop,
    returns the content."""

    def __init__(self, path: Path, content: Callable[[], dict[str, Any]]) -> None:
        self._path, self._folder, self._draft = path, path.parent, str(path.with_suffix(".new"))
        self._content = content
        self._due: asyncio.TimerHandle | None = None
        self._delay = 0.0
        """The seconds until a change is written: `SECONDS` after the first change."""
        self._failed = self._closed = False
        self._lock: int | None = None
        """Descriptor of the current, locked file; None if no file is locked."""
        self._writing = threading.Lock()

    def start(self) -> None:
        if fcntl is None:
            self._failed = True
            _log.warning(f"{_NO_FILE}: this system has no file locks")
            return
        self._write(orjson.dumps(self._content()))

    def changed(self) -> None:
        if self._due is None and not self._failed:
            self._due = asyncio.get_running_loop().call_later(self._delay, self._changed)

    def close(self) -> None:
        if self._due is not None:
            self._due.cancel()
        with self._writing:
            self._closed = True
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._hold(None)

    def _changed(self) -> None:
        self._due, self._delay = None, SECONDS
        content = orjson.dumps(self._content())
        asyncio.get_running_loop().run_in_executor(None, self._write, content)

    def _write(self, content: bytes) -> None:
        with self._writing:
            if not self._closed:
                self._replace(content)

    def _replace(self, content: bytes) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with os.fdopen(descriptor, "wb", closefd=False) as file:
                    file.write(content)
                os.replace(self._draft, self._path)
            except BaseException:
                os.close(descriptor)
                raise
            self._hold(descriptor)
        except OSError as error:
            # The proxy works without the file.
            self._failed = True
            if error.errno in _NO_LOCKS:
                _log.warning("%s: files in %s can't be locked", _NO_FILE, self._path.parent)
            else:
                _log.debug("%s: %s", _NO_FILE, error.strerror)

    def _hold(self, descriptor: int | None) -> None:
        """Release the lock of the previous file, and remember the descriptor of a new, locked file."""
        if self._lock is not None:
            os.close(self._lock)
        self._lock = descriptor


def own_file() -> Path:
    return folder() / f"{os.getpid()}.json"


def running(where: Path) -> Iterator[dict[str, Any]]:
    """Yield the contents of the running proxies' files, each with its `pid`, in the order of process ids."""
    if fcntl is None or not is_ours(where, stat.S_ISDIR):
        return
    for path in sorted(where.glob("*.json"), key=lambda each: (len(each.stem), each.stem)):
        if not path.stem.isdecimal() or path.stem != str(pid := int(path.stem)) or pid <= 1:
            continue
        record = _record(path)
        if isinstance(record, dict) and type(record.get("pid")) is int and record["pid"] == pid:
            yield record
        elif record is None and not _lives(pid):
            with contextlib.suppress(OSError):
                path.unlink()


def is_ours(path: Path, kind: Callable[[int], bool] = stat.S_ISREG) -> bool:
    """Return whether a path is a file of this user that no other user can change. Links, and files of another
    kind than `kind`, do not count."""
    try:
        return _is_ours(path.lstat(), kind)
    except OSError:
        return False


def _is_ours(status: os.stat_result, kind: Callable[[int], bool]) -> bool:
    others = stat.S_IWGRP | stat.S_IWOTH
    return kind(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & others


_TRIES = 3
"""Attempts to open a file that is being replaced."""


def _record(path: Path) -> Any:
    """Return the content of a process's file; None if the process has ended, False if the file can't be
    read."""
    try:
        for _ in range(_TRIES):
            # Without O_NONBLOCK, opening a pipe would wait for its other end.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not _is_ours(status, stat.S_ISREG):
                    return False
                if _is_locked(descriptor):
                    return orjson.loads(file.read(_MOST_BYTES)) or False
                if os.path.samestat(status, path.lstat()):
                    return None
    except (OSError, orjson.JSONDecodeError):
        pass
    return False


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
