"""This module removes secrets from the texts outside of tool results.

The system text and the user's texts are searched for earlier secrets of the caller. All rules apply to texts
that may contain tool results: messages with a transcript (`rules/user_results.yaml`), and all texts of a
request without tools and calls. With `penumbra_redact_scope=all`, all rules apply to all texts, including the
model's texts and the arguments of calls.

The first decision about a text is final, even if the text had no secret.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import NamedTuple

from msgspec import Raw

from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.apis.user_text import carries_transcript
from penumbra.conversation import adoption, read
from penumbra.conversation.model import Outside, Request
from penumbra.redaction.json_text import still_json
from penumbra.redaction.redact_calls import Redact
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode
from penumbra.wire.prefix_memory import Computation

_LEAST = 10
"""A text whose JSON has fewer bytes is too short for a secret."""


class Extent(Enum):
    """An `Extent` says to which of a request's texts all rules apply."""

    TRANSCRIPTS = "transcripts"
    """Messages with a transcript."""
    TEXTS = "texts"
    """All texts. A request without tools and calls can have results only in its texts."""
    ALL = "all"
    """All texts, and the arguments of calls."""


class OutsideText(NamedTuple):
    """An `OutsideText` is one text, or the arguments of one call."""

    value: Raw
    turn: int
    """The index of the text's message; -1 if the text is in no message."""
    by_rules: bool
    """True if all rules apply to the text."""
    key: bytes
    """The key in the ledger of decisions: a hash of caller, conversation and text."""


def texts(request: Request, *, knows_caller: bool) -> list[OutsideText]:
    """Return the texts to search. `knows_caller` is true if earlier secrets of the caller are known."""
    document, prompt = request.document, request.wire.prompt(request.document)
    extent = _extent(request, prompt)
    key = _key(request, extent)
    add = partial(_add, document, extent, key, knows_caller)
    found: list[OutsideText] = []
    add(found, Message(document.root, -1, "", False, prompt.system))

    def step(listed: list[OutsideText], turn: int) -> None:
        add(listed, prompt.messages[turn])

    inputs = (extent, knows_caller, key.digest())
    computation = Computation[list[OutsideText]](list, ("outside", request.wire.message), inputs)
    return found + document.computed(prompt.place, len(prompt.messages), computation, step)


def _extent(request: Request, prompt: Prompt) -> Extent:
    if request.settings.redact_scope == "all":
        return Extent.ALL
    if any(request.document.items(array) for array in prompt.tools):
        return Extent.TRANSCRIPTS
    has_calls = any(message.of(Kind.CALL, Kind.RESULT) for message in prompt.messages)
    return Extent.TRANSCRIPTS if has_calls else Extent.TEXTS


def _key(request: Request, extent: Extent) -> hashlib.blake2b:
    """Return the hash with which all keys begin. With `Extent.ALL`, the hash is another one, so that no
    decision of a narrower search is found."""
    key = hashlib.blake2b(key=request.caller.owner[:64], digest_size=16, person=b"outside")
    key.update(b"all\0" if extent is Extent.ALL else b"\0")
    opening = request.conversation.opening.encode("utf-8", "surrogatepass")
    key.update(hashlib.blake2b(opening, digest_size=16).digest())
    return key


def _add(
    document: Document,
    extent: Extent,
    key: hashlib.blake2b,
    knows_caller: bool,
    found: list[OutsideText],
    message: Message,
) -> None:
    values = _values(message.parts, extent)
    by_rules = extent is not Extent.TRANSCRIPTS
    if not by_rules:
        if message.by_model:
            return
        by_rules = carries_transcript([document.text_of(value) for value in values])
        if not (by_rules or knows_caller):
            return
    for value in values:
        if len(memoryview(value)) < _LEAST:
            continue
        text, own = document.string(value), key.copy()
        own.update(document.source(value) if text is None else b'"' + text.encode("utf-8", "surrogatepass"))
        found.append(OutsideText(value, message.turn, by_rules, own.digest()))


def _values(parts: Iterable[Part], extent: Extent) -> list[Raw]:
    values: list[Raw] = []
    for part in parts:
        is_searched_call = part.kind is Kind.CALL and extent is Extent.ALL
        if part.kind is Kind.TEXT or is_searched_call:
            values += part.texts
        if part.arguments is not None and is_searched_call:
            values.append(part.arguments)
    return values


def undecided(outside: Iterable[OutsideText], past: Collection[bytes]) -> int:
    """Return the number of bytes in texts without a decision."""
    return sum(len(memoryview(text.value)) for text in outside if text.key not in past)


def search(
    request: Request,
    outside: Iterable[OutsideText],
    past: Mapping[bytes, Decision],
    by_rules: Redact,
    by_values: Redact,
) -> tuple[Request, Outside]:
    """Remove secrets from the request's texts by earlier and new decisions. Return the request, read again if
    a text has changed, and the new decisions. `by_rules` redacts by all rules. `by_values` redacts only the
    caller's earlier secrets. Raises RedactionError."""
    document, amended = request.document, False
    decisions: dict[bytes, Decision] = {}
    counts: Counter[str] = Counter()
    for text in outside:
        decision = past.get(text.key) or decisions.get(text.key)
        if decision is None:
            if _is_kept(request, text):
                continue
            redact = by_rules if text.by_rules else by_values
            decision = decisions[text.key] = _decided(document, text.value, redact)
            counts.update(decision.facts.redactions)
        if decision.text is not None:
            document.amend(text.value, decision.text.encode("utf-8", "surrogatepass"))
            amended = True
    return read.again(request) if amended else request, Outside(decisions, counts)


def _is_kept(request: Request, text: OutsideText) -> bool:
    """Return whether a text without a decision keeps its secrets. The provider must have the text already.
    Also, `adopt` must be `raw`, or a change of the text must make the provider refuse later reasoning."""
    settings, conversation = request.settings, request.conversation
    if settings.redact_scope == "all" or text.turn > conversation.last_response:
        return False
    return conversation.last_response >= 0 and adoption.keeps_secrets(
        settings.adopt, text.turn, conversation, request.format
    )


def _decided(document: Document, value: Raw, redact: Redact) -> Decision:
    """Return a decision with the JSON of a value without its secrets. A string remains a string. An object or
    array is redacted as JSON text, so that rules see the names of its members."""
    source = document.source(value)
    is_string = document.is_string(value)
    if not is_string and source[:1] not in (b"{", b"["):
        return Decision(None, Facts())
    text = document.string(value) if is_string else None
    text = source.decode("utf-8") if text is None else text
    redacted = redact(text, "")
    if redacted.text == text:
        return Decision(None, Facts())
    new = still_json(text, redacted.text)
    clean = encode(new).decode("utf-8") if is_string else new
    facts = Facts(
        how="shortened", bytes_before=len(source), bytes_after=len(clean), redactions=dict(redacted.counts)
    )
    return Decision(clean, facts)
