"""Edits of responses on their way to the client: values put back into the model's own edits of files
(`redaction/restore`), and input tokens reported in another scale (`conversation/context_windows.py`).

In a stream that the tool loop reads, both are filters after it; other streams are edited piece by piece as
they arrive, documents before they are sent. A response in which nothing is edited goes on as it came.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from penumbra import errors
from penumbra.apis.base import Filter
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response, Responses, ScaledUsage
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
class EditedResponse(ABC):
    """One response with edits of one kind."""

    readers: Responses
    """The readers of the API's responses."""
    looped: HttpResponse | None = field(default=None, kw_only=True)
    """The stream that the tool loop reads."""
    live: bytearray | None = field(default=None, kw_only=True)
    """Bytes that go on of a stream that this edits as it arrives."""

    @abstractmethod
    def filter(self) -> Filter: ...

    def edited(self, *, stream: bool) -> Response:
        return self.readers.passed([self.filter()], stream=stream)


E = TypeVar("E", bound=EditedResponse)


class Edits(Step, ABC, Generic[E]):
    """Edits responses of flows that have a record of its class."""

    record: ClassVar[type[EditedResponse]]

    def of(self, state: FlowState) -> E | None:
        found: E | None = state.get(self.record)  # type: ignore[assignment]
        return found

    def filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        if (edited := self.of(state)) is not None:
            edited.looped = flow.response
            response.attach(edited.filter())
        return response

    def headers(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Decide how to read a response that the tool loop does not read."""
        if (record := self.of(state)) is None:
            return
        record.live = None
        if record.looped is response or response.status_code != 200 or not bodies.is_stream(flow):
            return
        decode = content_encoding.decoder(response.headers.get("content-encoding", ""))
        if decode is None:
            return
        inner = response.stream if callable(response.stream) else lambda data: data
        shown = record.live = bytearray()
        edited, decoded = record.edited(stream=True), bodies.LiveDecoding(decode, state)

        def take(data: bytes) -> bytes | list[bytes]:
            passed = inner(data)
            chunk = passed if isinstance(passed, bytes) else b"".join(passed)
            out = decoded.feed(chunk, edited.feed) if chunk else b""
            out += b"" if data else decoded.end(edited.close)
            shown.extend(out)
            return out or []

        bodies.stream_plainly(flow, response)
        response.stream = take

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        if (record := self.of(state)) is not None:
            try:
                _put_in(flow, response, record)
            except Exception as error:
                _log.warning("penumbra: a response can't be edited: %s", errors.place(error))
            await self.ended(flow, record)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if (record := self.of(state)) is not None:
            await self.ended(flow, record)

    @abstractmethod
    async def ended(self, flow: Flow, record: E) -> None:
        """Report what was edited in a response that is over."""


def _put_in(flow: Flow, response: HttpResponse, record: EditedResponse) -> None:
    """Put the edited body into a flow; of a stream, the client has got it already."""
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


@dataclass
class RestoredResponse(EditedResponse):
    """A response that may write placeholders whose values are known."""

    restoration: Restoration

    def filter(self) -> Filter:
        return self.readers.call_arguments(self.restoration.open)


class SecretRestoration(Edits[RestoredResponse]):
    record = RestoredResponse

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        if (restoration := accepted.restoration) is not None:
            state.put(RestoredResponse(FORMATS[restoration.format].responses, restoration))
            bodies.ask_for_codings(flow.request)

    async def ended(self, flow: Flow, record: RestoredResponse) -> None:
        restoration = record.restoration
        try:
            await restoration.keep()
        except Exception as error:
            _log.warning("penumbra: values of a response: %s", errors.place(error))
        if restoration.calls:
            flow.metadata[_RESTORED] = len(restoration.used)
            note = f"{restoration.calls} calls edit files with {len(restoration.used)} values put back"
            add_note(flow, note)
            _log.info(f"Penumbra: {destination.shown(flow)}: {note}")


@dataclass
class ScaledResponse(EditedResponse):
    """A response whose usage is reported in another scale."""

    scale: UsageScale
    usage: ScaledUsage

    def filter(self) -> Filter:
        return self.usage


class UsageScaling(Edits[ScaledResponse]):
    record = ScaledResponse

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Note the scale in which the client of an accepted request sees its input tokens."""
        state.drop(ScaledResponse)
        api = FORMATS.get(accepted.request.api.format)
        if (scale := accepted.usage_scale) is not None and api is not None:
            state.put(ScaledResponse(api.responses, scale, api.responses.scaled_usage(scale.count)))
            bodies.ask_for_codings(flow.request)

    async def ended(self, flow: Flow, record: ScaledResponse) -> None:
        """Report the scaled figures beside the real ones."""
        scale, real = record.scale, record.usage.real
        if not real:
            return
        told = {name: [count, scale.count(count)] for name, count in real.items()}
        flow.metadata[_SCALED] = {"limit": scale.limit, "believed": scale.believed, "told": told}
        factor = scale.believed / scale.limit
        note = f"told {factor:.2f} times the input tokens: of {scale.believed:,} only {scale.limit:,} fit"
        add_note(flow, note)
        _log.info(f"Penumbra: {destination.shown(flow)}: {note}; in truth {real}")
