"""Results that the provider holds: where it keeps the history, later ones may be said by reference to them.

What is held is remembered under the id of each response, for the credential that it was given to: who goes
on from that response has the results in front of it, in the very form in which they were sent. Where a
provider may drop what stands in a history by itself, nothing is certain, and nothing is referred to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from penumbra.apis import arguments
from penumbra.apis.parts import is_elsewhere
from penumbra.compress.result import Loss
from penumbra.config.per_request import OverrideError
from penumbra.conversation import dedup, dropped_history
from penumbra.conversation.call_names import Clean, ShownTexts, call_name
from penumbra.conversation.earlier_texts import HELD
from penumbra.conversation.model import Request, Rewritten, Shown
from penumbra.expand.hidden_exchanges import Prepared
from penumbra.redaction.shown_names import ShowName
from penumbra.store.exchanges import HeldResult

_MORE = (HeldResult(b"", b"", "", "", complete=False),)
"""More may stand there, of which nothing is known."""
_REFUSED = (
    "_forge.tool_output_compression.session_id: the provider holds this request's history, and {}, so "
    "duplicates can't be told by reference; send the whole history, or leave session_id or dedup out"
)
_MAY_DROP = "may drop parts of it (truncation, context_management, compaction)"
_UNKNOWN = "Penumbra knows of one only what came with this credential and with the tool expand_context"


def before(request: Request, prepared: Prepared | None) -> tuple[HeldResult, ...]:
    """What stands in front of a request. Raises OverrideError where its caller wants more than is certain."""
    is_sure = dropped_history.keeps_all(request.document, request.conversation.messages)
    if _wants_duplicates(request):
        if not is_sure:
            raise OverrideError(_REFUSED.format(_MAY_DROP))
        if prepared is None or not prepared.is_followed:
            raise OverrideError(_REFUSED.format(_UNKNOWN))
    if prepared is not None and prepared.is_followed and is_sure:
        return prepared.held
    return _MORE if is_elsewhere(request.document) else ()


def _wants_duplicates(request: Request) -> bool:
    """Whether its caller has said that results of it may stand in a history which only the provider has."""
    settings = request.settings
    if not (settings.session_id and settings.dedup and settings.shortens):
        return False
    has_results = request.api.kind == "messages" and bool(request.items)
    return has_results and is_elsewhere(request.document)


def behind(
    request: Request,
    earlier: Sequence[HeldResult],
    rewritten: Rewritten,
    clean: Clean,
    show: ShowName,
    remembered: ShownTexts | None = None,
) -> tuple[HeldResult, ...]:
    """The results that the provider has when it has answered a request, in order; only the latest of them.
    May run outside of the event loop."""
    if rewritten.is_cut or not dropped_history.keeps_all(request.document, request.conversation.messages):
        return _MORE
    # Only an id that occurs once names a text.
    times = Counter(entry.item.result.call_id for entry in rewritten.shown)
    results = [entry for entry in rewritten.shown if entry.item.digest]
    # Several texts of one result are one result to a reader.
    numbered = groupby(enumerate(results), lambda numbered: numbered[1].item.result.call_id or numbered[0])
    new = [next(texts)[1] for _, texts in numbered][-HELD:]
    held = []
    for entry in new:
        given = arguments.decoded(request.document, entry.item.result.call)
        name = call_name(entry.item.tool, given, clean, show, remembered).name
        held.append(_held(entry, name, is_unique=times[entry.item.result.call_id] == 1))
    return tuple([*earlier, *held][-HELD:])


def _held(entry: Shown, name: str, *, is_unique: bool) -> HeldResult:
    item, facts = entry.item, entry.facts
    is_whole = facts.how not in ("duplicate", "superseded", "recovered")
    is_referable = is_unique and is_whole and dedup.can_name(entry.item.result.call_id, entry.item.tool)
    if not is_referable:
        return HeldResult(b"", item.key, "", name, complete=False)
    return HeldResult(item.digest, item.key, item.tool, name, facts.loss < Loss.LOSSY)
