"""Usage scaling: the input tokens that clients see of their requests (`conversation/context_windows.py`).

Streams are changed event by event: behind the tool loop where the model may ask for originals, else on their
way through mitmproxy; documents before they are sent. A response of which nothing is to be told differently
is not touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mitmproxy import http

from penumbra.apis.base import PassedResponse, Response
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import ScaledUsage
from penumbra.conversation.context_windows import UsageScale
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import bodies, destination
from penumbra.flow.state import FlowState, Step, add_note
from penumbra.wire import content_encoding

METADATA = "penumbra_context_guard"
_log = logging.getLogger(__name__)


@dataclass
class ScaledResponse:
    """One response whose usage is told differently."""

    scale: UsageScale
    format_name: str
    usage: ScaledUsage
    is_looped: bool = False
    """True if scaling comes after the tool loop."""

    def passed(self, *, stream: bool) -> PassedResponse:
        return FORMATS[self.format_name].responses.passed([self.usage], stream=stream)


class UsageScaling(Step):
    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """`accepted` says what its client is to be told of the request."""
        state.drop(ScaledResponse)
        name = accepted.request.api.format
        if (scale := accepted.usage_scale) is None or name not in FORMATS:
            return
        usage = FORMATS[name].responses.scaled_usage(scale.count)
        state.put(ScaledResponse(scale, name, usage))
        bodies.ask_for_codings(flow.request)

    def filtered(self, flow: http.HTTPFlow, state: FlowState, response: Response) -> Response:
        """A stream that is read by the tool loop, told differently."""
        if (scaled := state.get(ScaledResponse)) is None:
            return response
        scaled.is_looped = True
        response.attach(scaled.usage)
        return response

    def headers(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """Streams that are passed on as they arrive."""
        scaled = state.get(ScaledResponse)
        if scaled is None or scaled.is_looped or not callable(response.stream):
            return
        decode = content_encoding.decoder(response.headers.get("content-encoding", ""))
        if decode is not None:
            decoded = bodies.LiveDecoding(decode, state)
            response.stream = _edited(response.stream, decoded, scaled.passed(stream=True))
            bodies.stream_plainly(flow, response)

    async def complete(self, flow: http.HTTPFlow, state: FlowState, response: http.Response) -> None:
        """A response is complete; of a stream, the client has got it already."""
        scaled = state.get(ScaledResponse)
        if scaled is None or response.status_code != 200:
            return
        if not response.stream and not bodies.is_stream(flow):
            plain = bodies.content(flow)
            passed = scaled.passed(stream=False)
            if (body := passed.feed(plain) + passed.close()) != plain:
                bodies.put_document(flow, body)
        if scaled.usage.real:
            _report(flow, scaled)

    async def failed(self, flow: http.HTTPFlow, state: FlowState) -> None:
        scaled = state.get(ScaledResponse)
        if scaled is not None and scaled.usage.real:
            _report(flow, scaled)


def _edited(
    inner: Callable[[bytes], Iterable[bytes] | bytes],
    decoded: bodies.LiveDecoding,
    edited: PassedResponse,
) -> Callable[[bytes], bytes | list[bytes]]:
    """Return what mitmproxy calls with each chunk of a stream: `inner` first, then what is changed."""

    def take(data: bytes) -> bytes | list[bytes]:
        given = inner(data)
        chunk = given if isinstance(given, bytes) else b"".join(given)
        out = decoded.feed(chunk, edited.feed) if chunk else b""
        return (out if data else out + decoded.end(edited.close)) or []

    return take


def _report(flow: http.HTTPFlow, scaled: ScaledResponse) -> None:
    """Report the scaled figures beside the real ones."""
    scale, real = scaled.scale, scaled.usage.real
    told = {name: [count, scale.count(count)] for name, count in real.items()}
    flow.metadata[METADATA] = {"limit": scale.limit, "believed": scale.believed, "told": told}
    factor = scale.believed / scale.limit
    note = f"told {factor:.2f} times the input tokens: of {scale.believed:,} only {scale.limit:,} fit"
    add_note(flow, note)
    _log.info(f"Penumbra: {destination.shown(flow)}: {note}; in truth {real}")
