"""One text of a tool result: what is known of its call, how its secrets go, and its redacted original."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from penumbra.apis import arguments
from penumbra.compress import pipeline
from penumbra.compress.calls.hint import hint
from penumbra.compress.result import Mode, Policy, Redact, Redacted, ToolOutput
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request, Shown

if TYPE_CHECKING:
    from penumbra.conversation.incoming import Accepted


def tool_output(request: Request, item: Item) -> ToolOutput:
    """A text with what is known about its call."""
    return ToolOutput(
        text=item.text,
        tool=item.tool,
        arguments=arguments.decoded(request.document, item.result.call),
        call_id=item.result.call_id,
        is_error=item.result.is_error,
        mentioned=partial(
            request.mentions.before, request.document, request.api.wire, request.conversation, item.result
        ),
    )


def cleaner(
    request: Request, item: Item, output: ToolOutput, redact: Callable[[str, str], Redacted]
) -> Redact:
    """How the secrets of an item's text are taken out, and those of the forms that are made of it."""
    if not request.settings.redact_secrets:
        return Redacted
    place, container = hint(output.arguments), item.result.container

    def clean(text: str) -> Redacted:
        if container is None or text != item.text:
            return redact(text, place)
        return request.structured.redact(
            request.document, container, text, lambda inner: redact(inner, place)
        )

    return clean


def original(request: Request, item: Item, redact: Callable[[str, str], Redacted]) -> str:
    """The redacted original of a text, as `rewrite` gives it in `originals`. Raises RedactionError."""
    output = tool_output(request, item)
    clean = cleaner(request, item, output, redact)
    return pipeline.shorten(output, Policy(mode=Mode.SAFE), clean, lambda text: "").original


def pair(accepted: Accepted, entry: Shown, redact: Callable[[str, str], Redacted]) -> tuple[str, str]:
    """Return the original and what was sent, as the operator may see them: without secrets, whatever the
    settings say. Raises RedactionError."""
    settings = replace(accepted.request.settings, redact_secrets=True)
    request = replace(accepted.request, settings=settings)
    before = original(request, entry.item, redact)
    sent = accepted.sent(entry)
    return before, before if sent is entry.item.text else redact(sent, "").text
