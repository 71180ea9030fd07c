"""Placeholders that leave in calls of the model's: a log line, and a mark on the flow."""

from __future__ import annotations

import logging

from mitmproxy import http

from penumbra import errors
from penumbra.apis.formats import FORMATS
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import destination, response_bodies
from penumbra.flow.report import add_note
from penumbra.flow.state import FlowState, Step
from penumbra.redaction import placeholder

MARK = ":warning:"
METADATA = "penumbra_placeholders_written"
_ON_SOCKETS = "openai_responses"
_log = logging.getLogger(__name__)


class PlaceholderWarning(Step):
    """State: none."""

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Only a model that sees placeholders can write them."""
        format_name = incoming.api.format
        if format_name in FORMATS and placeholder.stands_in(accepted.rewritten.body):
            state.placeholder_format = format_name

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete; of a stream, the client has got it already."""
        if not state.placeholder_format or response.status_code != 200:
            return
        try:
            wire, stream = FORMATS[state.placeholder_format], response_bodies.is_stream(flow)
            count = placeholder.calls(wire, response_bodies.content(flow), stream=stream)
        except Exception as error:
            _log.warning("Penumbra could not look for placeholders in a response: %s", errors.place(error))
            return
        _warn(flow, count)


def look_at_message(flow: http.HTTPFlow, message: bytes | None) -> None:
    """A response of several on one connection is complete, as the model wrote it."""
    try:
        _warn(flow, placeholder.within(FORMATS[_ON_SOCKETS], message))
    except Exception as error:
        _log.warning("Penumbra could not look for placeholders in a response: %s", errors.place(error))


def _warn(flow: http.HTTPFlow, count: int) -> None:
    if not count:
        return
    note = f"{count} calls write a [REDACTED] placeholder instead of a value"
    flow.marked = MARK
    flow.metadata[METADATA] = count
    add_note(flow, note)
    _log.warning(f"Penumbra: {destination.shown(flow)}: {note}")
