"""The provider's figures of responses, for the journal: what was billed, and what its cache had."""

from __future__ import annotations

import logging
from dataclasses import replace

from mitmproxy import http

from penumbra import errors
from penumbra.apis.base import Turn
from penumbra.apis.formats import FORMATS
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import response_bodies
from penumbra.flow.state import FlowState, Step
from penumbra.metrics.journal import Journal

_MOST_BYTES = 4_000_000
"""Of a response that nobody has read on its way; in larger ones nothing is looked for."""
_log = logging.getLogger(__name__)


class ResponseUsage(Step):
    """State: none but the journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Its response will be in this format."""
        asks = incoming.api.kind == "messages"
        state.response_format = incoming.api.format if asks else ""
        state.conversation = accepted.conversation if asks else b""

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete. What the tool loop has read is counted already."""
        if state.conversation:
            await state.lease.engine.answered(state.conversation)
        turn = state.turn
        if turn is None or flow.websocket is not None:
            return
        is_read = not turn.is_billed and response.status_code == 200 and state.response_format in FORMATS
        turns = (_read(flow, state),) if is_read else ()
        self._journal.responded(turn, response.status_code, turns)

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
        """A flow has ended before its response."""
        if state.conversation:
            await state.lease.engine.answered(state.conversation)
        if state.turn is not None and flow.websocket is None:
            self._journal.failed(state.turn, flow.response.status_code if flow.response is not None else None)


def _read(flow: http.HTTPFlow, state: FlowState) -> Turn:
    """A whole response, with its figures; what its client is told differently counts as the provider said
    it."""
    try:
        body = response_bodies.content(flow)
        if len(body) > _MOST_BYTES:
            return Turn()
        wire = FORMATS[state.response_format]
        response = wire.stream("") if response_bodies.is_stream(flow) else wire.body("")
        response.feed(body)
        real = state.usage_scaling.usage.real if state.usage_scaling is not None else {}
        turn = response.end_turn()
        return replace(turn, usage={**turn.usage, **real})
    except Exception as error:
        _log.debug("Penumbra could not read the figures of a response: %s", errors.place(error))
        return Turn()
