"""Originals that a request carries itself: clients send them again on every turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from functools import cache, cached_property, partial

from penumbra.conversation import result_text
from penumbra.conversation.items import Item
from penumbra.conversation.model import Request, Rewritten, Shown
from penumbra.expand.hidden_exchanges import Original, Prepared
from penumbra.expand.reference import References
from penumbra.redaction.unsearchable import Redact
from penumbra.store.conversations import Conversations
from penumbra.store.decisions import Decision

Renew = Callable[[Prepared, Collection[str]], Awaitable[Collection[str]]]
"""Notes that what is kept under references is used; those under which nothing is."""
Work = Callable[[Callable[[], str]], Awaitable[str]]
"""Does a caller's work away from the event loop, when it is its turn."""


def comparing(
    references: References, request: Request, past: Mapping[bytes, Decision], redact: Redact
) -> References:
    """References that are none of those under which the request carries another text already."""

    @cache
    def items() -> dict[str, Item]:
        return {past[item.key].facts.ref: item for item in request.items if item.key in past}

    def held(ref: str) -> str | None:
        return result_text.original(request, items()[ref], redact) if ref in items() else None

    return replace(references, held=held)


class Carried:
    """The originals of one request. They are made of its own texts, so nothing but the request is needed."""

    def __init__(
        self,
        request: Request,
        rewritten: Rewritten,
        redact: Redact,
        work: Work,
    ) -> None:
        self._request = request
        self._new, self._shown = rewritten.originals, rewritten.shown
        self._redact = redact
        self._work = work

    @cached_property
    def _entries(self) -> dict[str, Shown]:
        """By reference."""
        return {entry.facts.ref: entry for entry in self._shown if entry.facts.ref}

    @property
    def shows_earlier(self) -> bool:
        """Whether earlier requests had shortened a text of it already."""
        return any(entry.facts.ref not in self._new for entry in self._shown if entry.facts.ref)

    async def find(self, ref: str) -> Original | None:
        """See `expansions.Find`."""
        entry = self._entries.get(ref)
        if entry is None:
            return None
        text = self._new.get(ref)
        if text is None:
            text = await self._work(partial(result_text.original, self._request, entry.item, self._redact))
        return Original(text, entry.item.tool, entry.facts.family)

    async def inherited(
        self, conversations: Conversations, renew: Renew, prepared: Prepared
    ) -> Mapping[str, str]:
        """A request was accepted with references to originals. Some may be missing where its next ones will
        look: another login had them, another room, or it is long ago. What it carries itself is its own.

        The originals that only others' requests carried stay with the others.
        """
        if prepared.earlier:
            await conversations.inherit(prepared.earlier, prepared.caller.conversation())
        missing = await renew(prepared, self._entries.keys() - self._new.keys())
        originals = [(ref, await self.find(ref)) for ref in sorted(missing)]
        return {ref: original.text for ref, original in originals if original is not None}
