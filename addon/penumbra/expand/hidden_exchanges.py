"""This module puts hidden exchanges (calls of the injected tool and their results) back into later
requests.

The provider then gets the cached prefix, to which signed reasoning is bound, and the model still has the
texts that it has read. If a response is unknown or edited, its exchange is not put back. Reasoning after such
an exchange is dropped as far as the API allows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, Visible
from penumbra.apis.identity import Caller
from penumbra.apis.prefix_hash import Chain
from penumbra.errors import one_line
from penumbra.expand import query
from penumbra.expand.reference import References
from penumbra.redaction.redact_calls import ShowName
from penumbra.store import exchanges
from penumbra.store.exchanges import PastResponse, ProviderResult, text_hash
from penumbra.store.records import key_of_before
from penumbra.wire.document import Document
from penumbra.wire.json_values import decode, encode

_TEXTS = {"content", "output"}
"""Members of a result that may have its text, in APIs whose providers store histories."""


class History(Struct, frozen=True):
    """A `History` has the responses in a request and their keys in the store."""

    visible: tuple[Visible, ...]
    keys: tuple[bytes, ...]
    """The key of each response."""
    signed: tuple[bytes | None, ...]
    """The key of the last reasoning in each response; None if there is no reasoning."""
    before: bytes
    """The hash of the prefix before the response to this request."""
    front: bytes
    """The hash of the prefix before the message that will contain the response."""
    begun: Visible | None = None
    """The broken-off response that the next response continues; None if there is none."""
    responses: bool = True
    """True if the hashes of prefixes depend on responses."""

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the provider stores the history and the request names its last response."""
        return bool(self.visible and self.visible[0].response_id)


class KnownResponses(Struct, frozen=True):
    """A `KnownResponses` has the stored facts about the responses in a request."""

    wire: ApiFormat
    caller: Caller
    owner: bytes
    """The scope of the responses, on which their keys in the store depend."""
    history: History
    past: Mapping[bytes, PastResponse]
    """The known responses of the history, by key."""
    named: PastResponse | None = None
    """The stored response that the request names by its id; None if there is no such response."""
    orphaned: tuple[int, ...] = ()
    """Indexes of messages with the reasoning of broken-off responses."""
    last_turn: str = ""
    """The id that the provider expects for the response that the request names, if the response has hidden
    turns; otherwise empty."""


class Replayed(Struct, frozen=True):
    """A `Replayed` lists the exchanges that were put back into a request."""

    keys: tuple[bytes, ...] = ()
    """Keys of the exchanges, in order."""
    exchanges: tuple[Hidden, ...] = ()
    dropped: bool = False
    """True if reasoning was dropped, by Penumbra or, at its request, by the provider."""


def read(wire: ApiFormat, document: Document, owner: bytes, elsewhere: bytes, chain: Chain) -> History:
    """Return the history of a request. `owner` is the scope of responses in the request. `elsewhere` is the
    scope of a response that the provider stores. `chain` has the hashes of the request's messages."""
    before = chain.history

    def keys_of(one: Visible) -> tuple[bytes, bytes | None]:
        signed = exchanges.signature_key(owner, one.signature) if one.signature else None
        if one.response_id:
            return exchanges.key(elsewhere, one), signed
        return exchanges.key(owner, one, before[one.index]), signed

    inputs = owner, chain.responses, before[0]
    found = wire.responses_with(document, keys_of, inputs)
    visible = tuple([one for one, _ in found])
    begun = visible[-1] if visible and visible[-1].open else None
    front = before[begun.index] if begun is not None else before[-1]
    keys, signed = tuple([key for _, (key, _) in found]), tuple([signed for _, (_, signed) in found])
    return History(visible, keys, signed, before[-1], front, begun, chain.responses)


def forgotten(result: bytes) -> bytes:
    """Return a result of the injected tool with the text that the original is no longer available."""
    message = decode(result)
    return encode({**message, **dict.fromkeys(message.keys() & _TEXTS, query.unknown(""))})


