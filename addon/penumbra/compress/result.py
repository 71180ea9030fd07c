"""This module has the values that the pipeline and its callers exchange."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import IntEnum, StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from penumbra.compress.calls.classify import Call


class Mode(StrEnum):
    """The extent to which a result may be changed. Each mode includes the changes of the mode before it."""

    DISABLED = "disabled"
    SAFE = "safe"
    STANDARD = "standard"
    AGGRESSIVE = "aggressive"


class Loss(IntEnum):
    """The amount of content that the model loses by a change."""

    NONE = 0
    """Nothing is lost. The new text is what a screen would show, the same data in fewer bytes, or the output
    without needless lines."""
    REVERSIBLE = 1
    """Nothing is lost. A legend in the text, or earlier text of the request, restores the original."""
    LOSSY = 2
    """Content is left out. If the model can ask for the original, the original is stored under a
    reference."""


class Redacted(Struct, frozen=True):
    """A text without its secrets."""

    text: str
    counts: Mapping[str, int] = msgspec.field(default_factory=dict)
    """The number of replaced values, by rule id."""


Redact = Callable[[str], Redacted]
"""An idempotent function that removes the secrets of a text. Raises RedactionError on failure."""


class Policy(Struct, frozen=True):
    """The settings that determine the form of a result."""

    mode: Mode = Mode.STANDARD
    lossy: bool = False
    """True if lossy stages may run: the model can ask for the original, or the operator allows them."""
    min_bytes: int = 512
    """A result of at most this number of UTF-8 bytes gets only the safe stages, and loses needless text
    around an output."""
    max_output_bytes: int = 65_536
    """The size in UTF-8 bytes to which results are cut after all other stages."""
    target_ratio: float | None = None
    """The wanted size as a fraction of the original size. Excerpts, except those of files that were read,
    have at most this fraction or 1,000 bytes."""
    overhead: str = ""
    """The text before a lossy form. Its bytes count as a part of the form."""
    for_others: bool = False
    """True if an external compressor will shorten the text. The pipeline then makes no excerpt."""


class ShownBefore(Struct, frozen=True):
    """A `ShownBefore` has the texts that a conversation has shown before a certain result."""

    facts: Container[bytes]
    """The facts that earlier results show (see the module `facts`)."""
    is_line: Callable[[str], bool]
    """This function returns whether an earlier result or call has a line, without the blanks at its ends."""


class ToolOutput(Struct, frozen=True):
    """A `ToolOutput` is one text of a tool result, with facts about the call that produced it."""

    text: str
    tool: str = ""
    """The name of the tool as the request spells it; empty if unknown."""
    arguments: Any = None
    """The decoded arguments: usually a dict, but a str for freeform tools, and None if unknown."""
    call_id: str = ""
    is_error: bool = False
    mentioned: Callable[[], Mapping[str, float]] = dict
    """A function that returns the names used earlier in the conversation, each with its weight."""
    shown_before: Callable[[], ShownBefore | None] = lambda: None
    """A function that returns the texts that the conversation has shown before; None if unknown."""
    call: Callable[[], Call] | None = None
    """A function that returns the classified call; None if the pipeline must classify the call."""


class Shortened(Struct, frozen=True):
    """A `Shortened` is the shortened form of one text, with facts about the changes."""

    text: str
    """The text to forward, without the reference before it."""
    original: str
    """The redacted original, for the store."""
    loss: Loss = Loss.NONE
    stages: tuple[str, ...] = ()
    """The names of the stages that changed the text, in order."""
    family: str = ""
    """The command family whose rules changed the text; empty if none."""
    redactions: Mapping[str, int] = msgspec.field(default_factory=dict)
    skipped: tuple[str, ...] = ()
    """The names of the stages that did not run to the end, for lack of time or because the text is too
    large."""


class Asked(Struct, frozen=True):
    """An `Asked` is the outcome of a question to an external compressor."""

    how: str
    """`hit` for a stored answer, `miss` for a new answer, or the reason why there is no answer."""
    form: Shortened | None = None
    """The form with the answer or the fallback's text; None if the pipeline decides about the text."""
