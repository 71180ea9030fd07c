"""This module has the class of the pipeline's stages, and the facts that a stage may use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from penumbra.compress.calls.classify import Call
from penumbra.compress.result import Loss, Policy, ShownBefore
from penumbra.compress.size import size


class Shape(StrEnum):
    JSON = "json"
    DIFF = "diff"
    PLAIN = "plain"


class Source(Struct, frozen=True):
    """A `Source` has the facts about a text that a stage may use."""

    call: Call
    shape: Shape
    policy: Policy
    is_error: bool
    call_id: str
    original: str
    """The redacted original."""
    artifact: Callable[[], str]
    """A function that returns the reference by which the model can ask for the original."""
    shortened: Callable[[], bool]
    """A function that returns True if an earlier stage changed the text."""
    mentioned: Callable[[], Mapping[str, float]] = dict
    """A function that returns the names used earlier in the conversation, with their weights."""
    shown_before: Callable[[], ShownBefore | None] = lambda: None
    """A function that returns the texts that the conversation has shown before."""
    arguments: Any = None
    """The call's arguments, decoded."""
    bare: Callable[[], str] = str
    """A function that returns the output before the structural stages, without markup and without the text
    that the agent put around the output."""

    @property
    def original_bytes(self) -> int:
        """The number of UTF-8 bytes of the original, to which `target_ratio` refers."""
        return size(self.original)


class Trial(Struct, frozen=True):
    """A `Trial` is the effect of a stage on a text, for display."""

    stage: str
    before: str
    after: str | None
    """The text after the stage; None if the stage did not run or changed nothing."""
    reason: str
    """The reason why the stage did not run or its output was dropped; empty if the output was kept."""


Trace = Callable[[Trial], None]


class Stage(Struct, frozen=True):
    """A `Stage` is a named transform. `apply` returns None or the same text if there is nothing to do."""

    name: str
    loss: Loss
    apply: Callable[[str, Source], str | None]
    quoted: bool = False
    """True if the stage also runs on text that the agent may quote later (the results of reads and edits)."""
    deletes: bool = False
    """True if the stage only deletes text and adds a few markers, so that fewer bytes mean fewer tokens."""
    bares: bool = False
    """True if the stage removes markup. The line counts in an excerpt are then those of the text without
    markup."""
