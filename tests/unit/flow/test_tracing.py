"""Attributes of spans, and spans that can't be sent."""

import logging
from collections import Counter
from typing import Any

import pytest

from penumbra.apis.usage import Ending
from penumbra.flow import tracing
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.sessions import Rates, TurnRecord


def turn(**more: Any) -> TurnRecord:
    values: dict[str, Any] = {
        "number": 1, "time": 1.0, "session": "5e55101d", "model": "m", "agent": "", "project": "shop", "host": "h",
        "api": "anthropic-messages", "note": "", "results": (), "carried": 2, "body": (9, 9), "rates": Rates(),
    }  # fmt: skip
    return TurnRecord(**values | more)


def test_tracing_that_cannot_begin_is_logged_once(monkeypatch, caplog):
    def broken():
        raise ValueError("OTEL_SOMETHING: nonsense")

    monkeypatch.setattr(tracing, "tracer_provider", broken)
    is_on = [True]
    spans = tracing.Tracing(lambda: is_on[0])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            spans.ended(turn(), {})
    assert [record.getMessage() for record in caplog.records] == [
        "penumbra: spans can't be sent: ValueError: OTEL_SOMETHING: nonsense"
    ]
    is_on[0] = False
    spans.ended(turn(), {})
    is_on[0] = True
    spans.ended(turn(), {})
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("host", "api", "provider", "operation"),
    [
        ("api.openai.com", "openai-responses", "openai", "chat"),
        ("x.openai.azure.com", "openai-chat", "azure.ai.openai", "chat"),
        ("generativelanguage.googleapis.com", "gemini-generate", "gcp.gen_ai", "generate_content"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", "bedrock-converse", "aws.bedrock", "chat"),
        ("openrouter.ai", "openai-chat", "openrouter", "chat"),
        ("gateway.example", "anthropic-messages", "anthropic", "chat"),
        ("gateway.example", "gemini-generate", "gcp.gen_ai", "generate_content"),
    ],
)
def test_providers_and_operations_have_the_names_of_the_conventions(host, api, provider, operation):
    found = tracing.attributes(turn(host=host, api=api))
    assert (found["gen_ai.provider.name"], found["gen_ai.operation.name"]) == (provider, operation)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("200", ""),
        ("", ""),
        ("429", "429"),
        ("broken off", "broken_off"),
        ("200, but an error", "error_in_response"),
    ],
)
def test_error_types(status, error):
    assert tracing.error_type(turn(status=status)) == error


def test_unknown_values_have_no_attributes():
    found = tracing.attributes(turn())
    assert not {"error.type", "gen_ai.usage.input_tokens", "penumbra.agent", "penumbra.secrets.rules"} & set(
        found
    )
    assert "5e55101d" not in found.values()
    billed = turn(amounts=Amounts(uncached=1, cached=2, written=3, output=4), is_billed=True)
    billed.amounts.secrets = Counter({"jwt": 2})
    found = tracing.attributes(billed)
    assert (found["gen_ai.usage.input_tokens"], found["gen_ai.usage.cache_read.input_tokens"]) == (6, 2)
    assert (found["penumbra.secrets"], found["penumbra.secrets.rules"]) == (2, ("jwt",))


def test_the_model_that_answered_and_why_it_stopped_are_names_or_nothing():
    found = tracing.attributes(turn(ending=Ending("m-20261101", ("stop", "length"))))
    assert found["gen_ai.response.model"] == "m-20261101"
    assert found["gen_ai.response.finish_reasons"] == ("stop", "length")
    for other in (
        turn(),
        turn(ending=Ending("what the worker found", ("it had no more to say",))),
        turn(model="[REDACTED:github-token:abcdef]", ending=Ending("what-was-replaced")),
    ):
        assert not [name for name in tracing.attributes(other) if ".response." in name]
