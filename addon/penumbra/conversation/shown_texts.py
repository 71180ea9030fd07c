"""A result before and after, as its operator may see it: without secrets, whatever the settings say."""

from __future__ import annotations

from dataclasses import replace

from penumbra.conversation import result_text
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Shown
from penumbra.redaction.unsearchable import Redact


def pair(accepted: Accepted, entry: Shown, redact: Redact) -> tuple[str, str]:
    """The original and what was sent. Raises RedactionError."""
    settings = replace(accepted.request.settings, redact_secrets=True)
    request = replace(accepted.request, settings=settings)
    original = result_text.original(request, entry.item, redact)
    decision = accepted.decided.get(entry.item.key)
    if decision is None or decision.text is None:
        return original, original
    return original, redact(decision.text, "").text
