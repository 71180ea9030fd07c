"""This module sends spans of LLM calls by OpenTelemetry. OpenTelemetry is imported when the setting is on.

Its own environment variables set the destination and the sampling. Spans have no content. Their attributes
follow https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penumbra import __version__, errors
from penumbra.apis import recognise
from penumbra.errors import one_line
from penumbra.flow.mitm import Flow, HttpResponse
from penumbra.flow.state import FlowState, Step
from penumbra.metrics.sessions import TurnRecord
from penumbra.redaction import placeholder

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_NAME = "penumbra"
_NAMELESS = "unknown_service"
_LAST_SECONDS = 1.0
_SECOND = 1_000_000_000
_log = logging.getLogger(__name__)


class Tracing(Step):
    def __init__(self, is_on: Callable[[], bool]) -> None:
        """`is_on` returns the current setting."""
        self._is_on = is_on
        self._provider: TracerProvider | None = None
        self._is_broken = False
        """True if the start failed. Tracing starts again only if the setting is switched off and on."""

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
        with errors.contained(_log, "penumbra: a span could not be made"):
            self._record(self._provider, turn, headers)

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
        """Send the waiting spans. Spans that the collector does not accept in time are dropped."""
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
        parent = {key: lower[key] for key in ("traceparent", "tracestate") if key in lower}
        span = provider.get_tracer(_NAME, __version__).start_span(
            f"{operation(turn)} {turn.model}".rstrip(),
            TraceContextTextMapPropagator().extract(parent),
            SpanKind.CLIENT,
            attributes(turn),
            start_time=int(turn.time * _SECOND),
        )
        if error_type(turn):
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


Value = str | int | float | tuple[str, ...]
_PROVIDERS = {
    "azure-openai": "azure.ai.openai",
    "google": "gcp.gen_ai",
    "aws-bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of some providers, by the names in `rules/providers.yaml`."""
_FAMILIES = {"gemini": "gcp.gen_ai", "bedrock": "aws.bedrock"}
"""The conventions' name of a provider whose host is not known, by the family of the API."""
_SAFE_NAME = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)
"""The form of names of models and reasons that are recorded. Other texts may contain anything."""
_BROKEN_OFF = "broken off"


def operation(turn: TurnRecord) -> str:
    return "generate_content" if turn.api.startswith("gemini") else "chat"


def error_type(turn: TurnRecord) -> str:
    if turn.status == _BROKEN_OFF:
        return "broken_off"
    if turn.status.isdigit():
        return turn.status if int(turn.status) >= 400 else ""
    return "error_in_response" if turn.status else ""


def attributes(turn: TurnRecord) -> dict[str, Value]:
    """Return the known attributes of the conventions, and Penumbra's own with the prefix `penumbra.`."""
    amounts = turn.amounts
    found: dict[str, Value] = {
        "gen_ai.operation.name": operation(turn),
        "gen_ai.provider.name": _provider(turn),
        "gen_ai.request.model": turn.model,
        "gen_ai.response.model": _response_model(turn),
        "gen_ai.response.finish_reasons": tuple(filter(_SAFE_NAME.fullmatch, turn.ending.reasons)),
        "server.address": turn.host,
        "error.type": error_type(turn),
        "penumbra.agent": turn.agent,
        "penumbra.tool_results": turn.carried,
        "penumbra.tool_results.new": amounts.new_results,
        "penumbra.tool_results.tokens_before": amounts.sent_before,
        "penumbra.tool_results.tokens_after": amounts.sent_after,
        "penumbra.secrets": sum(amounts.secrets.values()),
        "penumbra.secrets.rules": tuple(sorted(amounts.secrets)),
        "penumbra.originals_asked": amounts.asked,
        "penumbra.hidden_requests": amounts.hidden_calls,
        "penumbra.added_seconds": round(amounts.seconds, 4),
    }
    if turn.is_billed:
        found |= {
            "gen_ai.usage.input_tokens": amounts.input,
            "gen_ai.usage.output_tokens": amounts.output,
            "gen_ai.usage.cache_read.input_tokens": amounts.cached,
            "gen_ai.usage.cache_creation.input_tokens": amounts.written,
        }
    return {key: value for key, value in found.items() if value not in ("", ())}


def _response_model(turn: TurnRecord) -> str:
    """Return the model that answered; empty if its name or the requested model's may not be recorded."""
    model = turn.ending.model
    return model if _SAFE_NAME.fullmatch(model) and not placeholder.PATTERN.search(turn.model) else ""


def _provider(turn: TurnRecord) -> str:
    known = recognise.provider(turn.host)
    if known:
        return _PROVIDERS.get(known, known)
    family = turn.api.partition("-")[0]
    return _FAMILIES.get(family, family)
