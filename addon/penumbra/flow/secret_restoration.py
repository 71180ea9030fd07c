"""mitmproxy's face of values that are put back into edits (`restoring.py`).

A child addon, behind `expansion`: of a stream that may be continued, the values are put in behind the
exchange; into others piece by piece as they arrive, and into documents before they are sent.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mitmproxy import http

from penumbra import errors
from penumbra.apis.base import Response
from penumbra.apis.edited_bytes import EditedBytes, EditedResponse
from penumbra.apis.edited_calls import EDITS
from penumbra.expand.loop import Done
from penumbra.flow import destination
from penumbra.flow import response as responses
from penumbra.wire import content_stream

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration

METADATA = "penumbra_values_restored"
_log = logging.getLogger(__name__)


@dataclass
class _Expected:
    restoration: Restoration
    wrapped: http.Response | None = None
    """The stream that an exchange reads."""
    live: bytearray | None = None
    """What the client has got of a stream."""


# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_EXPECTED: dict[str, _Expected] = {}
"""By id of the client's flow."""


class SecretRestoration:
    """`expect` is called for each request whose answer may get values, `wrap` by the exchange's owner."""

    def expect(self, flow: http.HTTPFlow, restoration: Restoration) -> None:
        """The answer to this request may write placeholders whose values are known."""
        _EXPECTED[flow.id] = _Expected(restoration)
        if accepted := flow.request.headers.get("accept-encoding"):
            flow.request.headers["accept-encoding"] = content_stream.acceptable(accepted)

    def wrap(self, flow: http.HTTPFlow, answer: Response, stream: bool) -> Response:
        """The answer of a stream that is read by an exchange, with values in it."""
        expected = _EXPECTED.get(flow.id)
        if expected is None or not stream:
            return answer
        expected.wrapped = flow.response
        return EditedResponse(answer, _edited(expected.restoration, stream=True))

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Decide how a response is read that nobody else reads."""
        expected, response = _EXPECTED.get(flow.id), flow.response
        if expected is None or response is None:
            return
        expected.live = None
        if expected.wrapped is response or response.status_code != 200 or not responses.is_stream(flow):
            return
        decode = content_stream.decoder(response.headers.get("content-encoding", ""))
        if decode is None:
            return
        shown = expected.live = bytearray()
        edited = _edited(expected.restoration, stream=True)
        decoded = responses.LiveDecoding(decode, expected.restoration.format)

        def take(data: bytes) -> bytes | list[bytes]:
            out = decoded.feed(data, edited.feed) if data else decoded.end(edited.close)
            shown.extend(out)
            return out or []

        responses.stream_plainly(flow, response)
        response.stream = take

    async def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete; of a stream, the client has got it already."""
        expected = _EXPECTED.get(flow.id)
        if expected is None or flow.response is None:
            return
        await self._end(flow, expected)

    async def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        expected = _EXPECTED.get(flow.id)
        if expected is not None:
            await self._end(flow, expected)

    async def _end(self, flow: http.HTTPFlow, expected: _Expected) -> None:
        restoration = expected.restoration
        try:
            self._put_in(flow, expected)
            await restoration.keep()
        except Exception as error:
            _log.warning("penumbra: values of an answer: %s", errors.place(error))
        if not restoration.calls:
            return
        note = f"{restoration.calls} calls edit files with {len(restoration.used)} values put back"
        flow.metadata[METADATA] = len(restoration.used)
        flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}")

    def _put_in(self, flow: http.HTTPFlow, expected: _Expected) -> None:
        """A response that nobody has read yet is complete, and none of it was sent."""
        response = flow.response
        if response is None or flow.error is not None:
            return
        if expected.live is not None:
            response.data.content = bytes(expected.live)
            return
        if expected.wrapped is response or response.status_code != 200:
            return
        plain = responses.plain_body(flow, response.raw_content or b"")
        if plain is None:
            return
        edited = _edited(expected.restoration, stream=responses.is_stream(flow))
        if (body := edited.feed(plain) + edited.close()) != plain:
            response.raw_content = body
            responses.replace_document(flow, Done(body))


def ended(flow: http.HTTPFlow) -> Restoration | None:
    """What was put back into the answer of a flow that has ended; nothing more is expected of it."""
    expected = _EXPECTED.pop(flow.id, None)
    return expected.restoration if expected is not None else None


def _edited(restoration: Restoration, *, stream: bool) -> EditedBytes:
    edits = EDITS[restoration.format](restoration.open)
    return EditedBytes(edits, restoration.format, stream=stream)
