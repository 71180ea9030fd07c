"""What stays in flows: for mitmweb, for saved files, for exports.

Values that were put back into a response are shown as their placeholders, and `penumbra_blank_flows` empties
flows altogether. A body that is yet to be sent is handed to the splice, which sends it; without the splice
such bodies stay in the flow.
"""

from __future__ import annotations

from collections.abc import Callable

from mitmproxy import http

from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import state as states
from penumbra.flow.state import FlowState, Step
from penumbra.redaction import placeholder


class FlowPrivacy(Step):
    """State: none. The setting is the one in force when a flow ends, not when it began: it is about what
    is kept from now on."""

    def __init__(self, blank_flows: Callable[[], str]) -> None:
        self._blank_flows = blank_flows

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Remember whether there is anything to hide."""
        if placeholder.stands_in(accepted.rewritten.body):
            state.has_placeholders = True

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete; a stream was sent, a document will be."""
        self._hide(flow, state)

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
        """A flow has ended before its response."""
        self._hide(flow, state)

    def websocket_end(self, flow: http.HTTPFlow, state: FlowState) -> None:
        """A WebSocket is closed."""
        if self._blank_flows() != "off" and flow.websocket is not None and state.socket is not None:
            for message in flow.websocket.messages:
                message.content = _note(message.content)

    def _hide(self, flow: http.HTTPFlow, state: FlowState) -> None:
        blanked = self._is_blanked(flow, state)
        if blanked:
            flow.request.data.content = _note(flow.request.data.content or b"")
        response, restored = flow.response, state.secret_restoration
        if response is None or response.data.content is None:
            return
        body = shown = response.data.content
        if blanked:
            shown = _note(body)
        elif restored is not None and restored.restoration.used:
            shown = restored.restoration.concealed(body)
        if shown != body and _may_show(flow, state, response, body):
            response.data.content = shown

    def _is_blanked(self, flow: http.HTTPFlow, state: FlowState) -> bool:
        wanted, summary = self._blank_flows(), flow.metadata.get("penumbra")
        if wanted == "off" or not isinstance(summary, dict):
            return False
        if wanted == "all" or "refused" in summary:
            return True
        parent = states.by_id(summary.get("continues", flow.id))
        restored = state.secret_restoration
        return (parent is not None and parent.has_placeholders) or (
            restored is not None and bool(restored.restoration.used)
        )


def _may_show(flow: http.HTTPFlow, state: FlowState, response: http.Response, body: bytes) -> bool:
    """Whether the flow may have another body than the client gets."""
    if state.spliced:
        state.body_to_send = body
        return True
    # What was streamed is gone; but hidden responses are read from their flows, but for the splice.
    hidden = "continues" in flow.metadata.get("penumbra", {})
    return (bool(response.stream) or flow.error is not None) and not hidden


def _note(content: bytes) -> bytes:
    return b"[%d bytes, not kept by Penumbra]" % len(content)
