"""The command `penumbra` runs a program through the proxy, starts the proxy alone, and shows and changes its
state."""

from __future__ import annotations

import difflib
import errno
import os
import platform
import shutil
import signal
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from pathlib import Path

from penumbra import __version__
from penumbra.cli.command import FILTER_BEGINNINGS, WRONG, Failure, wrap_instead
from penumbra.errors import one_line

USAGE = """\
usage: penumbra wrap [options] [--] PROGRAM [arguments of it]
       penumbra [proxy|web] [arguments of mitmdump or mitmweb]
       penumbra discover | replay FILE … | local NAME | service | stats | page | pause | resume
       penumbra doctor | ca | forget | rules | secrets

  wrap     run a program (claude, codex …) through Penumbra; see `penumbra wrap --help`
  proxy    start mitmdump with Penumbra (the default); `penumbra proxy --help` names all options
  web      start mitmweb with Penumbra
  discover project the savings on the sessions that agents have logged here; --html, --json
  replay   project the savings on recorded requests: mitmproxy's flows, HAR
  local    read a desktop app's requests, by mitmproxy's local capture
  service  print a unit for systemd or launchd that keeps a proxy running
  stats    print the figures of running proxies and of the last week; --json
  page     print the link of the page with the figures
  pause    have the running proxies change nothing but secrets; `resume` ends that
  doctor   check installation and settings, with the fix beside each problem; --json
  ca       show, make or remove the CA certificate, and say how to trust it
  forget   list the data that is kept on this disk; --all deletes it
  rules    try rules on a command's output, and check them; see `penumbra rules --help`
  secrets  list the secrets of a text; see `penumbra secrets --help`

  --version  print the versions of Penumbra, mitmproxy and Python
  -v         print mitmproxy's own lines about connections and flows, too

Penumbra listens on 127.0.0.1:8080, or, for a program that it wraps, on a free port.
Exit codes: 0 if all is well, 1 if something failed, 2 if arguments or settings are wrong. `wrap` ends as the
program did, with its exit code or by its signal.

Examples:
  penumbra wrap -- claude
  penumbra wrap --set penumbra_mode=aggressive -- codex exec "fix the tests"
  penumbra proxy -p 9000
  penumbra proxy --mode reverse:https://api.anthropic.com@8081
  penumbra web --set penumbra_intercept=all
"""
_STARTS = {"proxy": "proxy", "run": "proxy", "web": "web"}
"""Commands that start a proxy and accept mitmproxy's arguments; `run` is an earlier name of `proxy`."""
_OWN = (
    *("wrap", "discover", "replay", "local", "service", "stats", "page", "pause", "resume"),
    *("doctor", "ca", "forget", "rules", "secrets"),
)
"""Commands that have a module of the same name, with the exceptions in `_MODULES`."""
_MODULES = {"resume": "pause", "rules": "rules_command"}
_RUNNING = ("wrap", "local")
_WANTING = ("wrap", "replay", "local", "rules", "secrets")
"""Commands that print their usage if they get no arguments."""
HELP = ("-h", "--help")
COMMANDS = (*_STARTS, *_OWN, "help")
_BY_SIGNAL = 128
"""A shell's exit code for a program that a signal ended is this number plus the signal's number."""
_PIPE = _BY_SIGNAL + 13
"""The exit code of a program that a closed pipe ends."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command. `USAGE` lists the exit codes."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not os.environ.get("HOME", "-"):
        # An empty HOME would stand for the root of the disk.
        del os.environ["HOME"]
    _open_streams()
    try:
        code = _obey(words)
        sys.stdout.flush()
        raise SystemExit(code if code >= 0 else _end_by(-code))
    except OSError as error:
        # A reader such as `head` has closed the pipe, or the disk is full. Buffered output must not fail
        # again at the exit.
        if error.errno not in (errno.EPIPE, errno.ENOSPC):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            raise SystemExit(_PIPE) from None
        raise SystemExit(f"penumbra: {one_line(str(error))}") from None
    except Failure as failure:
        for line in str(failure).split("\n"):
            print(f"penumbra: {line}", file=sys.stderr, flush=True)
        if failure.is_abrupt:
            sys.stdout.flush()
            os._exit(failure.code)
        raise SystemExit(failure.code) from None
    except KeyboardInterrupt:
        raise SystemExit(_end_by(signal.SIGINT)) from None


def _open_streams() -> None:
    """Open the null device for each closed standard stream. Otherwise the next opened file gets the stream's
    descriptor."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _end_by(number: int) -> int:
    """End this process by a signal, since a shell leaves a loop only if SIGINT itself has ended the program
    in the loop. On a system without such signals, return a shell's exit code for the signal."""
    sys.stdout.flush()
    if hasattr(os, "fork"):
        import resource

        # A core of this process would replace the core of the program.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    return _BY_SIGNAL + number


def _obey(words: list[str]) -> int:
    asked = words[0] if words else ""
    if asked == "help" and words[1:]:
        if words[1] not in COMMANDS:
            raise Failure(_no_command(words[1]), code=WRONG)
        asked, words = words[1], [words[1], "--help"]
    if asked in (*HELP, "help"):
        print(USAGE, end="")
        return 0
    if asked in _OWN:
        return _own(asked, words[1:])
    command = _STARTS.get(asked, "")
    if command:
        words.pop(0)
    if "--version" in words:
        print(versions())
        return 0
    if not command and words and not words[0].startswith(("-", *FILTER_BEGINNINGS)):
        raise Failure(_no_command(words[0]), code=WRONG)
    if "--" in words:
        raise Failure(wrap_instead(words[words.index("--") + 1 :]), code=WRONG)
    from penumbra.cli import start

    return start.start(command or "proxy", words)


def _own(command: str, arguments: list[str]) -> int:
    """Import the module of a command in `_OWN`, and run it."""
    module = import_module(f"penumbra.cli.{_MODULES.get(command, command)}")
    # Arguments after the name of a program, and after `--`, belong to another program.
    own = arguments[:1] if command in _RUNNING else arguments[: [*arguments, "--"].index("--")]
    if not set(HELP).isdisjoint(own):
        print(getattr(module, "USAGE", USAGE), end="")
        return 0
    if not arguments and command in _WANTING:
        print(module.USAGE, end="", file=sys.stderr)
        return WRONG
    words = [command, *arguments] if command in ("pause", "resume") else arguments
    code: int = module.main(words)
    return code


def _no_command(word: str) -> str:
    near = difflib.get_close_matches(word, COMMANDS, 1)
    if near and shutil.which(word) is None:
        return f"{word!r} is no command, did you mean {near[0]}?"
    allowed = ", ".join(COMMANDS[:-1])
    return f"{word!r} is no command (allowed: {allowed}); {wrap_instead([word])}"


def versions() -> str:
    try:
        mitmproxy = metadata.version("mitmproxy")
    except metadata.PackageNotFoundError:
        mitmproxy = "not installed"
    return f"Penumbra {__version__}\nmitmproxy {mitmproxy}\nPython {platform.python_version()}"


def script() -> Path:
    """Return the script for mitmproxy's `-s`. In a clone, the script is beside the package."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "main.py"
    return inside if inside.exists() else package.parent / "main.py"
