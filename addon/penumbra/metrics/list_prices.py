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
    long: Price | None = None
    """Of requests whose prompt has more than `above` tokens; None: they cost the same."""
    above: int = 0

    def at(self, prompt: int) -> Price:
        """Return the price of a request whose prompt has so many tokens."""
        return self.long if self.long is not None and prompt > self.above else self


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
            longer = entry.get("long")
            long = Price(longer["input"], longer["output"]) if longer else None
            return Price(entry["input"], entry["output"], long, longer["above"] if longer else 0)
    return None


def as_of() -> str:
    """Return the dates between which the prices were read, in words for people, and the models whose prices
    were not found in a list since."""
    sources = table()["sources"]
    old = {name: str(each["date"]) for name, each in sources.items() if each.get("is_unchecked")}
    dates = sorted(str(each["date"]) for name, each in sources.items() if name not in old)
    said = f"prices of {dates[0]} to {dates[-1]}"
    names = [
        each["glob"].replace("*", " ").strip(" -_") for each in table()["models"] if each["source"] in old
    ]
    return f"{said}; not checked since {max(old.values())}: {', '.join(names)}" if names else said
