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


@dataclass(frozen=True, slots=True)
class Keys:
    """What makes the items of one request."""

    possession: bytes
    """Keys every hash: who has to send the same again to be known."""
    opening: bytes
    """Of the conversation's first words."""

    @classmethod
    def of(cls, possession: bytes, opening: str) -> Keys:
        """`opening`: the first words."""
        data = opening.encode("utf-8", "surrogatepass")
        return cls(possession, hashlib.blake2b(data, digest_size=16).digest())

    def item(self, document: Document, before: bytes, result: ResultText) -> Item | None:
        """The item that a text is; None if it is empty. `before`: which calls stand in front of it."""
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
            # By which calls it came to this: the same words elsewhere may have become something else.
            key.update(b"\0" + self.opening + before)
        return Item(result, text, digest, key.digest())


def read(document: Document, conversation: Conversation, possession: bytes, chain: Chain) -> Iterator[Item]:
    """The items of a request. `possession` keys every hash: who has to send the same again to be known."""
    keys = Keys.of(possession, conversation.opening)
    for result in conversation.results:
        item = keys.item(document, chain.calls[result.turn], result)
        if item is not None:
            yield item
