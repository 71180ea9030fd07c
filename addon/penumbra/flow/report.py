"""What is shown of a request: log line, comment, mark, metadata and event.

Frames of a WebSocket add up in one flow until it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mitmproxy import http

from penumbra.conversation import cache_price
from penumbra.conversation.incoming import Accepted, Incoming
from penumbra.flow import destination
from penumbra.flow.state import FlowState
from penumbra.metrics import events, list_prices
from penumbra.metrics.summary import Summary
from penumbra.metrics.totals import Metrics, Totals

MARK = ":new_moon:"
_log = logging.getLogger(__name__)


def add_note(flow: http.HTTPFlow, note: str) -> None:
    """Say more of a flow in its comment."""
    flow.comment = f"{flow.comment}; {note}" if flow.comment else f"Penumbra: {note}"


class Reports:
    """State: the figures. `write` takes an event; `changed` is called when there are new figures."""

    def __init__(
        self, metrics: Metrics, write: Callable[[dict[str, Any]], None], changed: Callable[[], None]
    ) -> None:
        self._metrics = metrics
        self._write = write
        self._changed = changed

    def accepted(self, flow: http.HTTPFlow, state: FlowState, incoming: Incoming, accepted: Accepted) -> None:
        """A request, or a frame of a socket, is sent on."""
        host, rewritten, prepared = destination.shown(flow), accepted.rewritten, accepted.prepared
        if accepted.line:
            _log.info(f"Penumbra: {host}: {accepted.line}")
        summary = Summary.of(
            rewritten.shown,
            accepted.hidden,
            declared=prepared.tool if prepared else "",
            put_back=len(prepared.replayed.exchanges) if prepared else 0,
        )
        self._count(incoming, accepted)
        changed = rewritten.body is not incoming.body
        self._show(flow, state, incoming, accepted, summary, changed)
        if changed and not (summary.changed or summary.secrets):
            _log.debug(f"Penumbra: {host} {incoming.api.id}: {summary.line()}")
        elif changed:
            new = Summary.of((entry for entry in rewritten.shown if entry.new), accepted.hidden)
            _log.info(
                f"Penumbra: {host} {incoming.api.id}: {summary.line(new)}, "
                f"{len(incoming.body):,} -> {len(rewritten.body):,} bytes, {accepted.milliseconds:.1f} ms"
            )
        if summary.results or summary.secrets or accepted.line:
            self._event(flow, incoming, accepted)

    def _event(self, flow: http.HTTPFlow, incoming: Incoming, accepted: Accepted) -> None:
        rewritten, settings = accepted.rewritten, accepted.request.settings
        self._write(
            events.request_event(
                flow_id=flow.id,
                host=destination.shown(flow),
                api=incoming.api.id,
                model=accepted.model,
                mode=str(settings.mode),
                strategy=settings.strategy,
                note=accepted.line,
                totals=Totals.of(rewritten.shown),
                shown=rewritten.shown,
                outside=accepted.hidden,
                body_before=len(incoming.body),
                body_after=len(rewritten.body),
                milliseconds=accepted.milliseconds,
            )
        )

    def _count(self, incoming: Incoming, accepted: Accepted) -> None:
        shown = accepted.rewritten.shown
        totals = Totals.of(shown)
        if totals.tokens_before > totals.tokens_after and incoming.api.kind == "messages":
            self._metrics.add_saving(_dollars(incoming, accepted, totals))
        self._metrics.redactions.update(accepted.hidden)
        self._metrics.add(shown, totals, accepted.milliseconds, totals.changed > 0 or bool(accepted.hidden))
        self._changed()

    def _show(
        self,
        flow: http.HTTPFlow,
        state: FlowState,
        incoming: Incoming,
        accepted: Accepted,
        summary: Summary,
        changed: bool,
    ) -> None:
        earlier = flow.metadata.get("penumbra", {}) if incoming.socket else {}
        if incoming.socket:
            summary = state.frames = state.frames + summary
        sizes = earlier.get("body_bytes", [0, 0])
        metadata = flow.metadata["penumbra"] = {
            **summary.metadata(),
            "api": incoming.api.id,
            "changed": changed or bool(earlier.get("changed")),
            "body_bytes": [sizes[0] + len(incoming.body), sizes[1] + len(accepted.rewritten.body)],
            "milliseconds": round(earlier.get("milliseconds", 0.0) + accepted.milliseconds, 2),
        }
        if incoming.socket:
            metadata["frames"] = earlier.get("frames", 0) + 1
        if metadata["changed"]:
            comment, before = f"Penumbra: {summary.line()}", state.frames_comment
            # What was said of responses in between stays behind it.
            flow.comment = comment + flow.comment.removeprefix(before) if before else comment
            flow.marked = flow.marked or MARK
            if incoming.socket:
                state.frames_comment = comment


def _dollars(incoming: Incoming, accepted: Accepted, totals: Totals) -> float | None:
    """What the request costs less by what its results are smaller; None: the model's price is not known."""
    model = accepted.request.conversation.model
    if (known := list_prices.price(model)) is None:
        return None
    cached = cache_price.of_request(incoming.api.format, model, accepted.request.document)
    new = Totals.of(entry for entry in accepted.rewritten.shown if entry.new)
    saved_new = new.tokens_before - new.tokens_after
    saved_again = totals.tokens_before - totals.tokens_after - saved_new
    return (saved_new * cached.write + saved_again * cached.read) * known.input / list_prices.MILLION
