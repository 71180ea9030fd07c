"""What models cost by their providers' price lists: `rules/dollars.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from penumbra import rules

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    output: float


@cache
def table() -> Mapping[str, Any]:
    """The content of rules/dollars.yaml."""
    loaded: dict[str, Any] = rules.load("dollars.yaml")
    return loaded


@lru_cache(256)
def price(model: str) -> Price | None:
    """The price of a model; None if it is not known."""
    name = model.lower()
    for entry in table()["models"]:
        if fnmatchcase(name, entry["glob"]):
            return Price(entry["input"], entry["output"])
    return None
