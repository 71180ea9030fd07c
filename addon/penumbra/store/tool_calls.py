"""Calls that the model made, remembered for results that come without them.

Where the provider keeps the history, a request has results and not the calls that they answer. What a
result is depends on its call, so the calls of each answer are kept, without the secrets in them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace

from penumbra.apis.base import MadeCall
from penumbra.apis.parts import is_telling
from penumbra.redaction import RedactionError
from penumbra.store.exchanges import Answers, Known, call_key

_LONGEST_ARGUMENTS = 64_000
"""Characters; of calls with longer arguments only the names are kept."""

Clean = Callable[[str], Awaitable[str]]
"""A text without its secrets. Raises RedactionError."""


class ToolCallCache:
    """Calls by scope and id, kept where answers are."""

    def __init__(self, answers: Answers, clean: Clean) -> None:
        self._answers = answers
        self._clean = clean

    async def record(self, scope: bytes, calls: Sequence[MadeCall]) -> None:
        """Keep the calls of one answer. Ids that could be any conversation's are none to keep one by."""
        for call in calls:
            if is_telling(call.id):
                known = Known("", "", call=replace(call, arguments=await self._arguments(call)))
                await self._answers.record(call_key(scope, call.id), known)

    async def known(self, scope: bytes, ids: Iterable[str]) -> dict[str, MadeCall]:
        """The calls there are for these ids."""
        keys = {call_key(scope, one): one for one in ids if is_telling(one)}
        found = await self._answers.known(keys)
        return {keys[key]: one.call for key, one in found.items() if one.call is not None}

    async def cleaned(self, text: str) -> str:
        """A text without its secrets. Raises RedactionError."""
        return await self._clean(text)

    async def _arguments(self, call: MadeCall) -> str:
        if len(call.arguments) > _LONGEST_ARGUMENTS:
            return ""
        try:
            return await self._clean(call.arguments)
        except RedactionError:
            return ""
