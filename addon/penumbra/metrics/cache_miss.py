"""This module compares prompts with earlier prompts to find why a provider did not read a prompt from its
cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cachetools import LRUCache
from msgspec import Struct, structs

from penumbra.apis.base import CacheDiagnosis
from penumbra.apis.prefix_hash import PromptHead
from penumbra.apis.usage import BilledTokens

_TOLERANCE = 0.2
"""Fraction of an earlier prompt that may be uncached, since the last cache breakpoint is before the prompt's
end."""
EXPIRED, MODEL, TOOLS, SYSTEM, MESSAGES, REWRITTEN, BROKEN, UNKNOWN = (
    *("expired", "another model", "tools changed", "system changed", "messages changed"),
    *("rewritten by Penumbra", "prefix broken by Penumbra", "unknown"),
)
_BY_DIAGNOSIS = {
    "model_changed": MODEL,
    "system_changed": SYSTEM,
    "tools_changed": TOOLS,
    "messages_changed": MESSAGES,
}
"""Causes of a miss, by Anthropic's words for the first difference between two prompts."""
COLD, WARM, UNSEEN = "cold", "warm", "unknown"
"""Real states of a cache that Penumbra believed to have expired."""
NOT_COMPARED = ("previous_message_not_found", "unavailable")


@dataclass(frozen=True, slots=True)
class ComparedPrompt:
    """A `ComparedPrompt` has hashes of a prompt that the provider compares with an earlier prompt. The hashes
    show whether the client or Penumbra changed the prompt."""

    previous: str
    """The client's id of the response to compare with; empty for the first prompt."""
    written: tuple[bytes, ...]
    """A hash of each message as the client wrote it, without cache breakpoints."""
    edits: tuple[bytes, ...]
    """The hashes of Penumbra's edits: one for each message (empty without edits), then one for all edits
    elsewhere."""

    def first_edited(self, earlier: ComparedPrompt) -> int | None:
        """Return the index of the first message whose edits differ from the edits in `earlier`, or None."""
        pairs = zip(earlier.edits[:-1], self.edits[:-1], strict=False)
        return next((index for index, (before, now) in enumerate(pairs) if before != now), None)


class ColdTurn(Struct, frozen=True):
    """A `ColdTurn` is a request that changes earlier results because the cache seems to have expired."""

    head: int
    """Tokens outside of the messages, which other conversations may keep cached."""
    kept: int
    """Tokens of the first messages that stay unchanged; 0 if the part outside of messages changed, too."""


class Prompt(Struct, frozen=True):
    """A `Prompt` has the facts about a request that matter for the provider's cache."""

    time: float
    model: str
    head: PromptHead
    messages: tuple[bytes, ...]
    """The hashes of the prompt before each message, and of the whole prompt."""
    least: int
    """The number of tokens of the smallest prompt that the provider caches."""
    life: float
    """The seconds after which the provider drops a cached prompt that no request used."""
    is_automatic: bool = True
    """True if the provider also caches prompts without cache breakpoints."""
    rewrote: str = ""
    """The name of the step by which Penumbra rewrote the whole conversation; empty if none did."""
    tokens: int = 0
    """Tokens by the provider's count; 0 if unknown."""
    compared: ComparedPrompt | None = None
    """The hashes for the provider's comparison; None if the client asked for no comparison."""
    cold_turn: ColdTurn | None = None
    """The change that Penumbra made because the cache seemed to have expired; None without such a change."""

    def counted(self, tokens: int) -> Prompt:
        """Return the prompt with the provider's count of its tokens."""
        return structs.replace(self, tokens=tokens)

    @property
    def opening(self) -> tuple[str, bytes]:
        """Return the key that all requests of one thread of a conversation share."""
        return ("", self.messages[1]) if len(self.messages) > 1 else (self.model, b"")


class Miss(Struct, frozen=True):
    """A `Miss` counts the tokens that should have come from the cache but did not, and names the cause."""

    cause: str
    tokens: int
    detail: str = ""
    pause: float = 0.0


def judge(earlier: Prompt | None, now: Prompt, billed: BilledTokens) -> Miss | None:
    """Return the miss that a response shows, or None. `earlier` is the previous request of the same thread,
    or None."""
    if earlier is None or earlier.tokens < max(now.least, 1):
        return None
    expected = min(earlier.tokens, billed.prompt)
    missed = expected - billed.cached
    if missed <= max(now.least, expected * _TOLERANCE):
        return None
    if not (billed.cached or billed.written or now.is_automatic):
        return None
    cause, detail = _cause(earlier, now)
    return Miss(cause, missed, detail, now.time - earlier.time)


