"""Who is asking: the account behind a request, as far as the request itself tells.

The result is only ever hashed with the installation's key; it is not stored or shown. A login's
token changes every few hours while the conversation goes on, so where a token names its account,
the account counts and not the token.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from penumbra.wire.document import NotJson, decode

_AWS_KEY = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]{1,256})/", re.ASCII)
_KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key")


def credential(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """The credential as the request carries it; empty if it carries none."""
    for name in _KEY_HEADERS:
        if headers.get(name):
            return headers[name]
    return headers.get("authorization") or query.get("key") or ""


def credential_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that authorise a request, and what its API wants to know beside a login's token."""
    found = {name: headers[name] for name in ("authorization", *_KEY_HEADERS) if headers.get(name)}
    betas = [beta.strip() for beta in headers.get("anthropic-beta", "").split(",")]
    login = ",".join(beta for beta in betas if beta.startswith("oauth-"))
    return {**found, "anthropic-beta": login} if found and login else found


def principal(headers: Mapping[str, str], query: Mapping[str, str], user: str = "") -> str:
    """What stays the same when a login's token is renewed or a request is signed; else the credential.

    `user` is the request's own statement about its user (Anthropic's `metadata.user_id`), which
    counts only beside a login token that does not name its account.
    """
    secret = credential(headers, query)
    if signed := _AWS_KEY.match(secret):
        # What stands behind it is another one for every request.
        return f"aws {signed[1]}"
    scheme, _, token = secret.partition(" ")
    if scheme.lower() != "bearer":
        return secret
    claims = _claims(token)
    if claims.get("sub"):
        return f"jwt {claims.get('iss')} {claims['sub']} {headers.get('chatgpt-account-id', '')}"
    if token.startswith("sk-ant-oat") and (account := _account(user)):
        return f"claude {account}"
    return secret


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
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
