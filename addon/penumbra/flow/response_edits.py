"""Edits of responses on their way to the client: values put back into the model's own edits of files
(`redaction/restore`), and input tokens reported in another scale (`conversation/context_windows.py`).

In a stream that the tool loop reads, both are filters after it; other streams are edited piece by piece as
they arrive, documents before they are sent. A response in which nothing is edited goes on as it came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penumbra import errors
from penumbra.apis.base import Filter
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response, ScaledUsage
from penumbra.conversation.context_windows import UsageScale
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.expand.loop import Done
from penumbra.flow import bodies, destination
from penumbra.flow.mitm import Flow, HttpResponse
from penumbra.flow.state import FlowState, Step, add_note
from penumbra.wire import content_encoding

if TYPE_CHECKING:
    from penumbra.redaction.restore.restoration import Restoration

_RESTORED = "penumbra_values_restored"
_SCALED = "penumbra_context_guard"
_log = logging.getLogger(__name__)


@dataclass
class RestoredResponse:
    """One response that may write placeholders whose values are known."""

    restoration: Restoration
    looped: HttpResponse | None = None
    """The stream that the tool loop reads."""
    live: bytearray | None = None
    """Bytes of a stream that the client has got."""

    def filter(self) -> Filter:
        """Return what puts the values in."""
        return FORMATS[self.restoration.format].responses.call_arguments(self.restoration.open)

    def edited(self, *, stream: bool) -> Response:
        return FORMATS[self.restoration.format].responses.passed([self.filter()], stream=stream)


class SecretRestoration(Step):
    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        if accepted.restoration is not None:
            state.put(RestoredResponse(accepted.restoration))
            bodies.ask_for_codings(flow.request)

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """A stream that is read by the tool loop, with values in it."""
        restored = state.get(RestoredResponse)
        if restored is None:
            return response
        restored.looped = flow.response
        response.attach(restored.filter())
        return response

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Decide how to read a response that no other step reads."""
        if (restored := state.get(RestoredResponse)) is None:
            return
        restored.live = None
        is_stream = response.status_code == 200 and bodies.is_stream(flow)
        if restored.looped is response or not is_stream:
            return
        decode = content_encoding.decoder(response.headers.get("content-encoding", ""))
        if decode is None:
            return
        shown = restored.live = bytearray()
        edited = restored.edited(stream=True)
        decoded = bodies.LiveDecoding(decode, state)

        def take(data: bytes) -> bytes | list[bytes]:
            out = decoded.feed(data, edited.feed) if data else decoded.end(edited.close)
            shown.extend(out)
            return out or []

        bodies.stream_plainly(flow, response)
        response.stream = take

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """A response is complete; of a stream, the client has got it already."""
        if (restored := state.get(RestoredResponse)) is not None:
            await self._end(flow, restored)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if (restored := state.get(RestoredResponse)) is not None:
            await self._end(flow, restored)

    async def _end(self, flow: Flow, restored: RestoredResponse) -> None:
        restoration = restored.restoration
        try:
            self._put_in(flow, restored)
            await restoration.keep()
        except Exception as error:
            _log.warning("penumbra: values of a response: %s", errors.place(error))
        if not restoration.calls:
            return
        note = f"{restoration.calls} calls edit files with {len(restoration.used)} values put back"
        flow.metadata[_RESTORED] = len(restoration.used)
        add_note(flow, note)
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}")

    def _put_in(self, flow: Flow, restored: RestoredResponse) -> None:
        """An unread response is complete, and none of it was sent."""
        response = flow.response
        if response is None or flow.error is not None:
            return
        if restored.live is not None:
            response.data.content = bytes(restored.live)
            return
        if restored.looped is response or response.status_code != 200:
            return
        plain = bodies.plain_body(flow, response.raw_content or b"")
        if plain is None:
            return
        edited = restored.edited(stream=bodies.is_stream(flow))
        if (body := edited.feed(plain) + edited.close()) != plain:
            response.raw_content = body
            bodies.replace_document(flow, Done(body))


@dataclass
class ScaledResponse:
    """One response whose usage is reported in another scale."""

    scale: UsageScale
    format_name: str
    usage: ScaledUsage
    is_looped: bool = False
    """True if scaling comes after the tool loop."""

    def passed(self, *, stream: bool) -> Response:
        return FORMATS[self.format_name].responses.passed([self.usage], stream=stream)


class UsageScaling(Step):
    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Note the scale in which the client of an accepted request sees its input tokens."""
        state.drop(ScaledResponse)
        name = accepted.request.api.format
        if (scale := accepted.usage_scale) is None or name not in FORMATS:
            return
        usage = FORMATS[name].responses.scaled_usage(scale.count)
        state.put(ScaledResponse(scale, name, usage))
        bodies.ask_for_codings(flow.request)

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """A stream that is read by the tool loop, with scaled figures."""
        if (scaled := state.get(ScaledResponse)) is None:
            return response
        scaled.is_looped = True
        response.attach(scaled.usage)
        return response

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Streams that are passed on as they arrive."""
        scaled = state.get(ScaledResponse)
        if scaled is None or scaled.is_looped or not callable(response.stream):
            return
        decode = content_encoding.decoder(response.headers.get("content-encoding", ""))
        if decode is not None:
            decoded = bodies.LiveDecoding(decode, state)
            response.stream = _edited(response.stream, decoded, scaled.passed(stream=True))
            bodies.stream_plainly(flow, response)

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
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

    async def failed(self, flow: Flow, state: FlowState) -> None:
        scaled = state.get(ScaledResponse)
        if scaled is not None and scaled.usage.real:
            _report(flow, scaled)


def _edited(
    inner: Callable[[bytes], Iterable[bytes] | bytes],
    decoded: bodies.LiveDecoding,
    edited: Response,
) -> Callable[[bytes], bytes | list[bytes]]:
    """Return what mitmproxy calls with each chunk of a stream: `inner` first, then what is changed."""

    def take(data: bytes) -> bytes | list[bytes]:
        given = inner(data)
        chunk = given if isinstance(given, bytes) else b"".join(given)
        out = decoded.feed(chunk, edited.feed) if chunk else b""
        return (out if data else out + decoded.end(edited.close)) or []

    return take


def _report(flow: Flow, scaled: ScaledResponse) -> None:
    """Report the scaled figures beside the real ones."""
    scale, real = scaled.scale, scaled.usage.real
    told = {name: [count, scale.count(count)] for name, count in real.items()}
    flow.metadata[_SCALED] = {"limit": scale.limit, "believed": scale.believed, "told": told}
    factor = scale.believed / scale.limit
    note = f"told {factor:.2f} times the input tokens: of {scale.believed:,} only {scale.limit:,} fit"
    add_note(flow, note)
    _log.info(f"Penumbra: {destination.shown(flow)}: {note}; in truth {real}")
