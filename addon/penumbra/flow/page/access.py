"""This module decides which requests may access the page. An allowed request has the link's token or a
cookie, and a known host. No other web page has caused the request, unless the user followed a link.

A hostile web page can make a browser send requests here, but the page has no token. The requests name the
hostile page's host, even if that name resolves to this machine. Headers of the browser show which page caused
a request.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

PROXIED_HOST = "penumbra.local"
PROOF_HEADER = "x-penumbra-page"
"""Header by which the proxy marks requests that came through it. The same header from clients is removed."""
_SAME = ("", "none", "same-origin")
_LOCAL = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A `PageRequest` is a request to the page. Names of headers are in lower case."""

    method: str
    headers: Mapping[str, str]
    token: str = ""
    """Token in the query of the URL; empty if there is none."""
    cookie: str = ""
    is_start: bool = False
    """True if the request is for the page itself."""


class Access:
    """An `Access` decides which requests may access one page."""

    def __init__(self, token: str, hosts: frozenset[str], proof: str, port: int = 0) -> None:
        """`hosts` are the page's names, with ports. If `port` is not 0, any IP address with this port is also
        a name of the page. `proof` is the value of `PROOF_HEADER`."""
        self.token = token
        self.cookie = _derived(token, "cookie")
        """Cookie that a browser stores. No link accepts the cookie as its token."""
        self.proxied_cookie = _derived(token, "proxied cookie")
        """Cookie for `PROXIED_HOST`. Without the proxy, this name may lead to another host."""
        self._hosts = hosts
        self._proof = proof
        self._port = port

    def refusal(self, asked: PageRequest) -> str:
        """Return why a request is refused; empty if it is allowed."""
        host = asked.headers.get("host", "").lower()
        is_proxied = self.is_proxied(asked)
        if not (is_proxied if host == PROXIED_HOST else host in self._hosts or self._is_address(host)):
            return "the page has another address"
        origin, site = asked.headers.get("origin", ""), asked.headers.get("sec-fetch-site", "")
        if origin and origin.lower() != f"http://{host}":
            return "the request comes from another web page"
        # Other web pages may have links to this page, which need the token.
        if site not in _SAME and not (asked.is_start and asked.method == "GET"):
            return "the request comes from another web page"
        if asked.method not in ("GET", "HEAD") and not origin:
            return "the request does not come from this page"
        return (
            "" if self._is_known(asked, is_proxied) else "the link has a token, which `penumbra page` prints"
        )

    def _is_address(self, host: str) -> bool:
        """Return whether a host is an IP address with the page's port. An attacker can make a name resolve to
        this machine, but can't redirect an address."""
        address, _, port = host.rpartition(":")
        if not self._port or port != str(self._port):
            return False
        try:
            ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        return True

    def is_proxied(self, asked: PageRequest) -> bool:
        return _same(asked.headers.get(PROOF_HEADER, ""), self._proof)

    def _is_known(self, asked: PageRequest, is_proxied: bool) -> bool:
        cookie = self.proxied_cookie if is_proxied else self.cookie
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        got = asked.token or (bearer.strip() if scheme.lower() == "bearer" else "")
        return _same(got, self.token) or _same(asked.cookie, cookie)


def token(key: bytes) -> str:
    """Return the token of an installation. The token follows from the installation's `key`, so links stay
    valid after a restart."""
    return hashlib.blake2b(b"the page's token", key=key[:64], digest_size=24).hexdigest()


def hosts(host: str, port: int) -> frozenset[str]:
    """Return the hosts that a request to the page may name, each with the port."""
    bare = f"[{host}]" if ":" in host else host
    return frozenset(f"{name}:{port}".lower() for name in (bare, *_LOCAL))


def _derived(secret: str, use: str) -> str:
    return hashlib.blake2b(use.encode(), key=secret.encode(), digest_size=24).hexdigest()


def _same(got: str, wanted: str) -> bool:
    return bool(got) and hmac.compare_digest(got.encode("utf-8", "replace"), wanted.encode())
