"""This module finds the files of the proxy's CA, and makes the bundle: a file with the CA certificate and the
public certificates."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from penumbra.cli.command import Failure
from penumbra.metrics import running

NAME = "mitmproxy"
"""Prefix of the names of all CA files."""


def own_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of Penumbra's own CA, even if it does not exist."""
    return running.folder(environment).parent / "ca"


def ca_file(folder: Path) -> Path:
    return folder / f"{NAME}-ca.pem"


def certificate_file(folder: Path) -> Path:
    """Return the file of the CA certificate alone."""
    return folder / f"{NAME}-ca-cert.pem"


DEFAULT = "~/.mitmproxy"
"""Folder of mitmproxy's CA."""
_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Files in which systems store the certificates that they trust."""
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_MOST_BYTES = 16_000_000


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    bundle: Path | None
    """The path of the bundle; None if the bundle could not be made."""
    problem: str = ""
    """Reason why there is no bundle; empty if there is a bundle."""


def folder_in_use(confdir: str = DEFAULT, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the CA to use. The user's choice comes first, then Penumbra's CA, then mitmproxy's
    CA, which programs may already trust. If neither CA exists, return the folder for a new CA of Penumbra.
    Raises Failure."""
    named = Path(os.path.expanduser(confdir))
    if confdir.startswith("~") and not named.is_absolute():
        raise Failure(
            f"no home folder is known for the CA certificate ({confdir}): set HOME, or name a folder "
            "with --set confdir=FOLDER"
        )
    own = own_folder(environment)
    if confdir != DEFAULT or not (ca_file(own).exists() or not ca_file(named).exists()):
        return named
    return own


def with_bundle(ca: Path, extra: Iterable[Path] = ()) -> Certificates:
    """Return a CA certificate with its bundle, which is written if it is missing or outdated. A bundle that
    also contains the files in `extra` has another name. Programs use a bundle instead of their own
    certificates. A bundle must therefore contain the public certificates, too."""
    extra = [path for path in extra if path.parent != ca.parent]
    try:
        own = _certificates_in(ca)
        public = [certificate for path in _public() for certificate in _certificates_in(path)]
        content = _joined([*own, *public])
        more = [certificate for path in extra if path.is_file() for certificate in _certificates_in(path)]
        bundle = ca.parent / "penumbra-ca-bundle.pem"
        if (joined := _joined([*own, *public, *more])) != content:
            mark = hashlib.sha256(joined).hexdigest()[:12]
            bundle, content = bundle.with_name(f"penumbra-ca-bundle-{mark}.pem"), joined
    except OSError as error:
        return Certificates(ca, None, f"{error.filename} can't be read ({error.strerror or error})")
    try:
        return Certificates(ca, _written(bundle, content))
    except OSError as error:
        return Certificates(ca, None, f"{bundle} can't be written ({error.strerror or error})")


def _public() -> list[Path]:
    """Return the files with the certificates that programs trust without Penumbra: Mozilla's list (certifi),
    and the system's list. A system's list may contain a company's own certificate."""
    import certifi

    system = ssl.get_default_verify_paths().openssl_cafile
    files = [Path(certifi.where())]
    files += [path for name in (system, *_SYSTEM) if (path := Path(name)).is_file()][:1]
    return files


def _certificates_in(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        found = [match[0].strip().split(b"\n") for match in _CERTIFICATE.finditer(file.read(_MOST_BYTES))]
    return [b"\n".join(map(bytes.strip, lines)) for lines in found]


def _joined(certificates: Iterable[bytes]) -> bytes:
    return b"\n".join(dict.fromkeys(certificates)) + b"\n"


def _written(bundle: Path, content: bytes) -> Path:
    """Write a bundle. A file with the same content is left alone, since its folder may be read-only."""
    if bundle.exists() and bundle.read_bytes() == content:
        return bundle
    draft = bundle.with_suffix(f".{os.getpid()}")
    draft.write_bytes(content)
    draft.chmod(0o644)
    return draft.replace(bundle)
