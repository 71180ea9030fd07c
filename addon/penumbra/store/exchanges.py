"""Responses that went through us, remembered: the tool's name, and the parts that the client did not see.

A later request finds a response by the ids of its tool calls or, where it has none or they are not unique, by
its calls and words (white space apart), and always by the whole history before it: a request without that
history gets nothing back. Where the provider keeps the history, the response's id stands for it; the latest
results and the calls are remembered beside it. Signed reasoning is remembered with the hidden exchanges that
the provider had seen before it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import msgspec

from penumbra.apis import prefix_hash
from penumbra.apis.base import Hidden, Visible
from penumbra.apis.parts import is_telling
from penumbra.store.keyed_values import News, Schema
from penumbra.store.table import compress, decompress

_KEY_BYTES = 16
_MEMORY_BYTES = 16_000_000
_ENTRY_BYTES = 500
_RESULT_BYTES = 250


@dataclass(frozen=True, slots=True)
class ProviderResult:
    """A result that the provider holds before a response."""

    digest: bytes
    """Digest of the text; empty if no later text may refer to it."""
    key: bytes
    """Key in the ledger; empty for results before the first known one."""
    tool: str
    name: str
    """The name of its call in references, without secrets."""
    complete: bool


@dataclass(frozen=True, slots=True)
class PastResponse:
    """The known state of one response."""

    tool: str
    """The injected tool's name in its request; empty without the tool."""
    text: str
    """Hash of the visible text."""
    behind: tuple[bytes, ...] = ()
    """Under a signature's key: keys of the hidden exchanges before that reasoning."""
    hidden: Hidden | None = None
    conversation: bytes = b""
    """The conversation of the response, which scopes its references and originals."""
    scope: bytes = b""
    history: bytes = prefix_hash.START
    """Under a response's id: the chain after that response."""
    undecided: bool = False
    """The request had neither tools nor a past, and the response no words: whether the injected tool is there
    is for the next request to say."""
    declared_at: bytes = b""
    """The chain up to the message after which the injected tool is declared; empty: with the other tools."""
    held: tuple[ProviderResult, ...] = ()
    """Under a response's id: the latest results before it, in order."""


def text_hash(text: str) -> str:
    """Hash of a visible text without white space, since clients trim and re-wrap."""
    return hashlib.blake2b("".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def key(owner: bytes, visible: Visible, history: bytes = prefix_hash.START) -> bytes:
    """The key of a response. `history`: the chain before it."""
    digest = hashlib.blake2b(key=owner[:64], digest_size=_KEY_BYTES, person=b"penumbra answer")
    if visible.response_id:
        parts = ["id", visible.response_id]
    elif visible.calls and all(map(is_telling, visible.calls)):
        parts = ["calls", *visible.calls]
    elif visible.item:
        parts = ["item", visible.item]
    else:
        parts = ["text", text_hash(visible.text), *(visible.tokens or visible.calls)]
    for data in (history, *(part.encode("utf-8", "surrogatepass") for part in parts)):
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest()


def keys(owner: bytes, visible: Visible, history: bytes) -> list[bytes]:
    """All keys of a response: clients may drop the ids of calls, and the words beside them.
    `visible.item`: the id by which a request may refer to it."""
    plain = replace(visible, item="")
    forms = [plain, visible, replace(plain, calls=())] if visible.tokens else [plain, visible]
    if visible.calls:
        forms += [replace(form, text="") for form in forms]
    return list(dict.fromkeys(key(owner, form, history) for form in forms))


def signature_key(owner: bytes, signature: str) -> bytes:
    """The key of reasoning, independent of the words around it."""
    digest = hashlib.blake2b(key=owner[:64], digest_size=_KEY_BYTES, person=b"penumbra signed")
    digest.update(signature.encode("utf-8", "surrogatepass"))
    return digest.digest()


def orphan_key(scope: bytes, known_by: str) -> bytes:
    """The key of reasoning whose continuation was lost; empty: any reasoning of the caller."""
    digest = hashlib.blake2b(key=scope[:64], digest_size=_KEY_BYTES, person=b"penumbra orphan")
    digest.update(known_by.encode("utf-8", "surrogatepass"))
    return digest.digest()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PastResponse)


def _weigh(response: PastResponse) -> int:
    results = sum(_RESULT_BYTES + len(result.tool) + len(result.name) for result in response.held)
    hidden, own = response.hidden, _ENTRY_BYTES + results
    if hidden is None:
        return own
    return own + sum(map(len, (*hidden.before, hidden.last or b"", *hidden.results)))


SCHEMA = Schema(
    "answers",
    lambda response: compress(_ENCODER.encode(response)),
    lambda record: _DECODER.decode(decompress(record)),
    _MEMORY_BYTES,
    _weigh,
    news=lambda known: News.NOTHING if known.hidden is None and not known.behind else News.VALUE,
)
