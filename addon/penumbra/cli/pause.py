"""`penumbra pause` and `penumbra resume` switch the proxies that run here off and on."""

from __future__ import annotations

import os
import signal
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from penumbra.cli.command import Failure, Parser
from penumbra.metrics import running

USAGE = """\
usage: penumbra pause [PORT]
       penumbra resume [PORT]

Paused proxies (all that run here, or the one at PORT) send requests on unchanged. Secrets are still
removed, unless penumbra_redact_secrets is off. A conversation
under way keeps the forms that were sent before, and its hidden exchanges, since the provider has them in its
cache, and binds thinking to them.

Other ways: kill -USR1 PID, which also ends a pause, `:penumbra.pause` in mitmproxy, the button on the page,
PENUMBRA_PAUSE=true or --set penumbra_pause=true at the start; for one request, the header `X-Penumbra: off`.
"""
_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    """Pause or resume the proxies and return the exit code, which is 1 if a proxy does not react. Raises
    Failure."""
    command, *words = arguments
    parser = Parser(command)
    parser.add_argument("port", nargs="?", type=_port)
    port = parser.read(words).port
    pauses = command == "pause"
    if not hasattr(signal, "SIGUSR1"):
        raise Failure(f"this system has no signals for it; `:penumbra.{command}` and the page do the same")
    asked = [entry for entry in _entries() if port is None or port in entry.get("ports", ())]
    if not asked:
        raise Failure("no proxy is running here" + ("" if port is None else f" at port {port}"))
    for entry in asked:
        if entry["is_paused"] is pauses:
            # SIGUSR1 toggles the pause, so a paused proxy must not get this signal.
            continue
        try:
            os.kill(entry["pid"], signal.SIGUSR1 if pauses else signal.SIGUSR2)
        except OSError as error:
            raise Failure(f"process {entry['pid']} can't get the signal: {error.strerror}") from None
    return max([_obeyed(entry, pauses) for entry in asked])


def _port(word: str) -> int:
    if not word.isdecimal():
        raise ArgumentTypeError(f"got {word!r}, allowed: the port of a proxy")
    return int(word)


def _obeyed(entry: dict[str, Any], pauses: bool) -> int:
    """Wait until a proxy has the wanted state, print the outcome, and return the exit code."""
    limit = time.monotonic() + _SECONDS
    where = f"process {entry['pid']}, port {', '.join(map(str, entry.get('ports', ()))) or 'none'}"
    while time.monotonic() < limit:
        if any(now["pid"] == entry["pid"] and now["is_paused"] is pauses for now in _entries()):
            print(f"{where}: {'paused' if pauses else 'resumed'}")
            return 0
        time.sleep(0.05)
    print(f"penumbra: {where}: has not answered", file=sys.stderr)
    return 1


def _entries() -> list[dict[str, Any]]:
    """Return the running proxies that can pause. Proxies of earlier releases would end at the signal."""
    return [entry for entry in running.running(running.folder()) if "is_paused" in entry]
