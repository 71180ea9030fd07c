"""Results that the provider holds: where it keeps the history, later ones may be said by reference to them.

What is held is remembered under the id of each response, for the credential that it was given to: who goes
on from that response has the results in front of it, in the very form in which they were sent. Where a
provider may drop what stands in a history by itself, nothing is certain, and nothing is referred to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penumbra.apis import arguments
from penumbra.apis.parts import is_elsewhere
from penumbra.compress.result import Loss
from penumbra.config.per_request import OverrideError
from penumbra.conversation import dedup
from penumbra.conversation.call_names import call_name
from penumbra.conversation.model import Request, Shown
from penumbra.errors import RedactionError
from penumbra.expand.expansions import Prepared
from penumbra.redaction.unsearchable import Redact
from penumbra.store.exchanges import HeldResult
from penumbra.wire.document import Document

_MOST = 128
"""Results of which it is remembered that they are held."""
_REFUSED = (
    "_forge.tool_output_compression.session_id: the provider holds this request's history, and {}, so "
    "duplicates can't be told by reference; send the whole history, or leave session_id or dedup out"
)


def before(request: Request, prepared: Prepared | None) -> tuple[HeldResult, ...]:
    """What stands in front of a request. Raises OverrideError where its caller wants more than is certain."""
    settings = request.settings
    is_sure = _keeps_all(request.document)
    if settings.session_id and settings.dedup and settings.shortens and is_elsewhere(request.document):
        if not is_sure:
            raise OverrideError(_REFUSED.format("may drop parts of it (truncation, context_management)"))
        if prepared is None or not prepared.is_followed:
            raise OverrideError(_REFUSED.format("Penumbra has not seen it with this credential"))
    return prepared.held if prepared is not None and is_sure else ()


def may_be_named(request: Request, prepared: Prepared) -> bool:
    """Whether a later request may go on from the response to this one without its history."""
    document = request.document
    stores = document.plain(document.members(document.root).get("store")) is not False
    return prepared.threaded or (prepared.wire.names_responses and stores)


def behind(
    request: Request, earlier: Sequence[HeldResult], shown: Sequence[Shown], redact: Redact
) -> tuple[HeldResult, ...]:
    """What the provider holds when it has answered a request, the latest results last."""
    if not _keeps_all(request.document):
        return ()
    # Only an id that occurs once names a text.
    times = Counter(entry.call_id for entry in shown)
    new = [
        entry
        for entry in shown
        if entry.item.digest
        and times[entry.call_id] == 1
        and entry.facts.how not in ("duplicate", "superseded", "recovered")
        and dedup.can_name(entry.call_id, entry.tool)
    ]
    # Of equal ones the first is referred to. Naming one takes time: the latest only.
    first = {entry.item.digest: entry for entry in reversed(new)}
    known = {result.digest: result for result in reversed(earlier)}
    latest = list(dict.fromkeys((*(entry.item.digest for entry in reversed(new)), *known)))[:_MOST]
    return tuple(known.get(digest) or _held(request, first[digest], redact) for digest in reversed(latest))


def _held(request: Request, entry: Shown, redact: Redact) -> HeldResult:
    item, complete = entry.item, entry.facts.loss < Loss.LOSSY
    name = call_name(entry.tool, arguments.decoded(request.document, item.result.call)).name
    try:
        name = redact(name, "").text
    except RedactionError:
        name = entry.tool
    return HeldResult(item.digest, item.key, entry.tool, name, complete)


def _keeps_all(document: Document) -> bool:
    """Whether the provider drops nothing of a history by itself."""
    top = document.members(document.root)
    truncation = document.plain(top.get("truncation"))
    return truncation in (None, "disabled") and not document.plain(top.get("context_management"))
