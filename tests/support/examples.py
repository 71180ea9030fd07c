"""How many inputs a property is tried with."""

from __future__ import annotations

ALL = False
"""Set by `scripts/test --all`."""
FEW = False
"""Set by `scripts/test --fast`."""
FEWEST = 15


def examples(number: int) -> int:
    """The number with `--all`, a third of it otherwise, and of that a third with `--fast`."""
    if ALL:
        return number
    usual = max(min(number, FEWEST), number // 3)
    return -(-usual // 3) if FEW else usual
