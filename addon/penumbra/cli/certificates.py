"""mitmproxy's CA certificate, and the bundle that holds it beside the public ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from penumbra.cli.failure import Failure


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where they lie."""

    ca: Path
    bundle: Path | None
    """None where it could not be written."""
    problem: str = ""
    """Why there is no bundle."""


def prepare(confdir: str) -> Certificates:
    """Makes the CA if there is none, and the bundle anew, in mitmproxy's folder. Raises Failure.

    Programs that take a bundle take it instead of their own, and they must still trust the hosts
    that are tunnelled and not decrypted.
    """
    import certifi
    from mitmproxy.certs import CertStore

    folder = Path(os.path.expanduser(confdir))
    if confdir.startswith("~") and not folder.is_absolute():
        raise Failure(
            f"no home folder is known for mitmproxy's CA certificate ({confdir}): set HOME, or name a folder "
            "with --set confdir=FOLDER"
        )
    ca = folder / "mitmproxy-ca-cert.pem"
    try:
        CertStore.from_store(folder, "mitmproxy", 2048)
        own = ca.read_bytes()
    except OSError as error:
        raise Failure(
            f"mitmproxy's CA certificate can't be made or read in {folder} ({error.strerror or error}): name "
            "another folder with --set confdir=FOLDER"
        ) from None
    except ValueError as error:
        raise Failure(
            f"{folder / 'mitmproxy-ca.pem'} is no CA certificate with its key ({str(error)[:80]}): move it "
            "away, and a new one is made"
        ) from None
    bundle = folder / "penumbra-ca-bundle.pem"
    content = own.rstrip() + b"\n" + Path(certifi.where()).read_bytes()
    try:
        return Certificates(ca, _written(bundle, content))
    except OSError as error:
        return Certificates(ca, None, f"{bundle} can't be written ({error.strerror or error})")


def _written(bundle: Path, content: bytes) -> Path:
    """A bundle that is right already need not be written, nor its folder be writable."""
    if bundle.exists() and bundle.read_bytes() == content:
        return bundle
    draft = bundle.with_suffix(f".{os.getpid()}")
    draft.write_bytes(content)
    return draft.replace(bundle)
