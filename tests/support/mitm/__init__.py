"""A real mitmdump in a process of its own, with the addon or without, and the addresses to reach it."""

from __future__ import annotations

import json
import os
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from support.mitm.starter import Forked, Starter

ROOT = Path(__file__).resolve().parents[3]
ADDON = ROOT / "addon" / "main.py"
INSIDE = Path(__file__).with_name("inside.py")
_LISTENING = re.compile(r"listening at [^\n]*?:(\d{2,5})\b")
_ACTIVE = "Penumbra is active"
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "COVERAGE_PROCESS_START")
ALLOWED = True
"""True if the run may start a proxy."""
START_LIMIT = 180.0
"""Seconds until a proxy that does not listen counts as broken."""


def eventually(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """Return the function's value once the value is true, or at the end of the time."""
    limit = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < limit:
        time.sleep(0.01)
    return found


class NotStarted(Exception):
    """Raised if mitmdump ended or never listened. The text is its log."""


class Provider(Protocol):
    """A `Provider` is the server where the proxy's connections end."""

    @property
    def port(self) -> int:
        """The port for plain HTTP."""
        ...

    @property
    def tls_port(self) -> int: ...

    @property
    def ca_file(self) -> Path: ...


@dataclass
class Mitmdump:
    """A `Mitmdump` starts and stops one mitmdump. The folders stay over restarts."""

    upstream: Provider
    confdir: Path
    """The folder of mitmproxy's CA."""
    home: Path
    """HOME and state of the process."""
    mode: str = "regular"
    """`regular`, `reverse` (plain HTTP to the test provider), `reverse-tls`, or one of mitmproxy's own."""
    addon: bool = True
    script: Path = ADDON
    """The script that is loaded as the addon."""
    options: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | Forked | None = None
    starter: Starter | None = None
    """The process from which a mitmdump with the addon is forked; None for a start from the command line."""

    @property
    def log_file(self) -> Path:
        return self.home / "mitmdump.log"

    @property
    def state(self) -> Path:
        """The folder of the addon's files."""
        return self.home / "state"

    @property
    def ca_file(self) -> Path:
        return self.confdir / "mitmproxy-ca-cert.pem"

    @property
    def is_reverse(self) -> bool:
        return self.mode.startswith("reverse")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def trust(self) -> ssl.SSLContext:
        """Return a TLS context for clients that trusts only this proxy's CA."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def command_line(self) -> list[str]:
        modes = {
            "reverse": f"reverse:http://127.0.0.1:{self.upstream.port}",
            "reverse-tls": f"reverse:https://localhost:{self.upstream.tls_port}",
        }
        options = {
            "confdir": str(self.confdir),
            "ssl_verify_upstream_trusted_ca": str(self.upstream.ca_file),
            "flow_detail": "0",
            "listen_host": "127.0.0.1",
            "listen_port": "0",
            "termlog_verbosity": "info",
            **self.options,
        }
        scripts = ([self.script] if self.addon else []) + [INSIDE]
        return [
            str(Path(sys.executable).with_name("mitmdump")),
            *("--mode", modes.get(self.mode, self.mode)),
            *(part for script in scripts for part in ("-s", str(script))),
            *(part for name, value in options.items() for part in ("--set", f"{name}={value}")),
        ]

    def launch(self) -> subprocess.Popen[bytes] | Forked:
        """Start the process without waiting for it."""
        assert ALLOWED, "a test without the mark `proxy` starts one"
        self.home.mkdir(parents=True, exist_ok=True)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        environment |= {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.state),
            "XDG_CONFIG_HOME": str(self.state),
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": str(ADDON.parent) if self.script != ADDON else "",
            "UPSTREAM_PORTS": f"{self.upstream.port},{self.upstream.tls_port}",
            # Conversations in tests are smaller than those of agents.
            "PENUMBRA_EXPAND_FROM": "0",
            **self.environment,
        }
        if self.starter is not None and self.addon:
            self.process = self.starter.start(self.command_line(), environment, self.log_file)
            return self.process
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command_line(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        return self.process

    def start(self) -> Mitmdump:
        """Start the process; wait until it listens and the addon is active. Raise NotStarted."""
        earlier = len(self.log())
        process = self.launch()
        limit = time.monotonic() + START_LIMIT
        while (found := self._ready(earlier)) is None:
            if process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise NotStarted(self.log()[earlier:])
            time.sleep(0.03)
        self.port = int(found[1])
        return self

    def _ready(self, earlier: int) -> re.Match[str] | None:
        log = self.log()
        if self.addon and _ACTIVE not in log[earlier:]:
            return None
        return _LISTENING.search(log, earlier)

    def terminate(self) -> None:
        """Send the process a signal to end."""
        if self.process is not None:
            self.process.terminate()

    def stop(self) -> None:
        """End the process and wait for its end."""
        self.terminate()
        if self.process is None:
            return
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def restart(self, **options: str) -> None:
        """End the process and start it again with its old state and some options changed."""
        self.stop()
        self.options = {**self.options, **options}
        self.start()

    def command(self, text: str) -> Any:
        """Run a mitmproxy command inside the process; return its result. Raise RuntimeError with its
        error."""
        host = "" if self.is_reverse else "http://inside.invalid"
        proxies = {} if self.is_reverse else {"http": self.url}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
        request = urllib.request.Request(f"{host or self.url}/.command", data=text.encode(), method="POST")
        try:
            with opener.open(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def set(self, name: str, value: str) -> None:
        """Change an option in the running proxy, as `:set` does in the console."""
        self.command(f"set {name} {value}")

    def flows(self) -> list[dict[str, Any]]:
        """Return path, comment, marked, metadata and answer (the raw body) of the flows since the start or
        the last `tests.forget`."""
        found: list[dict[str, Any]] = json.loads(self.command("tests.flows"))
        return found


def stop_all(proxies: Iterable[Mitmdump]) -> None:
    """End several processes at once."""
    found = list(proxies)
    for proxy in found:
        proxy.terminate()
    for proxy in found:
        proxy.stop()
