"""One step of a response's way: what the steps in `response.py` have in common."""

from __future__ import annotations

from mitmproxy import http

from penumbra.apis.base import Response
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow.state import FlowState


class Step:
    """Does nothing, unless a step says otherwise. What it knows of a flow stands in the flow's state."""

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """A request is about to be sent; only headers may be changed."""

    def headers(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response begins: decide how it is read."""

    def filtered(self, flow: http.HTTPFlow, state: FlowState, response: Response) -> Response:
        """A stream that the tool loop reads, as it is to go to the client."""
        return response

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete; of a stream, the client has got it already."""

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
        """The flow has ended before its response."""
