"""`penumbra ca` shows, makes and removes the proxy's CA certificate. The trust stores of the system stay
unchanged. A CA made here can sign only for the domains of LLM hosts, for hosts that the user names, and for
this machine. A stolen key is thus useless for other hosts. The user can also allow all hosts."""

from __future__ import annotations

import datetime
import ipaddress
import os
import shlex
import shutil
import textwrap
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from mitmproxy.certs import DEFAULT_DHPARAM, create_ca

from penumbra import rules
from penumbra.cli import certificates
from penumbra.cli.certificates import NAME, ca_file, certificate_file, own_folder
from penumbra.cli.command import WRONG, Failure, Parser, action, settings
from penumbra.flow.certificate_names import constraints_of, is_permitted
from penumbra.rule_schemas.providers import Providers

_BITS = 2048
_WILD = frozenset("*?[")
_LEAST_LABELS = 2
_LOOPBACK = ("127.0.0.0/8", "::1/128")


class TooWide(ValueError):
    """A `TooWide` is raised for a glob that matches hosts of arbitrary owners."""

    def __init__(self, glob: str) -> None:
        super().__init__(f"got {glob!r}, allowed: a host, or a glob that ends in a domain (*.example.com)")
        self.glob = glob


@dataclass(frozen=True, slots=True)
class OwnCa:
    names: tuple[str, ...]
    """Domains and ranges of addresses for which the CA may sign; empty if it may sign for all."""
    until: datetime.datetime
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""
    certificate: x509.Certificate

    def lacks(self, hosts: Iterable[str]) -> list[str]:
        """Return the hosts (globs) for which the CA may not sign."""
        allowed = constraints_of(self.certificate)
        lacking = []
        for host in hosts:
            try:
                name = _general(domain(host))
            except TooWide:
                lacking += [host] if allowed is not None else []
                continue
            if allowed is not None and not is_permitted(name, allowed):
                lacking.append(host)
        return lacking


def provider_hosts() -> tuple[str, ...]:
    providers = rules.load_as("providers.yaml", Providers)
    return tuple(host for hosts in providers.providers.values() for host in hosts)


def domain(glob: str) -> str:
    """Return the domain with all hosts of a glob. Raises TooWide for globs such as `*` and `*.com`."""
    labels = glob.lower().strip("[]").split(".") if ":" not in glob else [glob]
    wild = max((at for at, label in enumerate(labels) if _WILD & set(label)), default=-1)
    rest = labels[wild + 1 :]
    if wild >= 0 and len(rest) < _LEAST_LABELS:
        raise TooWide(glob)
    return ".".join(rest)


