"""`penumbra service` prints the definition of a service that keeps a proxy running. Nothing is installed."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from penumbra.cli.command import Parser

USAGE = """\
usage: penumbra service [--systemd|--launchd] [-- arguments of `penumbra proxy`]

Prints a unit that starts `penumbra proxy` when you log in, for systemd (Linux) or launchd (macOS).
Without an option, the unit is for this system. Nothing is installed; the first lines of the unit explain how
to install it.
"""
_LABEL = "penumbra.proxy"


def main(arguments: Sequence[str]) -> int:
    """Print the definition and return the exit code. Raises Failure."""
    end = [*arguments, "--"].index("--")
    parser = Parser("service")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--systemd", dest="form", action="store_const", const=_systemd)
    form.add_argument("--launchd", dest="form", action="store_const", const=_launchd)
    parser.set_defaults(form=_launchd if platform.system() == "Darwin" else _systemd)
    options = parser.read(arguments[:end])
    print(options.form([*_program(), "proxy", *arguments[end + 1 :]]), end="")
    return 0


def _program() -> list[str]:
    """Return the command that starts this installation, with absolute paths."""
    beside = Path(sys.executable).with_name("penumbra")
    program = str(beside) if beside.exists() else shutil.which("penumbra")
    return [os.path.abspath(program)] if program else [sys.executable, "-m", "penumbra"]


def _systemd(command: Sequence[str]) -> str:
    # systemd expands `%` and variables after `$`.
    line = shlex.join(command).replace("%", "%%").replace("$", "$$")
    return f"""\
# mkdir -p ~/.config/systemd/user && penumbra service > ~/.config/systemd/user/penumbra.service
# systemctl --user daemon-reload && systemctl --user enable --now penumbra
# Log: journalctl --user -u penumbra. Removal: systemctl --user disable --now penumbra
[Unit]
Description=Penumbra, a proxy for the requests of LLM agents
After=network-online.target

[Service]
ExecStart={line}
Restart=on-failure
UMask=0077
NoNewPrivileges=true

[Install]
WantedBy=default.target
"""


def _launchd(command: Sequence[str]) -> str:
    words = "\n".join(f"    <string>{escape(word)}</string>" for word in command)
    log = escape(str(Path("~/Library/Logs/penumbra.log").expanduser()))
    return f"""\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- penumbra service > ~/Library/LaunchAgents/{_LABEL}.plist
     launchctl load -w ~/Library/LaunchAgents/{_LABEL}.plist; removal: the same with `unload` -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{_LABEL}</string>
  <key>ProgramArguments</key>
  <array>
{words}
  </array>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>StandardOutPath</key>
  <string>{log}</string>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"""
