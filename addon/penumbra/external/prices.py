"""What shortening costs, and what it saves at the prices of the prompt cache."""

from __future__ import annotations

from dataclasses import dataclass

from penumbra.metrics.amounts import MILLION, price, table


@dataclass(frozen=True, slots=True)
class Reader:
    """The model that a result is for; what its prompt cache costs, in parts of an input token's price."""

    model: str = ""
    read: float = 0.1
    write: float = 1.0


def cost(model: str, input_tokens: int, output_tokens: int) -> float:
    """Dollars that a call costs; 0 where the price is not known."""
    rate = price(model)
    if rate is None:
        return 0.0
    return (input_tokens * rate.input + output_tokens * rate.output) / MILLION


def saving(reader: Reader, saved: int) -> float | None:
    """Dollars that `saved` tokens less are worth: written into the cache once, and read from it in the
    requests that are expected to follow. None: the price is not known."""
    rate = price(reader.model)
    if rate is None:
        return None
    turns = float(table()["turns"])
    return saved * rate.input * (reader.write + turns * reader.read) / MILLION


def worth_it(compressor: str, reader: Reader, text_tokens: int, ratio: float | None) -> bool:
    """Whether shortening a text is expected to save more than it costs.

    `compressor` is a model's name. Where a price is not known, the operator's choice stands.
    """
    left = int(text_tokens * (ratio if ratio is not None else table()["share"]))
    saved = saving(reader, text_tokens - left)
    return saved is None or price(compressor) is None or cost(compressor, text_tokens, left) < saved
