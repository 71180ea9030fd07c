"""This module checks and makes signatures of requests to Amazon Web Services (Signature Version 4).

The signature covers the body, so Penumbra needs the keys to change a signed request. If a request was signed
with these keys (`AwsKeys.made`), `AwsKeys.sign` can sign the request again with another body. No function
here reads the clock.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=(?P<id>[^/,\s]{1,256})/(?P<scope>\d{8}/[\w-]{1,64}/[\w-]{1,64}/aws4_request),"
    r"\s{0,8}SignedHeaders=(?P<names>[\w;-]{1,2000}),\s{0,8}Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_DATE = "x-amz-date"
_PAYLOAD = "x-amz-content-sha256"
_FREE = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True)
class Signable:
    """A `Signable` has the signed parts of a request. Its headers include `host`, with lower-case names."""

    method: str
    path: str
    """The path and the query, in the form that is sent."""
    headers: Mapping[str, str]
    body: bytes


def covers_body(headers: Mapping[str, str]) -> bool:
    """Return whether a request has a signature that covers its body. The names of the headers must be in
    lower case, or the mapping must ignore case."""
    signed = headers.get("authorization", "").startswith("AWS4-")
    return signed and headers.get(_PAYLOAD) != _FREE


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """An `AwsKeys` is an access key id and its secret key."""

    id: str
    secret: str = field(repr=False)

    def made(self, request: Signable) -> bool:
        """Return whether a request's signature was made with these keys."""
        match = self._match(request)
        if match is None:
            return False
        expected = self._signature(request, match["scope"], match["names"].split(";"))
        return hmac.compare_digest(expected, match["signature"])

    def sign(self, request: Signable, date: str = "") -> dict[str, str]:
        """Return the headers with a new signature for this request. `date` is the time of sending, such as
        20260131T120000Z. If `date` is empty, the old time stays, which is valid for a few minutes. Signed
        headers that the request has lost are left out. The result is empty if the request has no signature of
        this key id."""
        match = self._match(request)
        if match is None:
            return {}
        new = {_PAYLOAD: _hash(request.body)} if _PAYLOAD in request.headers else {}
        new |= {_DATE: date} if date else {}
        scope = date[:8] + match["scope"][8:] if date else match["scope"]
        names = [name for name in match["names"].split(";") if name in request.headers]
        changed = Signable(request.method, request.path, {**request.headers, **new}, request.body)
        signature = self._signature(changed, scope, names)
        signed = f"Credential={self.id}/{scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
        return {**new, "authorization": f"AWS4-HMAC-SHA256 {signed}"}

    def _match(self, request: Signable) -> re.Match[str] | None:
        """Return the parts of the signature; None if the request has no signature of this key id."""
        match = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
        return match if match is not None and match["id"] == self.id else None

    def _signature(self, request: Signable, scope: str, names: list[str]) -> str:
        headers = request.headers
        head = "".join(f"{name}:{' '.join(headers.get(name, '').split())}\n" for name in names)
        path, _, query = request.path.partition("?")
        lines = (
            request.method,
            # AWS signs the path percent-encoded twice, and the path is already encoded once.
            quote(path, safe="/~-_."),
            "&".join(sorted(query.split("&"))) if query else "",
            head,
            ";".join(names),
            headers.get(_PAYLOAD) or _hash(request.body),
        )
        date = headers.get(_DATE, "")
        to_sign = ("AWS4-HMAC-SHA256", date, scope, _hash("\n".join(lines).encode("utf-8", "replace")))
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.new(key, "\n".join(to_sign).encode(), "sha256").hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
