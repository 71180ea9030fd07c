"""mitmproxy's face of what stays in flows: for mitmweb, for saved files, for exports.

A child addon, behind all others that read answers. Values that were put back into an answer are shown
as their placeholders, and `penumbra_blank_flows` empties flows altogether. A body that is yet to be
sent is handed to the splice, which sends it; without the splice such bodies stay in the flow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mitmproxy import http

from penumbra.flow import secret_restoration, websocket
from penumbra.redaction.placeholder import PATTERN_BYTES

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration

# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_SECRET: set[str] = set()
"""Ids of client's flows whose requests hold placeholders."""


class FlowPrivacy:
    """`expect` is called for each request that is sent. `wanted` is the setting."""

    def __init__(self, wanted: Callable[[], str], sending: Callable[[], dict[str, bytes | None]]) -> None:
        """`sending`: the splice's table of bodies to send, by flow."""
        self._wanted = wanted
        self._sending = sending

    def expect(self, flow: http.HTTPFlow, body: bytes) -> None:
        """`body` is what will be sent, decoded."""
        if PATTERN_BYTES.search(body):
            _SECRET.add(flow.id)

    def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete; a stream was sent, a document will be."""
        self._keep(flow, secret_restoration.ended(flow))

    def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        self._keep(flow, secret_restoration.ended(flow))

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        if self._wanted() != "off" and flow.websocket is not None and websocket.reads(flow):
            for message in flow.websocket.messages:
                message.content = _note(message.content)

    def _keep(self, flow: http.HTTPFlow, restoration: Restoration | None) -> None:
        blanked = self._is_blanked(flow, restoration)
        _SECRET.discard(flow.id)
        if blanked:
            flow.request.data.content = _note(flow.request.data.content or b"")
        response = flow.response
        if response is None or response.data.content is None:
            return
        body = shown = response.data.content
        if blanked:
            shown = _note(body)
        elif restoration is not None and restoration.used:
            shown = restoration.concealed(body)
        if shown != body and self._may_show(flow, response, body):
            response.data.content = shown

    def _may_show(self, flow: http.HTTPFlow, response: http.Response, body: bytes) -> bool:
        """Whether the flow may have another body than the client gets."""
        sending = self._sending()
        if flow.id in sending:
            sending[flow.id] = body
            return True
        # What was streamed is gone; but hidden answers are read from their flows, but for the splice.
        hidden = "continues" in flow.metadata.get("penumbra", {})
        return (bool(response.stream) or flow.error is not None) and not hidden

    def _is_blanked(self, flow: http.HTTPFlow, restoration: Restoration | None) -> bool:
        wanted, known = self._wanted(), flow.metadata.get("penumbra")
        if wanted == "off" or not isinstance(known, dict):
            return False
        if wanted == "all" or "refused" in known:
            return True
        parent = known.get("continues", flow.id)
        return parent in _SECRET or (restoration is not None and bool(restoration.used))


def _note(content: bytes) -> bytes:
    return b"[%d bytes, not kept by Penumbra]" % len(content)
