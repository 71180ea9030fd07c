"""The number of tokens that a model takes, and that its clients believe it takes (`rules/windows.yaml`).

`Room`: how much of an original may be put after a turn. The turn that asked says what it took; what is left
is known from what refusals have taught, or from what the model's clients believe in. Originals may take half
of that, since the model has to answer, and other results follow.

`UsageScale`: clients compact their conversations when the usage that they read comes near the window that
they believe in. Where a refusal has shown another limit, they would learn of it only by further refusals; and
where results were cut so that a request fits, the usage hides that the conversation doesn't. So, from the
first learned limit on, they get their usage in parts of what they believe in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from penumbra import rules
from penumbra.apis.recognise import model_in
from penumbra.apis.usage import held
from penumbra.conversation.model import Request, Rewritten
from penumbra.conversation.planner import SLACK
from penumbra.short_texts import remembered
from penumbra.store.conversations import LearnedLimits

_BYTES_PER_TOKEN = 3
"""True of most texts; half of a text with fewer still fits."""
_OTHERS_BYTES = 1_000
"""Bytes of a message that is put after a body, beside its text."""

Learn = Callable[[LearnedLimits], Awaitable[None]]
"""Remembers what a refusal has taught of a conversation."""


@dataclass(frozen=True, slots=True)
class Window:
    """Tokens of a prompt; 0: not known."""

    tokens: int = 0
    believed: int = 0
    """The size that clients expect."""


table = partial(rules.table, "windows.yaml")


def of(model: str, headers: Mapping[str, str], path: str = "") -> Window:
    """The window of a model. `headers` of the request, with names in lower case; `path`: its
    path, for APIs that name the model there."""
    name = (model or model_in(path)).lower()
    if (entry := _entry(name)) is None:
        return Window()
    if "header" in entry and entry["contains"] in headers.get(entry["header"], ""):
        return Window(entry["larger"], entry["larger"])
    tokens = entry.get("window", 0)
    return Window(tokens, entry.get("believed", tokens))


@remembered(256)
def _entry(name: str) -> Mapping[str, Any] | None:
    return next((entry for entry in table()["models"] if fnmatchcase(name, entry["glob"])), None)


@dataclass(frozen=True, slots=True)
class Room:
    """Space that is left in requests of a conversation; 0: not known."""

    tokens: int = 0
    """Tokens of a request and its response, by the provider's own count."""
    body_bytes: int = 0
    """Bytes of a body."""
    again: bool = True
    """A request of ours that was refused as too large may be sent again smaller."""
    learn: Learn | None = None

    def left(self, usage: Mapping[str, int], body: bytes, *, elsewhere: bool) -> int | None:
        """Bytes of text that may be put after a turn; None: nothing is known that forbids anything.

        `usage`: the turn's; `body`: of its request, whose history may be `elsewhere`.
        """
        bounds = []
        taken = held(usage) or (0 if elsewhere else len(body) // _BYTES_PER_TOKEN)
        # Where more was taken than should fit, the limit is another one.
        if 0 < taken < self.tokens:
            bounds.append((self.tokens - taken) * _BYTES_PER_TOKEN // 2)
        if len(body) < self.body_bytes:
            bounds.append(max(0, self.body_bytes - len(body) - _OTHERS_BYTES) // 2)
        return min(bounds, default=None)

    def is_near(self, body: bytes) -> bool:
        """True if a request, all of whose history is in its body, is within reach of its limit."""
        limit = self.tokens or table()["assumed"]
        return 2 * len(body) > limit * _BYTES_PER_TOKEN or 0 < self.body_bytes < 2 * len(body)


NOT_KNOWN = Room()


def of_request(request: Request) -> Window:
    """The window of the model that a request names."""
    return of(request.conversation.model, request.headers, request.path)


def room(limits: LearnedLimits, window: Window, *, again: bool, learn: Learn | None = None) -> Room:
    """The space for a conversation, from learned limits and the model's window."""
    tokens = (limits.window, window.tokens or window.believed)
    return Room(min((limit for limit in tokens if limit), default=0), limits.bytes, again, learn)


@dataclass(frozen=True, slots=True)
class UsageScale:
    """The factor by which the client sees its input tokens. All in the provider's own tokens."""

    limit: int
    """The limit that requests of the conversation are kept below."""
    believed: int
    """The limit that the client expects."""

    def count(self, tokens: int) -> int:
        """The count that the client gets for a number of tokens; never a smaller one."""
        return -(-tokens * self.believed // self.limit)


def usage_scale_of_request(
    request: Request, rewritten: Rewritten, limits: LearnedLimits
) -> UsageScale | None:
    """Return the scale of a request's usage, or None if the client gets the provider's own figures."""
    if request.settings.context_guard == "off" or request.api.kind != "messages" or not limits.window:
        return None
    cut = any(shown.facts.how == "recovered" for shown in rewritten.shown)
    return usage_scale(limits, of_request(request).believed, cut)


def usage_scale(limits: LearnedLimits, believed: int, cut: bool) -> UsageScale | None:
    """The scale of a client's usage; None if it stays true.

    `believed`: the window that the client believes in, 0 if unknown. `cut`: results were shortened so that
    the request fits.
    """
    if not limits.window or not believed or believed > limits.window * table()["most"]:
        return None
    # Cuts bring a request below its limit by this much, so that its usage would never come nearer.
    limit = int(limits.window * SLACK) if cut else limits.window
    return UsageScale(limit, believed) if believed > limit else None
