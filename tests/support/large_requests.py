"""Requests of every API with any number of calls and results."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from support.apis import BY_ID, Turn

Body = dict[str, Any]


def _merged(messages: list[Body]) -> list[Body]:
    """Merge calls that were made at once into one message, and results, where the API has them in messages of
    the user."""
    merged: list[Body] = []
    for message in messages:
        key = next(
            (key for key in ("tool_calls", "content", "parts") if isinstance(message.get(key), list)), ""
        )
        before = merged[-1] if merged else {}
        if key and before.get("role") == message["role"] and isinstance(before.get(key), list):
            before[key] = [*before[key], *message[key]]
        else:
            merged.append({**message})
    return merged


def _named(api: str, message: Body, ids: bool) -> Body:
    """Return a message whose call or result names its call where `ids` says so."""
    if api == "openai-chat" and not ids:
        if message["role"] == "tool":
            number = int(message["tool_call_id"].removeprefix("call_"))
            return {"role": "tool", "content": message["content"], "name": f"t{number % 7}"}
        return {**message, "tool_calls": [{**call, "id": ""} for call in message["tool_calls"]]}
    if api == "gemini" and ids:
        ((kind, part),) = message["parts"][0].items()
        number = part["args"]["n"] if kind == "functionCall" else part["response"]["output"].split()[1]
        return {**message, "parts": [{kind: {**part, "id": f"g{number}"}}]}
    if api == "ollama-chat" and not ids:
        return {name: value for name, value in message.items() if name != "tool_name"}
    return message


def _body(
    api: str, order: Iterable[int], *, ids: bool = True, apart: bool = False, padding: str = ""
) -> Body:
    """Return a request with a result for each number, in this order; `apart`: each result in a turn of its
    own."""
    numbers = list(order)
    calls: list[Turn] = [("call", f"call_{n}", f"t{n % 7}", {"n": n}) for n in sorted(numbers)]
    results: list[Turn] = [
        ("result", f"call_{n}", f"result {n} says\nso much of {n}\n{padding}", f"t{n % 7}") for n in numbers
    ]
    pairs = [turn for pair in zip(calls, results, strict=True) for turn in pair]
    written = BY_ID[api].written(pairs if apart else [*calls, *results])
    prompt = BY_ID[api].write(("user", "go"))
    said = [prompt, *_merged([_named(api, message, ids) for message in written])]
    return {"model": "m", **BY_ID[api].rest, BY_ID[api].member: said}


MAKERS: dict[str, tuple[Callable[..., Body], str]] = {
    "anthropic": (partial(_body, "anthropic-messages"), "/v1/messages"),
    "openai_chat": (partial(_body, "openai-chat"), "/v1/chat/completions"),
    "openai_responses": (partial(_body, "openai-responses"), "/v1/responses"),
    "gemini": (partial(_body, "gemini"), "/v1beta/models/gemini-2.5-pro:generateContent"),
    "bedrock": (partial(_body, "bedrock-converse"), "/model/anthropic.claude-sonnet-4-5/converse"),
    "ollama": (partial(_body, "ollama-chat"), "/api/chat"),
}
