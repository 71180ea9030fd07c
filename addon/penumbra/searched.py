"""What of results is searched for secrets and left alone otherwise: all but the texts that may be shortened.

What becomes of it is decided once and remembered, as for every text: a request's rewritten prefix stays
what it was.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import orjson

from penumbra.history import adoption
from penumbra.redaction import structured
from penumbra.shadow.ledger import Decision, Facts
from penumbra.text.result import Redacted
from penumbra.wire import arguments
from penumbra.wire.conversation import Conversation, ToolCall
from penumbra.wire.document import Document, Edit
from penumbra.wire.result_blocks import Block, find


@dataclass(frozen=True, slots=True)
class Searched:
    """One result's strings, names of members and numbers, with the key that they are known by."""

    block: Block
    call: ToolCall | None
    key: bytes

    def redacted(self, document: Document, redact: Callable[[str, str], Redacted]) -> Decision:
        """What is to become of it. Raises RedactionError."""
        block, place = self.block, arguments.hint(arguments.decoded(document, self.call))
        changed, counts = structured.scalars(block.text, block.places, lambda one: redact(one, place))
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

    def edits(self, decision: Decision) -> Iterator[Edit]:
        """What gives it the form that was decided."""
        for index, value in orjson.loads(decision.text).items() if decision.text else ():
            place = self.block.places[int(index)] if int(index) < len(self.block.places) else None
            if place is not None:
                yield Edit(*place, value.encode("utf-8"))

    def keeps_secrets(self, adopt: str, conversation: Conversation, format_name: str) -> bool:
        """Whether it is sent as it came, if nothing is known of it: the provider has seen it so, and it holds
        what comes behind it to that."""
        turn = self.block.turn
        if self.block.answered:
            # Reasoning of the same message may stand behind it.
            return adoption.keeps_secrets(adopt, turn - 1, conversation, format_name)
        return turn <= conversation.last_answer and adoption.keeps_secrets(
            adopt, turn, conversation, format_name
        )


def read(document: Document, conversation: Conversation, scope: bytes) -> tuple[Searched, ...]:
    """What is to be searched in a conversation beside the texts of its results."""
    texts = [result.value for result in conversation.results]
    found = []
    for block in find(document, conversation.messages, texts):
        call = conversation.calls.get(block.call_id)
        name = call.name if call else ""
        key = hashlib.blake2b(block.text.encode("utf-8"), key=scope, digest_size=16, person=b"searched")
        key.update(f"\0{block.call_id}\0{name}".encode("utf-8", "surrogatepass"))
        found.append(Searched(block, call, key.digest()))
    return tuple(found)
