"""This module finds or starts the proxy for a wrapped program.

A proxy for one program is a separate process that gets no signals from the terminal. The process reads one
line of JSON, `{"command", "arguments"}`, from standard input, and ends when standard input is closed. The
process writes lines of JSON to standard output: `{"listens": …}` or `{"failed": …, "code": …}`, then
`{"ended": …}` with the totals. mitmproxy's own output goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

import orjson

from penumbra import __version__
from penumbra.cli.command import Failure
from penumbra.errors import one_line
from penumbra.metrics import running

_START_SECONDS = 60.0
_END_SECONDS = 10.0
_CONNECT_SECONDS = 1.0
_RUN = """\
import sys
sys.path.append(sys.argv[1])
from penumbra.cli.start import serve_wrapped
raise SystemExit(serve_wrapped())
"""
"""Code that starts the proxy. With `-P`, Python imports nothing from the working folder."""
_ROOT = str(Path(__file__).resolve().parents[2])
"""The folder that contains the package, which is not installed in a clone."""
_LOG_BYTES = 1_000_000
"""The size in bytes above which a log is renamed and a new log begins."""


class Started:
    """A `Started` is a proxy of one program. The proxy ends with this process, even if this process is
    killed."""

    is_shared = False

    def __init__(self, arguments: Sequence[str], log_file: Path | None, *, web: bool) -> None:
        """Start the proxy and wait until it listens. Raises Failure."""
        log = _open(log_file)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _RUN, _ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C is for the wrapped program, not for the proxy. The first argument keeps the signal
                # away from the proxy on POSIX, the second on Windows.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        finally:
            os.close(log)
        assert self._process.stdout is not None
        self._reports = _Lines(self._process.stdout)
        asked = {"command": "web" if web else "proxy", "arguments": list(arguments)}
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(orjson.dumps(asked) + b"\n")
            self._process.stdin.flush()
        report = self._reports.next(_START_SECONDS)
        if "listens" not in report:
            self._process.terminate()
            raise Failure(report.get("failed") or _without_a_word(log_file), report.get("code", 1))
        self.place, self.web = report["listens"]["proxy"], report["listens"]["web"]
        self.ca = Path(report["listens"]["ca"])
        self.hosts = _hosts(report["listens"])

    def end(self) -> Mapping[str, Any]:
        """End the proxy and return its totals."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        report = self._reports.next(_END_SECONDS)
        if "ended" not in report:
            self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CONNECT_SECONDS)
        ended: Mapping[str, Any] = report.get("ended", {})
        return ended


class Joined:
    """A `Joined` is a proxy that was already running. Other programs may use it, too."""

    is_shared = True

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.place, self.ca, self.web = entry["proxy"], Path(entry["ca"]), ""
        self.hosts = _hosts(entry)
        self._pid = entry["pid"]
        self._before = entry.get("totals", {})

    def end(self) -> Mapping[str, Any]:
        """Return the growth of the proxy's totals since this program joined. Requests of other programs
        count, too."""
        time.sleep(running.SECONDS * 1.2)
        for entry in running.running(running.folder()):
            if entry.get("pid") == self._pid:
                return difference(entry.get("totals", {}), self._before)
        return {}


Proxy = Started | Joined


def joinable(environment: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return a running proxy of this version that a user started or HTTPS_PROXY names; None without one."""
    led_to = {environment.get(name, "").removeprefix("http://") for name in ("HTTPS_PROXY", "https_proxy")}
    for entry in running.running(running.folder(environment)):
        place = str(entry.get("proxy", ""))
        if not place or entry.get("version") != __version__ or not running.is_ours(Path(entry.get("ca", ""))):
            continue
        if (place in led_to or not entry.get("is_wrapped")) and _listens(place):
            return entry
    return None


def _hosts(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(map(str, entry.get("hosts", ())))


def difference(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the growth of totals, which are numbers or lists and mappings of numbers."""
    grown: dict[str, Any] = {}
    for name, value in now.items():
        old = before.get(name)
        if isinstance(value, Mapping):
            grown[name] = difference(value, old if isinstance(old, Mapping) else {})
        elif isinstance(value, list):
            earlier = old if isinstance(old, list) and len(old) == len(value) else [0] * len(value)
            grown[name] = [one - other for one, other in zip(value, earlier, strict=True)]
        else:
            grown[name] = value - (old if isinstance(old, (int, float)) else 0)
    return grown


def upstream_mode(url: str) -> list[str]:
    """Return the arguments by which the proxy uses an upstream proxy. Raises Failure."""
    if not url:
        return []
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failure(
            f"connections go through {one_line(parts.scheme)}://{one_line(parts.hostname or '')} here, and "
            "mitmproxy can go through http and https proxies only: unset HTTPS_PROXY and ALL_PROXY"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = f"{parts.scheme}://{host}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    arguments = ["--mode", f"upstream:{place}"]
    if parts.username is not None:
        arguments += ["--set", f"upstream_auth={unquote(parts.username)}:{unquote(parts.password or '')}"]
    return arguments


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


class _Lines:
    """A `_Lines` reads lines of JSON from a pipe in a thread, since not every system can wait for a pipe."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._read, args=(pipe,), daemon=True).start()

    def _read(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._lines.put(line)
        self._lines.put(b"")

    def next(self, seconds: float) -> dict[str, Any]:
        """Return the object in the next line, or an empty object if no line arrives within `seconds`."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return {}
        report: dict[str, Any] = orjson.loads(line) if line.endswith(b"\n") else {}
        return report


def _open(log: Path | None) -> int:
    """Open a log for appending, or the null device if that fails."""
    if log is not None:
        with contextlib.suppress(OSError):
            log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if log.exists() and log.stat().st_size > _LOG_BYTES:
                log.replace(log.with_suffix(".old"))
            return os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0), 0o600)
    return os.open(os.devnull, os.O_WRONLY)


def _without_a_word(log: Path | None) -> str:
    last = ""
    if log is not None:
        with contextlib.suppress(OSError):
            last = log.read_text(errors="replace").rstrip("\n").rpartition("\n")[2]
    why = one_line(last.removeprefix("penumbra: "))
    return f"the proxy did not start: {why}" if why else "the proxy did not start"


def _listens(place: str) -> bool:
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS):
            return True
    except (OSError, ValueError):
        return False
