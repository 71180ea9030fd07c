"""Attributes of a span of a call."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penumbra.apis.usage import Ending
from penumbra.metrics import span_attributes
from penumbra.metrics.amounts import Amounts
from penumbra.metrics.sessions import Rates, TurnRecord


def turn(**more: Any) -> TurnRecord:
    values: dict[str, Any] = {
        "number": 1, "time": 1.0, "session": "5e55101d", "model": "m", "agent": "", "project": "shop", "host": "h",
        "api": "anthropic-messages", "note": "", "results": (), "carried": 2, "body": (9, 9), "rates": Rates(),
    }  # fmt: skip
    return TurnRecord(**values | more)


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
    said = span_attributes.attributes(turn(host=host, api=api))
    assert (said["gen_ai.provider.name"], said["gen_ai.operation.name"]) == (provider, operation)


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
    assert span_attributes.error(turn(status=status)) == error


def test_unknown_values_have_no_attributes():
    said = span_attributes.attributes(turn())
    assert not {"error.type", "gen_ai.usage.input_tokens", "penumbra.agent", "penumbra.secrets.rules"} & set(
        said
    )
    assert "5e55101d" not in said.values()
    billed = turn(amounts=Amounts(uncached=1, cached=2, written=3, output=4), is_billed=True)
    billed.amounts.secrets = Counter({"jwt": 2})
    said = span_attributes.attributes(billed)
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.cache_read.input_tokens"]) == (6, 2)
    assert (said["penumbra.secrets"], said["penumbra.secrets.rules"]) == (2, ("jwt",))


def test_the_model_that_answered_and_why_it_stopped_are_names_or_nothing():
    said = span_attributes.attributes(turn(ending=Ending("m-20261101", ("stop", "length"))))
    assert said["gen_ai.response.model"] == "m-20261101"
    assert said["gen_ai.response.finish_reasons"] == ("stop", "length")
    for other in (
        turn(),
        turn(ending=Ending("what the worker said", ("it had no more to say",))),
        turn(model="[REDACTED:github-token:abcdef]", ending=Ending("what-was-replaced")),
    ):
        assert not [name for name in span_attributes.attributes(other) if ".response." in name]
