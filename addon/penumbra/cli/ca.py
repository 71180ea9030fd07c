"""`penumbra ca`: the CA certificate that the proxy signs with. No trust store of a system is touched."""

from __future__ import annotations

import shlex
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from penumbra.cli import certificates
from penumbra.cli.ca_files import ca_file, certificate_file, own_folder
from penumbra.cli.failure import WRONG, Failure
from penumbra.cli.parser import Parser, action, settings

USAGE = """\
usage: penumbra ca [show]
       penumbra ca make [--again] [--host HOST]… [--any-host]
       penumbra ca trust
       penumbra ca remove

  show    where it lies, what it signs for, until when, and its fingerprint
  make    make one of Penumbra's own, which can sign for the domains of LLM hosts only
  trust   say how a system or a client is told to trust it; `penumbra wrap` needs none of that
  remove  delete Penumbra's own

  --again      in the place of the one that is there; what trusted that has to trust this one anew
  --host HOST  it signs for this host, too (globs allowed, as in penumbra_hosts); may be repeated
  --any-host   it signs for all hosts, for penumbra_intercept=all

Penumbra takes its own CA, or mitmproxy's in ~/.mitmproxy where there is only that; where there is none, the
first start makes one.
"""


def main(arguments: Sequence[str]) -> int:
    """Does what is asked; the exit code. Raises Failure."""
    asked, rest = action("ca", arguments or ["show"], ("show", "make", "trust", "remove"))
    parser = Parser(f"ca {asked}")
    settings()
    if asked == "make":
        parser.add_argument("--again", action="store_true")
        parser.add_argument("--host", dest="hosts", action="append", default=[])
        parser.add_argument("--any-host", action="store_true")
        return _make(parser.read(rest))
    parser.read(rest)
    return {"show": _show, "trust": _trust, "remove": _remove}[asked]()


def _make(wish: Namespace) -> int:
    from penumbra.cli import own_ca

    folder = own_folder()
    if ca_file(folder).exists() and not wish.again:
        raise Failure(f"there is one in {folder}: `penumbra ca make --again` makes another in its place")
    try:
        own_ca.make(folder, None if wish.any_host else wish.hosts)
    except own_ca.TooWide as glob:
        raise Failure(f"{glob} stands for hosts of everybody: --any-host says so", code=WRONG) from None
    except OSError as error:
        raise Failure(f"no CA can be made in {folder} ({error.strerror or error})") from None
    certificates.with_bundle(certificate_file(folder))
    return _show()


def _show() -> int:
    from penumbra.cli import own_ca

    folder = _there()
    ca = own_ca.read(folder)
    whose = "Penumbra's own" if folder == own_folder() else "mitmproxy's"
    print(f"certificate  {certificate_file(folder)} ({whose})")
    print(f"key          {ca_file(folder)}")
    # Names first, then ranges of addresses.
    names = ", ".join(sorted(ca.names, key=lambda name: "/" in name)) or "any host"
    print(textwrap.fill(f"signs for    {names}", 100, subsequent_indent=" " * 13, break_on_hyphens=False))
    print(f"valid until  {ca.until:%Y-%m-%d}")
    print(f"SHA-256      {ca.fingerprint}")
    return 0


def _trust() -> int:
    folder = _there()
    ca, bundle = certificate_file(folder), folder / "penumbra-ca-bundle.pem"
    file, name = shlex.quote(str(ca)), "penumbra.crt"
    print(
        f"""\
`penumbra wrap -- PROGRAM` sets all that a program needs, and nothing has to be trusted beyond it. Otherwise:

Programs in a shell   eval "$(penumbra wrap --print-env)"   (`penumbra proxy` must be running)
Claude Code, Node     NODE_EXTRA_CA_CERTS={file}
Codex                 CODEX_CA_CERTIFICATE={file}
Python, curl, Rust    SSL_CERT_FILE={shlex.quote(str(bundle))}

The whole system, for desktop apps, VS Code and Zed:
  Debian, Ubuntu      sudo cp {file} /usr/local/share/ca-certificates/{name} && sudo update-ca-certificates
  Fedora, RHEL        sudo trust anchor {file}
  Arch                sudo trust anchor --store {file}
  macOS               security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {file}
  Windows             certutil -addstore -user Root {certificate_file(folder).with_suffix(".cer")}
  Firefox             Settings, Certificates, Authorities, Import: {ca}

Take it out again before `penumbra ca remove`:
  Debian, Ubuntu      sudo rm /usr/local/share/ca-certificates/{name} && sudo update-ca-certificates --fresh
  Fedora, RHEL, Arch  sudo trust anchor --remove {file}
  macOS               security remove-trusted-cert {file}
  Windows             certutil -delstore -user Root Penumbra"""
    )
    return 0


def _remove() -> int:
    folder = own_folder()
    if not folder.exists():
        other = Path(certificates.DEFAULT).expanduser()
        if ca_file(other).exists():
            raise Failure(f"the CA in use is mitmproxy's own, in {other}: delete that folder to remove it")
        raise Failure("there is no CA to remove")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise Failure(f"{folder} can't be removed ({error.strerror or error})") from None
    print(f"{folder} is gone. Where a system was told to trust it, its own settings end that.")
    return 0


def _there() -> Path:
    """The folder of the CA in use. Raises Failure if there is none yet."""
    folder = certificates.folder_in_use()
    if not ca_file(folder).exists() or not certificate_file(folder).exists():
        raise Failure("no CA yet: the first start makes one, or `penumbra ca make`")
    return folder
