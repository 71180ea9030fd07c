"""The shapes that pass between the pipeline and those who call it."""

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
    """The loss of a change for the model."""

    NONE = 0
    """Nothing: what a screen would show, or the same data in fewer bytes."""
    REVERSIBLE = 1
    """Nothing: a legend in the text, or text earlier in the request, restores it."""
    LOSSY = 2
    """Something is left out: the text needs a shadow."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets."""

    text: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of replaced values, by rule id."""


Redact = Callable[[str], Redacted]
"""A function that takes the secrets out of a text. Idempotent. Raises RedactionError on failure."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The changes that are allowed to results: the part of the settings that the forwarded bytes depend
    on."""

    mode: Mode = Mode.STANDARD
    lossy: bool = False
    """Lossy stages may run: the model can ask for the original, or the operator said so."""
    min_bytes: int = 512
    """Results up to this size (UTF-8 bytes) get the safe stages only."""
    max_output_bytes: int = 65_536
    """Results above this size (UTF-8 bytes) after all other stages are cut down to it."""
    target_ratio: float | None = None
    """Wanted size of a result relative to its original: lossy stages go on until it is met."""
    overhead: str = ""
    """The text that will precede a lossy form; counted before the form is accepted."""
    for_others: bool = False
    """Somebody else will shorten the text: it is not cut to an excerpt."""


@dataclass(frozen=True, slots=True)
class Told:
    """The texts that a conversation has shown before one of its results."""

    facts: Container[bytes]
    """The facts that earlier results show (see `facts`)."""
    is_line: Callable[[str], bool]
    """True if a line, without the blanks around it, stands in an earlier result, or was given to a call."""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """One text of a tool result, with what is known about the call that produced it."""

    text: str
    tool: str = ""
    """Name of the tool as the request spells it; empty if unknown."""
    arguments: Any = None
    """Decoded arguments: usually a dict; a str for freeform tools; None if unknown."""
    call_id: str = ""
    is_error: bool = False
    mentioned: Callable[[], Mapping[str, float]] = dict
    """The names that were used in the conversation before, and how much each weighs."""
    told: Callable[[], Told | None] = lambda: None
    """The texts that the conversation has shown before; None if unknown."""
    call: Callable[[], Call] | None = None
    """Returns the call, remembered for several readers; None if there is one reader."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """The form of one text."""

    text: str
    """The text to forward, without the shadow prefix."""
    original: str
    """The redacted original, for the store."""
    loss: Loss = Loss.NONE
    stages: tuple[str, ...] = ()
    """Names of the stages that changed the text, in order."""
    family: str = ""
    """Command family or kind that the text was taken for; empty if none."""
    redactions: Mapping[str, int] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """Names of the stages that were passed over because the time for this text was over."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of asking an external compressor about a text."""

    how: str
    """`hit` (the answer was known), `miss` (it was asked for), or why there is none."""
    form: Shortened | None = None
    """The form of the external compressor; None if the pipeline shortens the text."""
