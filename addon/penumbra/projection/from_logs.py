"""A logged conversation as requests of an API, and what Penumbra would have done to them from the first
request on.

System prompts, declarations of tools, images and reasoning are not in logs, or not needed here: a body has
the messages, and declares the called tools by name. The engine gets the last request, which holds all
results in order, and decides about one after the other, as it does when they come one by one. The cost of a
result in later requests follows from its size, so that time grows with the length of a conversation, not
with the number of its requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import orjson

from penumbra.compress.token_estimate import estimate
from penumbra.conversation import cache_price
from penumbra.conversation.incoming import Incoming
from penumbra.metrics import amounts
from penumbra.projection.figures import Figures, Requests
from penumbra.projection.projector import Projected, Projector, api_of
from penumbra.session_logs.log_entries import (
    Entry,
    LoggedCall,
    LoggedConversation,
    LoggedPrompt,
    LoggedResponse,
    LoggedResult,
    response_keys,
)

Message = dict[str, Any]
_SCHEMA = {"type": "object"}
_NO_TOOL = "tool"
"""The tool of a conversation without any calls."""


@dataclass(frozen=True, slots=True)
class LoggedBody:
    """The last request of a conversation, which contains all others."""

    data: bytes
    turns: tuple[int, ...]
    """Number of the first request that has each message, from 0 on."""


@dataclass(frozen=True, slots=True)
class WireShape:
    """The shape in which an API writes a conversation."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    messages: str
    said: Callable[[LoggedResponse], list[Message]]
    asked: Callable[[LoggedPrompt], list[Message]]
    gave: Callable[[Sequence[tuple[LoggedResult, LoggedCall | None]]], list[Message]]
    tools: Callable[[Sequence[tuple[str, bool]]], list[Message]]
    """Builds declarations of tools, by name and whether the tool is freeform."""

    def body(self, conversation: LoggedConversation, model: str) -> LoggedBody | None:
        """The request behind the last response; None if there is no response."""
        entries, turn = conversation.entries, 0
        last = max((at for at, entry in enumerate(entries) if isinstance(entry, LoggedResponse)), default=-1)
        if last < 0:
            return None
        calls: dict[str, LoggedCall] = {}
        messages: list[Message] = []
        turns: list[int] = []
        for kind, group in groupby(entries[:last], type):
            for made in self._messages(kind, list(group), calls):
                messages += made
                turns += [turn] * len(made)
                turn += kind is LoggedResponse
        names = {call.name: isinstance(call.arguments, str) for call in calls.values()} or {_NO_TOOL: False}
        body = {"model": model, "tools": self.tools(list(names.items())), self.messages: messages}
        return LoggedBody(_dumped(body), tuple(turns))

    def _messages(
        self, kind: type, entries: list[Entry], calls: dict[str, LoggedCall]
    ) -> Iterator[list[Message]]:
        """The messages of neighbours of one kind; their calls are added to `calls`."""
        if kind is LoggedResult:
            results = [entry for entry in entries if isinstance(entry, LoggedResult)]
            yield self.gave([(result, calls.get(result.call_id)) for result in results])
        for entry in entries:
            if isinstance(entry, LoggedPrompt):
                yield self.asked(entry)
            elif isinstance(entry, LoggedResponse):
                calls |= {call.id: call for call in entry.calls}
                yield self.said(entry)


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, TypeError):
        # Lone surrogates and numbers of any size, which orjson does not write.
        return json.dumps(value, default=str).encode()


def _anthropic_said(response: LoggedResponse) -> list[Message]:
    blocks: list[Message] = [{"type": "text", "text": response.text}] if response.text else []
    blocks += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
        for call in response.calls
    ]
    return [{"role": "assistant", "content": blocks or [{"type": "text", "text": "."}]}]


def _anthropic_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    blocks: list[Message] = []
    for result, _ in results:
        content: Any = [{"type": "text", "text": text} for text in result.texts]
        if len(result.texts) == 1:
            content = result.texts[0]
        block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
        blocks.append({**block, "is_error": True} if result.is_error else block)
    return [{"role": "user", "content": blocks}]


_ANTHROPIC = WireShape(
    "POST",
    "/v1/messages",
    (("x-api-key", "projection"), ("anthropic-version", "2023-06-01")),
    "messages",
    said=_anthropic_said,
    asked=lambda prompt: [{"role": "user", "content": prompt.text}],
    gave=_anthropic_gave,
    tools=lambda names: [{"name": name, "input_schema": _SCHEMA} for name, _ in names],
)


