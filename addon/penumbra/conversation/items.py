"""The texts of tool results in a request, and what each is remembered by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from penumbra.apis.parts import Conversation, ResultText, is_telling
from penumbra.apis.prefix_hash import Chain
from penumbra.wire.document import Document


@dataclass(frozen=True, slots=True)
class Item:
    """One text of a tool result, with the keys it is known by."""

    result: ResultText
    text: str
    digest: bytes
    """Of the text alone."""
    key: bytes
    """Of caller, call and text: what the ledger knows it by."""

    @property
    def tool(self) -> str:
        """Name of the tool as the request spells it; empty if unknown."""
        return self.result.call.name if self.result.call else ""


def read(document: Document, conversation: Conversation, possession: bytes, before: Chain) -> Iterator[Item]:
    """The items of a request. `possession` keys every hash: who has to send the same again to be known."""
    opening = hashlib.blake2b(conversation.opening.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    for result in conversation.results:
        text = document.string(result.value)
        if text and result.part is not None:
            text = text[slice(*result.part)]
        if not text:
            continue
        digest = hashlib.blake2b(
            text.encode("utf-8", "surrogatepass"), key=possession, digest_size=16
        ).digest()
        call_id = result.call_id.encode("utf-8", "surrogatepass")
        tool = (result.call.name if result.call else "").encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(digest, key=possession, digest_size=16)
        key.update(b"\0" + call_id + b"\0" + tool)
        if not is_telling(result.call_id):
            # By which calls it came to this: the same words elsewhere may have become something else.
            key.update(b"\0" + opening + before.calls[result.turn])
        yield Item(result, text, digest, key.digest())
