"""`penumbra`: starts mitmproxy with the addon in it, and says how to point an agent at it."""

from __future__ import annotations

import difflib
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from penumbra import __version__
from penumbra.cli.failure import Failure
from penumbra.errors import one_line

USAGE = """\
usage: penumbra [run|web] [arguments of mitmdump or mitmweb]
       penumbra stats [--json]
       penumbra doctor
       penumbra rules try|check …
       penumbra secrets try …

  run      start mitmdump with Penumbra (the default); `penumbra run --help` names all options
  web      start mitmweb with Penumbra
  stats    what the running proxies have done so far
  doctor   check what is installed and set, and name versions with known holes
  rules    try rules on a command's output, and check them; `penumbra rules --help` tells more
  secrets  show what would be replaced in a text; `penumbra secrets --help` tells more

  --version  of Penumbra, mitmproxy and Python
  -v         mitmproxy's own lines about connections and flows too

Penumbra listens on 127.0.0.1:8080. Other programs are not started by it: start an agent in another
shell, with the lines that Penumbra prints.

Examples:
  penumbra
  penumbra -p 9000 --set penumbra_mode=aggressive
  penumbra --mode reverse:https://api.anthropic.com@8081
  penumbra web --set penumbra_intercept=all
"""
COMMANDS = ("run", "web", "stats", "doctor", "rules", "secrets", "help")
_OURS = ("stats", "doctor")
"""Commands that mitmproxy's parser does not know."""
FILTER_BEGINNINGS = ("~", "!", "(", '"', "'")
"""Of mitmproxy's filter expressions, where no bare words are meant."""
_PIPE = 141
"""As a shell says of a program that a closed pipe has ended: 128 + SIGPIPE."""
_INTERRUPTED = 130
"""As shells have it for a program that Ctrl-C ended."""
I_KNOW = "--i-know"
"""Starts mitmweb although its version shows the flows of all clients to each of them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point. Exit codes: 0 if all is well, 1 if it could not start, 2 if the arguments are wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = _obey(given)
        sys.stdout.flush()
        raise SystemExit(code)
    except BrokenPipeError:
        # Who reads has seen enough, as `head` does. What is still buffered must not fail at the exit again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(_PIPE) from None
    except Failure as failure:
        for line in str(failure).split("\n"):
            print(f"penumbra: {line}", file=sys.stderr, flush=True)
        if failure.is_abrupt:
            sys.stdout.flush()
            os._exit(failure.code)
        raise SystemExit(failure.code) from None
    except KeyboardInterrupt:
        raise SystemExit(_INTERRUPTED) from None


def _obey(given: list[str]) -> int:
    asked = given[1:] if given[:1] and given[0] in _OURS else given[:1]
    if asked in (["-h"], ["--help"], ["help"]):
        print(USAGE, end="")
        return 0
    command = given.pop(0) if given[:1] and given[0] in COMMANDS else "run"
    if "--version" in given:
        print(versions())
        return 0
    if command == "stats":
        from penumbra.cli import stats

        return stats.main(given)
    if command == "doctor":
        from penumbra.cli import doctor

        return doctor.main(given)
    if command == "rules":
        from penumbra.cli import rules

        return rules.main(given)
    if command == "secrets":
        from penumbra.cli import secrets

        return secrets.main(given)
    if given and not given[0].startswith(("-", *FILTER_BEGINNINGS)):
        raise Failure(_no_command(given[0]), code=2)
    if "--" in given:
        raise Failure(no_wrapping(given[given.index("--") + 1 :]), code=2)
    from penumbra.cli import start

    informed = I_KNOW in given
    return start.start(command, [part for part in given if part != I_KNOW], informed=informed)


def no_wrapping(words: Sequence[str]) -> str:
    """What is said to who wants Penumbra to start an agent."""
    name = one_line(Path(words[0]).name) if words else "the agent"
    return (
        f"Penumbra starts no other program: start `penumbra` alone, and {name} in another shell with the "
        "lines that it prints"
    )


def _no_command(word: str) -> str:
    near = difflib.get_close_matches(word, COMMANDS, 1)
    if near and shutil.which(word) is None:
        return f"{word!r} is no command, did you mean {near[0]}?"
    allowed = "run, web, stats, doctor, rules or secrets"
    return f"{word!r} is no command (allowed: {allowed}), and {no_wrapping([word])}"


def versions() -> str:
    """Ours, mitmproxy's and Python's, one a line."""
    try:
        mitmproxy = metadata.version("mitmproxy")
    except metadata.PackageNotFoundError:
        mitmproxy = "not installed"
    return f"Penumbra {__version__}\nmitmproxy {mitmproxy}\nPython {platform.python_version()}"


def script() -> Path:
    """The file for mitmproxy's `-s`: in the package in a wheel, beside it in a clone."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "main.py"
    return inside if inside.exists() else package.parent / "main.py"
