"""`penumbra local` reads the requests of a desktop app by mitmproxy's local capture."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from penumbra.cli.advisories import parts, version_of
from penumbra.cli.command import WRONG, Failure

USAGE = """\
usage: penumbra local NAME [arguments of mitmdump]

Captures the connections of the programs whose name contains NAME (several with commas; a process id;
`!NAME`: all but these). Connections to other hosts than LLM hosts are tunnelled. This is for apps that ignore
proxies.

  Linux    kernel 6.8 or later, and root rights, for which mitmproxy calls sudo. Not in containers, not in WSL
  macOS    asks once for a network extension, "Mitmproxy Redirector": System Settings, General, Login Items &
           Extensions; then run `penumbra local` again
  Windows  an administrator's shell

The app must trust the CA certificate (`penumbra ca trust` explains how). Start the app after that. An app
that pins its certificates can't be read. HTTP/3, which can't be read, is switched off.
For a phone, or an app that is not captured: `penumbra proxy --mode wireguard` prints the settings of a
WireGuard client, whose device then trusts the certificate of http://mitm.it.
"""
_RS = (0, 12, 11)
"""The first version of mitmproxy_rs that also captures IPv6 and all threads of a program."""
_KERNEL = (6, 8)


def main(arguments: Sequence[str]) -> int:
    if arguments[0].startswith("-"):
        raise Failure("local: no program given, for example: penumbra local Claude", code=WRONG)
    if problem := lacking():
        raise Failure(problem)
    from penumbra.cli import start

    words = ["--mode", f"local:{arguments[0]}", "--set", "http3=false", *arguments[1:]]
    return start.start("proxy", words)


def lacking(system: str = platform.system(), release: str = platform.release()) -> str:
    """Return why local capture can't work on this system; empty if no reason is known."""
    installed = version_of("mitmproxy_rs")
    if parts(installed) < _RS:
        wanted = ".".join(map(str, _RS))
        return (
            f"local capture needs mitmproxy_rs {wanted} or later, and this is {installed or 'none'}: it "
            "comes with mitmproxy 12.2.3 or later, which needs Python 3.12 or later"
        )
    if system == "Linux" and parts(release)[:2] < _KERNEL:
        return f"local capture needs Linux 6.8 or later, and this is {release}"
    if system == "Linux" and "microsoft" in release.lower():
        return "local capture does not work in WSL: `penumbra wrap` for programs there, or on Windows itself"
    if system == "Linux" and os.path.exists("/.dockerenv"):
        return "local capture does not work in a container: start it on the machine itself"
    return ""
