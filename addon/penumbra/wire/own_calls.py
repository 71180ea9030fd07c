"""Calls of this process that are under way, told apart from those of clients should they come back to it."""

from __future__ import annotations

HEADER = "x-penumbra-call"
"""Carries the number of such a call."""
under_way: set[str] = set()
"""Their numbers."""


def is_ours(number: str) -> bool:
    """Whether this is what a call of this process that is under way carries in `HEADER`."""
    return number in under_way
