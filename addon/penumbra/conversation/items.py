"""This module has the texts of a request that may change, and makes the keys of decisions about them.

An `Item` is a text of a tool result that may be shortened. From a `Searched`, such as user text that may be a
result, only secrets are removed. All these decisions are remembered, so that a rewritten prefix stays the
same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson
from msgspec import Raw, Struct

from penumbra.apis import parts
from penumbra.apis.parts import Conversation, ResultText, ToolCall, is_telling
from penumbra.apis.result_blocks import Block
from penumbra.apis.user_text import Passage
from penumbra.compress.calls.tools import hint
from penumbra.conversation import adoption
from penumbra.redaction import json_text
from penumbra.redaction.redact_calls import Redact
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document, Edit


class Item(Struct, frozen=True):
    """An `Item` is one text of a tool result."""

    result: ResultText
    text: str
    digest: bytes
    """The hash of the text alone."""
    key: bytes
    """The key in the ledger of decisions: a hash of caller, call and text."""

    @property
    def tool(self) -> str:
        """Return the name of the tool as the request spells it; empty if unknown."""
        return self.result.call.name if self.result.call else ""


class Keys(Struct, frozen=True):
    """A `Keys` makes the items of one request."""

    possession: bytes
    """The key of all hashes, different for each caller, so that no caller finds the decisions of another."""
    opening: bytes
    """A hash of the first words of the conversation."""

    @classmethod
    def of(cls, possession: bytes, opening: str) -> Keys:
        """Return the `Keys` of a conversation that begins with the words `opening`."""
        data = opening.encode("utf-8", "surrogatepass")
        return cls(possession, hashlib.blake2b(data, digest_size=16).digest())

    def item(self, document: Document, before: bytes, result: ResultText) -> Item | None:
        """Return a result's text as an `Item`; None without text. `before` is a hash of all earlier calls."""
        text = document.string(result.value)
        if text and result.part is not None:
            text = text[slice(*result.part)]
        if not text:
            return None
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, key=self.possession, digest_size=16).digest()
        call_id = result.call_id.encode("utf-8", "surrogatepass")
        tool = (result.call.name if result.call else "").encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(digest, key=self.possession, digest_size=16)
        key.update(b"\0" + call_id + b"\0" + tool)
        if not is_telling(result.call_id):
            # The id alone does not distinguish this result from an earlier result with the same text.
            key.update(b"\0" + self.opening + before)
        return Item(result, text, digest, key.digest())


class Searched(Struct, frozen=True):
    """A `Searched` is a text from which only secrets are removed."""

    value: Raw
    call: ToolCall | None
    turn: int
    key: bytes
    """The key in the ledger of decisions: a hash of caller, call and text."""
    text: str
    command: str | None = None
    """The command that printed the text; None if the arguments of `call` have the command."""
    part: tuple[int, int] | None = None
    """The range of the text among the characters of the value; None if the text is the whole value."""

    def redacted(self, document: Document, redact: Redact) -> Decision:
        """Return the text without its secrets. Raises RedactionError."""
        clean = redact(self.text, self.hint(document))
        if clean.text == self.text:
            return Decision(None, Facts())
        before, after = (len(form.encode("utf-8", "surrogatepass")) for form in (self.text, clean.text))
        facts = Facts("shortened", bytes_before=before, bytes_after=after, redactions=clean.counts)
        return Decision(clean.text, facts)

    def hint(self, document: Document) -> str:
        """Return the path or command of the call."""
        return hint(parts.decoded_arguments(document, self.call)) if self.command is None else self.command

    def edit(self, document: Document, decision: Decision) -> None:
        if decision.text is not None:
            put(document, self.value, self.part, decision.text)

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        """Return whether a value without a decision keeps its secrets, as in `adoption.keeps_secrets`. A
        value that the provider has not seen loses them."""
        return self.turn <= conversation.last_response and adoption.keeps_secrets(
            adopt, self.turn, conversation, format_name
        )


