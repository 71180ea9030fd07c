"""Members that a request says twice where the one that a provider reads may be the one that was not.

Here the last one counts; a provider may take the first one, or take names that differ in case, or in
camel and snake case, for the same. Anywhere but on the way to a tool result that is nobody's business.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Raw

from penumbra.short_texts import remembered
from penumbra.wire.document import Document
from penumbra.wire.value_memory import Fold

_WAY = frozenset(
    (
        *("messages", "contents", "input", "request", "generatecontentrequest", "items"),
        *("role", "content", "parts", "type", "text", "value"),
        *("toolresult", "tooluseid", "toolcallid", "functionresponse", "response", "json"),
        *("output", "outputs", "result", "stdout", "stderr"),
    )
)
"""Names, folded, of members that lead to a result or tell that something is one."""
_SAID = frozenset(("instructions", "system", "systeminstruction"))
"""The same where all that was said is searched."""
_ELSEWHERE = frozenset(("action", "args", "arguments", "cachecontrol", "input", "operation"))
"""Names, folded, of members of messages that hold none: what calls are given, mostly."""
_PAYLOAD = frozenset(("json", "response", "structuredcontent"))
"""Names, folded, of members that are a tool's own data: there, names that differ differ."""


def on_the_way(document: Document, conversation: Raw | None, *, said: bool) -> bool:
    """Whether a member stands twice on the way to a result; `said`: or to other text of the request.

    `conversation`: the value that holds all messages.
    """
    names = _WAY | _SAID if said else _WAY
    outer = [document.root, *_wrappers(document)]
    if any(_repeats_one(document, value, names) for value in outer):
        return True
    within, messages = _within_said if said else _within, document.listed(conversation)

    def step(found: list[bool], index: int) -> None:
        if document.about(messages[index], within):
            found.append(True)

    return bool(document.folded(conversation, len(messages), Fold(list, list.copy, within), step))


def _within(document: Document, message: Raw) -> bool:
    return _repeats_within(document, message, _WAY)


def _within_said(document: Document, message: Raw) -> bool:
    return _repeats_within(document, message, _WAY | _SAID)


def _repeats_within(document: Document, message: Raw, names: frozenset[str]) -> bool:
    """Whether a member stands twice on the way to a result that a message holds."""
    waiting = [(message, False)]
    while waiting:
        value, is_payload = waiting.pop()
        if not document.is_object(value):
            waiting += [(item, is_payload) for item in document.items(value) if not document.is_string(item)]
            continue
        members = document.members(value)
        if document.repeats(value) or (not is_payload and _differ_in_spelling(members, names)):
            return True
        for name, member in members.items():
            if document.is_container(member) and (folded := _folded(name)) not in _ELSEWHERE:
                waiting.append((member, is_payload or folded in _PAYLOAD))
    return False


def _wrappers(document: Document) -> list[Raw]:
    """What the request itself may stand in."""
    top = document.members(document.root)
    return [value for name, value in top.items() if _folded(name) in ("request", "generatecontentrequest")]


def _repeats_one(document: Document, value: Raw, names: frozenset[str]) -> bool:
    members = document.members(value)
    if _differ_in_spelling(members, names):
        return True
    return document.repeats(value) and bool(names & {_folded(name) for name in document.repeated(value)})


def _differ_in_spelling(members: dict[str, Raw], names: frozenset[str]) -> bool:
    written = "".join(members)
    if written.isascii() and written.islower() and "_" not in written:
        # As they are, folded.
        return False
    folded = [_folded(name) for name in members]
    if len(set(folded)) == len(folded):
        return False
    return any(count > 1 and name in names for name, count in Counter(folded).items())


@remembered(1_024)
def _folded(name: str) -> str:
    """A name without what some readers of JSON overlook."""
    return name.replace("_", "").lower()
