"""A real redis-server (or valkey-server) of a test's own, and a relay to it that can be cut."""

import contextlib
import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

_NAMES = ("redis-server", "valkey-server")
_LIMIT = 60.0


def program() -> str:
    """Return the path of the server; empty if this machine has none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), "")


ENDING_WITH_US = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
"""The words before a command with which its process ends when the test run ends or is killed."""
MISSING = "neither redis-server nor valkey-server is installed: the shared store is not tested"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class RedisServer:
    """A `RedisServer` keeps its data over restarts."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.client = Redis(port=self.port, socket_timeout=_LIMIT, socket_connect_timeout=_LIMIT)
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server if it does not run."""
        if self._process is not None:
            return
        options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self._folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        command = [
            *ENDING_WITH_US,
            program(),
            *(part for name, value in options.items() for part in (f"--{name}", value)),
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        limit = time.monotonic() + _LIMIT
        while True:
            with contextlib.suppress(RedisError, OSError):
                self.client.ping()
                return
            assert time.monotonic() < limit, (self._folder / "log").read_text(errors="replace")
            time.sleep(0.02)

    def kill(self) -> None:
        """Kill the server, as a failing machine would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Remove the files of the server, which must not run."""
        shutil.rmtree(self._folder / "appendonlydir", ignore_errors=True)

    def pause(self) -> None:
        """Stop the server's process without closing a connection."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def go_on_if_paused(self) -> None:
        if self._process is not None:
            self.go_on()

    def fill(self) -> None:
        """Limit the server's memory, so that it refuses writes."""
        self.client.config_set("maxmemory", "1")

    def unfill(self) -> None:
        self.client.config_set("maxmemory", "0")

    def info(self, section: str) -> dict[str, Any]:
        found: Any = self.client.info(section)
        return dict(found)

    def close(self) -> None:
        self.client.close()
        self.kill()


class Relay:
    """A `Relay` forwards bytes to a port, or holds them without closing a connection."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open, self._back = threading.Event(), threading.Event()
        self._age = 0
        self.mend()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def cut(self) -> None:
        self._open.clear()
        self._back.clear()

    def hold_replies(self) -> None:
        """Hold replies; the server still runs the commands."""
        self._back.clear()

    def lose_the_present(self) -> None:
        """Hold all bytes of the existing connections for ever, without closing them."""
        self._age += 1

    def mend(self) -> None:
        self._open.set()
        self._back.set()

    def close(self) -> None:
        self.mend()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._begin, args=(client,), daemon=True).start()

    def _begin(self, client: socket.socket) -> None:
        self._open.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._to), timeout=_LIMIT)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for one, other, way in ((client, server, self._open), (server, client, self._back)):
            threading.Thread(target=self._forward, args=(one, other, way, self._age), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, way: threading.Event, age: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                way.wait()
                if age == self._age:
                    sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
