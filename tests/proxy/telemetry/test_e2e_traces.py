"""Spans of LLM calls, sent by a real proxy to a receiver of OpenTelemetry's protocol."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from proxy.page.conftest import SECRET, Page
from support.telemetry_receiver import Receiver, values
from support.upstream import Fault


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def traced(own_proxy: Any, clients: Any, upstream: Any, api_key: str, receiver: Receiver) -> Page:
    """An agent whose calls leave spans."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_RESOURCE_ATTRIBUTES": "team=shop",
    }
    proxy = own_proxy("regular", environment=environment, penumbra_traces="on")
    return Page(proxy, clients.http(proxy), upstream, api_key)


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def test_a_call_is_a_span_of_the_clients_trace_and_holds_no_content(traced, receiver, upstream):
    traced.headers["traceparent"] = f"00-{TRACE}-{PARENT}-01"
    traced.tool_prints()
    (resource, first), (_, second) = receiver.spans(2)
    assert (resource["service.name"], resource["team"]) == ("penumbra", "shop")
    assert {first.kind, second.kind} == {Span.SPAN_KIND_CLIENT}
    assert second.name == "chat claude-sonnet-4-5"
    assert (second.trace_id.hex(), second.parent_span_id.hex()) == (TRACE, PARENT)
    assert first.end_time_unix_nano <= second.end_time_unix_nano
    assert second.start_time_unix_nano < second.end_time_unix_nano
    said = values(second)
    assert said["gen_ai.provider.name"] == "anthropic"
    assert said["server.address"] == "api.anthropic.com"
    assert said["gen_ai.usage.input_tokens"] > 0
    assert said["gen_ai.response.model"] == "claude-sonnet-4-5"
    assert said["gen_ai.response.finish_reasons"] == ["end_turn"]
    assert (said["penumbra.tool_results.new"], said["penumbra.secrets.rules"]) == (1, ["github-token"])
    assert 0 < said["penumbra.tool_results.tokens_after"] < said["penumbra.tool_results.tokens_before"]
    for content in (SECRET, "worker idle", "cat worker.log", "Which job"):
        assert content.encode() not in receiver.raw
    # The client's own trace headers are forwarded unchanged.
    assert dict(upstream.requests[-1].headers)["traceparent"] == f"00-{TRACE}-{PARENT}-01"


def test_the_span_of_a_failed_call_has_the_error(traced, receiver, upstream):
    upstream.answers(Fault(529, "no"))
    assert traced.asks() == 529
    ((_, span),) = receiver.spans(1)
    assert (span.status.code, values(span)["error.type"]) == (Status.STATUS_CODE_ERROR, "529")


def test_a_secret_in_a_models_name_stays_here(traced, receiver):
    traced.tool_prints(model=SECRET)
    assert receiver.spans(2)
    assert SECRET.encode() not in receiver.raw
