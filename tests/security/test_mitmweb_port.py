"""mitmweb's own port, where the flows of all clients are shown, can't be reached through the proxy. Until
11.1.2 mitmweb gave the flows to everyone who came from its own machine, and so to every client of the proxy
(CVE-2025-23217). Later versions ask for a token; the port stays closed all the same."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest

from support.mitm import ADDON, eventually


def addresses():
    """Return names and addresses that all lead to this machine."""
    own = {entry[4][0] for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))
        own.add(probe.getsockname()[0])
    return sorted(
        {"127.0.0.1", "localhost", "LocalHost", "0.0.0.0", "127.1", "2130706433", "127.9.9.9", *own}
    )


HAS_HOLE = metadata.version("mitmproxy") == "11.0.2"
REFUSAL = "Penumbra lets no client through to mitmweb's own port"

pytestmark = pytest.mark.proxy


class Mitmweb:
    """A `Mitmweb` runs in a process of its own, with the addon or without."""

    def __init__(self, folder, *, addon):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.web = probe.getsockname()[1]
        self._log = folder / "log"
        command = [str(Path(sys.executable).with_name("mitmweb")), "--no-web-open-browser"]
        command += ["--listen-host", "127.0.0.1", "-p", "0", "--web-port", str(self.web)]
        # The port is open to all, so the machine's own addresses are tried, too.
        command += ["--web-host", "0.0.0.0", "--set", "block_private=false"]
        command += ["-s", str(ADDON)] if addon else []
        environment = {
            **os.environ,
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
        }
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdin=log, stdout=log, stderr=log)
        ready = "Web server listening" if not addon else "Penumbra is active"
        assert eventually(lambda: ready in self.log() and "Web server listening" in self.log(), 120), (
            self.log()
        )
        self.port = int(re.search(r"proxy listening at 127\.0\.0\.1:(\d+)", self.log())[1])

    def log(self):
        return self._log.read_text()

    def stop(self):
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    running = Mitmweb(tmp_path_factory.mktemp("guarded"), addon=True)
    yield running
    running.stop()


def by_proxy(proxy, host):
    """Return status and body of the flows, asked for through the proxy as any client would."""
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{proxy.port}"})
    )
    try:
        with opener.open(f"http://{host}:{proxy.web}/flows", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def tunnelled(proxy, host, data):
    """Return the answer of mitmweb through a tunnel that the proxy was asked for."""
    with socket.create_connection(("127.0.0.1", proxy.port), 30) as client:
        client.sendall(f"CONNECT {host}:{proxy.web} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        found = client.recv(1000)
        with contextlib.suppress(OSError):
            client.sendall(data)
            while more := client.recv(65536):
                found += more
        return found


@pytest.mark.parametrize("host", addresses())
def test_no_client_of_the_proxy_gets_to_mitmweb(guarded, host):
    status, body = by_proxy(guarded, host)
    assert status in (403, 502)
    assert REFUSAL in body or "Connection killed" in body
    found = tunnelled(
        guarded, host, f"GET /flows HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert b"200 OK" not in found
    assert found.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502"))


def test_mitmweb_answers_on_its_own_port(guarded):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{guarded.web}/flows", timeout=30) as answer:
            status = answer.status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status == (200 if HAS_HOLE else 403)


@pytest.mark.skipif(not HAS_HOLE, reason="this mitmproxy has no such hole")
def test_without_the_addon_every_client_reads_all_flows(tmp_path):
    """Without the addon, the hole is open."""
    open_to_all = Mitmweb(tmp_path, addon=False)
    try:
        status, body = by_proxy(open_to_all, "127.0.0.1")
    finally:
        open_to_all.stop()
    assert (status, body[:1]) == (200, "[")
