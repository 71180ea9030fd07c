"""`penumbra`: starts mitmproxy with the addon loaded, and says how to point an agent at it."""

from __future__ import annotations


import sys
from collections.abc import Sequence
from pathlib import Path

USAGE = """\
usage: penumbra [run|web] [arguments of mitmdump or mitmweb]

  run   start mitmdump with Penumbra (the default)
  web   start mitmweb with Penumbra

Examples:
  penumbra
  penumbra run --set penumbra_mode=aggressive
  penumbra run --mode reverse:https://api.anthropic.com@8081
  penumbra web --set penumbra_intercept=all
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point; replaces this process's mitmproxy arguments and never returns normally."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"], ["help"]):
        print(USAGE, end="")
        return
    tool = given.pop(0) if given[:1] in (["run"], ["web"]) else "run"
    if given and not given[0].startswith("-"):
        print(f"penumbra: {given[0]!r} is no command, allowed: run or web", file=sys.stderr)
        raise SystemExit(2)
    print(hints(given), flush=True)
    command = ["-s", str(script()), *given]
    # Imported late: `penumbra --help` need not wait for it.
    from mitmproxy.tools import main as tools

    if tool == "web":
        tools.mitmweb(command)
    else:
        tools.mitmdump(command)


def script() -> Path:
    """The file for mitmproxy's `-s`: beside the package's modules in a wheel, above them in a clone."""
    package = Path(__file__).resolve().parent
    inside = package / "main.py"
    return inside if inside.exists() else package.parent / "main.py"


def hints(arguments: Sequence[str]) -> str:
    """How to point an agent at the proxy that these arguments start."""
    port = _value(arguments, ("-p", "--listen-port"), "listen_port") or "8080"
    folder = Path(_value(arguments, (), "confdir") or "~/.mitmproxy").expanduser()
    certificate = folder / "mitmproxy-ca-cert.pem"
    lines = [f"CA certificate: {certificate} (made at the first start)"]
    if any(argument in ("-m", "--mode") or argument.startswith("--mode=") for argument in arguments):
        return "\n".join(lines)
    return "\n".join(
        [
            *lines,
            "Point an agent at it, in the shell that starts the agent:",
            f"  export HTTPS_PROXY=http://127.0.0.1:{port}",
            f"  export NODE_EXTRA_CA_CERTS={certificate}   # Claude Code, Gemini CLI, other Node agents",
            f"  export SSL_CERT_FILE={certificate}         # Python SDKs, Codex",
        ]
    )


def _value(arguments: Sequence[str], flags: tuple[str, ...], option: str) -> str:
    """The value that a flag or `--set option=` gives, the last one; empty if there is none."""
    found = ""
    for index, argument in enumerate(arguments):
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        name, _, value = argument.partition("=")
        if argument in flags:
            found = following
        elif name in flags:
            found = value
        elif argument == "--set" and following.startswith(f"{option}="):
            found = following.partition("=")[2]
    return found


if __name__ == "__main__":
    main()
