"""One step of the pipeline, and what it is told about the text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penumbra.compress.calls.classify import Call
from penumbra.compress.result import Loss, Policy, Told
from penumbra.compress.size import size


class Shape(StrEnum):
    """The shape of a text, which confirms or contradicts the call."""

    JSON = "json"
    DIFF = "diff"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Source:
    """Facts that a stage may know besides the text. Nothing in it changes from run to run."""

    call: Call
    shape: Shape
    policy: Policy
    is_error: bool
    call_id: str
    original: str
    """The redacted original."""
    artifact: Callable[[], str]
    """The shadow ref under which the original can be asked for."""
    shortened: Callable[[], bool]
    """True if a stage before this one changed the text."""
    mentioned: Callable[[], Mapping[str, float]] = dict
    """The names that were used in the conversation before, and how much each weighs."""
    told: Callable[[], Told | None] = lambda: None
    """Returns the texts that the conversation has shown before."""
    arguments: Any = None
    """The call's arguments, decoded."""
    bare: Callable[[], str] = str
    """The text that is shortened, without what stands around it and without markup."""

    @property
    def original_bytes(self) -> int:
        """UTF-8 bytes of the original: what `target_ratio` refers to."""
        return size(self.original)


@dataclass(frozen=True, slots=True)
class Trial:
    """A stage's effect on a text, for people who examine a result."""

    stage: str
    before: str
    after: str | None
    """The text after the stage; None if the stage changed nothing, or did not run."""
    reason: str
    """Why it was not kept, or did not run; empty: it was kept."""


Trace = Callable[[Trial], None]


@dataclass(frozen=True, slots=True)
class Stage:
    """A named transform. `apply` returns None, or the same text, where it has nothing to do."""

    name: str
    loss: Loss
    apply: Callable[[str, Source], str | None]
    quoted: bool = False
    """Also for text that is quoted back later: reads, edits."""
    trusted: bool = False
    """Keeps the critical lines by its own rules: it is not asked whether it does."""
    deletes: bool = False
    """True if the stage only deletes text and adds a few markers, so that fewer bytes are fewer tokens."""
    bares: bool = False
    """True if the stage unwraps the text, so that headings count the unwrapped lines."""
