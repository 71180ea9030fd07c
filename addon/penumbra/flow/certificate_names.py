"""This module limits the names in mitmproxy's certificates to the names for which the CA may sign.

mitmproxy copies all names in the upstream's certificate. These names may belong to other hosts than the
API's. Clients refuse a certificate if the CA may not sign for one of its names.
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
    """A `CertificateNames` limits the names in the certificates of mitmproxy's store. If options change,
    mitmproxy may make a new store. This store is also limited."""

    def __init__(self) -> None:
        self._store: object = None

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Limit the names of the store before a certificate is made."""
        tls_config = addon("tlsconfig")
        store = tls_config.certstore if tls_config is not None else None
        if store is None or store is self._store:
            return
        self._store = self.limited(store)

    @staticmethod
    def limited(store: Any) -> Any:
        """Make the store issue certificates only for permitted names, and return the store."""
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
    """Return mitmproxy's certificate with only the permitted names. If no name is permitted, the certificate
    has all names, so that the client reports the error."""
    names = list(names)
    kept = [name for name in names if is_permitted(name, allowed)]
    # BoringSSL can't check name constraints for addresses, and refuses a certificate with an address.
    kept = [name for name in kept if isinstance(name, x509.DNSName)] or kept
    if not kept:
        return get_cert(common_name, x509.GeneralNames(names), *more)
    return get_cert(str(kept[0].value), x509.GeneralNames(kept), *more)


def constraints_of(certificate: x509.Certificate) -> list[x509.GeneralName] | None:
    """Return the names for which a CA may sign; None if it may sign for all names."""
    try:
        limits = certificate.extensions.get_extension_for_class(x509.NameConstraints).value
    except x509.ExtensionNotFound:
        return None
    return list(limits.permitted_subtrees or [])


def is_permitted(name: x509.GeneralName, allowed: Iterable[x509.GeneralName]) -> bool:
    """Return whether a name or network is within the allowed names or networks."""
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
