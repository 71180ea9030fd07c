"""This module describes LLM calls by OpenTelemetry's conventions for generative AI, without content.
https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penumbra.apis import recognise
from penumbra.metrics.sessions import TurnRecord
from penumbra.redaction import placeholder

Value = str | int | float | tuple[str, ...]
_PROVIDERS = {
    "azure-openai": "azure.ai.openai",
    "google": "gcp.gen_ai",
    "aws-bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that have another name in `rules/providers.yaml`."""
_FAMILIES = {"gemini": "gcp.gen_ai", "bedrock": "aws.bedrock"}
"""Names of providers by the family of the API, for hosts of unknown providers."""
_NAME = re.compile(r"[\w./:@+-]{1,100}", re.ASCII)
"""The form of names of models and reasons that are recorded. Other texts may contain anything."""
_BROKEN_OFF = "broken off"


def operation(turn: TurnRecord) -> str:
    """Return the conventions' name of a request's operation."""
    return "generate_content" if turn.api.startswith("gemini") else "chat"


def name(turn: TurnRecord) -> str:
    return f"{operation(turn)} {turn.model}".rstrip()


def error(turn: TurnRecord) -> str:
    """Return the value of `error.type`; empty if there is no error."""
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
        "gen_ai.response.finish_reasons": tuple(filter(_NAME.fullmatch, turn.ending.reasons)),
        "server.address": turn.host,
        "error.type": error(turn),
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
    """Return the model that answered; empty if its name or the requested one may not be recorded."""
    model = turn.ending.model
    return model if _NAME.fullmatch(model) and not placeholder.PATTERN.search(turn.model) else ""


def _provider(turn: TurnRecord) -> str:
    known = recognise.provider(turn.host)
    if known:
        return _PROVIDERS.get(known, known)
    family = turn.api.partition("-")[0]
    return _FAMILIES.get(family, family)


def parent(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the trace context of the client."""
    return {key: headers[key] for key in ("traceparent", "tracestate") if key in headers}
