"""Requests in which the model may ask for originals, and hidden exchanges that are put back into later
requests.

The provider then finds the very prefix that it has cached and that its signed reasoning is bound to, and the
model still knows the text that it has read. A response that is not found, or was edited, gets nothing: the
request stays as the client wrote it, and reasoning after the missing exchange is dropped in the way that the
API offers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, Visible
from penumbra.apis.identity import Caller
from penumbra.apis.prefix_hash import Chain
from penumbra.errors import one_line
from penumbra.expand import query
from penumbra.expand.reference import References
from penumbra.redaction.redact_calls import ShowName
from penumbra.store import exchanges
from penumbra.store.exchanges import PastResponse, ProviderResult
from penumbra.wire.document import Document
from penumbra.wire.json_values import decode, encode
from penumbra.wire.prefix_memory import Fold

_Keys = tuple[list[bytes], list[bytes | None]]

_INDEX = attrgetter("index")
_TEXTS = {"content", "output"}
"""Members with the texts of results, in APIs whose providers keep histories."""


@dataclass(frozen=True, slots=True)
class History:
    """The responses of a request, and their keys."""

    visible: tuple[Visible, ...]
    keys: tuple[bytes, ...]
    """One key for each response."""
    signed: tuple[bytes | None, ...]
    """Key of the last reasoning in each; None without any."""
    before: bytes
    """The chain before the response to this request."""
    front: bytes
    """The chain as later requests show it, from before the response that this one continues."""
    begun: Visible | None = None
    """The rest of a broken-off response, if this one is written into the same message."""
    responses: bool = True
    """Responses count in the chain."""

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the provider keeps the history, and the request names its last response."""
        return bool(self.visible and self.visible[0].response_id)

    def all_keys(self) -> list[bytes]:
        return [*self.keys, *filter(None, self.signed)]


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of putting back."""

    keys: tuple[bytes, ...] = ()
    """Keys of the exchanges in the request, in order."""
    exchanges: tuple[Hidden, ...] = ()
    dropped: bool = False
    """Reasoning was dropped, or the provider was asked to."""


def read(
    wire: ApiFormat,
    document: Document,
    visible: Sequence[Visible],
    owner: bytes,
    elsewhere: bytes,
    chain: Chain,
) -> History:
    """Return the responses of a request. `owner`: whose history it is; `elsewhere`: whose, if the provider
    has it.

    `chain`: of the request's messages.
    """
    before = chain.history
    signed: list[bytes | None]
    if wire.joins_messages or elsewhere:
        keys = [
            exchanges.key(elsewhere, response)
            if response.response_id
            else exchanges.key(owner, response, before[response.index])
            for response in visible
        ]
        signed = [_signed(owner, response) for response in visible]
    else:
        keys, signed = _keys(wire, document, visible, owner, chain)
    begun = visible[-1] if visible and visible[-1].open else None
    front = before[begun.index] if begun is not None else before[-1]
    return History(tuple(visible), tuple(keys), tuple(signed), before[-1], front, begun, chain.responses)


def _keys(
    wire: ApiFormat, document: Document, visible: Sequence[Visible], owner: bytes, chain: Chain
) -> tuple[list[bytes], list[bytes | None]]:
    """Keys of responses that are one message each, and of their reasoning."""
    before = chain.history
    prompt, by_turn = wire.prompt(document), dict(zip(map(_INDEX, visible), visible, strict=True))

    def step(keys: _Keys, turn: int) -> None:
        if (response := by_turn.get(turn)) is not None:
            keys[0].append(exchanges.key(owner, response, before[turn]))
            keys[1].append(_signed(owner, response))

    fold: Fold[_Keys] = Fold(
        lambda: ([], []),
        lambda keys: (keys[0].copy(), keys[1].copy()),
        ("keys", wire.message),
        (owner, chain.responses, before[0]),
    )
    return document.folded(prompt.place, len(prompt.messages), fold, step)


def _signed(owner: bytes, visible: Visible) -> bytes | None:
    return exchanges.signature_key(owner, visible.signature) if visible.signature else None


def forgotten(result: bytes) -> bytes:
    """Return a result of the injected tool that says that there is no original any more."""
    message = decode(result)
    return encode({**message, **dict.fromkeys(message.keys() & _TEXTS, query.unknown(""))})


def put_back(
    wire: ApiFormat, document: Document, history: History, past: Mapping[bytes, PastResponse], offered: bool
) -> Replayed:
    """Edit a request: every hidden exchange whose response stands there unchanged.

    `offered`: the request may ask the provider to drop reasoning that is bound to something else.
    """
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
            and _unchanged(visible, response)
            and wire.put_back(document, visible, response.hidden)
        ):
            keys.append(key)
            exchanges.append(response.hidden)
        bound = past.get(signed) if signed is not None else None
        if unbound is None and bound is not None and not set(bound.behind) <= set(keys):
            unbound = visible.index
    dropped = unbound is not None and wire.drop_unbound(document, unbound, offered)
    return Replayed(tuple(keys), tuple(exchanges), dropped)


def _unchanged(visible: Visible, response: PastResponse) -> bool:
    """Return whether a response is unedited; clients may leave out text beside calls."""
    return not visible.text.strip() or exchanges.text_hash(visible.text) == response.text


@dataclass(frozen=True, slots=True)
class Original:
    """A redacted original, and where it came from."""

    text: str
    tool: str = ""
    family: str = ""


Find = Callable[[str], Awaitable[Original | None]]
"""Finds the original of a reference in the current request."""


Inherit = Callable[["Prepared"], Awaitable[Mapping[str, str]]]
"""A function that takes over redacted originals, by reference, and other state."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Settings, headers and state of a conversation that decide about the injected tool of a request."""

    wanted: bool
    """The injected tool may be added to a conversation without it. A conversation with it keeps it."""
    at_stake: bool
    """Cached parts of an adopted conversation must not change."""
    hint: bool
    """Shortened texts tell how to ask for the original."""
    betas: str = ""
    """Features requested in headers."""
    counting: bool = False
    """The request only counts tokens: it gets no tool, and nothing is recorded."""
    editing: bool = False
    inline: bool = False
    last_tool: str = ""
    """The injected tool's name in the conversation's last request, as far as known."""
    begins: bool = False
    """Earlier turns without the tool do not count against it."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in which the model may ask for originals."""

    wire: ApiFormat
    tool: str
    caller: Caller
    references: References
    history: History
    replayed: Replayed
    owner: bytes
    """Scope of its responses, used with the history before them."""
    threaded: bool = False
    declared_at: bytes = b""
    """See `PastResponse`."""
    begins: bool = False
    """No response before it is known to have had the injected tool."""
    inherit: Inherit | None = None
    """The request has shown what an earlier login's conversation knew: to be called when it is accepted."""
    earlier: bytes = b""
    provider_results: tuple[ProviderResult, ...] = ()
    """Results that the provider will have after its answer; before that, those that it has."""
    is_followed: bool = False
    """The provider keeps the history, and all of it came from this caller."""
    show: ShowName = one_line
    """The function that formats names of tools."""

    @property
    def scopes(self) -> tuple[bytes, ...]:
        """Scopes of its originals: the conversation, and what it shares."""
        shared = self.caller.shared
        return (self.references.scope, shared) if shared else (self.references.scope,)

    @property
    def keeps_originals(self) -> bool:
        """Return whether the store has its originals: of callers who can be told from others, or by what only
        the provider and they know."""
        return self.threaded or not self.caller.is_open

    @property
    def before(self) -> str:
        """Return the id of the response that the client continues; empty without one."""
        return self.history.visible[0].response_id if self.history.is_elsewhere else ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One call of the injected tool and its answer, for figures."""

    ref: str
    found: bool
    sent: int
    """Bytes of the answer."""
    tool: str
    family: str
