"""`penumbra`: starts mitmproxy with the addon loaded, and says how to point an agent at it."""

from __future__ import annotations

import os
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
    folder = Path(_value(given, (), "confdir") or "~/.mitmproxy").expanduser()
    print(hints(given, ca_bundle(folder)), flush=True)
    command = ["-s", str(script()), *given]
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


def ca_bundle(folder: Path) -> Path:
    """mitmproxy's CA certificate and the public ones in one file, made anew at every start.

    Programs that take a bundle take it instead of their own, and they must still trust the hosts
    that are tunnelled and not decrypted.
    """
    # Imported late: `penumbra --help` need not wait for it.
    import certifi
    from mitmproxy.certs import CertStore

    CertStore.from_store(folder, "mitmproxy", 2048)
    bundle = folder / "penumbra-ca-bundle.pem"
    own = (folder / "mitmproxy-ca-cert.pem").read_bytes()
    draft = bundle.with_suffix(f".{os.getpid()}")
    draft.write_bytes(own.rstrip() + b"\n" + Path(certifi.where()).read_bytes())
    draft.replace(bundle)
    return bundle


def hints(arguments: Sequence[str], bundle: Path) -> str:
    """How to point an agent at the proxy that these arguments start."""
    certificate = bundle.with_name("mitmproxy-ca-cert.pem")
    lines = [f"CA certificate: {certificate}"]
    if any(argument in ("-m", "--mode") or argument.startswith("--mode=") for argument in arguments):
        return lines[0]
    port = _value(arguments, ("-p", "--listen-port"), "listen_port") or "8080"
    lines += [
        "Point an agent at Penumbra, in the shell that starts the agent:",
        f"  export HTTPS_PROXY=http://127.0.0.1:{port}",
        f"  export NODE_EXTRA_CA_CERTS={certificate}   # Claude Code, Gemini CLI and other Node agents",
        f"  export SSL_CERT_FILE={bundle}   # Python SDKs",
        f"  export CODEX_CA_CERTIFICATE={certificate}   # Codex",
    ]
    return "\n".join(lines)


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