class OutsideText(Struct, frozen=True):
    """An `OutsideText` is one text outside of tool results, or the arguments of one call."""

    value: Raw
    turn: int
    """The index of the text's message; -1 if the text is in no message."""
    by_rules: bool
    """True if all rules apply to the text."""
    key: bytes
    """The key in the ledger of decisions: a hash of caller, conversation and text."""


class Members(Searched, frozen=True, kw_only=True):
    """A `Members` has the strings, member names and numbers of one result."""

    block: Block

    def redacted(self, document: Document, redact: Redact) -> Decision:
        block, place = self.block, self.hint(document)
        changed, counts = json_text.scalars(block.text, block.places, lambda text: redact(text, place))
        if not changed:
            return Decision(None, Facts())
        form = {str(index): value.decode("utf-8") for index, value in changed.items()}
        before = sum(end - start for start, end in (block.places[index] or (0, 0) for index in changed))
        after = sum(map(len, changed.values()))
        facts = Facts("shortened", bytes_before=before, bytes_after=after, redactions=counts)
        return Decision(orjson.dumps(form).decode("utf-8"), facts)

    def edit(self, document: Document, decision: Decision) -> None:
        if not decision.text:
            return
        begin, places = document.place(self.block.message)[0], self.block.places
        for index, value in orjson.loads(decision.text).items():
            if int(index) < len(places) and (place := places[int(index)]) is not None:
                document.edits.append(Edit(begin + place[0], begin + place[1], value.encode("utf-8")))

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        if self.block.answered:
            # Reasoning after the result may be in the same message, so the turn before counts.
            return adoption.keeps_secrets(adopt, self.turn - 1, conversation, format_name)
        return Searched.keeps_secrets(self, adopt, conversation, format_name)


def put(document: Document, value: Raw, part: tuple[int, int] | None, text: str) -> None:
    """Replace a value by a text. If there is a `part`, replace only its characters."""
    if part is None:
        document.replace(value, text)
    else:
        document.replace_part(value, *part, text)


def for_program(item: Item) -> Searched:
    """Return a result that a program reads. Only its secrets are removed."""
    result = item.result
    return Searched(result.value, result.call, result.turn, item.key, item.text)


def _call(passage: Passage) -> ToolCall | None:
    if not passage.tool and not passage.command:
        return None
    return ToolCall("", passage.tool, cached=passage.arguments())


def with_user_text(
    document: Document, passages: Iterable[Passage], texts: list[ResultText]
) -> list[ResultText]:
    """Return in order the texts of a message's results and the results within the user's text."""
    certain = [
        ResultText(passage.value, "", _call(passage), False, passage.turn, part=(passage.start, passage.end))
        for passage in passages
        if passage.certain
    ]
    if not certain:
        return texts
    return sorted(
        (*texts, *certain), key=lambda passage: (document.place(passage.value)[0], passage.part or (0, 0))
    )


def read_searched(
    document: Document,
    conversation: Conversation,
    blocks: Iterable[tuple[int, Block]],
    passages: Iterable[Passage],
    scope: bytes,
) -> tuple[Searched, ...]:
    """Return the values that change only by losing their secrets. `blocks` are parts of results, each with
    the index of its message. `passages` are parts of the user's text that may be results."""
    searched: list[Searched] = []
    for turn, block in blocks:
        call = conversation.calls.get(block.call_id)
        key = _key(scope, block.text, block.call_id, call.name if call else "")
        searched.append(Members(block.value, call, turn, key, block.text, block=block))
    for passage in passages:
        text = (document.string(passage.value) or "")[passage.start : passage.end]
        key = _key(scope, text, passage.tool, passage.command)
        place = passage.start, passage.end
        searched.append(
            Searched(passage.value, _call(passage), passage.turn, key, text, passage.command, place)
        )
    return tuple(searched)


def _key(scope: bytes, *texts: str) -> bytes:
    key = hashlib.blake2b(key=scope, digest_size=16, person=b"searched")
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "big") + data)
    return key.digest()
