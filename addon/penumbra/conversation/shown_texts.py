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
    sent = accepted.sent(entry)
    return original, original if sent is entry.item.text else redact(sent, "").text
