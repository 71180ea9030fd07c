"""A request in which the model may ask for originals: on what terms it may, and what came of its asking."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from penumbra.apis.api_format import ApiFormat
from penumbra.errors import one_line
from penumbra.expand.caller import Caller
from penumbra.expand.hidden_exchanges import History, Replayed
from penumbra.expand.reference import References
from penumbra.redaction.shown_names import ShowName
from penumbra.store.exchanges import HeldResult


@dataclass(frozen=True, slots=True)
class Original:
    """A redacted original, and where it came from."""

    text: str
    tool: str = ""
    family: str = ""


Find = Callable[[str], Awaitable[Original | None]]
"""Finds an original of the current request by its reference."""


Inherit = Callable[["Prepared"], Awaitable[Mapping[str, str]]]
"""Redacted originals that the request carries, by reference; what else is taken over, is."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings and the headers say."""

    wanted: bool
    """The injected tool may be put into a conversation that has none yet. One that has it keeps it."""
    at_stake: bool
    """What the provider may hold of an adopted conversation must not change."""
    hint: bool
    """Shortened texts tell how to ask for the original."""
    betas: str = ""
    """The features that the request asks for in its headers."""
    counting: bool = False
    """The request only counts tokens: it gets no tool, and nothing is recorded."""
    editing: bool = False
    """Values are put back into edits."""
    inline: bool = False
    """The injected tool may be declared after a message."""
    held: str = ""
    """Name of the injected tool that the conversation's last request declared, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request in which the model may ask for originals."""

    wire: ApiFormat
    tool: str
    """The injected tool's name."""
    caller: Caller
    references: References
    history: History
    replayed: Replayed
    owner: bytes
    """What its responses are found by, together with the history in front of them."""
    threaded: bool = False
    """The provider keeps the history."""
    declared_at: bytes = b""
    """See `PastResponse`."""
    inherit: Inherit | None = None
    """The request has shown what an earlier login's conversation knew: to be called when it is accepted."""
    earlier: bytes = b""
    """That conversation."""
    held: tuple[HeldResult, ...] = ()
    """The results that the provider has when it has answered; before that, those that it has already."""
    is_followed: bool = False
    """The provider keeps the history, and all of it came from this very caller."""
    show: ShowName = one_line
    """How names of tools are told."""

    @property
    def rooms(self) -> tuple[bytes, ...]:
        """What its originals are scoped by: its conversation, and what it shares them with."""
        shared = self.caller.shared()
        return (self.references.scope, shared) if shared else (self.references.scope,)

    @property
    def keeps_originals(self) -> bool:
        """Whether the store has its originals: of callers who can be told from others, or by what only the
        provider and they know."""
        return self.threaded or not self.caller.open

    @property
    def before(self) -> str:
        """The id by which the client names the response that it goes on from; empty if it names none."""
        return self.history.visible[0].response_id if self.history.is_elsewhere else ""


@dataclass(frozen=True, slots=True)
class Answered:
    """One call of the injected tool and its response, for figures."""

    ref: str
    """Empty if it asked for something that is no reference."""
    found: bool
    sent: int
    """Size of the response, UTF-8 bytes."""
    tool: str
    family: str
