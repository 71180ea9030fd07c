"""This module projects a logged conversation: its requests, and the texts that Penumbra would have sent.
The requests are those of Anthropic's Messages API, for all agents.

A body has the messages, and declares the called tools by name. System prompts, declarations of tools, images
and reasoning are not in logs or not needed. The engine gets only the last request, which contains all
results, and decides about each result. The cost of a result in later requests follows from its size.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate, groupby
from typing import Any

import orjson
from msgspec import Struct

from penumbra.apis import recognise
from penumbra.compress.token_estimate import estimate
from penumbra.conversation import cache_price
from penumbra.conversation.incoming import Incoming
from penumbra.metrics import amounts
from penumbra.projection.figures import Figures, Requests
from penumbra.projection.projector import Projected, Projection, Projector
from penumbra.session_logs.log_entries import (
    Entry,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
    response_keys,
)

Message = dict[str, Any]
_PATH = "/v1/messages"
_NO_TOOL = "tool"
"""The name of the tool that is declared for a conversation without any calls."""


class LoggedBody(Struct, frozen=True):
    """A `LoggedBody` is the last request of a conversation, with the messages of all earlier requests."""

    data: bytes
    turns: tuple[int, ...]
    """For each message, the number (from 0) of the first request that contains the message."""


def last_request(conversation: LoggedConversation, model: str) -> LoggedBody | None:
    """Return the request of the last response, in the Messages format; None if there is no response."""
    entries, turn = conversation.entries, 0
    last = max((at for at, entry in enumerate(entries) if isinstance(entry, LoggedResponse)), default=-1)
    if last < 0:
        return None
    names: dict[str, None] = {}
    messages: list[Message] = []
    turns: list[int] = []
    for kind, group in groupby(entries[:last], type):
        if kind is LoggedResult:
            blocks = [_result(entry) for entry in group if isinstance(entry, LoggedResult)]
            messages.append({"role": "user", "content": blocks})
            turns.append(turn)
            continue
        for entry in group:
            turns.append(turn)
            if isinstance(entry, LoggedResponse):
                names |= {call.name: None for call in entry.calls}
                messages.append(_response(entry))
                turn += 1
            elif isinstance(entry, LoggedPrompt):
                messages.append({"role": "user", "content": entry.text})
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in names or (_NO_TOOL,)]
    return LoggedBody(_dumped({"model": model, "tools": tools, "messages": messages}), tuple(turns))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, TypeError):
        # orjson refuses lone surrogates and very large numbers.
        return json.dumps(value, default=str).encode()


def _response(response: LoggedResponse) -> Message:
    blocks: list[Message] = [{"type": "text", "text": response.text}] if response.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in response.calls
    ]
    return {"role": "assistant", "content": blocks or [{"type": "text", "text": "."}]}


def _result(result: LoggedResult) -> Message:
    content: Any = [{"type": "text", "text": text} for text in result.texts]
    if len(result.texts) == 1:
        content = result.texts[0]
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


_LEAST_COUNTED = 2
"""A smaller count than the estimate divided by this number is not used."""


class LoggedTurn(Struct, frozen=True):
    model: str
    counts: bool
    """True if the request was not counted before and is recent enough."""
    price: float | None
    """Dollars for an uncached input token; None if unknown."""
    new: float
    """Price of a token that no earlier request had, as a multiple of `price`."""
    again: float
    """Price of a token that an earlier request had, as a multiple of `price`."""
    cached: float
    """Price of a token that the provider reads from its cache, as a multiple of `price`."""


class LogProjection(Projection):
    """A `LogProjection` projects logged conversations, and skips responses that it has counted before."""

    def __init__(self, projector: Projector, figures: Figures, since: float = 0.0) -> None:
        """`since` is a time in seconds since the epoch. Older responses are not counted."""
        super().__init__(projector, figures)
        self.since = since
        self._seen: set[str] = set()

    async def add(self, conversation: LoggedConversation, source: str, at: float) -> None:
        """Add a conversation. `source` is the name of its log. `at` is the time of the log's last change."""
        keys = list(response_keys(conversation.entries))
        format_name, model = _format_of(conversation)
        turns = self._turns(conversation, keys, format_name, at)
        self._seen.update(keys)
        if not any(turn.counts for turn in turns):
            return
        body = last_request(conversation, model)
        assert body is not None, "there are turns"
        api = recognise.by_request_line("POST", _PATH)
        assert api is not None, "the rules know the path"
        headers = {"x-api-key": "projection", "anthropic-version": "2023-06-01"}
        incoming = Incoming(api, body.data, headers, {}, "127.0.0.1", "projection:443", _PATH)
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
    ) -> list[LoggedTurn]:
        turns: list[LoggedTurn] = []
        model, before = next(conversation.models, ""), 0.0
        responses = (entry for entry in conversation.entries if isinstance(entry, LoggedResponse))
        for response, key in zip(responses, keys, strict=True):
            model = response.model or model
            cache, price = cache_price.prices(format_name, model, b""), amounts.price(model)
            cold = bool(before and response.at) and response.at - before > 2 * cache.life
            usage = response.usage
            price = price and price.at(usage.input if usage is not None else 0)
            turns.append(
                LoggedTurn(
                    model,
                    key not in self._seen and (response.at or written) >= self.since,
                    price.input if price is not None else None,
                    cache.write,
                    cache.write if cold else cache.read,
                    cache.read,
                )
            )
            before = response.at or before
        return turns

    async def _add_forms(
        self, agent: str, source: str, body: LoggedBody, turns: Sequence[LoggedTurn], projected: Projected
    ) -> None:
        resent = _later_sums([float(turn.counts) for turn in turns])
        again = _later_sums([turn.counts * turn.again * (turn.price or 0.0) for turn in turns])
        self.figures.secrets.update(projected.hidden)
        for form in projected.forms:
            first = body.turns[form.message]
            turn = turns[first]
            each = again[first] + turn.counts * turn.new * (turn.price or 0.0)
            await self.add_form(agent, source, form, int(resent[first]), each, is_new=turn.counts)


