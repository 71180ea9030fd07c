"""How many inputs a property is tried with."""

from __future__ import annotations

ALL = False
"""Set by `scripts/test --all`."""
FEWEST = 15


def examples(number: int) -> int:
    """The number with `--all`, and a third of it otherwise."""
    return number if ALL else max(min(number, FEWEST), number // 3)
