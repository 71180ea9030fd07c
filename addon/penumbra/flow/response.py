"""This module has the steps of a response on its way to the client, in order.

The splice may delay a stream's first events, until the first step knows whether they are a refusal. A step
can read a stream as it arrives, beginning with `headers`, and every complete response in `complete`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from penumbra import errors
from penumbra.apis.base import Turn
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import bodies, destination, guarded, websocket_streams
from penumbra.flow import state as states
from penumbra.flow.mitm import Flow, HttpResponse
from penumbra.flow.overflow_retry import OverflowRetry
from penumbra.flow.response_edits import EditedResponse, ResponseEdits
from penumbra.flow.state import FlowState, Step, add_note
from penumbra.flow.tool_loop import ToolLoopStep, Turns
from penumbra.flow.tracing import Tracing
from penumbra.flow.websocket_streams import Socket
from penumbra.metrics.events import WriteEvent
from penumbra.metrics.journal import Journal
from penumbra.redaction import placeholder

if TYPE_CHECKING:
    from penumbra.conversation.restored_values import Restoration

MARK = ":warning:"
METADATA = "penumbra_placeholders_written"
_NOT_SEARCHED = "Penumbra could not look for placeholders in a response"
_ON_SOCKETS = "openai_responses"
_MOST_BYTES = 4_000_000
"""The size in bytes of the largest response that is read for its token figures when it is complete."""
_log = logging.getLogger(__name__)


class ResponseWay:
    """A `ResponseWay` takes responses through the steps. The state of each flow is in its `FlowState`."""

    def __init__(
        self, journal: Journal, write: WriteEvent, blank_flows: Callable[[], str], tracing: Tracing
    ) -> None:
        """`write` takes an event. `blank_flows` returns the current setting."""
        self.turns = Turns(journal, write)
        self.tracing = tracing
        self.tool_loop = ToolLoopStep(self.turns, self._filtered)
        self.privacy = FlowPrivacy(blank_flows)
        edits = ResponseEdits()
        self.overflow_retry = OverflowRetry(self.turns, self.tool_loop, edits)
        self.steps: tuple[Step, ...] = (
            # This step is first. The other steps then see the response to a retry and not the refusal.
            self.overflow_retry,
            # This step makes one response from several turns. Later steps see only the client's response.
            self.tool_loop,
            # This step follows the tool loop, because the loop adds up the usage of all turns. Hidden turns
            # also go back to the provider, and they must not contain the secrets that are put back.
            edits,
            # This step follows the tool loop, because the loop reports the turns that it has read.
            ResponseUsage(journal),
            # This step follows the steps that count tokens, because spans contain these counts.
            tracing,
            # This step follows `edits`, which replaces the placeholders that need no warning.
            PlaceholderWarning(),
            # This step may empty the flow's bodies, so it follows all steps that read them.
            self.privacy,
        )
        # Most steps do nothing at the head of a response.
        self._readers = [step for step in self.steps if type(step).headers is not Step.headers]

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        state.format = incoming.api.format
        state.has_placeholders = placeholder.is_in(accepted.rewritten.body)
        for step in self.steps:
            step.sent(flow, state, incoming, accepted)

    async def begins(self, flow: Flow) -> None:
        """Take the head of a response. When any part of the response reaches the client, the decisions about
        the request are final. These decisions are therefore written first."""
        if (state := states.of(flow)) is not None:
            with _contained():
                await state.handle.engine.stores.written()
        self.headers(flow)

    def headers(self, flow: Flow) -> None:
        if (state := states.of(flow)) is None or flow.response is None:
            return
        for step in self._readers:
            with _contained():
                step.headers(flow, state, flow.response)

    async def complete(self, flow: Flow) -> None:
        if (state := states.of(flow)) is None:
            return
        if state.broken:
            # The client gets documents whole, so a broken document can be cut off only here.
            flow.kill()
        for step in self.steps:
            if flow.response is not None:
                with _contained():
                    await step.complete(flow, state, flow.response)
        # This call may put Penumbra's own response into the flow, so it follows all steps.
        websocket_streams.opening_answered(flow, state)
        bodies.let_go(flow)
        if flow.websocket is None:
            states.forget(flow)

    async def failed(self, flow: Flow) -> None:
        if (state := states.of(flow)) is None:
            return
        for step in self.steps:
            with _contained():
                await step.failed(flow, state)
        bodies.let_go(flow)
        states.forget(flow)

    def abandoned(self, flow: Flow, *, must_search: Callable[[Flow], bool]) -> None:
        """Forget a flow whose last hook raised an exception. Close a WebSocket that no code reads."""
        state = states.of(flow)
        if websocket_streams.is_unread(flow, state) and must_search(flow):
            flow.websocket = None
            guarded.stop(flow)
        if flow.websocket is None:
            states.forget(flow)

    def _filtered(self, flow: Flow, state: FlowState, response: Response) -> Response:
        """Return a stream that the tool loop reads. The edits of later steps are attached to it."""
        for step in self.steps:
            response = step.filtered(flow, state, response)
        return response


# After an exception of a step, the other steps still run.
_contained = partial(errors.contained, _log, "penumbra: a step of a response's way failed")


@dataclass(eq=False)
class ResponseUsage(Step):
    """A `ResponseUsage` reports the provider's token figures to the journal."""

    _journal: Journal

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        asks = incoming.api.kind == "messages"
        state.response_format = incoming.api.format if asks else ""
        state.conversation = accepted.conversation if asks else b""

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Report the figures of a complete response, unless the tool loop has reported them."""
        if state.conversation:
            await state.handle.engine.stores.conversations.answered(state.conversation)
        turn, is_ok = state.turn, response.status_code == 200
        if turn is None or flow.websocket is not None or (turn.is_billed and is_ok):
            return
        is_read = is_ok and state.response_format in FORMATS
        turns = (_read(flow, state),) if is_read else ()
        self._journal.responded(turn, response.status_code, turns)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if state.conversation:
            await state.handle.engine.stores.conversations.answered(state.conversation)
        if state.turn is not None and flow.websocket is None:
            self._journal.failed(state.turn, flow.response.status_code if flow.response is not None else None)


def _read(flow: Flow, state: FlowState) -> Turn:
    """Return a whole response as a turn, with the provider's token figures and not the scaled figures. A
    response that is too large or can't be read gives an empty turn."""
    with errors.contained(_log, "Penumbra could not read the figures of a response", logging.DEBUG):
        body = bodies.content(flow)
        if len(body) > _MOST_BYTES:
            return Turn()
        wire = FORMATS[state.response_format]
        response = wire.stream("") if bodies.is_stream(flow) else wire.body("")
        response.feed(body)
        edited = state.get(EditedResponse)
        real = edited.usage.real if edited is not None and edited.usage is not None else {}
        turn = response.end_turn()
        return structs.replace(turn, usage={**turn.usage, **real})
    return Turn()