def put_back(
    wire: ApiFormat, document: Document, history: History, past: Mapping[bytes, PastResponse], offered: bool
) -> Replayed:
    """Put back the hidden exchanges of all responses that are unchanged in the request. With `offered`, the
    request may ask the provider to drop reasoning whose prefix has changed."""
    if not any(response.hidden is not None or response.behind for response in past.values()):
        return Replayed((), (), False)
    keys: list[bytes] = []
    exchanges: list[Hidden] = []
    unbound: int | None = None
    for visible, key, signed in zip(history.visible, history.keys, history.signed, strict=True):
        response = past.get(key)
        if (
            response is not None
            and response.hidden is not None
            and key not in keys
            # A client may leave out the text of a response with calls.
            and (not visible.text.strip() or text_hash(visible.text) == response.text)
            and wire.put_back(document, visible, response.hidden)
        ):
            keys.append(key)
            exchanges.append(response.hidden)
        bound = past.get(signed) if signed is not None else None
        if unbound is None and bound is not None and not set(bound.behind) <= set(keys):
            unbound = visible.index
    dropped = unbound is not None and wire.drop_unbound(document, unbound, offered)
    return Replayed(tuple(keys), tuple(exchanges), dropped)


class Original(Struct, frozen=True):
    """An `Original` is a redacted original, with its tool and its kind of output."""

    text: str
    tool: str = ""
    family: str = ""
    before: int = 0
    """The number of lines of the file before the text, if the call shows this number; negative if a heading
    stands before the file's first line."""

    def stored(self, ref: str) -> dict[str, str]:
        """Return what the store keeps, by its keys: the text and, if it is not 0, `before`."""
        return {ref: self.text} | ({key_of_before(ref): str(self.before)} if self.before else {})


Find = Callable[[str], Awaitable[Original | None]]
"""A function that finds the original of a reference in the current request."""
Inherit = Callable[["Prepared"], Awaitable[Mapping[str, str]]]
"""A function that marks a conversation's originals as used, and returns missing originals, as after a new
login."""


class Conditions(Struct, frozen=True):
    """A `Conditions` has the settings, headers and state that decide about the injected tool."""

    wanted: bool
    """True if a conversation without the tool may get the tool."""
    at_stake: bool
    """True if the prefix of a conversation that began without Penumbra must not change."""
    hint: bool
    """True if shortened texts explain how to ask for the original."""
    betas: str = ""
    """The value of the header `anthropic-beta`."""
    counting: bool = False
    """True if the request only counts tokens. Such a request gets no tool, and nothing is recorded."""
    editing: bool = False
    """True if secrets are put back into edits. The tool then explains placeholders in another way."""
    inline: bool = False
    """True if the tool is declared after a message."""
    last_tool: str = ""
    """The injected tool's name in the conversation's last request; empty if that is not known."""
    begins: bool = False
    """True if the conversation may get the tool although earlier turns had none."""


class Prepared(Struct, frozen=True):
    """A `Prepared` is a request in which the model may ask for originals."""

    wire: ApiFormat
    tool: str
    caller: Caller
    references: References
    history: History
    replayed: Replayed
    owner: bytes
    """The scope of the responses, on which their keys in the store depend."""
    threaded: bool = False
    """True if the provider stores the history, so that later requests may have only new messages."""
    declared_at: bytes = b""
    """If the tool is declared after a message, the hash of the prefix up to this message; otherwise empty."""
    begins: bool = False
    """True if there are earlier responses, and none of them is known to have had the injected tool."""
    inherit: Inherit | None = None
    """The function to call when the request is accepted; None if no earlier request has originals."""
    earlier: bytes = b""
    """The scope of the same conversation under an earlier login; empty without such a login."""
    provider_results: tuple[ProviderResult, ...] = ()
    """Results in the provider's history: first those before the request, then those after the response."""
    is_followed: bool = False
    """True if the provider stores the history, and all of it came from this caller."""
    show: ShowName = one_line
    """The function that formats names of tools."""
    is_offered: bool = True
    """False if the request lacks the tool. The model may still call it, and the client must not see the
    call."""

    @property
    def declared(self) -> str:
        """The injected tool's name; empty if the request does not have the tool."""
        return self.tool if self.is_offered else ""

    @property
    def scopes(self) -> tuple[bytes, ...]:
        """Return the scopes of the request's originals: the conversation's scope and, if a session is named,
        the session's."""
        shared = self.caller.shared
        return (self.references.scope, shared) if shared else (self.references.scope,)

    @property
    def keeps_originals(self) -> bool:
        """Return whether the store keeps originals: only if credentials or the id of a response distinguish
        callers."""
        return self.threaded or not self.caller.is_open

    @property
    def before(self) -> str:
        """Return the id of the response that the request continues; empty if there is none."""
        return self.history.visible[0].response_id if self.history.is_elsewhere else ""


class Answered(Struct, frozen=True):
    """An `Answered` is one call of the injected tool and its answer, for metrics."""

    ref: str
    found: bool
    sent: int
    """The bytes of the answer."""
    tool: str
    family: str
