"""haproxy as a balancer before several proxies, and between the proxies and their store."""

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from support.fleet.redis_server import ENDING_WITH_US, free_port

MISSING = "haproxy is not installed: nothing puts a request on any of several proxies"
_CONFIG = """\
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    retries 2
    option redispatch 1
    option http-server-close
frontend clients
    bind 127.0.0.1:{port}
    default_backend anywhere
frontend faithful_clients
    bind 127.0.0.1:{sticky_port}
    default_backend by_client
backend anywhere
    balance random(1)
{servers}
backend by_client
    balance hdr(x-api-key)
    hash-type consistent
{servers}
"""
_PASSAGE = """\
defaults
    mode tcp
    timeout connect 2s
    timeout client 600s
    timeout server 600s
listen store
    bind 127.0.0.1:{port}
    server store 127.0.0.1:{to}
"""


def program() -> str:
    """Return the path of haproxy; empty if this machine has none."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin") or ""


class _Haproxy:
    """An `_Haproxy` listens at `port`."""

    def __init__(self, folder: Path, port: int, config: str) -> None:
        self.port = port
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "haproxy.cfg"
        file.write_text(config)
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [*ENDING_WITH_US, program(), "-db", "-f", str(file)], stdout=log, stderr=log
            )
        limit = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < limit, (folder / "log").read_text()
                time.sleep(0.02)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Balancer(_Haproxy):
    """A `Balancer` sends a request at `port` to any proxy. A request at `sticky_port` goes to the proxy of
    its client, as long as that proxy runs."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        port, self.sticky_port = free_port(), free_port()
        servers = "\n".join(
            f"    server proxy{number} 127.0.0.1:{port} check inter 100ms fall 2 rise 1"
            for number, port in enumerate(ports)
        )
        super().__init__(
            folder, port, _CONFIG.format(port=port, sticky_port=self.sticky_port, servers=servers)
        )


class Passage(_Haproxy):
    """A `Passage` forwards connections to a store. While it is cut, it forwards no bytes and closes no
    connection; sent bytes arrive later."""

    def __init__(self, folder: Path, to: int) -> None:
        port = free_port()
        super().__init__(folder, port, _PASSAGE.format(port=port, to=to))

    def cut(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        self._process.send_signal(signal.SIGCONT)
