"""Streams as the Responses API writes them, and their reading by its SDK."""

import json
from collections.abc import Iterator
from typing import Any

PHANTOM = "expand_context"
TOOLS = [
    {"type": "function", "name": "shell", "parameters": {}, "strict": False},
    {"type": "function", "name": PHANTOM, "strict": False},
]


def reasoning(number: int, text: str = "Hm, é.") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": summary,
        "encrypted_content": f"gAAA{number}",
    }


def message(number: int, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    item = {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant"}
    return {**item, "content": content}


def call(number: int, name: str = "shell", arguments: str = '{"command":"ls"}') -> dict[str, Any]:
    item = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}"}
    return {**item, "name": name, "arguments": arguments}


def injected_tool(number: int) -> dict[str, Any]:
    return call(number, PHANTOM, '{"id":"shadow_é"}')


def custom(number: int) -> dict[str, Any]:
    item = {
        "id": f"ctc_{number}",
        "type": "custom_tool_call",
        "status": "completed",
        "call_id": f"call_{number}",
    }
    return {**item, "name": "exec", "namespace": "functions", "input": "text(1)\n"}


def usage(tokens_in: int, tokens_out: int) -> dict[str, Any]:
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": tokens_out,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": tokens_in + tokens_out,
    }


def response(
    number: int, items: list[dict[str, Any]], status: str = "completed", **more: Any
) -> dict[str, Any]:
    metrics = None if status == "in_progress" else usage(100 * (number + 1), 10 * (number + 1))
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_790_000_000 + number,
        "status": status,
        "model": "gpt-6",
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": TOOLS,
        **({"usage": metrics} if metrics else {}),
        **more,
    }


def stream(number: int, *items: dict[str, Any], status: str = "completed", output: bool = True) -> bytes:
    """Return the events of one turn. With `output`, the last event repeats the items."""
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": response(number, [], "in_progress")})
    ]
    for place, item in enumerate(items):
        events += _item_events(place, item)
    last = response(number, list(items) if output else [], status)
    events.append((f"response.{status}", {"response": last}))
    return b"".join(
        written(name, {"type": name, **value, "sequence_number": at})
        for at, (name, value) in enumerate(events)
    )


def written(name: str, value: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def _item_events(place: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    at = {"item_id": item["id"], "output_index": place}
    if item["type"] == "message":
        part = item["content"][0]
        yield "response.output_item.added", {"output_index": place, "item": {**item, "content": []}}
        yield "response.content_part.added", {**at, "content_index": 0, "part": {**part, "text": ""}}
        for piece in (part["text"][:4], part["text"][4:]):
            yield "response.output_text.delta", {**at, "content_index": 0, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**at, "content_index": 0, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**at, "content_index": 0, "part": part}
    elif item["type"] == "reasoning":
        part = item["summary"][0]
        yield "response.output_item.added", {"output_index": place, "item": {**item, "summary": []}}
        yield (
            "response.reasoning_summary_part.added",
            {**at, "summary_index": 0, "part": {**part, "text": ""}},
        )
        yield "response.reasoning_summary_text.delta", {**at, "summary_index": 0, "delta": part["text"]}
        yield "response.reasoning_summary_text.done", {**at, "summary_index": 0, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**at, "summary_index": 0, "part": part}
    elif item["type"] == "function_call":
        yield "response.output_item.added", {"output_index": place, "item": {**item, "arguments": ""}}
        for piece in (item["arguments"][:5], item["arguments"][5:]):
            yield "response.function_call_arguments.delta", {**at, "delta": piece, "obfuscation": "x"}
        yield (
            "response.function_call_arguments.done",
            {**at, "arguments": item["arguments"], "name": item["name"]},
        )
    elif item["type"] == "custom_tool_call":
        yield "response.output_item.added", {"output_index": place, "item": {**item, "input": ""}}
        yield "response.custom_tool_call_input.delta", {**at, "delta": item["input"]}
        yield "response.custom_tool_call_input.done", {**at, "input": item["input"]}
    else:
        yield "response.output_item.added", {"output_index": place, "item": item}
    yield "response.output_item.done", {"output_index": place, "item": item}


def values(data: bytes) -> list[dict[str, Any]]:
    """Return the data of all events, and assert that each event has the name in its data."""
    found = []
    for block in data.split(b"\n\n"):
        lines = block.split(b"\n")
        if len(lines) == 2:
            value = json.loads(lines[1].removeprefix(b"data: "))
            assert lines[0] == b"event: " + value["type"].encode()
            found.append(value)
    return found


def sdk_response(data: bytes) -> dict[str, Any]:
    """Return the response that OpenAI's own SDK puts together from the events, and the one that the last
    event repeats. Events must be numbered without a gap, and both responses must agree."""
    events = values(data)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    # The import is slow, and needed here only.
    from openai import NOT_GIVEN
    from openai._models import construct_type_unchecked
    from openai.lib.streaming.responses._responses import ResponseStreamState
    from openai.types.responses import ResponseStreamEvent

    state: Any = ResponseStreamState(input_tools=NOT_GIVEN, text_format=NOT_GIVEN)
    for event in events[:-1]:
        state.handle_event(construct_type_unchecked(value=event, type_=ResponseStreamEvent))
    snapshot = state._ResponseStreamState__current_snapshot
    last: dict[str, Any] = events[-1]["response"]
    assert [item.id for item in snapshot.output] == [item["id"] for item in last["output"]]
    for item, found in zip(snapshot.output, last["output"], strict=True):
        if item.type == "message":
            assert item.content[0].text == found["content"][0]["text"]
        if item.type == "function_call":
            assert item.arguments == found["arguments"]
    return last
