"""This module returns originals of results without their secrets, and facts about calls. `Carried` finds
originals in the request itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property, partial

from msgspec import structs

from penumbra.apis import parts
from penumbra.compress import pipeline
from penumbra.compress.calls.classify import Call, classify
from penumbra.compress.calls.tools import hint
from penumbra.compress.result import Mode, Policy, Redacted, ToolOutput
from penumbra.compress.text import Text
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request, Rewritten, Shown
from penumbra.expand.hidden_exchanges import Original, Prepared
from penumbra.expand.reference import References
from penumbra.redaction.redact_calls import Redact
from penumbra.store.conversations import Conversations
from penumbra.store.decisions import Decision


def tool_output(request: Request, item: Item) -> ToolOutput:
    """Return a text with facts about its call."""
    return ToolOutput(
        text=Text(item.text),
        tool=item.tool,
        arguments=parts.decoded_arguments(request.document, item.result.call),
        call_id=item.result.call_id,
        is_error=item.result.is_error,
        mentioned=partial(
            request.mentions.before, request.document, request.api.wire, request.conversation, item.result
        ),
    )


def cleaner(request: Request, item: Item, output: ToolOutput, redact: Redact) -> Callable[[str], Redacted]:
    """Return the function that removes secrets from an item's text and from forms of this text."""
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


def original(request: Request, item: Item, redact: Redact) -> str:
    """Return the redacted original of a text, as in `Rewritten.originals`. Raises RedactionError."""
    output = tool_output(request, item)
    clean = cleaner(request, item, output, redact)
    return str(pipeline.shorten(output, Policy(mode=Mode.SAFE), clean, lambda text: "").original)


def lines_before(call: Call, text: str) -> int:
    """Return the number of lines of the file that come before the output; 0 if the call names no line."""
    return call.first_line - 1 - Text.of(text).envelope.head.count("\n") if call.first_line else 0


def pair(request: Request, item: Item, sent: str, redact: Redact) -> tuple[str, str]:
    """Return the original and the sent text without secrets, for the operator. Raises RedactionError."""
    request = structs.replace(request, settings=replace(request.settings, redact_secrets=True))
    before = original(request, item, redact)
    return before, before if sent is item.text else redact(sent, "").text


Renew = Callable[[Prepared, Collection[str]], Awaitable[Collection[str]]]
"""A `Renew` marks originals as used, and returns the references that have no original."""
Work = Callable[[Callable[[], str]], Awaitable[str]]
"""A `Work` does a caller's work outside of the event loop, after the work of earlier callers."""


def comparing(
    references: References, request: Request, past: Mapping[bytes, Decision], redact: Redact
) -> References:
    """Return references that know the texts in the request, so that no two texts get the same reference."""

    made: list[dict[str, Item]] = []

    def carried(ref: str) -> str | None:
        if not made:
            made.append({past[item.key].facts.ref: item for item in request.items if item.key in past})
        item = made[0].get(ref)
        return None if item is None else original(request, item, redact)

    return structs.replace(references, carried=carried)


class Carried:
    """A `Carried` finds the originals of references in the request's own texts."""

    def __init__(self, request: Request, rewritten: Rewritten, redact: Redact, work: Work) -> None:
        self._request = request
        self._new, self._shown = rewritten.originals, rewritten.shown
        self._redact = redact
        self._work = work

    @cached_property
    def _entries(self) -> dict[str, Shown]:
        """The results of the request, by reference."""
        return {entry.facts.ref: entry for entry in self._shown if entry.facts.ref}

    @property
    def shows_earlier(self) -> bool:
        """Return whether earlier requests had already shortened one of the texts."""
        return any(entry.facts.ref not in self._new for entry in self._shown if entry.facts.ref)

    async def find(self, ref: str) -> Original | None:
        """Return the original of a reference; None if the request does not contain the original."""
        entry = self._entries.get(ref)
        if entry is None:
            return None
        text, item = self._new.get(ref), entry.item
        if text is None:
            text = await self._work(partial(original, self._request, item, self._redact))
        call = classify(item.tool, parts.decoded_arguments(self._request.document, item.result.call))
        return Original(text, item.tool, entry.facts.family, lines_before(call, text))

    async def inherited(
        self, conversations: Conversations, renew: Renew, prepared: Prepared
    ) -> Mapping[str, str]:
        """Mark the originals of an accepted request as used. Return the originals that the request's scope
        lacks, by reference: they were stored long ago, or with another login. Only texts in the request
        itself are returned, since no caller may get the originals of another."""
        if prepared.earlier:
            await conversations.inherit(prepared.earlier, prepared.caller.conversation)
        missing = await renew(prepared, self._entries.keys() - self._new.keys())
        texts: dict[str, str] = {}
        for ref in sorted(missing):
            if (found := await self.find(ref)) is not None:
                texts |= found.stored(ref)
        return texts
