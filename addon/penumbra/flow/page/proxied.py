"""http://penumbra.local/, through the proxy: led to the page's own socket on this machine."""

from __future__ import annotations

from typing import Any

from mitmproxy import connection, http

from penumbra.flow import listening
from penumbra.flow.guarded import Guarded, stop
from penumbra.flow.page.access import PROOF_HEADER, PROXIED_HOST
from penumbra.flow.page.server import PageServer

METADATA = "penumbra_page"
_FAR = "The page is shown to programs of this machine only.\n"
_PORT = f"Through the proxy, the page is at http://{PROXIED_HOST}/.\n"
_OFF = "penumbra_page is off.\n"


class ProxiedPage(Guarded):
    """A child addon."""

    def __init__(self, server: PageServer) -> None:
        self._server = server

    async def http_connect(self, flow: http.HTTPFlow) -> None:
        """Through the proxy, everybody would come from this machine."""
        await self._refuse_port(flow)

    async def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Lead it, or refuse it."""
        request = flow.request
        await self._refuse_port(flow)
        # Nobody else may say that we have led it.
        request.headers.pop(PROOF_HEADER, None)
        if request.pretty_host.lower() != PROXIED_HOST or request.host.lower() != PROXIED_HOST:
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
            # Not over another proxy.
            flow.server_conn = connection.Server(address=address)
        if flow.response is not None:
            _forget(flow)

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        """Lead nobody to the page by a failure."""
        request = subject.request
        if request.port == self._server.port or request.pretty_host.lower() == PROXIED_HOST:
            stop(subject)
        return False

    async def _refuse_port(self, flow: http.HTTPFlow) -> None:
        host, port = flow.request.host, flow.request.port
        if port == self._server.port and port and await listening.leads_here(host):
            flow.response = http.Response.make(403, _PORT, {"content-type": "text/plain"})

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Events are shown as they come."""
        if METADATA in flow.metadata and flow.response is not None:
            flow.response.stream = True
            _forget(flow)

    def response(self, flow: http.HTTPFlow) -> None:
        """The browser has got its cookie."""
        if METADATA in flow.metadata and flow.response is not None:
            flow.response.headers.pop("set-cookie", None)

    def error(self, flow: http.HTTPFlow) -> None:
        """There was no response."""
        if METADATA in flow.metadata:
            _forget(flow)


def _forget(flow: http.HTTPFlow) -> None:
    """Flows are shown, and saved: with these, somebody else could see the page."""
    for name in ("authorization", "cookie", PROOF_HEADER):
        flow.request.headers.pop(name, None)
