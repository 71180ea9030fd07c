"""What the steps of a request's way pass on: the request, its plan, its results, and what is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.parts import Conversation
from penumbra.apis.prefix_hash import Chain
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.conversation.items import Item
from penumbra.conversation.mentioned_names import Mentions
from penumbra.conversation.searched import Searched
from penumbra.errors import one_line
from penumbra.redaction.shown_names import ShowName
from penumbra.redaction.structured import Structured
from penumbra.store.conversations import NO_LIMITS, LearnedLimits
from penumbra.store.decisions import Decision, Facts
from penumbra.wire.document import Document


@dataclass(frozen=True, slots=True)
class Request:
    """A recognised request, read. `chain`: what stands in front of each message."""

    api: Api
    settings: Settings
    document: Document
    conversation: Conversation
    items: tuple[Item, ...]
    searched: tuple[Searched, ...] = ()
    structured: Structured = field(default_factory=Structured)
    mentions: Mentions = field(default_factory=Mentions)
    scope: bytes = b""
    """Keyed hash of who is asking."""
    possession: bytes = b""
    """Keys every hash of an item: who has to send the same again to be known."""
    is_open: bool = False
    """Nothing tells who is asking but where he is."""
    uncalled: frozenset[str] = frozenset()
    """Ids of the calls that its results answer and that it does not show."""
    chain: Chain = field(default_factory=Chain)

    @property
    def format(self) -> str:
        """Name of the API's format."""
        return self.api.format

    @property
    def wire(self) -> ApiFormat:
        """What reads its format."""
        return self.api.wire


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a request beside its body."""

    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided before a request is rewritten."""

    decisions: Mapping[bytes, Decision] = field(default_factory=dict)
    originals: Mapping[str, str] = field(default_factory=dict)
    """Redacted originals by reference."""
    line: str = ""
    """Why, for a log."""
    limits: LearnedLimits = NO_LIMITS
    """What is learned if the request is taken."""

    def plus(self, other: Plan) -> Plan:
        """Both; of two forms of one text the other's."""
        return Plan(
            {**self.decisions, **other.decisions},
            {**self.originals, **other.originals},
            "; ".join(line for line in (self.line, other.line) if line),
            self.limits.learned(other.limits),
        )


@dataclass(frozen=True, slots=True)
class Shown:
    """One result text and what became of it, for logs and metrics."""

    item: Item
    facts: Facts
    new: bool
    show: ShowName = one_line

    @property
    def tool(self) -> str:
        """Name of the tool, as it may be shown; empty if unknown."""
        return self.show(self.item.tool)

    @property
    def call_id(self) -> str:
        """As the result spells it and it may be shown; empty if it names none."""
        return self.show(self.item.result.call_id)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What is to be sent, and what is to be remembered."""

    body: bytes
    shown: tuple[Shown, ...]
    decisions: Mapping[bytes, Decision]
    """New ones only."""
    originals: Mapping[str, str]
    """Redacted originals of newly shortened results that lost something, by reference."""
    is_cut: bool = False
    """Not all of what is shown stands in the body: it was bounded as a whole."""
