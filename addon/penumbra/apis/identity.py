"""This module derives the identity of a caller from the connected host and all credentials of a request.

The *scope* is a hash of the host and of all credentials with their names and kinds. If a request has no
credentials, the client's address is hashed instead. Some login tokens are renewed every few hours, during a
conversation. A request with one of these tokens therefore has a second hash, the *possession*, without the
value of the token. Content that is stored under the possession is used only if the request also contains the
right history. The account that a token or a body claims is also hashed. A false claim gives nobody the
content of another caller.

`rules/credentials.yaml` lists the names of credentials.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from typing import Any

import re2
from msgspec import Struct

from penumbra import rules
from penumbra.apis.parts import is_telling
from penumbra.linear import QUIET, LinearText, without_surrogates
from penumbra.short_texts import remembered
from penumbra.wire.json_values import NotJson, decode

_KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")
_OTHERS = LinearText("[^a-z]+")
_LONGEST_NAME = _MOST_NAMES = 256
"""A name with more characters than `_LONGEST_NAME` counts as a credential. If a request has more than
`_MOST_NAMES` names, all of them count as credentials."""


class Caller(Struct, frozen=True, dict=True):
    """A `Caller` identifies the caller and conversation of a request. Scopes are keyed hashes of 32 bytes."""

    scope: bytes
    """The scope of stored content. Requests with another scope never get this content."""
    session: str = ""
    """The name of the conversation. All of its requests share this name."""
    session_as_sent: str = ""
    """The name that follows from the unredacted opening; empty if it is the same as `session`."""
    possession: bytes = b""
    """The scope without the values that a renewed login changes; empty if a renewal changes no value."""
    is_open: bool = False
    """True if the request has no credential."""
    joined: str = ""
    """The name that all requests with shared originals have; empty if originals are not shared."""

    @property
    def owner(self) -> bytes:
        """The scope of content that needs a proof: the request must have the history of the content."""
        return self.possession or self.scope

    def elsewhere(self, response_id: str) -> bytes:
        """Return the scope of a response that only the provider stores. A caller that knows a unique id has
        got the response. With any other id, the full scope is required."""
        return self.owner if is_telling(response_id) else self.scope

    @cached_property
    def conversation(self) -> bytes:
        """The scope of a conversation's references and originals."""
        return self._session(self.session, self.scope)

    @cached_property
    def shared(self) -> bytes:
        """The scope of shared originals; empty if none are shared, or the request has no credential."""
        return self._session(self.joined, self.scope) if self.joined and not self.is_open else b""

    @cached_property
    def possessed(self) -> bytes:
        """The scope of a conversation's content that needs a proof, as in `owner`."""
        return self._session(self.session_as_sent or self.session, self.owner)

    @staticmethod
    def _session(name: str, whose: bytes) -> bytes:
        session = name.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(session, key=whose, digest_size=32, person=b"penumbra opening").digest()


