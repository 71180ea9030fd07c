"""Names that a certificate may have, where the CA's own restricts them.

mitmproxy takes the names of the upstream's certificate over, and a provider's may be for more than its API: a
client refuses a certificate with a single name that its CA may not sign for.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from cryptography import x509
from mitmproxy import tls

from penumbra.flow.guarded import Guarded
from penumbra.flow.mitm import addon


class CertificateNames(Guarded):
    """A child addon. State: the store of certificates that was last looked at; mitmproxy makes a new one
    whenever its options say so."""

    def __init__(self) -> None:
        self._store: object = None

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Before a certificate is made."""
        tls_config = addon("tlsconfig")
        store = tls_config.certstore if tls_config is not None else None
        if store is None or store is self._store:
            return
        self._store = self.limited(store)

    @staticmethod
    def limited(store: Any) -> Any:
        """A store whose certificates say what its CA may sign for."""
        allowed = constraints_of(store.default_ca._cert)
        if allowed is not None:
            store.get_cert = partial(_limited, store.get_cert, allowed)
        return store


def _limited(
    get_cert: Any,
    allowed: Sequence[x509.GeneralName],
    common_name: str | None,
    names: Iterable[x509.GeneralName],
    *more: Any,
) -> Any:
    """mitmproxy's own, with what the CA may sign for; if that is nothing, a client may see it."""
    names = list(names)
    kept = [name for name in names if is_permitted(name, allowed)]
    # BoringSSL can't check limits of addresses, and refuses a certificate with one.
    kept = [name for name in kept if isinstance(name, x509.DNSName)] or kept
    if not kept:
        return get_cert(common_name, x509.GeneralNames(names), *more)
    return get_cert(str(kept[0].value), x509.GeneralNames(kept), *more)


def constraints_of(certificate: x509.Certificate) -> list[x509.GeneralName] | None:
    """Return what a CA may sign for; None: anything."""
    try:
        limits = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None
    return list(limits.permitted_subtrees or [])


def is_permitted(name: x509.GeneralName, allowed: Iterable[x509.GeneralName]) -> bool:
    """Return whether a name, or a network, lies within what is allowed."""
    if isinstance(name, x509.IPAddress):
        network = ipaddress.ip_network(str(name.value))
        networks = [other.value for other in allowed if isinstance(other, x509.IPAddress)]
        return any(
            isinstance(other, (ipaddress.IPv4Network, ipaddress.IPv6Network))
            and other.version == network.version
            and network.subnet_of(other)  # type: ignore[arg-type]
            for other in networks
        )
    host = str(name.value).lower().removeprefix("*.")
    return any(
        isinstance(other, x509.DNSName)
        and (host == other.value.lower() or host.endswith(f".{other.value.lower()}"))
        for other in allowed
    )
