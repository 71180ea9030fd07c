"""What shortening costs, and what it saves at the prices of the prompt cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any

from penumbra import rules

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for a million tokens."""

    input: float
    output: float


@dataclass(frozen=True, slots=True)
class Reader:
    """The model that a result is for; what its prompt cache costs, in parts of an input token's price."""

    model: str = ""
    read: float = 0.1
    write: float = 1.0


@cache
def _table() -> Mapping[str, Any]:
    loaded: dict[str, Any] = rules.load("dollars.yaml")
    return loaded


@lru_cache(256)
def price(model: str) -> Price | None:
    """The price of a model; None if it is not known."""
    name = model.lower()
    for entry in _table()["models"]:
        if fnmatchcase(name, entry["glob"]):
            return Price(entry["input"], entry["output"])
    return None


def cost(model: str, input_tokens: int, output_tokens: int) -> float:
    """Dollars that a call costs; 0 where the price is not known."""
    known = price(model)
    if known is None:
        return 0.0
    return (input_tokens * known.input + output_tokens * known.output) / _MILLION


def saving(reader: Reader, saved: int) -> float | None:
    """Dollars that `saved` tokens less are worth: written into the cache once, and read from it in the
    requests that are expected to follow. None: the price is not known."""
    known = price(reader.model)
    if known is None:
        return None
    turns = float(_table()["turns"])
    return saved * known.input * (reader.write + turns * reader.read) / _MILLION


def worth_it(compressor: str, reader: Reader, text_tokens: int, ratio: float | None) -> bool:
    """Whether shortening a text is expected to save more than it costs.

    `compressor` is a model's name. Where a price is not known, the operator's choice stands.
    """
    left = int(text_tokens * (ratio if ratio is not None else _table()["share"]))
    saved = saving(reader, text_tokens - left)
    return saved is None or price(compressor) is None or cost(compressor, text_tokens, left) < saved
