"""This module stores forwarded responses: the name of the injected tool, and the parts that the client did
not see.

A later request contains an earlier response, which is looked up by the ids of its tool calls. If ids are
missing or not unique, the calls and the text without white space identify the response. The key also covers
the whole history before the response. A request with another history thus finds nothing. If the provider
stores the history, the key covers the id of the response instead. The latest results and calls are then
stored with the response. Signed reasoning is stored with the keys of the hidden exchanges before it.
"""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct, structs

from penumbra.apis import prefix_hash
from penumbra.apis.base import Hidden, Visible
from penumbra.apis.parts import is_telling
from penumbra.linear import utf8
from penumbra.store.keyed_values import News, Schema
from penumbra.store.table import compress, decompress

_KEY_BYTES = 16
_MEMORY_BYTES = 16_000_000
_ENTRY_BYTES = 500
_RESULT_BYTES = 250


class ProviderResult(Struct, frozen=True):
    """A `ProviderResult` is a result in a history that the provider stores."""

    digest: bytes
    """Digest of the text; empty if later texts may not refer to it."""
    key: bytes
    """Key of the decision about the result; empty for results before the first known result."""
    tool: str
    name: str
    """Name that references use for the result's call, without secrets."""
    complete: bool


class PastResponse(Struct, frozen=True):
    tool: str
    """Name of the injected tool in the response's request; empty if the request did not declare it."""
    text: str
    """Hash of the visible text."""
    behind: tuple[bytes, ...] = ()
    """Keys of the hidden exchanges before signed reasoning. Only records under a signature's key have
    them."""
    hidden: Hidden | None = None
    conversation: bytes = b""
    """Conversation of the response. References and originals belong to this conversation."""
    scope: bytes = b""
    history: bytes = prefix_hash.START
    """Hash of the history including the response. Only a record under the response's id has this hash."""
    undecided: bool = False
    """True if the request had neither tools nor a history and the response had no text. The next request then
    decides whether the injected tool is declared."""
    declared_at: bytes = b""
    """Hash of the history that precedes the injected tool's declaration; empty if the tool is declared with
    the others."""
    held: tuple[ProviderResult, ...] = ()
    """The latest results before the response, in order. Only a record under the response's id has these
    results."""


def text_hash(text: str) -> str:
    """Return the hash of a visible text without white space, since clients trim and wrap texts."""
    return hashlib.blake2b(utf8("".join(text.split())), digest_size=16).hexdigest()


def _digest(secret: bytes, purpose: bytes, *parts: bytes) -> bytes:
    digest = hashlib.blake2b(key=secret[:64], digest_size=_KEY_BYTES, person=b"penumbra " + purpose)
    digest.update(b"".join(parts))
    return digest.digest()


def key(owner: bytes, visible: Visible, history: bytes = prefix_hash.START) -> bytes:
    """Return the key of a response. `history` is the hash of the messages before it."""
    if visible.response_id:
        parts = ["id", visible.response_id]
    elif visible.calls and all(map(is_telling, visible.calls)):
        parts = ["calls", *visible.calls]
    elif visible.item:
        parts = ["item", visible.item]
    else:
        parts = ["text", text_hash(visible.text), *(visible.tokens or visible.calls)]
    counted = [history, *[utf8(part) for part in parts]]
    return _digest(owner, b"answer", *[len(data).to_bytes(4, "big") + data for data in counted])


def keys(owner: bytes, visible: Visible, history: bytes) -> list[bytes]:
    """Return all keys of a response. Clients may leave out the ids of calls or the text beside calls, so keys
    are made with and without ids, and with and without text. `visible.item` is the id by which a request may
    refer to the response."""
    plain = structs.replace(visible, item="")
    forms = [plain, visible, structs.replace(plain, calls=())] if visible.tokens else [plain, visible]
    if visible.calls:
        forms += [structs.replace(form, text="") for form in forms]
    return list(dict.fromkeys(key(owner, form, history) for form in forms))


def signature_key(owner: bytes, signature: str) -> bytes:
    """Return the key of signed reasoning, which does not depend on the surrounding text."""
    return _digest(owner, b"signed", utf8(signature))


def orphan_key(scope: bytes, known_by: str) -> bytes:
    """Return the key for reasoning in a response that broke off and was not continued. `known_by` is the name
    of the reasoning; if empty, the key stands for any reasoning of the caller."""
    return _digest(scope, b"orphan", utf8(known_by))


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
