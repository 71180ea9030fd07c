"""Whether superseded results, and their calls' arguments, get smaller: what is allowed, and what pays."""

from __future__ import annotations

import logging

from penumbra import errors
from penumbra.conversation import repack, superseded_arguments
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Plan
from penumbra.errors import RedactionError
from penumbra.store.conversations import ConversationState

_log = logging.getLogger(__name__)


def results(inputs: Inputs, state: ConversationState) -> Plan:
    """Forms that pay because the results were superseded. Raises RedactionError."""
    settings = inputs.request.settings
    if not _may_lose(inputs) or (settings.supersede == "idle" and state.idle is None):
        return Plan()
    try:
        return repack.plan(
            inputs.request,
            inputs.past,
            inputs.redact,
            inputs.references,
            state.idle,
            settings.tool_compaction,
            settings.bound_thinking == "drop",
            priced=settings.supersede == "priced",
        )
    except RedactionError:
        raise
    except Exception as error:
        _log.warning("Penumbra looks at no older results of a request: %s", errors.place(error))
        return Plan()


def arguments(inputs: Inputs, state: ConversationState, results: Plan) -> Plan:
    """Forms of the arguments of superseded calls, behind those of results. Raises RedactionError."""
    if not _may_lose(inputs):
        return Plan()
    try:
        return superseded_arguments.plan(
            inputs.request,
            inputs.past,
            results,
            inputs.redact,
            inputs.references,
            state.idle,
            priced=inputs.request.settings.supersede != "idle",
        )
    except RedactionError:
        raise
    except Exception as error:
        _log.warning("Penumbra leaves the arguments of a request as they are: %s", errors.place(error))
        return Plan()


def _may_lose(inputs: Inputs) -> bool:
    settings = inputs.request.settings
    allowed = inputs.references is not None or settings.lossy == "on"
    asked_for = settings.supersede != "off" and settings.lossy != "off"
    return allowed and asked_for and settings.rewrites_history
