"""What a strategy is given, what it gives back, and how it fails."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Credential:
    """What a client's own request was authorised with: good for the host that the client sent it to."""

    host: str
    """Name and port, `api.example.com:443`."""
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    owner: bytes = b""
    """Keyed hash of the account: responses paid with it are nobody else's."""


@dataclass(frozen=True, slots=True)
class Task:
    """One text to be shortened. Every text in it is without secrets already."""

    text: str
    tool: str = ""
    """Name of the tool that printed the text; empty if unknown."""
    intent: str = ""
    """What the call was for: its arguments, in one line."""
    question: str = ""
    """What the user wants to know; empty if unknown."""
    ratio: float | None = None
    """Wanted size of the response, relative to the text."""
    scope: bytes = b""
    """Who is asking: nobody else gets the response."""
    credential: Credential | None = None
    """Of the very client whose request it is; None unless the operator allows its use."""


@dataclass(frozen=True, slots=True)
class Response:
    """A shorter text, and the tokens that it cost as the service counts them (0: not told)."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class Failure(Exception):
    """No response. `kind` is one of a few constant words for figures; nothing in it quotes anybody."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind} ({detail})" if detail else kind)
        self.kind = kind


class Strategy(Protocol):
    """Who shortens a text."""

    @property
    def name(self) -> str:
        """As the settings spell it."""
        ...

    @property
    def model(self) -> str:
        """Whose price it has; empty: it costs nothing."""
        ...

    @property
    def identity(self) -> str:
        """All that its responses depend on beside the task."""
        ...

    @property
    def protects(self) -> bool:
        """Reads are left whole and critical lines are put back."""
        ...

    def fits(self, task: Task) -> bool:
        """Whether it may be asked about this task at all: it has what it needs."""
        ...

    async def shorten(self, task: Task) -> Response:
        """The shorter text. Raises Failure."""
        ...
