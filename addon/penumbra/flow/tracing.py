"""This module sends spans of LLM calls by OpenTelemetry, which is imported when the setting is on.

OpenTelemetry's own environment variables set the destination and the sampling.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penumbra import __version__, errors
from penumbra.errors import one_line
from penumbra.flow.mitm import Flow, HttpResponse
from penumbra.flow.state import FlowState, Step
from penumbra.metrics import span_attributes
from penumbra.metrics.sessions import TurnRecord

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_NAME = "penumbra"
_NAMELESS = "unknown_service"
_LAST_SECONDS = 1.0
_SECOND = 1_000_000_000
_log = logging.getLogger(__name__)


class Tracing(Step):
    """A `Tracing` sends spans while the setting is on."""

    def __init__(self, is_on: Callable[[], bool]) -> None:
        """`is_on` returns the current setting."""
        self._is_on = is_on
        self._provider: TracerProvider | None = None
        self._is_broken = False
        """True if the start failed. After that, tracing starts only if it is switched off and on."""

    async def complete(self, flow: Flow, state: FlowState, response: HttpResponse) -> None:
        await self.failed(flow, state)

    async def failed(self, flow: Flow, state: FlowState) -> None:
        if state.turn is not None and state.response_format and flow.websocket is None:
            self.ended(state.turn, flow.request.headers)

    def ended(self, turn: TurnRecord, headers: Mapping[str, str]) -> None:
        """Record one span for a client's request that has ended, together with its hidden requests. Errors
        are logged. Observed requests have no span."""
        self.follow()
        if self._provider is None or turn.is_observed:
            return
        try:
            self._record(self._provider, turn, headers)
        except Exception as error:
            _log.error("penumbra: a span could not be made: %s", errors.place(error))

    def follow(self) -> None:
        """Start or stop sending spans, according to the setting."""
        if not self._is_on():
            self.close()
            self._is_broken = False
        elif self._provider is None and not self._is_broken:
            try:
                self._provider = tracer_provider()
            except Exception as error:
                self._is_broken = True
                _log.error(
                    "penumbra: spans can't be sent: %s: %s", type(error).__name__, one_line(str(error))
                )

    def close(self) -> None:
        """Send the waiting spans. If the collector does not accept them in a moment, they are dropped."""
        provider, self._provider = self._provider, None
        if provider is not None:
            ending = threading.Thread(target=provider.shutdown, name="penumbra-traces", daemon=True)
            ending.start()
            ending.join(_LAST_SECONDS)

    @staticmethod
    def _record(provider: TracerProvider, turn: TurnRecord, headers: Mapping[str, str]) -> None:
        from opentelemetry.trace import SpanKind, StatusCode
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        lower = {key.lower(): value for key, value in headers.items()}
        span = provider.get_tracer(_NAME, __version__).start_span(
            span_attributes.name(turn),
            TraceContextTextMapPropagator().extract(span_attributes.parent(lower)),
            SpanKind.CLIENT,
            span_attributes.attributes(turn),
            start_time=int(turn.time * _SECOND),
        )
        if span_attributes.error(turn):
            span.set_status(StatusCode.ERROR)
        span.end(time.time_ns())


def tracer_provider() -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.version": __version__})
    if str(resource.attributes.get(SERVICE_NAME, _NAMELESS)).startswith(_NAMELESS):
        resource = resource.merge(Resource({SERVICE_NAME: _NAME}))
    made = TracerProvider(resource=resource, shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return made
