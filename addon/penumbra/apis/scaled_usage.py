"""The input tokens that an answer reports, changed on their way to the client.

Only figures of the input change: what was read from the cache, what was written to it, and the rest,
and totals by as much. Output tokens, prices and all else stay to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import Raw

from penumbra.wire.document import Document, NotJson
from penumbra.wire.framing import Piece

Count = Callable[[int], int]
"""What is told instead of a number of tokens."""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where an API says how large its input was."""

    paths: tuple[tuple[str, ...], ...]
    """Of the objects with the figures."""
    inputs: tuple[str, ...]
    """Members that count input tokens, or hold such counts by kind."""
    summed: tuple[str, ...] = ()
    """Those of them that a total contains."""
    total: str = ""


_ANTHROPIC = _Places(
    (("message", "usage"), ("usage",)),
    ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation"),
)
_PLACES: Mapping[str, _Places] = {
    "anthropic": _ANTHROPIC,
    "bedrock_invoke": _ANTHROPIC,
    "bedrock": _Places(
        (("usage",),),
        ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
        "totalTokens",
    ),
    "openai_chat": _Places(
        (("usage",),),
        ("prompt_tokens", "prompt_tokens_details", "prompt_cache_hit_tokens", "prompt_cache_miss_tokens"),
        ("prompt_tokens",),
        "total_tokens",
    ),
    "openai_responses": _Places(
        (("response", "usage"), ("usage",)),
        ("input_tokens", "input_tokens_details"),
        ("input_tokens",),
        "total_tokens",
    ),
    "gemini": _Places(
        (("response", "usageMetadata"), ("usageMetadata",)),
        (
            "promptTokenCount",
            "cachedContentTokenCount",
            "toolUsePromptTokenCount",
            "promptTokensDetails",
            "cacheTokensDetails",
        ),
        ("promptTokenCount", "toolUsePromptTokenCount"),
        "totalTokenCount",
    ),
    "ollama": _Places(((),), ("prompt_eval_count",)),
}


@dataclass(slots=True)
class ScaledUsage:
    """One answer of an API, piece by piece or whole."""

    format_name: str
    count: Count
    real: dict[str, int] = field(default_factory=dict)
    """The figures as they came, of the last event that had some."""

    def piece(self, piece: Piece) -> bytes:
        """One piece of a stream: what the client gets for it."""
        if piece.data is None:
            return piece.raw
        data = self.document(piece.data)
        return piece.raw if data is piece.data else piece.with_data(data)

    def close(self) -> bytes:
        """The end of the stream: nothing is held back."""
        return b""

    def document(self, body: bytes) -> bytes:
        """An answer that is one document, or the data of an event; the same object if nothing changes."""
        places = _PLACES[self.format_name]
        if not any(name.encode() in body for name in places.inputs):
            return body
        try:
            document = Document(body)
        except NotJson:
            return body
        for path in places.paths:
            self._tell(document, places, path)
        return document.render()

    def _tell(self, document: Document, places: _Places, path: tuple[str, ...]) -> None:
        value: Raw | None = document.root
        for key in path:
            value = document.members(value).get(key)
        usage = document.members(value)
        more = 0
        for name in places.inputs:
            for figure in _metrics(document, usage.get(name)):
                real = int(document.source(figure))
                told = self.count(real)
                if figure is usage.get(name):
                    self.real[name] = real
                    more += told - real if name in places.summed else 0
                if told != real:
                    document.replace(figure, told)
        total = usage.get(places.total)
        if more and total is not None and document.source(total).isdigit():
            document.replace(total, int(document.source(total)) + more)


def _metrics(document: Document, value: Raw | None) -> Iterator[Raw]:
    """The whole numbers in a value: itself, or those in its members and items."""
    if value is None:
        return
    if document.source(value).isdigit():
        yield value
    for inner in (*document.members(value).values(), *document.items(value)):
        yield from _metrics(document, inner)
