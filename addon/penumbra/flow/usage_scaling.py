"""mitmproxy's face of the context guard: what clients are told of the size of their requests.

A child addon, behind all others that touch answers. Streams are changed event by event: behind the
exchange where the model may ask for originals, else on their way through mitmproxy; documents before they
are sent. An answer of which nothing is to be told differently is not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mitmproxy import http

from penumbra.apis.base import Response
from penumbra.apis.edited_bytes import EditedBytes, EditedResponse
from penumbra.apis.scaled_usage import ScaledUsage
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.usage_scaling import UsageScale
from penumbra.flow import destination
from penumbra.flow import response as responses
from penumbra.wire import content_stream

Wrap = Callable[[http.HTTPFlow, Response, bool], Response]
"""Changes what an answer gives to the client; told whether it is a stream."""

METADATA = "penumbra_context_guard"
_log = logging.getLogger(__name__)


@dataclass
class _Telling:
    told: UsageScale
    format_name: str
    usage: ScaledUsage
    elsewhere: bool = False
    """An exchange sees to it."""

    def stream(self) -> EditedBytes:
        return EditedBytes(self.usage, self.format_name, stream=True)


# Of the process, not of the addon: a reload of the script makes a new addon while responses go on.
_TELLING: dict[str, _Telling] = {}
"""By id of the client's flow."""


class UsageScaling:
    """`expect` is called for each request that is sent, also for one that takes another's place."""

    def expect(self, flow: http.HTTPFlow, accepted: Accepted) -> None:
        """The request is sent; `accepted` says what its client is to be told of it."""
        _TELLING.pop(flow.id, None)
        if (told := accepted.usage_scale) is None:
            return
        name = accepted.request.api.format
        _TELLING[flow.id] = _Telling(told, name, ScaledUsage(name, told.count))
        if codings := flow.request.headers.get("accept-encoding"):
            flow.request.headers["accept-encoding"] = content_stream.acceptable(codings)

    def behind(self, wrap: Wrap) -> Wrap:
        """What else changes the answers of an exchange, and then this."""

        def both(flow: http.HTTPFlow, answer: Response, stream: bool) -> Response:
            answer, telling = wrap(flow, answer, stream), _TELLING.get(flow.id)
            if telling is None or not stream:
                return answer
            telling.elsewhere = True
            return EditedResponse(answer, telling.stream())

        return both

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Streams that are passed on as they arrive."""
        telling, response = _TELLING.get(flow.id), flow.response
        if telling is None or response is None or not callable(response.stream):
            return
        decode = content_stream.decoder(response.headers.get("content-encoding", ""))
        if decode is not None and not telling.elsewhere:
            decoded = responses.LiveDecoding(decode, telling.format_name)
            response.stream = _edited(response.stream, decoded, telling.stream())
            responses.stream_plainly(flow, response)

    def response(self, flow: http.HTTPFlow) -> None:
        """A response is complete; of a stream, the client has got it already."""
        telling, response = _TELLING.pop(flow.id, None), flow.response
        if telling is None or response is None or response.status_code != 200:
            return
        if not response.stream and not responses.is_stream(flow):
            plain = responses.content(flow)
            body = telling.usage.document(plain)
            if body is not plain:
                responses.put_document(flow, body)
        if telling.usage.real:
            _report(flow, telling)

    def error(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        telling = _TELLING.pop(flow.id, None)
        if telling is not None and telling.usage.real:
            _report(flow, telling)


def _edited(
    inner: Callable[[bytes], Iterable[bytes] | bytes], decoded: responses.LiveDecoding, edited: EditedBytes
) -> Callable[[bytes], bytes | list[bytes]]:
    """What mitmproxy calls with each chunk of a stream: `inner` first, then what is changed."""

    def take(data: bytes) -> bytes | list[bytes]:
        given = inner(data)
        chunk = given if isinstance(given, bytes) else b"".join(given)
        out = decoded.feed(chunk, edited.feed) if chunk else b""
        return (out if data else out + decoded.end(edited.close)) or []

    return take


def _report(flow: http.HTTPFlow, telling: _Telling) -> None:
    """What was told, and what is true."""
    told, real = telling.told, telling.usage.real
    said = {name: [count, told.count(count)] for name, count in real.items()}
    flow.metadata[METADATA] = {"limit": told.limit, "believed": told.believed, "told": said}
    factor = told.believed / told.limit
    note = f"told {factor:.2f} times the input tokens: of {told.believed:,} only {told.limit:,} fit"
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"
    _log.info(f"Penumbra: {destination.shown(flow)}: {note}; in truth {real}")
