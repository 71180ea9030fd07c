"""The values that pass between the pipeline and its callers."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from penumbra.compress.calls.classify import Call


class Mode(StrEnum):
    """The amount of change that a result may get; each mode includes the one before it."""

    DISABLED = "disabled"
    SAFE = "safe"
    STANDARD = "standard"
    AGGRESSIVE = "aggressive"


class Loss(IntEnum):
    """The severity of a change: the amount of content that the model loses."""

    NONE = 0
    """Nothing is lost: the text is what a screen would show, or the same data in fewer bytes."""
    REVERSIBLE = 1
    """Nothing is lost: a legend in the text, or text earlier in the request, restores it."""
    LOSSY = 2
    """Something is left out, so that the original must be stored as a shadow."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of replaced values, by rule id."""


Redact = Callable[[str], Redacted]
"""An idempotent function that removes the secrets of a text. Raises RedactionError on failure."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The part of the settings on which the form of a result depends."""

    mode: Mode = Mode.STANDARD
    lossy: bool = False
    """True if lossy stages may run: the model can ask for the original, or the operator allows it."""
    min_bytes: int = 512
    """The size in UTF-8 bytes up to which results get the safe stages only."""
    max_output_bytes: int = 65_536
    """The size in UTF-8 bytes to which results are cut after all other stages."""
    target_ratio: float | None = None
    """The wanted size of a result as a fraction of the original size: lossy stages run until it is met."""
    overhead: str = ""
    """The text that precedes a lossy form, and counts as a part of its size."""
    for_others: bool = False
    """True if an external compressor will shorten the text, which then gets no excerpt."""


@dataclass(frozen=True, slots=True)
class ShownBefore:
    """The texts that a conversation has shown before one of its results."""

    facts: Container[bytes]
    """The facts that earlier results show (see the module `facts`)."""
    is_line: Callable[[str], bool]
    """Returns True if an earlier result or a call has a line, apart from the blanks around it."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """One text of a tool result, with what is known about the call that produced it."""

    text: str
    tool: str = ""
    """The name of the tool as the request spells it; empty if unknown."""
    arguments: Any = None
    """The decoded arguments: usually a dict; a str for freeform tools; None if unknown."""
    call_id: str = ""
    is_error: bool = False
    mentioned: Callable[[], Mapping[str, float]] = dict
    """Returns the names that were used in the conversation before, with their weights."""
    shown_before: Callable[[], ShownBefore | None] = lambda: None
    """Returns the texts that the conversation has shown before; None if unknown."""
    call: Callable[[], Call] | None = None
    """Returns the classified call, if several readers share it; None otherwise."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """The shortened form of one text, and the changes that led to it."""

    text: str
    """The text to forward, without the shadow prefix."""
    original: str
    """The redacted original, for the store."""
    loss: Loss = Loss.NONE
    stages: tuple[str, ...] = ()
    """The names of the stages that changed the text, in order."""
    family: str = ""
    """The command family whose rules changed the text; empty if none."""
    redactions: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """The names of the stages that did not run because the time limit of this text had passed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of asking an external compressor about a text."""

    how: str
    """`hit` (the answer was known), `miss` (the compressor was asked), or the reason why there is none."""
    form: Shortened | None = None
    """The form that the external compressor returned; None if the pipeline shortens the text."""