def found_cold(now: Prompt, turn: ColdTurn, billed: BilledTokens) -> str:
    """Return the cache's state (`COLD`, `WARM` or `UNSEEN`) before a request, by the response's usage."""
    if billed.cached > max(now.least, turn.head * (1 + _TOLERANCE)):
        return WARM
    shows = billed.cached or billed.written or now.is_automatic
    return COLD if shows and turn.kept > now.least else UNSEEN


def diagnosed(
    earlier: Prompt | None, now: Prompt, diagnosis: CacheDiagnosis, guessed: Miss | None
) -> Miss | None:
    """Return the miss by the provider's diagnosis, or `guessed` if the diagnosis has none. `earlier` is the
    prompt that the client names; None if that prompt is no longer stored. If the client only added messages,
    Penumbra made the difference. The cause is then `EXPIRED` or `REWRITTEN` for an intended change, and
    otherwise `BROKEN`."""
    cause = _BY_DIAGNOSIS.get(diagnosis.cause)
    if cause is None:
        return guessed
    tokens = diagnosis.tokens or (guessed.tokens if guessed is not None else 0)
    if earlier is None or earlier.compared is None or now.compared is None or cause == MODEL:
        return Miss(cause, tokens, "by the provider's comparison")
    before, after = earlier.compared, now.compared
    if cause == MESSAGES:
        same = zip(before.written, after.written, strict=False)
        client = next((number for number, (one, other) in enumerate(same, 1) if one != other), None)
        if client is not None or len(after.written) < len(before.written):
            number = client or len(after.written) + 1
            return Miss(cause, tokens, f"the client changed message {number} of {len(before.written)}")
        index = after.first_edited(before)
        where = "no edit of an earlier message is another one"
        if index is not None:
            forms = f"{before.edits[index].hex() or 'none'} before, {after.edits[index].hex() or 'none'} now"
            where = f"edits of message {index + 1} of {len(before.written)}: {forms}"
    elif before.edits[-1] != after.edits[-1]:
        where = f"edits outside of messages: {before.edits[-1].hex()} before, {after.edits[-1].hex()} now"
    elif cause == TOOLS and earlier.head.tools == now.head.tools:
        where = "the client's tools are the same"
    else:
        return Miss(cause, tokens, "by the provider's comparison")
    if now.cold_turn is not None:
        return Miss(EXPIRED, tokens, now.rewrote, now.time - earlier.time)
    return Miss(REWRITTEN, tokens, now.rewrote) if now.rewrote else Miss(BROKEN, tokens, where)


def _cause(earlier: Prompt, now: Prompt) -> tuple[str, str]:
    if earlier.model != now.model:
        return MODEL, f"{earlier.model} before"
    if earlier.head.tools != now.head.tools:
        return TOOLS, "the declared tools are others than a turn ago"
    if earlier.head.system != now.head.system:
        return SYSTEM, "the system prompt is another one than a turn ago"
    if (first := _first_difference(earlier.messages, now.messages)) is not None:
        return MESSAGES, f"the client changed message {first} of {len(earlier.messages) - 1}"
    pause = now.time - earlier.time
    if now.rewrote.startswith("rewrote") and now.cold_turn is None:
        return REWRITTEN, now.rewrote
    if pause > now.life:
        return EXPIRED, f"{pause:,.0f} seconds after the request before"
    return UNKNOWN, "the prompt was the same"


def _first_difference(earlier: Sequence[bytes], now: Sequence[bytes]) -> int | None:
    """Return the number (from 1) of the first message that differs; None if no message differs."""
    last = len(earlier) - 1
    if last < len(now) and earlier[last] == now[last]:
        return None
    for number in range(1, len(earlier)):
        if number >= len(now) or earlier[number] != now[number]:
            return number
    return None


_MOST_HASHES = 300_000
"""The greatest number of hashes in all prompts together (about 20 MB)."""
_BESIDE = 8
"""The size of a `Prompt` without messages, as a number of hashes that need the same memory."""
Key = tuple[str | int | bytes, ...]


class Prompts:
    """A `Prompts` stores prompts by key. The least recently used prompts are dropped first. A prompt above
    the limit is not stored."""

    def __init__(self) -> None:
        self._prompts: LRUCache[Key, Prompt] = LRUCache(_MOST_HASHES, _weight)

    def get(self, *key: str | int | bytes) -> Prompt | None:
        return self._prompts.get(key)

    def take(self, *key: str | int | bytes) -> Prompt | None:
        return self._prompts.pop(key, None)

    def put(self, prompt: Prompt, *key: str | int | bytes) -> None:
        self._prompts.pop(key, None)
        if _weight(prompt) <= _MOST_HASHES:
            self._prompts[key] = prompt


def _weight(prompt: Prompt) -> int:
    compared = 2 * len(prompt.compared.written) if prompt.compared is not None else 0
    return len(prompt.messages) + compared + _BESIDE
