"""This module has the page's server, which runs in mitmproxy's event loop. The module also sends requests for
http://penumbra.local/ to this server. tornado is imported when the server is started."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mitmproxy import connection, http

from penumbra.config.parsers import LOOPBACK, PagePlace
from penumbra.flow import listening
from penumbra.flow.guarded import Guarded, stop
from penumbra.flow.page import access
from penumbra.flow.page.access import PROOF_HEADER, PROXIED_HOST
from penumbra.flow.page.contents import Contents

if TYPE_CHECKING:
    from tornado.httpserver import HTTPServer

    from penumbra.flow.page.handlers import Page

_MOST_BYTES = 10_000
"""The greatest size in bytes of a request's headers, and of its body."""
_log = logging.getLogger(__name__)


class PageServer:
    """A `PageServer` serves the page at the place in the setting."""

    def __init__(self, contents: Contents, pause: Callable[..., None]) -> None:
        self._contents = contents
        self._pause = pause
        self._server: HTTPServer | None = None
        self._page: Page | None = None
        self._place = PagePlace(is_on=False)
        self.proof = secrets.token_urlsafe(24)
        """The value of `PROOF_HEADER`, which shows that a request came through this proxy."""
        self.token = ""
        self.port = 0
        """Port of the server; 0 while it does not listen."""

    def follow(self, place: PagePlace, key: bytes) -> None:
        """Serve the page at the place in the setting. `key` is the installation's key."""
        if place != self._place:
            self.close()
            self._place, self.token = place, access.token(key)
            if place.port:
                self._listen()

    @property
    def link(self) -> str:
        """Return the page's URL for a browser; empty if the page is off or can't listen."""
        if not self._place.is_on:
            return ""
        if not self._place.port:
            return f"http://{access.PROXIED_HOST}/?token={self.token}"
        if not self.port:
            return ""
        host = LOOPBACK if listening.is_any(self._place.host) else self._place.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def address(self) -> tuple[str, int] | None:
        """Return host and port for requests that come through the proxy; None if the page is off or can't
        listen."""
        if self._place.is_on and self._server is None:
            self._listen()
        host = LOOPBACK if listening.is_any(self._place.host) else self._place.host
        return (host, self.port) if self.port else None

    def changed(self) -> None:
        if self._page is not None:
            self._page.changed()

    def close(self) -> None:
        if self._server is not None:
            self._server.stop()
            # Browsers keep connections open, so the server closes them here.
            for connection in list(self._server._connections):
                connection.stream.close()
        self._server, self._page, self.port = None, None, 0

    def _listen(self) -> None:
        from tornado.httpserver import HTTPServer
        from tornado.netutil import bind_sockets

        from penumbra.flow.page.handlers import Page, application

        try:
            family = socket.AF_INET6 if ":" in self._place.host else socket.AF_UNSPEC
            sockets = bind_sockets(self._place.port, self._place.host, family)
        except OSError as error:
            _log.error(f"penumbra_page: {self._place}: {error.strerror or error}")
            return
        self.port = sockets[0].getsockname()[1]
        any_port = self.port if listening.is_any(self._place.host) else 0
        gate = access.Access(self.token, access.hosts(self._place.host, self.port), self.proof, any_port)
        self._page = Page(self._contents, gate, self._pause)
        self._server = HTTPServer(
            application(self._page), max_header_size=_MOST_BYTES, max_body_size=_MOST_BYTES
        )
        self._server.add_sockets(sockets)
        if listening.is_wide(self._place.host):
            _log.warning(
                f"The page listens at {self._place}: everybody who reaches this machine and has the "
                f"link sees it, and it travels in clear text."
            )


METADATA = "penumbra_page"
_FAR = "The page is shown to programs of this machine only.\n"
PORT_CLOSED = f"Through the proxy, the page is at http://{PROXIED_HOST}/."
_OFF = "penumbra_page is off.\n"


class ProxiedPage(Guarded):
    """A `ProxiedPage` sends requests to http://penumbra.local/ to the page."""

    def __init__(self, server: PageServer) -> None:
        self._server = server

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Send a request for `PROXIED_HOST` to the page, or refuse it."""
        request = flow.request
        # Only the proxy may set this header.
        request.headers.pop(PROOF_HEADER, None)
        if request.host.lower() != PROXIED_HOST or request.pretty_host.lower() != PROXIED_HOST:
            return
        flow.metadata["penumbra"] = flow.metadata[METADATA] = True
        token = request.query.pop("token", None)
        peer = flow.client_conn.peername
        if peer is None or listening.is_wide(str(peer[0])):
            flow.response = http.Response.make(403, _FAR, {"content-type": "text/plain"})
        elif (address := self._server.address()) is None:
            flow.response = http.Response.make(404, _OFF, {"content-type": "text/plain"})
        else:
            request.scheme, request.host, request.port = "http", *address
            request.headers["host"] = PROXIED_HOST
            request.headers[PROOF_HEADER] = self._server.proof
            if token:
                request.headers["authorization"] = f"Bearer {token}"
            # The page is on this machine, so an upstream proxy must not get the request.
            flow.server_conn = connection.Server(address=address)
        if flow.response is not None:
            _forget(flow)

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        """Stop a request to the page if the request's hook failed."""
        if subject.request.pretty_host.lower() == PROXIED_HOST:
            stop(subject)
        return False

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Stream a response of the page, and remove the credentials from its flow."""
        if METADATA in flow.metadata and flow.response is not None:
            flow.response.stream = True
            _forget(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        """Remove the cookie from the flow after the browser has got it."""
        if METADATA in flow.metadata and flow.response is not None:
            flow.response.headers.pop("set-cookie", None)

    def error(self, flow: http.HTTPFlow) -> None:
        """Remove the credentials from the flow of a request that got no response."""
        if METADATA in flow.metadata:
            _forget(flow)


def _forget(flow: http.HTTPFlow) -> None:
    """Remove the page's credentials from a flow, since flows may be shown and saved."""
    for name in ("authorization", "cookie", PROOF_HEADER):
        flow.request.headers.pop(name, None)