def make(folder: Path, hosts: Iterable[str] | None = ()) -> None:
    """Make a CA in the files that mitmproxy reads. The CA may sign for the hosts of the rules and for the
    globs in `hosts`, or for all hosts if `hosts` is None. Raises OSError, TooWide."""
    key, certificate = _key_and_certificate(_permitted(hosts))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    public = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    package = pkcs12.serialize_key_and_certificates(
        NAME.encode(), None, certificate, None, serialization.NoEncryption()
    )
    for path, content in (
        # mitmproxy would write this file at the first start, but the folder may be read-only then.
        (folder / f"{NAME}-dhparam.pem", DEFAULT_DHPARAM),
        (certificate_file(folder), public),
        (folder / f"{NAME}-ca-cert.cer", public),
        (folder / f"{NAME}-ca-cert.p12", package),
    ):
        path.write_bytes(content)
        # The mode must not depend on the umask, since users with write access decide which certificates
        # programs trust.
        path.chmod(0o644)
    # The file of the key is written last and in one step. If this file exists, all files exist.
    draft = ca_file(folder).with_suffix(f".{os.getpid()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(secret + public)
    draft.replace(ca_file(folder))


def read(folder: Path) -> OwnCa:
    """Read the CA certificate in a folder. Raises OSError, ValueError."""
    certificate = x509.load_pem_x509_certificate(certificate_file(folder).read_bytes())
    allowed = constraints_of(certificate)
    return OwnCa(
        names=tuple(str(name.value) for name in allowed) if allowed is not None else (),
        until=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
        certificate=certificate,
    )


def _permitted(hosts: Iterable[str] | None) -> list[x509.GeneralName] | None:
    """Return the names for which a CA may sign; None for all names."""
    if hosts is None:
        return None
    local = rules.load_as("providers.yaml", Providers).local
    named = [domain(host) for host in (*provider_hosts(), *hosts)]
    named += [host for host in local if not _WILD & set(host)]
    names = {str(_general(name).value): _general(name) for name in sorted(named)}
    names |= {network: x509.IPAddress(ipaddress.ip_network(network)) for network in _LOOPBACK}
    return [
        name
        for name in names.values()
        if not is_permitted(name, [other for other in names.values() if other != name])
    ]


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_network(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode())


def _key_and_certificate(names: list[x509.GeneralName] | None) -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    """Return a CA like mitmproxy's that may sign only for these names; None means all names."""
    what = "LLM hosts" if names is not None else "any host"
    key, plain = create_ca("Penumbra on this machine", f"Penumbra, for {what}", _BITS)
    if names is None:
        return key, plain
    builder = x509.CertificateBuilder(
        plain.issuer,
        plain.subject,
        plain.public_key(),
        plain.serial_number,
        plain.not_valid_before_utc,
        plain.not_valid_after_utc,
        list(plain.extensions),
    )
    limited = builder.add_extension(x509.NameConstraints(names, None), critical=True)
    return key, limited.sign(key, hashes.SHA256())


USAGE = """\
usage: penumbra ca [show]
       penumbra ca make [--again] [--host HOST]… [--any-host]
       penumbra ca trust
       penumbra ca remove

  show    print the CA's file, the hosts it may sign for, its expiry date and its fingerprint
  make    make a CA of Penumbra's own, which can sign only for the domains of LLM hosts
  trust   explain how a system or a client trusts the CA, which `penumbra wrap` does not need
  remove  delete Penumbra's own CA

  --again      replace the present CA; all clients must then trust the new CA
  --host HOST  let the CA sign for this host, too (globs allowed, as in penumbra_hosts); may be repeated
  --any-host   let the CA sign for all hosts, as penumbra_intercept=all needs

Penumbra uses its own CA. If only mitmproxy's CA exists, in ~/.mitmproxy, Penumbra uses that CA. If there is
no CA, the first start makes one.
"""


def main(arguments: Sequence[str]) -> int:
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


def _make(asked: Namespace) -> int:
    folder = own_folder()
    if ca_file(folder).exists() and not asked.again:
        raise Failure(f"there is one in {folder}: `penumbra ca make --again` makes another in its place")
    try:
        make(folder, None if asked.any_host else asked.hosts)
    except TooWide as error:
        key = "--host" if error.glob in asked.hosts else "providers.yaml"
        raise Failure(f"{key}: {error}; --any-host allows any host", code=WRONG) from None
    except OSError as error:
        raise Failure(f"no CA can be made in {folder} ({error.strerror or error})") from None
    certificates.with_bundle(certificate_file(folder))
    return _show()


def _show() -> int:
    folder = _there()
    ca = read(folder)
    whose = "Penumbra's own" if folder == own_folder() else "mitmproxy's"
    print(f"certificate  {certificate_file(folder)} ({whose})")
    print(f"key          {ca_file(folder)}")
    # Host names come first, then ranges of addresses.
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
    print(f"{folder} is gone. Remove it from the trust store of a system that trusted it.")
    return 0


def _there() -> Path:
    folder = certificates.folder_in_use()
    if not ca_file(folder).exists() or not certificate_file(folder).exists():
        raise Failure("no CA yet: the first start makes one, or `penumbra ca make`")
    return folder
