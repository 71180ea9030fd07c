"""One result text and what became of it, as far as it is counted and told."""

from __future__ import annotations

from typing import Protocol

from penumbra.store.decisions import Facts


class ShownResult(Protocol):
    """Names, sizes and counts; never content."""

    @property
    def tool(self) -> str:
        """Name of the tool; empty if unknown."""
        ...

    @property
    def call_id(self) -> str: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def new(self) -> bool:
        """It got its form in this request."""
        ...
