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
from typing import Self

from msgspec import Raw, Struct

from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.apis.user_text import carries_transcript
from penumbra.config.settings import Settings
from penumbra.conversation import adoption
from penumbra.conversation.items import Keys, OutsideText
from penumbra.conversation.model import Outside, Request
from penumbra.linear import utf8
from penumbra.redaction.json_text import still_json
from penumbra.redaction.redact_calls import Redact
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode

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


class TextFinder(Struct, frozen=True):
    """A `TextFinder` finds the texts of one request that are to be searched."""

    extent: Extent
    knows_caller: bool
    """True if earlier secrets of the caller are known."""
    keys: Keys

    @classmethod
    def of(
        cls, settings: Settings, document: Document, prompt: Prompt, keys: Keys, knows_caller: bool
    ) -> Self:
        if settings.redact_scope == "all":
            return cls(Extent.ALL, knows_caller, keys)
        has_tools = any(document.items(array) for array in prompt.tools)
        has_tools = has_tools or any(message.of(Kind.CALL, Kind.RESULT) for message in prompt.messages)
        return cls(Extent.TRANSCRIPTS if has_tools else Extent.TEXTS, knows_caller, keys)

    def texts(self, document: Document, message: Message) -> list[OutsideText]:
        """Return the texts of a message that are to be searched."""
        values = _values(message.parts, self.extent)
        by_rules = self.extent is not Extent.TRANSCRIPTS
        if not by_rules:
            if message.by_model or not values:
                return []
            by_rules = carries_transcript([document.text_of(value) for value in values])
            if not (by_rules or self.knows_caller):
                return []
        found: list[OutsideText] = []
        for value in values:
            if len(memoryview(value)) >= _LEAST:
                text = document.string(value)
                data = document.source(value) if text is None else b'"' + utf8(text)
                found.append(OutsideText(value, message.turn, by_rules, self._key(data)))
        return found

    def _key(self, data: bytes) -> bytes:
        """Return the key of a text. With `Extent.ALL`, the key is another one, so that no decision of a
        narrower search is found."""
        key = hashlib.blake2b(key=self.keys.possession[:64], digest_size=16, person=b"outside")
        key.update((b"all\0" if self.extent is Extent.ALL else b"\0") + self.keys.opening + data)
        return key.digest()


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
    past: Mapping[bytes, Decision],
    by_rules: Redact,
    by_values: Redact,
) -> tuple[bool, Outside]:
    """Remove secrets from the request's texts by earlier and new decisions. Return whether a text has
    changed, and the new decisions. `by_rules` redacts by all rules. `by_values` redacts only the caller's
    earlier secrets. Raises RedactionError."""
    document, amended = request.document, False
    decisions: dict[bytes, Decision] = {}
    counts: Counter[str] = Counter()
    for text in request.outside:
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
    return amended, Outside(decisions, counts)


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
