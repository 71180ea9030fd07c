"""Requests to Amazon that are signed: left alone, or signed again with the client's own keys."""

from __future__ import annotations

import logging
import os
import time

from mitmproxy import http

from penumbra.apis import recognise
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.errors import one_line
from penumbra.flow import destination
from penumbra.metrics.journal import Journal
from penumbra.wire import sigv4

_MOST_HOSTS = 1_000
"""Most hosts that are warned of."""
_log = logging.getLogger(__name__)


class Signing:
    """State: which hosts were warned of."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._warned: set[str] = set()

    def forbids_changes(self, flow: http.HTTPFlow, api: Api | None, settings: Settings) -> bool:
        """Return whether a signature forbids every change, and warn of it once for each host.

        Amazon alone reads such signatures: elsewhere, the header that carries one is any other header.
        """
        request = flow.request
        if not sigv4.covers_body(request.headers) or not recognise.is_signed(destination.host(flow), api):
            return False
        keys = _keys(settings)
        if keys is not None and keys.made(_signable(request)):
            return False
        self._journal.passed("signed")
        host = one_line(request.host)
        if host not in self._warned and len(self._warned) < _MOST_HOSTS:
            self._warned.add(host)
            _log.warning(
                f"Penumbra leaves requests to {host} alone: they are signed. Use an API key, "
                "or penumbra_aws_signing=environment and the client's own keys."
            )
        return True


def sign(request: http.Request, settings: Settings, date: str = "") -> None:
    """Sign a changed request with the keys that the client has signed its own with. `date`: empty for that
    of the client's signature."""
    if sigv4.covers_body(request.headers) and (keys := _keys(settings)) is not None:
        request.headers.update(keys.sign(_signable(request), date))


def sign_now(request: http.Request, settings: Settings) -> None:
    """Sign a hidden request: the client's own may have been signed long ago."""
    sign(request, settings, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))


def headers_of(request: http.Request) -> dict[str, str]:
    """By names in lower case."""
    return {name.lower(): value for name, value in request.headers.items()}


def _keys(settings: Settings) -> sigv4.Keys | None:
    key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if settings.aws_signing != "environment" or not key_id or not secret:
        return None
    return sigv4.Keys(key_id, secret)


def _signable(request: http.Request) -> sigv4.Signable:
    headers = {"host": request.pretty_host, **headers_of(request)}
    return sigv4.Signable(request.method, request.path, headers, request.raw_content or b"")
