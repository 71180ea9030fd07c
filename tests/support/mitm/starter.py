"""A process that has imported what each mitmdump needs, and forks many of them quickly. Run as a script, this
module is that process: it reads lines of JSON and writes one line of JSON for each. The process also reads
the package's own rules. After the fork, each proxy reads options, a user's rules, keys and files itself."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

POSSIBLE = sys.platform == "linux"
ADDON_ROOT = Path(__file__).resolve().parents[3] / "addon"
_IMPORTED = ("mitmproxy.tools.main", "mitmproxy.tools.dump", "mitmproxy.addons.savehar", "penumbra.addon")
_AT_START = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
"""Variables that an interpreter reads when it starts."""


class Forked:
    """A `Forked` is a process that the starter has made, with the used part of `subprocess.Popen`."""

    def __init__(self, starter: Starter, pid: int) -> None:
        self._starter = starter
        self.pid = pid
        self.returncode: int | None = None
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._starter.ask({"poll": self.pid})
            if self.returncode is not None:
                os.close(self._ended)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        end = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired("mitmdump", timeout or 0.0)
            select.select([self._ended], [], [], left)
        assert self.returncode is not None
        return self.returncode

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Starter:
    """A `Starter` is pytest's side of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **_AT_START, "PYTHONPATH": ""},
        )

    def start(self, command: list[str], environment: Mapping[str, str], log: Path) -> Forked:
        """Start `mitmdump` with the arguments; its output is appended to the log."""
        asked = {"start": command, "environment": dict(environment), "log": str(log)}
        return Forked(self, self.ask(asked))

    def ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process, and with it the processes that it has started."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _become_mitmdump(request: dict[str, Any]) -> None:
    """Turn the child into a mitmdump: all but the imports is as in a process of its own."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(log)
    os.close(empty)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["start"]
    main = import_module("mitmproxy.tools.main")
    sys.exit(main.mitmdump(sys.argv[1:]))


def _poll(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


_CALL = {"type": "tool_use", "id": "toolu_0", "name": "Bash", "input": {"command": "pytest"}}
_RESULT = {
    "type": "tool_result",
    "tool_use_id": "toolu_0",
    "content": "error: x\n" * 900 + "token=ghp_" + "aB3" * 12,
}
_REQUEST = {
    "model": "m",
    "max_tokens": 9,
    "tools": [{"name": "Bash", "input_schema": {}}],
    "messages": [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [_CALL]},
        {"role": "user", "content": [_RESULT]},
    ],
}


def _read_rules() -> None:
    """Read the rules as a proxy does at its first request. A user's rules still apply, since a change of
    rules discards compiled ones."""
    apis, incoming = import_module("penumbra.apis.recognise"), import_module("penumbra.conversation.incoming")
    settings = import_module("penumbra.config.settings").Settings(database="memory")
    made_with = import_module("penumbra.conversation.incoming").EngineSettings.of(settings)
    engine = import_module("penumbra.conversation.engine").Engine(made_with)
    api = apis.by_request_line("POST", "/v1/messages")
    body = json.dumps(_REQUEST).encode()
    request = incoming.Incoming(
        api, body, {"x-api-key": "k", "user-agent": "a"}, {"a": "b"}, "127.0.0.1", "a:443"
    )
    asyncio.run(engine.process(request, settings))
    engine.close()


def _believe_keys() -> None:
    """Skip the check of the CA's key, which mitmproxy has made itself. The check takes half the time of a
    start."""
    keys = import_module("cryptography.hazmat.primitives.serialization")
    keys.load_pem_private_key = partial(keys.load_pem_private_key, unsafe_skip_rsa_key_validation=True)


def _wait_for_threads() -> None:
    """Wait for threads that have ended for Python, and exist for a moment longer in the system."""
    end = time.monotonic() + 10
    while len(os.listdir("/proc/self/task")) > 1:
        assert time.monotonic() < end, "a process with threads can't be forked"
        time.sleep(0.01)


def serve() -> None:
    """Serve until the input ends; then end all processes that still run."""
    # A proxy imports no module of the tests' folder.
    sys.path[:] = [part for part in sys.path if part and Path(part) != Path(__file__).parent]
    sys.path.insert(0, str(ADDON_ROOT))
    for name in _IMPORTED:
        import_module(name)
    _believe_keys()
    _read_rules()
    gc.collect()
    gc.freeze()
    _wait_for_threads()
    running: set[int] = set()
    # The pipe is unbuffered, so that a child gets nothing of another one's requests.
    requests, replies = os.fdopen(os.dup(0), "rb", 0), os.dup(1)
    os.dup2(2, 1)
    while line := requests.readline():
        request = json.loads(line)
        if "poll" in request:
            reply = _poll(request["poll"])
            if reply is not None:
                running.discard(request["poll"])
        else:
            reply = os.fork()
            if reply == 0:
                requests.close()
                os.close(replies)
                return _become_mitmdump(request)
            running.add(reply)
        os.write(replies, json.dumps(reply).encode() + b"\n")
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    return None


if __name__ == "__main__":
    serve()
