"""Readers of requests of any API: tools, results, and differences from the request before."""

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from support.upstream import Received

PHANTOM = "expand_context"


def results(body: Any) -> Iterator[tuple[str, str]]:
    """Yield tool name and text of every tool result in a request of any API, in order."""
    names: dict[str, str] = {}
    for item in body.get("input") or ():
        if item.get("type") == "function_call":
            names[item["call_id"]] = item["name"]
        elif item.get("type") == "function_call_output":
            yield names.get(item["call_id"], ""), item["output"]
    for message in body.get("messages") or ():
        for call in message.get("tool_calls") or ():
            names[call.get("id", "")] = call["function"]["name"]
        if message["role"] == "tool":
            yield message.get("tool_name") or names[message["tool_call_id"]], message["content"]
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if "toolUse" in block:
                names[block["toolUse"]["toolUseId"]] = block["toolUse"]["name"]
            elif "toolResult" in block:
                result = block["toolResult"]
                yield names[result["toolUseId"]], "".join(part["text"] for part in result["content"])
            elif block.get("type") == "tool_use":
                names[block["id"]] = block["name"]
            elif block.get("type") == "tool_result":
                inner = block["content"]
                text = inner if isinstance(inner, str) else "".join(part["text"] for part in inner)
                yield names.get(block["tool_use_id"], ""), text
    for content in body.get("contents") or ():
        for part in content["parts"]:
            if "functionResponse" in part:
                response = part["functionResponse"]
                yield response["name"], response["response"]["output"]


def result_texts(body: Any) -> Iterator[str]:
    """Return the texts of all tool results in a request of any API, in order."""
    return (text for _, text in results(body))


def result_bytes(requests: Iterable[Received]) -> int:
    """Return the UTF-8 bytes of all tool results in some requests."""
    return sum(len(text.encode()) for request in requests for text in result_texts(request.json))


def declared(received: Received) -> list[Any]:
    """Return the tools that a request declares, as the API spells them."""
    body = received.json
    return list(body.get("tools") or body.get("toolConfig", {}).get("tools") or ())


def tool_names(received: Received) -> list[str]:
    """Return the names of the tools that a request declares."""
    return names_of_tools(declared(received))


def names_of_tools(tools: Iterable[Any]) -> list[str]:
    """Return the names of tools, as any API spells them."""
    each = (one for tool in tools for one in tool.get("functionDeclarations", [tool]))
    return [(one.get("function") or one.get("toolSpec") or one).get("name", "") for one in each]


def hidden_results(received: Received) -> list[str]:
    """Return the results of the injected tool's calls in a request, in order."""
    return [text for name, text in results(received.json) if name == PHANTOM]


def assert_prefix_kept(requests: list[Received]) -> None:
    """Assert that every request begins with the one before it; white space between items may differ."""
    bodies = [one.json for one in requests]
    key = next(name for name in ("input", "contents", "messages") if name in bodies[0])
    assert len(bodies) > 1
    for earlier, later in itertools.pairwise(bodies):
        kept = later[key][: len(earlier[key])]
        assert len(later[key]) > len(kept)
        for name in earlier:
            assert json.dumps(kept if name == key else later[name]) == json.dumps(earlier[name])


def raw_members(received: Received) -> dict[str, bytes]:
    """Return the body's members with their very bytes."""
    assert received.body is not None
    decoded = msgspec.json.decode(received.body, type=dict[str, msgspec.Raw])
    return {name: bytes(value) for name, value in decoded.items()}


def assert_bytes_kept(requests: list[Received]) -> None:
    """Assert that every request begins with the messages of the one before it, byte by byte."""
    bodies = [raw_members(request) for request in requests]
    assert len(bodies) > 1
    for earlier, later in itertools.pairwise(bodies):
        assert later["messages"].startswith(earlier["messages"].removesuffix(b"]") + b",")
        for name in earlier.keys() - {"messages"}:
            assert later[name] == earlier[name]
