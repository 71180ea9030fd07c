"""If the provider refuses a request as too large or unacceptable, this module sends another request instead.

A response that may be a refusal is read before any of its bytes reach the client. Streams are delayed until
their first events (`retry/first_events.py`) or for some seconds, and other responses until they are complete.
If no other request could work, the client gets the first response, byte for byte.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penumbra import errors
from penumbra.apis.parts import is_elsewhere
from penumbra.conversation import adoption
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import destination, hidden_requests
from penumbra.flow import state as states
from penumbra.flow.current_settings import EngineHandle
from penumbra.flow.mitm import Flow, Headers, HttpResponse, header
from penumbra.flow.response_edits import ResponseEdits
from penumbra.flow.state import FlowState, Refused, Step
from penumbra.flow.tool_loop import ToolLoopStep, Turns
from penumbra.retry import refusals, retry
from penumbra.retry.first_events import FirstEvents, Verdict
from penumbra.retry.refusals import Refusal
from penumbra.retry.retry import Retry
from penumbra.wire import content_encoding

_PATIENCE = 1.0
"""The head of a stream waits for the stream's first content for at most this number of seconds."""
_LARGE_BYTES = 100_000
_LARGE_PATIENCE = 5.0
"""The number of seconds in place of `_PATIENCE` for large requests, which are refused more often and
later."""
_FIRST_BYTES = 1_048_576
"""A stream with more decoded bytes than this before its first content does not count as a refusal."""
_SMALL_RESPONSE = 8_192
"""The size in bytes of the largest response with status 200 that may still be an error."""
_log = logging.getLogger(__name__)


def _patience(accepted: Accepted) -> float:
    """Return the seconds by which the beginning of a stream may be delayed; 0 if no refusal is expected."""
    body = accepted.rewritten.body
    if not accepted.bounds.is_near(body) and not is_elsewhere(accepted.request.document):
        return 0.0
    return _LARGE_PATIENCE if len(body) >= _LARGE_BYTES else _PATIENCE


@dataclass
class WatchedRequest:
    """A `WatchedRequest` has the state of a request whose response may be a refusal. The splice uses this
    object as its guard."""

    handle: EngineHandle
    incoming: Incoming
    accepted: Accepted
    patience: float
    """The number of seconds by which the beginning of a stream may be delayed; 0 for no delay."""
    count: int = 0
    """The number of times that the request was sent again."""
    refusal: Refusal | None = None
    """The refusal after which the request was last sent again; None if the request was sent only once."""
    asked: bool = False
    """True if the splice delays responses until this module has checked them."""
    restored: bool = False
    """True if the client gets the first response although another request was sent."""
    events: FirstEvents | None = None

    def first(self, headers: Headers, data: bytes) -> bool | None:
        """Take a stream's first bytes. Return whether the stream begins with an error, or None if unknown."""
        if self.events is None:
            decode = content_encoding.decoder(headers.get("content-encoding", ""), _FIRST_BYTES)
            self.events = FirstEvents(headers.get("content-type", ""), decode)
        verdict = self.events.feed(data)
        return None if verdict is Verdict.WAIT else verdict is Verdict.ERROR

    def is_accepted(self, response: HttpResponse, body: bytes) -> bool:
        """Return True if `OverflowRetry.refused` would forward this whole response."""
        if self.count or response.status_code != 200:
            return False
        error = self.error_in(response, body)
        self.asked = error is None or (bool(error.strip()) and not any(refusals.error_objects(error)))
        return self.asked

    def error_in(self, response: HttpResponse, body: bytes) -> bytes | None:
        """Return the part of a response that may be an error. Return None if the response can't be read or is
        larger than an error."""
        if self.events is not None and self.events.error:
            return self.events.error
        if response.status_code == 200 and len(body) > _SMALL_RESPONSE:
            return None
        try:
            coding = header(response, "content-encoding")
            return content_encoding.decode(body, coding, refusals.MAX_BODY_BYTES)
        except content_encoding.NotDecodable:
            return None