def _responses_said(response: LoggedResponse) -> list[Message]:
    items: list[Message] = []
    if response.text or not response.calls:
        content = [{"type": "output_text", "text": response.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    return items + [_responses_call(call) for call in response.calls]


def _responses_call(call: LoggedCall) -> Message:
    if isinstance(call.arguments, str):
        named: Message = {"type": "custom_tool_call", "call_id": call.id, "name": call.name}
        return {**named, "input": call.arguments}
    written = _dumped(call.arguments).decode()
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written}


def _responses_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    items = []
    for result, call in results:
        is_free = call is not None and isinstance(call.arguments, str)
        output: Any = [{"type": "input_text", "text": text} for text in result.texts]
        if len(result.texts) == 1:
            output = result.texts[0]
        kind = "custom_tool_call_output" if is_free else "function_call_output"
        items.append({"type": kind, "call_id": result.call_id, "output": output})
    return items


_RESPONSES = WireShape(
    "POST",
    "/v1/responses",
    (("authorization", "Bearer projection"),),
    "input",
    said=_responses_said,
    asked=lambda prompt: [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt.text}]}
    ],
    gave=_responses_gave,
    tools=lambda names: [
        {"type": "custom", "name": name}
        if is_free
        else {"type": "function", "name": name, "parameters": _SCHEMA}
        for name, is_free in names
    ],
)


def _gemini_said(response: LoggedResponse) -> list[Message]:
    parts: list[Message] = [{"text": response.text}] if response.text or not response.calls else []
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}}
        for call in response.calls
    ]
    return [{"role": "model", "parts": parts}]


def _gemini_gave(results: Sequence[tuple[LoggedResult, LoggedCall | None]]) -> list[Message]:
    parts = []
    for result, call in results:
        name = call.name if call is not None else _NO_TOOL
        response = {"error" if result.is_error else "output": "\n".join(result.texts)}
        parts.append({"functionResponse": {"id": result.call_id, "name": name, "response": response}})
    return [{"role": "user", "parts": parts}]


_GEMINI = WireShape(
    "POST",
    "/v1beta/models/gemini:streamGenerateContent",
    (("x-goog-api-key", "projection"),),
    "contents",
    said=_gemini_said,
    asked=lambda prompt: [{"role": "user", "parts": [{"text": prompt.text}]}],
    gave=_gemini_gave,
    tools=lambda names: [{"functionDeclarations": [{"name": name} for name, _ in names]}],
)

SHAPES = {"anthropic": _ANTHROPIC, "openai_responses": _RESPONSES, "gemini": _GEMINI}
"""By the name of the format, as in `rules/prices.yaml`."""


_LEAST_COUNTED = 2
"""A logged count below half of the estimate is none of the prompt: some log zeros, or what was not cached."""


@dataclass(frozen=True, slots=True)
class Turn:
    model: str
    counts: bool
    """The request is new and recent enough."""
    price: float | None
    """Dollars of an uncached input token; None: not known."""
    new: float
    """Price of a new token, in parts of that price."""
    again: float
    """Price of a token that an earlier request had."""
    cached: float
    """Price of a token that the provider has read from its cache."""


class LogProjection:
    """State: the figures, and the keys of counted responses."""

    def __init__(self, projector: Projector, figures: Figures, since: float = 0.0) -> None:
        """`since`: seconds since the epoch; older responses are not counted."""
        self.projector = projector
        self.figures = figures
        self.since = since
        self._seen: set[str] = set()

    async def add(self, conversation: LoggedConversation, source: str, at: float) -> None:
        """Add a conversation. `source`: its log's name; `at`: time of the log's last change."""
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
            cache, price = cache_price.prices(format_name, model, b""), amounts.price(model)
            cold = bool(before and response.at) and response.at - before > 2 * cache.life
            usage = response.usage
            price = price and price.at(usage.input if usage is not None else 0)
            turns.append(
                Turn(
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
    """For each position the sum of later values."""
    return [*list(accumulate(reversed(values)))[-2::-1], 0.0] if values else []


def _format_of(conversation: LoggedConversation) -> tuple[str, str]:
    """The format of the API that a conversation's model has, and the model."""
    model = next(conversation.models, "")
    name = model.lower()
    if "gemini" in name:
        return "gemini", model
    return ("anthropic" if "claude" in name or not name else "openai_responses"), model


def _requests(entries: Sequence[Entry], turns: Sequence[Turn], declared: int) -> Requests:
    """Sums over the counted requests of a conversation."""
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
    """Sums of one request. `held`: tokens that an earlier request had; `new`: other tokens."""
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
    """Tokens that an entry adds to later requests."""
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
