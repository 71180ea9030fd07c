"""mitmproxy's face of placeholders that leave in calls: a log line, and a mark on the flow."""

from __future__ import annotations

import logging

from mitmproxy import http

from penumbra import errors
from penumbra.apis.formats import FORMATS
from penumbra.flow import destination
from penumbra.flow import response as responses
from penumbra.redaction import written_placeholders
from penumbra.redaction.placeholder import PATTERN_BYTES

MARK = ":warning:"
METADATA = "penumbra_placeholders_written"
_log = logging.getLogger(__name__)

_ON_SOCKETS = "openai_responses"
# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_WATCHED: dict[str, str] = {}
"""Format of the answer, by id of the client's flow."""


class PlaceholderWarning:
    """A child addon. `expect` is called for each request that is sent."""

    def expect(self, flow: http.HTTPFlow, format: str, body: bytes) -> None:
        """`body` is what will be sent, decoded: only a model that sees placeholders can write them."""
        if format in FORMATS and PATTERN_BYTES.search(body):
            _WATCHED[flow.id] = format

    def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete; of a stream, the client has got it already."""
        format = _WATCHED.pop(flow.id, None)
        if format is None or flow.response is None or flow.response.status_code != 200:
            return
        try:
            stream = responses.is_stream(flow)
            found = written_placeholders.calls(FORMATS[format], responses.content(flow), stream=stream)
        except Exception as error:
            _log.warning("Penumbra could not look for placeholders in an answer: %s", errors.place(error))
            return
        self._note(flow, found)

    def look(self, flow: http.HTTPFlow, message: bytes | None) -> None:
        """An answer of several on one connection is complete, as the model wrote it."""
        try:
            self._note(flow, written_placeholders.within(FORMATS[_ON_SOCKETS], message))
        except Exception as error:
            _log.warning("Penumbra could not look for placeholders in an answer: %s", errors.place(error))

    def _note(self, flow: http.HTTPFlow, found: int) -> None:
        if not found:
            return
        note = f"{found} calls write a [REDACTED] placeholder instead of a value"
        flow.marked = MARK
        flow.metadata[METADATA] = found
        flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"
        _log.warning(f"Penumbra: {destination.shown(flow)}: {note}")

    def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        _WATCHED.pop(flow.id, None)
