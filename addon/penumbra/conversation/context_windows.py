"""This module knows the context windows of models, and the windows that clients expect
(`rules/windows.yaml`).

A `Bounds` limits the originals that the model gets after a turn. The limit of tokens is the model's window
or the limit in a refusal. Originals may take half of the tokens that are left after the turn.

A `UsageScale` changes the usage that a client gets. Clients compact their conversations when the usage comes
near the window that they expect. If a refusal has named a smaller limit, the clients would compact too late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from msgspec import Struct

from penumbra import rules
from penumbra.apis.recognise import model_in
from penumbra.apis.usage import context_tokens
from penumbra.conversation.model import Request, Rewritten
from penumbra.conversation.planner import SLACK
from penumbra.short_texts import remembered
from penumbra.store.conversations import LearnedLimits

_BYTES_PER_TOKEN = 3
"""The bytes of a token, estimated low."""
_OTHERS_BYTES = 1_000
"""The bytes of the JSON around the text of an added message."""
Learn = Callable[[LearnedLimits], Awaitable[None]]
"""A function that remembers the limits that a refusal has named."""


class Window(Struct, frozen=True):
    """A `Window` is a model's context window, and the window that clients expect; 0 if unknown."""

    tokens: int = 0
    believed: int = 0
    """The size that clients expect."""


table = partial(rules.table, "windows.yaml")


def of(model: str, headers: Mapping[str, str], path: str = "") -> Window:
    """Return the window of a model. In some APIs the path names the model. Header names are in lower case."""
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


class Bounds(Struct, frozen=True):
    """A `Bounds` has the limits for requests of a conversation; 0 if unknown."""

    tokens: int = 0
    """The tokens of a request and its response, as the provider counts them."""
    body_bytes: int = 0
    again: bool = True
    """True if a smaller form of a hidden request may be sent after a refusal of the request as too large."""
    learn: Learn | None = None

    def left(self, usage: Mapping[str, int], body: bytes, *, elsewhere: bool) -> int | None:
        """Return the number of bytes of text that may follow a turn; None if there is no limit. `usage` is
        what the provider reported for the turn. `body` is the turn's request. `elsewhere` is true if the
        provider stores the history."""
        limits = []
        taken = context_tokens(usage) or (0 if elsewhere else len(body) // _BYTES_PER_TOKEN)
        # If the turn has taken more tokens, the limit is wrong.
        if 0 < taken < self.tokens:
            limits.append((self.tokens - taken) * _BYTES_PER_TOKEN // 2)
        if len(body) < self.body_bytes:
            limits.append(max(0, self.body_bytes - len(body) - _OTHERS_BYTES) // 2)
        return min(limits, default=None)

    def is_near(self, body: bytes) -> bool:
        """Return whether a request and its history may fill more than half of a limit."""
        limit = self.tokens or table()["assumed"]
        return 2 * len(body) > limit * _BYTES_PER_TOKEN or 0 < self.body_bytes < 2 * len(body)


NOT_KNOWN = Bounds()


def of_request(request: Request) -> Window:
    """Return the window of the model that a request names."""
    return of(request.conversation.model, request.headers, request.path)


def bounds(limits: LearnedLimits, window: Window, *, again: bool, learn: Learn | None = None) -> Bounds:
    tokens = (limits.window, window.tokens or window.believed)
    return Bounds(min((limit for limit in tokens if limit), default=0), limits.bytes, again, learn)


class UsageScale(Struct, frozen=True):
    """A `UsageScale` multiplies the input tokens that a client gets. All its fields are in tokens."""

    limit: int
    """The limit below which the requests of the conversation are kept."""
    believed: int
    """The limit that the client expects."""

    def count(self, tokens: int) -> int:
        """Return the count that the client gets for a number of tokens."""
        return -(-tokens * self.believed // self.limit)


def usage_scale_of_request(
    request: Request, rewritten: Rewritten, limits: LearnedLimits
) -> UsageScale | None:
    """Return the scale of a request's usage; None if the client gets the provider's own figures."""
    if request.settings.context_guard == "off" or request.api.kind != "messages" or not limits.window:
        return None
    cut = any(shown.facts.how == "recovered" for shown in rewritten.shown)
    return usage_scale(limits, of_request(request).believed, cut)


def usage_scale(limits: LearnedLimits, believed: int, cut: bool) -> UsageScale | None:
    """Return the scale of a client's usage; None if the usage stays unchanged. `believed` is the window
    that the client expects; 0 if unknown. `cut` is true if results were shortened to fit the request."""
    if not limits.window or not believed or believed > limits.window * table()["most"]:
        return None
    # A cut request stays below its limit by this margin.
    limit = int(limits.window * SLACK) if cut else limits.window
    return UsageScale(limit, believed) if believed > limit else None
