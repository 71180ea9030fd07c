"""A response's way to the client: the steps, each in its place for a reason.

A stream's first events are held (`splice.py`) until the first step has said that they are no refusal. What
can be read as it arrives, the steps read so from `headers` on; `complete` comes when all has arrived.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from mitmproxy import http

from penumbra import errors
from penumbra.apis.base import Response
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import guarded, response_bodies, websocket_frames
from penumbra.flow import state as states
from penumbra.flow.loop_turns import Turns
from penumbra.flow.overflow_retry import OverflowRetry
from penumbra.flow.placeholder_warning import PlaceholderWarning
from penumbra.flow.privacy import FlowPrivacy
from penumbra.flow.response_usage import ResponseUsage
from penumbra.flow.secret_restoration import SecretRestoration
from penumbra.flow.state import FlowState, Step
from penumbra.flow.tool_loop import ToolLoopStep
from penumbra.flow.tracing import Tracing
from penumbra.flow.usage_scaling import UsageScaling
from penumbra.metrics.events import WriteEvent
from penumbra.metrics.journal import Journal
from penumbra.metrics.totals import ExpansionMetrics

_log = logging.getLogger(__name__)


class ResponseWay:
    """State: none but the steps' own; what is known of a flow stands in its state."""

    def __init__(
        self,
        metrics: ExpansionMetrics,
        journal: Journal,
        write: WriteEvent,
        blank_flows: Callable[[], str],
        tracing: Tracing,
    ) -> None:
        """`write` takes an event; `blank_flows` is the setting in force."""
        self.turns = Turns(metrics, journal, write)
        self.tracing = tracing
        self.tool_loop = ToolLoopStep(self.turns, self._filtered)
        self.privacy = FlowPrivacy(blank_flows)
        usage_scaling = UsageScaling()
        self.overflow_retry = OverflowRetry(self.turns, self.tool_loop, usage_scaling)
        self._steps: tuple[Step, ...] = (
            # Before anybody has read what a refused request got: all other steps know only the response to
            # the request that takes its place.
            self.overflow_retry,
            # Makes one response of several turns: from here on there is only what the client gets.
            self.tool_loop,
            # Behind the tool loop: in hidden turns, which the provider gets back, no value may stand.
            SecretRestoration(),
            # Behind the tool loop, which sums usage up.
            usage_scaling,
            # Behind the tool loop, which counts the turns that it reads.
            ResponseUsage(journal),
            # Behind what counts.
            tracing,
            # Behind restoration: a placeholder that has got its value is not warned of.
            PlaceholderWarning(),
            # Behind all that read what the flow holds of its bodies: it may be emptied here.
            self.privacy,
        )

    def sent(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """A request is about to be sent."""
        for step in self._steps:
            step.sent(flow, state, incoming, accepted)

    async def begins(self, flow: http.HTTPFlow) -> None:
        """A response begins. What was decided about its request is final once the client has any of it."""
        if (state := states.of(flow)) is not None:
            with _contained():
                await state.lease.engine.written()
        self.headers(flow)

    def headers(self, flow: http.HTTPFlow) -> None:
        """How a response is read."""
        if (state := states.of(flow)) is None or flow.response is None:
            return
        for step in self._steps:
            with _contained():
                step.headers(flow, state, flow.response)

    async def complete(self, flow: http.HTTPFlow) -> None:
        """A response is complete."""
        if (state := states.of(flow)) is None:
            return
        if state.broken:
            # Where it could not break off sooner.
            flow.kill()
        for step in self._steps:
            if flow.response is not None:
                with _contained():
                    await step.complete(flow, state, flow.response)
        # No step of bodies, and the last one, since it may put a response of ours into the flow.
        websocket_frames.opening_answered(flow, state)
        response_bodies.let_go(flow)
        if flow.websocket is None:
            states.forget(flow)

    async def failed(self, flow: http.HTTPFlow) -> None:
        """A flow has ended before its response."""
        if (state := states.of(flow)) is None:
            return
        for step in self._steps:
            with _contained():
                await step.failed(flow, state)
        response_bodies.let_go(flow)
        states.forget(flow)

    def abandoned(self, flow: http.HTTPFlow, *, must_search: Callable[[http.HTTPFlow], bool]) -> None:
        """Forget a flow whose last hook raised, and send no socket on that nobody reads."""
        state = states.of(flow)
        if websocket_frames.is_unread(flow, state) and must_search(flow):
            flow.websocket = None
            guarded.stop(flow)
        if flow.websocket is None:
            states.forget(flow)

    def _filtered(self, flow: http.HTTPFlow, state: FlowState, response: Response) -> Response:
        """A stream that the tool loop reads, with what the steps behind it change."""
        for step in self._steps:
            response = step.filtered(flow, state, response)
        return response


@contextlib.contextmanager
def _contained() -> Iterator[None]:
    """Log what a step raises. The response stays as it is, and the other steps do their work."""
    try:
        yield
    except Exception as error:
        _log.error("penumbra: a step of a response's way failed: %s", errors.place(error))
