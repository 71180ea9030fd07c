"""haproxy in front of several proxies: each request lands on any of them."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from support.fleet.redis_server import free_port

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


def program() -> str:
    """haproxy; empty if this machine has none."""
    return shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin") or ""


class Balancer:
    """At `port` a request lands on any proxy, at `sticky_port` on the one of its client, while that is there."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        self.port, self.sticky_port = free_port(), free_port()
        folder.mkdir(parents=True, exist_ok=True)
        servers = "\n".join(
            f"    server proxy{number} 127.0.0.1:{port} check inter 100ms fall 2 rise 1"
            for number, port in enumerate(ports)
        )
        config = folder / "haproxy.cfg"
        config.write_text(_CONFIG.format(port=self.port, sticky_port=self.sticky_port, servers=servers))
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen([program(), "-db", "-f", str(config)], stdout=log, stderr=log)
        limit = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < limit, (folder / "log").read_text()
                time.sleep(0.02)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