class Credentials(Struct, frozen=True):
    host: str
    """Name and port of the connected host."""
    peer: str
    """The client's address, which distinguishes callers without credentials."""
    found: tuple[tuple[str, str, str], ...]
    """Kind, name and value of each credential."""

    @classmethod
    def of(cls, host: str, peer: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Credentials:
        """Read the credentials of a request. Names in `headers` are in lower case."""
        return cls(host, peer, tuple(_credentials(host, headers, query)))

    def scope(self, key: bytes) -> bytes:
        """Return the caller's scope. `key` is the installation's key."""
        return _hash(key, ("host", self.host), *(self.found or (("peer", self.peer),)))

    def caller(self, key: bytes, user: str = "", scope: bytes = b"") -> Caller:
        """Return the caller. `user` is the user that the request names. `scope` is the caller's scope if it
        was made before."""
        scope = scope or self.scope(key)
        if not self.found:
            return Caller(scope, is_open=True)
        lasting = tuple(_lasting(kind, name, value, user) for kind, name, value in self.found)
        is_lasting = lasting == self.found
        return Caller(scope, possession=b"" if is_lasting else _hash(key, ("host", self.host), *lasting))


def credential_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that authorise a request. Login tokens also need a value of `anthropic-beta`."""
    credentials = {name: headers[name] for name in ("authorization", *_KEY_HEADERS) if headers.get(name)}
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",")]
    login = ",".join(beta for beta in betas if beta.startswith("oauth-"))
    return {**credentials, "anthropic-beta": login} if credentials and login else credentials


def _credentials(
    host: str, headers: Mapping[str, str], query: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield kind, name and value of each credential: first those in headers, then those in the query."""
    for name in sorted(headers):
        value = headers[name]
        if not value or not (len(headers) > _MOST_NAMES or _is_header(name)):
            continue
        if name == "cookie":
            yield from (("cookie", one, content) for one, content in _cookies(value))
        elif (signed := _signed(host.rpartition(":")[0], name, value)) is not None:
            yield "signed", name, signed
        else:
            yield "header", name, value
    for name in sorted(query):
        if query[name] and (len(query) > _MOST_NAMES or _is_query(name)):
            yield "query", name, query[name]


def _lasting(kind: str, name: str, value: str, user: str) -> tuple[str, ...]:
    """Return the part of a credential that stays when a login is renewed."""
    login = _login(value) if kind == "header" else None
    if login is None:
        return kind, name, value
    claims = _claims(value) if login == "jwt" else {}
    named = (str(claims.get("iss", "")), str(claims.get("sub", "")))
    return "login", name, login, *named, _account(user) if login == "user" else ""


def _hash(key: bytes, *parts: tuple[str, ...]) -> bytes:
    digest = hashlib.blake2b(key=key[:64], digest_size=32, person=b"penumbra scope")
    for part in parts:
        digest.update(len(part).to_bytes(4, "big"))
        for text in part:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()


def _claims(value: str) -> dict[str, Any]:
    parts = value.rpartition(" ")[2].split(".")
    try:
        claims = decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _account(user: str) -> str:
    try:
        found = decode(user.encode("utf-8", "surrogatepass"))
    except NotJson:
        return ""
    account = found.get("account_uuid") if isinstance(found, dict) else None
    return account if isinstance(account, str) else ""


def _cookies(value: str) -> list[tuple[str, str]]:
    pairs = (pair.strip().partition("=") for pair in value.split(";"))
    unlike = _credential_rules().cookies
    return sorted((name, content) for name, _, content in pairs if name and name.lower() not in unlike)


class _CredentialRules(Struct, frozen=True):
    headers: frozenset[str]
    queries: frozenset[str]
    words: frozenset[str]
    unlike: frozenset[str]
    cookies: frozenset[str]
    signed: tuple[tuple[str, Any, tuple[str, ...]], ...]
    renewed: Any
    """A set of RE2 patterns for login tokens that are renewed."""
    accounts: tuple[str, ...]
    """For each pattern in `renewed`, where the account is named: in the token (`jwt`), in the request
    (`user`), or nowhere (`none`)."""


@cache
def _credential_rules() -> _CredentialRules:
    content = rules.load("credentials.yaml")
    renewed = re2.Set.FullMatchSet(QUIET)
    for rule in content["renewed"]:
        renewed.Add(rule["value"])
    renewed.Compile()
    return _CredentialRules(
        frozenset(content["headers"]),
        frozenset(content["queries"]),
        frozenset(content["words"]),
        frozenset(content["not"]),
        frozenset(content["cookies_not"]),
        tuple(
            (rule["header"], LinearText(rule["value"]), tuple(rule["hosts"])) for rule in content["signed"]
        ),
        renewed,
        tuple(rule["account"] for rule in content["renewed"]),
    )


@remembered(1_024)
def _is_header(name: str) -> bool:
    return name in _credential_rules().headers or _says_credential(name)


@remembered(1_024)
def _is_query(name: str) -> bool:
    return name.lower() in _credential_rules().queries or _says_credential(name.lower())


def _says_credential(name: str) -> bool:
    if len(name) > _LONGEST_NAME:
        return True  # No client uses names of this length.
    names = _credential_rules()
    return name not in names.unlike and not names.words.isdisjoint(_OTHERS.split(name))


def _signed(host: str, name: str, value: str) -> str | None:
    """Return the constant part of a signature; None for other headers and for hosts that don't check it."""
    for header, pattern, hosts in _credential_rules().signed:
        if header == name and any(fnmatchcase(host.lower(), pattern) for pattern in hosts):
            match = pattern.fullmatch(value)
            if match is not None:
                return str(match["key"])
    return None


def _login(value: str) -> str | None:
    """Return where the account of a renewed login token is named; None if the value is no such token."""
    names = _credential_rules()
    found = names.renewed.Match(without_surrogates(value))
    return names.accounts[min(found)] if found else None