@dataclass(eq=False)
class OverflowRetry(Step):
    """An `OverflowRetry` sends another request. The two other steps handle it like the refused request."""

    _turns: Turns
    _tool_loop: ToolLoopStep
    _edits: ResponseEdits
    recovered: int = 0
    """The number of requests that were accepted in another form after a refusal."""

    def sent(self, flow: Flow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """Watch a request if a smaller or changed request could be accepted after a refusal."""
        if not retry.may_help(accepted):
            return
        if incoming.api.kind not in ("messages", "compact") or not accepted.request.conversation.messages:
            return
        state.guard = WatchedRequest(state.handle, incoming, accepted, _patience(accepted))

    async def refused(self, refused: Refused) -> None:
        """Check a response before the client gets any part of it. Then send another request, restore the
        first response, or forward the response."""
        state, response = states.of(refused.flow), refused.flow.response
        watched = state.guard if state is not None else None
        if state is None or not isinstance(watched, WatchedRequest):
            return
        watched.asked = True
        smaller = None
        if refused.error is None and response is not None:
            smaller = await self._smaller(watched, response, refused.body)
        if smaller is not None:
            refused.following = self._send(refused.flow, state, watched, smaller)
        elif watched.count and not (
            refused.error is None and response is not None and self._is_taken(watched, response, refused.body)
        ):
            refused.restore = watched.restored = True
            state.session = None

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        watched, state.guard = state.guard, None
        if not isinstance(watched, WatchedRequest):
            return
        if not watched.asked and not response.stream:
            await self._replace(flow, state, watched)
        if watched.count and not watched.restored:
            await self._settle(flow, watched)

    async def _smaller(self, watched: WatchedRequest, response: HttpResponse, body: bytes) -> Retry | None:
        """Return the request to send instead; None if there was no refusal or no request would help."""
        refusal = watched.error_in(response, body)
        if refusal is None:
            return None
        with errors.contained(_log, "Penumbra forwards a refusal", logging.WARNING):
            return await retry.instead(
                watched.handle.engine,
                watched.incoming,
                watched.handle.settings,
                watched.accepted,
                watched.count,
                response.status_code,
                refusal,
            )
        return None

    def _is_taken(self, watched: WatchedRequest, response: HttpResponse, body: bytes) -> bool:
        """Return whether the provider accepted the request. Some providers refuse with status 200."""
        error = watched.error_in(response, body) if response.status_code == 200 else None
        return response.status_code == 200 and not any(refusals.error_objects(error or b""))

    def _send(self, flow: Flow, state: FlowState, watched: WatchedRequest, again: Retry) -> Flow:
        smaller = again.accepted
        before, body = len(watched.accepted.rewritten.body), smaller.rewritten.body
        watched.count += 1
        watched.refusal = again.refusal
        watched.accepted = smaller
        if smaller.betas:
            flow.request.headers[adoption.HEADER] = smaller.betas
        watched.events = None
        self._tool_loop.sent(flow, state, watched.incoming, smaller)
        self._edits.sent(flow, state, watched.incoming, smaller)
        _log.info(
            f"Penumbra: {destination.shown(flow)} refused a request ({again.refusal.rule}, "
            f"{again.refusal.kind}); Penumbra sends it again, {before:,} -> {len(body):,} bytes"
        )
        return hidden_requests.make(flow, state, body, "takes the place of a refused request,")

    async def _replace(self, flow: Flow, state: FlowState, watched: WatchedRequest) -> None:
        """Send further requests. Each response is read completely, because the splice can't delay it."""
        response = flow.response
        assert response is not None
        body = response.raw_content or b""
        while (smaller := await self._smaller(watched, response, body)) is not None:
            hidden = self._send(flow, state, watched, smaller)
            error = await hidden_requests.run(hidden)
            if error is not None or hidden.response is None:
                watched.restored = True
                return
            response, body = hidden.response, hidden.response.raw_content or b""
            watched.first(response.headers, body)
            if self._is_taken(watched, response, body):
                flow.response = response
                # The model may ask for originals in this response. No step has read the response yet.
                self._tool_loop.headers(flow, state, response)
                return
        watched.restored = watched.count > 0

    async def _settle(self, flow: Flow, watched: WatchedRequest) -> None:
        """Make the forms of results in an accepted retry final."""
        assert flow.response is not None
        if flow.response.status_code != 200:
            return
        self.recovered += 1
        refusal = watched.refusal
        assert refusal is not None
        self._turns.recovered(flow, refusal.rule, watched.count)
        flow.metadata["penumbra_recovered"] = watched.count
        await watched.handle.engine.settle(watched.accepted)
