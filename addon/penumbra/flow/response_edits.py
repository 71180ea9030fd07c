"""This module edits responses on their way to the client. One filter puts secrets back into the model's edits
of files (`redaction/restore`). Another filter scales the reported input tokens
(`conversation/context_windows.py`). In a stream that the tool loop reads, the filters follow the loop. Other
streams are edited as they arrive, and documents before they are sent."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penumbra import errors
from penumbra.apis.base import Filter
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response, Responses, ScaledUsage
from penumbra.conversation.context_windows import UsageScale
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.expand.loop import Done
from penumbra.flow import bodies, destination
from penumbra.flow.mitm import Flow, HttpResponse, header
from penumbra.flow.state import FlowState, Step, add_note
from penumbra.wire import content_encoding

if TYPE_CHECKING:
    from penumbra.conversation.restored_values import Restoration

_RESTORED = "penumbra_values_restored"
_SCALED = "penumbra_context_guard"
_log = logging.getLogger(__name__)


@dataclass
class EditedResponse:
    readers: Responses
    """The readers of the API's responses."""
    restoration: Restoration | None = None
    """The secrets for the placeholders that the response may contain; None if no secret is put back."""
    scale: UsageScale | None = None
    """The scale for the client's input tokens; None without scaling."""
    usage: ScaledUsage | None = None
    """The filter for `scale`, which also has the unscaled figures; None without a scale."""
    looped: HttpResponse | None = None
    """The response whose stream the tool loop reads; None if there is none."""
    live: bytearray | None = None
    """The sent bytes of a stream that is edited as it arrives; None if there is no such stream."""

    def filters(self) -> list[Filter]:
        opened = self.restoration.open if self.restoration is not None else None
        restored = [self.readers.arguments(opened)] if opened is not None else []
        return [*restored, *([self.usage] if self.usage is not None else [])]

    def edited(self, *, stream: bool) -> Response:
        """Return a reader that takes the response and edits it."""
        return self.readers.passed(self.filters(), stream=stream)


class ResponseEdits(Step):
    """A `ResponseEdits` edits the responses of flows with an `EditedResponse`."""

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Store in the flow's state how the response to an accepted request must be edited. The secrets of
        the client's own request are put back, even if another request is sent instead."""
        found, api = state.get(EditedResponse), FORMATS.get(accepted.request.api.format)
        restoration = found.restoration if found is not None else accepted.restoration
        scale = accepted.usage_scale if api is not None else None
        state.drop(EditedResponse)
        if api is None or (restoration is None and scale is None):
            return
        usage = api.responses.scaled_usage(scale.count) if scale is not None else None
        state.put(EditedResponse(api.responses, restoration, scale, usage))
        bodies.ask_for_codings(flow.request)

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        if (record := state.get(EditedResponse)) is not None:
            record.looped = flow.response
            for each in record.filters():
                response.attach(each)
        return response

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Decide how to read a response that the tool loop does not read."""
        if (record := state.get(EditedResponse)) is None:
            return
        record.live = None
        if record.looped is response or response.status_code != 200 or not bodies.is_stream(flow):
            return
        decode = content_encoding.decoder(header(response, "content-encoding"))
        if decode is None:
            return
        shown = record.live = bytearray()
        edited, decoded = record.edited(stream=True), bodies.LiveDecoding(decode, state)
        # The output of another addon's stream function is edited here.
        earlier = response.stream if callable(response.stream) else lambda data: data

        def take(data: bytes) -> bytes | list[bytes]:
            passed = earlier(data)
            chunk = passed if isinstance(passed, bytes) else b"".join(passed)
            out = decoded.feed(chunk, edited.feed) if chunk else b""
            out += b"" if data else decoded.end(edited.close)
            shown.extend(out)
            return out or []

        bodies.stream_plainly(flow, response)
        response.stream = take

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        if (record := state.get(EditedResponse)) is not None:
            with errors.contained(_log, "penumbra: a response can't be edited", logging.WARNING):
                _put_in(flow, response, record)
            await _report(flow, record)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if (record := state.get(EditedResponse)) is not None:
            await _report(flow, record)


def _put_in(flow: Flow, response: HttpResponse, record: EditedResponse) -> None:
    """Put the edited body into the flow. If a live stream is already sent, only mitmproxy's copy changes."""
    if record.live is not None:
        response.data.content = bytes(record.live)
        return
    if record.looped is response or response.status_code != 200:
        return
    plain = bodies.plain_body(flow, response.raw_content or b"")
    if plain is None:
        return
    edited = record.edited(stream=bodies.is_stream(flow))
    if (body := edited.feed(plain) + edited.close()) != plain:
        response.raw_content = body
        bodies.replace_document(flow, Done(body))


async def _report(flow: Flow, record: EditedResponse) -> None:
    """Store the values that were put back, and report the edits of a response in the flow and the log."""
    if (restoration := record.restoration) is not None:
        with errors.contained(
            _log, "penumbra: the restored secrets of a response could not be stored", logging.WARNING
        ):
            await restoration.keep()
        if restoration.calls:
            flow.metadata[_RESTORED] = len(restoration.used)
            note = (
                f"{restoration.calls} calls edit files; {len(restoration.used)} secrets were restored in them"
            )
            add_note(flow, note)
            _log.info(f"Penumbra: {destination.shown(flow)}: {note}")
    scale, real = record.scale, record.usage.real if record.usage is not None else {}
    if scale is not None and real:
        reported = {name: [count, scale.count(count)] for name, count in real.items()}
        flow.metadata[_SCALED] = {"limit": scale.limit, "believed": scale.believed, "told": reported}
        factor = scale.believed / scale.limit
        note = f"reports {factor:.2f} times the input tokens: of {scale.believed:,}, only {scale.limit:,} fit"
        add_note(flow, note)
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}; in truth {real}")