class PlaceholderWarning(Step):
    """A `PlaceholderWarning` warns about tool calls in which the model repeats placeholders of secrets."""

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        wire = FORMATS.get(state.format) if state.has_placeholders else None
        if wire is None or response.status_code != 200:
            return
        with errors.contained(_log, _NOT_SEARCHED, logging.WARNING):
            _warn(flow, placeholder.calls(wire, bodies.content(flow), stream=bodies.is_stream(flow)))


def look_at_message(flow: Flow, message: bytes | None) -> None:
    """Warn about calls with placeholders in a message of a WebSocket."""
    with errors.contained(_log, _NOT_SEARCHED, logging.WARNING):
        _warn(flow, placeholder.within(FORMATS[_ON_SOCKETS], message))


def _warn(flow: Flow, count: int) -> None:
    if not count:
        return
    note = f"{count} calls write a [REDACTED] placeholder instead of a value"
    flow.marked = MARK
    flow.metadata[METADATA] = count
    add_note(flow, note)
    _log.warning(f"Penumbra: {destination.shown(flow)}: {note}")


@dataclass(eq=False)
class FlowPrivacy(Step):
    """A `FlowPrivacy` keeps bodies and secrets out of mitmproxy's flows. The setting decides which bodies are
    blanked, and is read at the end of the flow. Placeholders are shown in place of secrets that were put
    back. A body that is not sent yet is passed to the splice. Without the splice, the body stays in the
    flow."""

    _blank_flows: Callable[[], str]

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        """Blank the bodies of a flow whose response is complete. A document is not sent yet."""
        self._hide(flow, state)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        self._hide(flow, state)

    def websocket_end(self, flow: Flow, state: FlowState) -> None:
        if self._blank_flows() != "off" and flow.websocket is not None and state.get(Socket) is not None:
            for message in flow.websocket.messages:
                message.content = _note(message.content)

    def _hide(self, flow: Flow, state: FlowState) -> None:
        blanked = self._is_blanked(flow, state)
        if blanked:
            flow.request.data.content = _note(flow.request.data.content or b"")
        response, restoration = flow.response, _restoration(state)
        if response is None or response.data.content is None:
            return
        body = shown = response.data.content
        if blanked:
            shown = _note(body)
        elif restoration is not None and restoration.used:
            shown = restoration.concealed(body)
        if shown != body and _may_show(flow, state, response, body):
            response.data.content = shown

    def _is_blanked(self, flow: Flow, state: FlowState) -> bool:
        wanted, summary = self._blank_flows(), flow.metadata.get("penumbra")
        if wanted == "off" or not isinstance(summary, dict):
            return False
        if wanted == "all" or "refused" in summary:
            return True
        parent = states.by_id(summary.get("continues", flow.id))
        restoration = _restoration(state)
        restores = restoration is not None and bool(restoration.used)
        return restores or (parent is not None and parent.has_placeholders)


def _restoration(state: FlowState) -> Restoration | None:
    """Return the secrets that were put back into a flow's response, or None."""
    edited = state.get(EditedResponse)
    return edited.restoration if edited is not None else None


def _may_show(flow: Flow, state: FlowState, response: HttpResponse, body: bytes) -> bool:
    """Return whether the body in the flow may differ from the body for the client. If the splice sends the
    body, also pass the body for the client to the splice."""
    if state.spliced:
        state.body_to_send = body
        return True
    # A stream has already been sent. Without the splice, hidden responses are read from their flows.
    hidden = "continues" in flow.metadata.get("penumbra", {})
    return (bool(response.stream) or flow.error is not None) and not hidden


def _note(content: bytes) -> bytes:
    return b"[%d bytes, not kept by Penumbra]" % len(content)
