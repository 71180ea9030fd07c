"""A logged conversation, as it would have gone with Penumbra in front of it from its first request on.

The engine gets the last request, which holds all results in their order, and decides about one after the
other, as it does when they come one by one. What a result costs in the requests behind it follows from its
size, so that time grows with what was said, not with how often it was sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import orjson

from penumbra.compress.token_estimate import estimate
from penumbra.conversation import cache_price
from penumbra.conversation.incoming import Incoming
from penumbra.metrics import list_prices
from penumbra.projection.figures import Figures, Requests
from penumbra.projection.logged_bodies import SHAPES, LoggedBody
from penumbra.projection.projector import Projected, Projector, api_of
from penumbra.session_logs.log_entries import (
    Entry,
    LoggedConversation,
    LoggedResponse,
    LoggedResult,
    response_keys,
)

_LEAST_COUNTED = 2
"""A logged count below half of the estimate is none of the prompt: some log zeros, or what was not cached."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One logged request."""

    model: str
    counts: bool
    """It was not counted before, and is not too old."""
    price: float | None
    """Dollars of an input token that nobody has cached; None: not known."""
    new: float
    """What a token costs that is in no request before, in parts of that price."""
    again: float
    """What one costs that is."""
    cached: float
    """What one costs that the provider says it has read from its cache."""


class LogProjection:
    """State: the figures, and which responses are in them."""

    def __init__(self, projector: Projector, figures: Figures, since: float = 0.0) -> None:
        """`since`: seconds since the epoch; what is older does not count."""
        self.projector = projector
        self.figures = figures
        self.since = since
        self._seen: set[str] = set()

    async def add(self, conversation: LoggedConversation, source: str, at: float) -> None:
        """One conversation. `source`: its log's name; `at`: when the log was last written."""
        keys = list(response_keys(conversation.entries))
        format_name, model = _format_of(conversation)
        turns = self._turns(conversation, keys, format_name, at)
        self._seen.update(keys)
        if not any(turn.counts for turn in turns):
            return
        shape = SHAPES[format_name]
        body = shape.body(conversation, model)
        assert body is not None, "there are turns"
        api = api_of(format_name, shape.method, shape.path)
        incoming = Incoming(
            api, body.data, dict(shape.headers), {}, "127.0.0.1", "projection:443", shape.path
        )
        projected = await self.projector.request(incoming)
        if projected is None:
            self.figures.failed += 1
            return
        self.figures.conversations += 1
        self.figures.add_requests(
            conversation.agent, _requests(conversation.entries, turns, projected.declared)
        )
        await self._add_forms(conversation.agent, source, body, turns, projected)

    def _turns(
        self, conversation: LoggedConversation, keys: Sequence[str], format_name: str, written: float
    ) -> list[Turn]:
        turns: list[Turn] = []
        model, before = next(conversation.models, ""), 0.0
        responses = (entry for entry in conversation.entries if isinstance(entry, LoggedResponse))
        for response, key in zip(responses, keys, strict=True):
            model = response.model or model
            cache, price = cache_price.prices(format_name, model, b""), list_prices.price(model)
            cold = bool(before and response.at) and response.at - before > cache.cold
            usage = response.usage
            price = price and price.at(usage.input if usage is not None else 0)
            turns.append(
                Turn(
                    model,
                    key not in self._seen and (response.at or written) >= self.since,
                    price.input / list_prices.MILLION if price is not None else None,
                    cache.write,
                    cache.write if cold else cache.read,
                    cache.read,
                )
            )
            before = response.at or before
        return turns

    async def _add_forms(
        self, agent: str, source: str, body: LoggedBody, turns: Sequence[Turn], projected: Projected
    ) -> None:
        resent = _behind([float(turn.counts) for turn in turns])
        again = _behind([turn.counts * turn.again * (turn.price or 0.0) for turn in turns])
        self.figures.secrets.update(projected.hidden)
        for form in projected.forms:
            first = body.turns[form.message]
            turn = turns[first]
            if turn.counts:
                self.figures.secrets.update(form.facts.redactions)
                self.figures.values |= form.values
            if not form.is_result:
                continue
            each = again[first] + turn.counts * turn.new * (turn.price or 0.0)
            self.figures.add_result(
                agent, (form.tool, form.kind), form.facts, int(resent[first]), each, is_new=turn.counts
            )
            if turn.counts and self.figures.is_large(form.facts.tokens_before):
                self.figures.add_large(await self.projector.large(form, source))


def _behind(values: Sequence[float]) -> list[float]:
    """For each position the sum of what stands behind it."""
    return [*list(accumulate(reversed(values)))[-2::-1], 0.0] if values else []


def _format_of(conversation: LoggedConversation) -> tuple[str, str]:
    """The format of the API that a conversation's model has, and its model."""
    model = next(conversation.models, "")
    name = model.lower()
    if "gemini" in name:
        return "gemini", model
    return ("anthropic" if "claude" in name or not name else "openai_responses"), model


def _requests(entries: Sequence[Entry], turns: Sequence[Turn], declared: int) -> Requests:
    """What is known of the requests of a conversation that count."""
    total, held, new, number = Requests(), 0, 0, 0
    for entry in entries:
        if isinstance(entry, LoggedResponse):
            if turns[number].counts:
                total += _request(entry, turns[number], held, new, declared, is_first=not number)
            held, new, number = held + new, 0, number + 1
        new += _tokens(entry)
    return total


def _request(
    response: LoggedResponse, turn: Turn, held: int, new: int, declared: int, *, is_first: bool
) -> Requests:
    """`held`: tokens that an earlier request had; `new`: those that none had."""
    usage, price = response.usage, turn.price or 0.0
    if usage is not None and usage.input * _LEAST_COUNTED < held + new:
        usage = None
    if usage is not None:
        rest = usage.input - usage.cached - usage.written
        cost = rest + usage.written * turn.new + usage.cached * turn.cached
    else:
        cost = held * turn.again + new * turn.new
    return Requests(
        count=1,
        input=usage.input if usage is not None else held + new,
        counted_input=usage.input if usage is not None else 0,
        dollars=cost * price,
        declared=declared,
        declared_dollars=declared * (turn.new if is_first else turn.again) * price,
        unpriced=int(turn.price is None),
    )


def _tokens(entry: Entry) -> int:
    """Of the text that an entry adds to the requests behind it."""
    if isinstance(entry, LoggedResult):
        return sum(map(estimate, entry.texts))
    if isinstance(entry, LoggedResponse):
        return estimate(entry.text) + sum(
            estimate(f"{call.name} {_written(call.arguments)}") for call in entry.calls
        )
    return estimate(entry.text)


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return orjson.dumps(arguments).decode()
    except (orjson.JSONEncodeError, TypeError):
        return repr(arguments)