def _later_sums(values: Sequence[float]) -> list[float]:
    """Return a list with the sum of the values after each value."""
    return [*list(accumulate(reversed(values)))[-2::-1], 0.0] if values else []


def _format_of(conversation: LoggedConversation) -> tuple[str, str]:
    """Return the format and the name of a conversation's model. The name implies the format."""
    model = next(conversation.models, "")
    name = model.lower()
    if "gemini" in name:
        return "gemini", model
    return ("anthropic" if "claude" in name or not name else "openai_responses"), model


def _requests(entries: Sequence[Entry], turns: Sequence[LoggedTurn], declared: int) -> Requests:
    """Return the sums over the counted requests of a conversation."""
    total, resent, new, number = Requests(), 0, 0, 0
    for entry in entries:
        if isinstance(entry, LoggedResponse):
            if turns[number].counts:
                total += _request(entry, turns[number], resent, new, declared, is_first=not number)
            resent, new, number = resent + new, 0, number + 1
        new += _tokens(entry)
    return total


def _request(
    response: LoggedResponse, turn: LoggedTurn, resent: int, new: int, declared: int, *, is_first: bool
) -> Requests:
    """Return the sums of a request. `resent` tokens were in an earlier request, and `new` tokens were not."""
    usage, price = response.usage, turn.price or 0.0
    if usage is not None and usage.input * _LEAST_COUNTED < resent + new:
        usage = None
    if usage is not None:
        rest = usage.input - usage.cached - usage.written
        cost = rest + usage.written * turn.new + usage.cached * turn.cached
    else:
        cost = resent * turn.again + new * turn.new
    return Requests(
        count=1,
        input=usage.input if usage is not None else resent + new,
        counted_input=usage.input if usage is not None else 0,
        dollars=cost * price,
        declared=declared,
        declared_dollars=declared * (turn.new if is_first else turn.again) * price,
        unpriced=int(turn.price is None),
    )


def _tokens(entry: Entry) -> int:
    """Return the tokens that an entry adds to later requests."""
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
