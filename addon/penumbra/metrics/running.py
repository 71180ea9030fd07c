"""What running proxies have done so far, in one small file each, for `penumbra stats`.

Counts and names of tools and rules; no content. A file goes with its process; one that a killed process
left behind is taken away by the next reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

SECONDS = 0.3
"""The file is written at most this often."""
_log = logging.getLogger(__name__)


def folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the files lie."""
    state = environment.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "penumbra" / "running"


class StatsFile:
    """One process's file. `content` gives what is to be written; called in the event loop."""

    def __init__(self, path: Path, content: Callable[[], dict[str, Any]]) -> None:
        self._path = path
        self._content = content
        self._due: asyncio.TimerHandle | None = None
        self._written = 0.0
        self._failed = False

    def start(self) -> None:
        """The process can be asked from now on."""
        self._write()

    def changed(self) -> None:
        """There is something new; it is written at once, or as soon as it may be again."""
        if self._due is None and not self._failed:
            loop = asyncio.get_running_loop()
            self._due = loop.call_at(max(loop.time(), self._written + SECONDS), self._changed)

    def close(self) -> None:
        """The process ends."""
        if self._due is not None:
            self._due.cancel()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _changed(self) -> None:
        self._due = None
        self._written = asyncio.get_running_loop().time()
        self._write()

    def _write(self) -> None:
        draft = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(orjson.dumps(self._content()))
            draft.replace(self._path)
        except OSError as error:
            # Nobody's request waits for this.
            self._failed = True
            _log.debug("Penumbra keeps no file for `penumbra stats`: %s", error.strerror)


def own_file() -> Path:
    """This process's file."""
    return folder() / f"{os.getpid()}.json"


def running(where: Path) -> Iterator[dict[str, Any]]:
    """What each running proxy has written, oldest process first."""
    for path in sorted(where.glob("*.json"), key=lambda each: (len(each.stem), each.stem)):
        if not path.stem.isdecimal():
            continue
        if not _lives(int(path.stem)):
            with contextlib.suppress(OSError):
                path.unlink()
            continue
        try:
            record = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            continue
        if isinstance(record, dict):
            yield record


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
