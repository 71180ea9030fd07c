"""What of results is searched for secrets and left alone otherwise: all but the texts that may be shortened,
and what in the user's text may be a result.

What becomes of it is decided once and remembered, as for every text: a request's rewritten prefix stays
what it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import orjson
from msgspec import Raw

from penumbra.apis import arguments
from penumbra.apis.parts import Conversation, ResultText, ToolCall
from penumbra.apis.result_blocks import Block
from penumbra.apis.user_text import Passage
from penumbra.compress.calls.hint import hint
from penumbra.compress.result import Redacted
from penumbra.conversation import adoption
from penumbra.conversation.items import Item
from penumbra.redaction import structured
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document, Edit


class Searched(Protocol):
    """One thing that is searched."""

    @property
    def key(self) -> bytes:
        """Of caller, call and text: what the ledger knows it by."""
        ...

    @property
    def call(self) -> ToolCall | None: ...

    @property
    def turn(self) -> int: ...

    @property
    def value(self) -> Raw: ...

    def redacted(self, document: Document, redact: Callable[[str, str], Redacted]) -> Decision:
        """What is to become of it. Raises RedactionError."""
        ...

    def edit(self, document: Document, decision: Decision) -> None:
        """Give it the form that was decided."""
        ...

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        """Whether it is sent as it came, if nothing is known of it: the provider has seen it so, and it holds
        what comes behind it to that."""
        ...


@dataclass(frozen=True, slots=True)
class Members:
    """One result's strings, names of members and numbers."""

    block: Block
    call: ToolCall | None
    turn: int
    key: bytes

    @property
    def value(self) -> Raw:
        return self.block.value

    def redacted(self, document: Document, redact: Callable[[str, str], Redacted]) -> Decision:
        block, place = self.block, hint(arguments.decoded(document, self.call))
        changed, counts = structured.scalars(block.text, block.places, lambda text: redact(text, place))
        if not changed:
            return Decision(None, Facts())
        form = {str(index): value.decode("utf-8") for index, value in changed.items()}
        places = (block.places[index] or (0, 0) for index in changed)
        facts = Facts(
            how="shortened",
            bytes_before=sum(end - start for start, end in places),
            bytes_after=sum(map(len, changed.values())),
            redactions=counts,
        )
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
            # Reasoning of the same message may stand behind it.
            return adoption.keeps_secrets(adopt, self.turn - 1, conversation, format_name)
        return _keeps_secrets(self.turn, adopt, conversation, format_name)


@dataclass(frozen=True, slots=True)
class Said:
    """A stretch of the user's text that may be a result."""

    passage: Passage
    text: str
    key: bytes

    @property
    def call(self) -> ToolCall | None:
        return _call(self.passage)

    @property
    def turn(self) -> int:
        return self.passage.turn

    @property
    def value(self) -> Raw:
        return self.passage.value

    def redacted(self, document: Document, redact: Callable[[str, str], Redacted]) -> Decision:
        return _redacted(self.text, redact(self.text, self.passage.command))

    def edit(self, document: Document, decision: Decision) -> None:
        if decision.text is not None:
            document.replace_part(self.value, self.passage.start, self.passage.end, decision.text)

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        return _keeps_secrets(self.turn, adopt, conversation, format_name)


@dataclass(frozen=True, slots=True)
class ForProgram:
    """One text of a result that a program reads, and not the model: it gets placeholders and nothing else."""

    item: Item

    @property
    def key(self) -> bytes:
        return self.item.key

    @property
    def call(self) -> ToolCall | None:
        return self.item.result.call

    @property
    def turn(self) -> int:
        return self.item.result.turn

    @property
    def value(self) -> Raw:
        return self.item.result.value

    def redacted(self, document: Document, redact: Callable[[str, str], Redacted]) -> Decision:
        return _redacted(self.item.text, redact(self.item.text, hint(arguments.decoded(document, self.call))))

    def edit(self, document: Document, decision: Decision) -> None:
        if decision.text is not None:
            document.replace(self.value, decision.text)

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        return _keeps_secrets(self.turn, adopt, conversation, format_name)


def _redacted(text: str, clean: Redacted) -> Decision:
    """Return the decision that gives a text its form without secrets."""
    if clean.text == text:
        return Decision(None, Facts())
    before, after = (len(form.encode("utf-8", "surrogatepass")) for form in (text, clean.text))
    return Decision(
        clean.text, Facts(how="shortened", bytes_before=before, bytes_after=after, redactions=clean.counts)
    )


def _keeps_secrets(turn: int, adopt: str, conversation: Conversation, format_name: str) -> bool:
    return turn <= conversation.last_response and adoption.keeps_secrets(
        adopt, turn, conversation, format_name
    )


def _call(passage: Passage) -> ToolCall | None:
    if not passage.tool and not passage.command:
        return None
    return ToolCall("", passage.tool, cached=passage.arguments())


def said(document: Document, passages: Iterable[Passage], texts: list[ResultText]) -> list[ResultText]:
    """The texts of a message's results with those of the results that stand in the user's text."""
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


def read(
    document: Document,
    conversation: Conversation,
    blocks: Iterable[tuple[int, Block]],
    passages: Iterable[Passage],
    scope: bytes,
) -> tuple[Searched, ...]:
    """What is to be searched in a conversation beside the texts of its results.

    `blocks`: what stands in results, each with the index of its message; `passages`: what may be results in
    the user's text.
    """
    searched: list[Searched] = []
    for turn, block in blocks:
        call = conversation.calls.get(block.call_id)
        key = _key(scope, block.text, block.call_id, call.name if call else "")
        searched.append(Members(block, call, turn, key))
    for passage in passages:
        text = (document.string(passage.value) or "")[passage.start : passage.end]
        searched.append(Said(passage, text, _key(scope, text, passage.tool, passage.command)))
    return tuple(searched)


def _key(scope: bytes, *texts: str) -> bytes:
    key = hashlib.blake2b(key=scope, digest_size=16, person=b"searched")
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        key.update(len(data).to_bytes(8, "big") + data)
    return key.digest()
