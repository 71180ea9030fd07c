"""Arguments of calls are edited on their way to the client, in every format and for any division of bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from penumbra.wire.event_stream import MessageReader, message_bytes
from support.streams.drive import byte_by_byte

TEXT = json.dumps({"p": 'a "b" <x>', "q": ["<x", "é<x><x>"]}, ensure_ascii=False)
EDITED = TEXT.replace("<x>", 'long \\"value\\" \\\\ ü')
FREE = "+ <x> \\ <"
FREE_EDITED = FREE.replace("<x>", "VALUE")


class Angles:
    """An editor that replaces `<x>`, and delays a text that may become one."""

    def __init__(self, value: str) -> None:
        self._value = value
        self._held = ""

    def feed(self, fragment: str) -> str:
        text = (self._held + fragment).replace("<x>", self._value)
        keep = 2 if text.endswith("<x") else text.endswith("<")
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        held, self._held = self._held, ""
        return held


def opened(tool: str, *, freeform: bool = False) -> Angles | None:
    if tool != "Edit":
        return None
    return Angles("VALUE" if freeform else 'long \\"value\\" \\\\ ü')


def untouched(tool: str, *, freeform: bool = False) -> None:
    return None


def sse(*values: Any, end: bytes = b"\n", named: bool = True) -> bytes:
    out = b": hello" + end + end
    for value in values:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        if named and isinstance(value, dict) and "type" in value:
            out += b"event: " + value["type"].encode() + end
        out += b"data: " + data + end + end
    return out


def events(data: bytes) -> list[Any]:
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


def cut(text: str, size: int = 2) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


# Anthropic


def anthropic_stream() -> bytes:
    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[Any]:
        begin = {"type": "content_block_start", "index": index, "content_block": start}
        said = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        return [begin, *said, {"type": "content_block_stop", "index": index}]

    def call(index: int, name: str, kind: str = "tool_use") -> list[Any]:
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *cut(TEXT)]]
        return block(index, {"type": kind, "id": f"t{index}", "name": name, "input": {}}, pieces)

    return sse(
        {"type": "message_start", "message": {"id": "m", "content": []}},
        *block(0, {"type": "text", "text": ""}, [{"type": "text_delta", "text": "<x> 1.10"}]),
        *call(1, "Edit"),
        {"type": "ping"},
        *call(2, "Bash"),
        *call(3, "Edit", "server_tool_use"),
        *call(4, "Edit"),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}},
        {"type": "message_stop"},
    )


def anthropic_calls(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    names: dict[int, str] = {}
    for event in events(data):
        if event["type"] == "content_block_start" and "name" in event["content_block"]:
            names[event["index"]] = "{}.{}".format(event["content_block"]["name"], event["index"])
        elif "partial_json" in event.get("delta", {}):
            name = names[event["index"]]
            texts[name] = texts.get(name, "") + event["delta"]["partial_json"]
    return texts


# Bedrock Converse


def converse_stream() -> bytes:
    out = b""
    for kind, value in [
        ("messageStart", {"role": "assistant"}),
        (
            "contentBlockStart",
            {"contentBlockIndex": 0, "start": {"toolUse": {"name": "Edit", "toolUseId": "a"}}},
        ),
        *(
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"toolUse": {"input": piece}}})
            for piece in cut(TEXT)
        ),
        ("contentBlockStop", {"contentBlockIndex": 0}),
        ("contentBlockDelta", {"contentBlockIndex": 1, "delta": {"text": "<x>"}}),
        ("contentBlockStop", {"contentBlockIndex": 1}),
        ("messageStop", {"stopReason": "tool_use"}),
    ]:
        headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
        out += message_bytes(headers, json.dumps(value).encode())
    return out


def converse_calls(data: bytes) -> dict[str, str]:
    said = [json.loads(message.data or b"{}") for message in MessageReader().feed(data)]
    uses = [one["delta"]["toolUse"]["input"] for one in said if "toolUse" in one.get("delta", {})]
    return {"Edit": "".join(uses)}


# Chat Completions


def chat_stream() -> bytes:
    def chunk(calls: list[Any] | None = None, reason: str | None = None, **more: Any) -> Any:
        delta = {"tool_calls": calls} if calls else more
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    def call(index: int, text: str, name: str = "", given: str = "") -> Any:
        head = {"id": given, "type": "function"} if given else {}
        named = {"name": name} if name else {}
        return {"index": index, **head, "function": {**named, "arguments": text}}

    return sse(
        chunk(role="assistant", content="<x>"),
        chunk([call(0, "", "Edit", "a")]),
        *(chunk([call(0, piece)]) for piece in cut(TEXT[:-1] + "<")),
        chunk([call(1, "", "Bash", "b")]),
        *(chunk([call(1, piece)]) for piece in cut(TEXT)),
        # Two complete calls have one index.
        chunk([call(2, TEXT, "Edit", "d")]),
        chunk([call(2, TEXT + "<", "Edit", "e")]),
        # Two calls have one index and one id.
        chunk([call(2, TEXT, "Bash", "e")]),
        chunk([{"index": 3, "id": "f", "type": "custom", "custom": {"name": "Edit", "input": FREE[:5]}}]),
        chunk([{"index": 3, "custom": {"input": FREE[5:]}}], "tool_calls"),
        {
            "id": "c",
            "object": "chat.completion.chunk",
            "model": "m",
            "choices": [],
            "usage": {"total_tokens": 1},
        },
        b"[DONE]",
    )


def chat_calls(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    current: dict[int, str] = {}
    for event in events(data):
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                if given := call.get("id"):
                    current[call["index"]] = given + "'" * (given in texts)
                key = current[call["index"]]
                given = call.get("function", {}).get("arguments") or call.get("custom", {}).get("input", "")
                texts[key] = texts.get(key, "") + given
    return texts


# Responses


def responses_stream() -> bytes:
    function = {"type": "function_call", "id": "f", "call_id": "1", "name": "Edit", "arguments": TEXT + "<"}
    shell = {"type": "function_call", "id": "s", "call_id": "2", "name": "Bash", "arguments": TEXT}
    custom = {"type": "custom_tool_call", "id": "c", "call_id": "3", "name": "Edit", "input": FREE}
    values: list[Any] = [{"type": "response.created", "response": {"id": "r", "output": []}}]
    for place, item in enumerate((function, shell, custom)):
        member = "input" if "input" in item else "arguments"
        kind = "custom_tool_call_input" if "input" in item else "function_call_arguments"
        at = {"output_index": place, "item_id": item["id"]}
        values.append({"type": "response.output_item.added", **at, "item": {**item, member: ""}})
        values += [{"type": f"response.{kind}.delta", **at, "delta": piece} for piece in cut(item[member])]
        values.append({"type": f"response.{kind}.done", **at, member: item[member]})
        values.append({"type": "response.output_item.done", **at, "item": item})
    values.append({"type": "response.output_text.delta", "output_index": 3, "item_id": "m", "delta": "<x>"})
    whole = {"id": "r", "output": [function, shell, custom], "usage": {"output_tokens": 1}}
    values.append({"type": "response.completed", "response": whole})
    return sse(*({**value, "sequence_number": number} for number, value in enumerate(values)))


def responses_calls(data: bytes) -> dict[str, str]:
    texts: dict[str, str] = {}
    found = events(data)
    for event in found:
        if event["type"].endswith(".delta"):
            texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
    for event in found:
        done = [event] if event["type"].endswith((".arguments.done", "input.done")) else []
        items = [*done, *([event["item"]] if event["type"].endswith("item.done") else ())]
        items += event["response"]["output"] if event["type"].endswith("completed") else []
        for item in items:
            known = texts[item.get("item_id") or item["id"]]
            assert (item.get("arguments") or item.get("input")) == known
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    return texts


# APIs with calls in one piece


def gemini_pieces() -> list[Any]:
    def piece(*parts: Any) -> Any:
        return {"candidates": [{"content": {"role": "model", "parts": list(parts)}}], "responseId": "r"}

    call = {"functionCall": {"name": "Edit", "args": json.loads(TEXT)}, "thoughtSignature": "<x>"}
    other = {"functionCall": {"name": "Bash", "args": json.loads(TEXT)}}
    return [piece({"text": "<x>"}), piece(call, other), {"response": piece(call)}]


def gemini_calls(data: bytes) -> dict[str, str]:
    values = json.loads(data) if data.lstrip()[:1] == b"[" else events(data)
    answers = [value.get("response", value) for value in values]
    parts = [part for one in answers for part in one["candidates"][0]["content"]["parts"]]
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    return {
        f"{call['name']}.{number}": json.dumps(call["args"], ensure_ascii=False)
        for number, call in enumerate(calls)
    }


def ollama_stream() -> bytes:
    def line(**message: Any) -> bytes:
        return json.dumps({"model": "m", "message": {"role": "assistant", **message}}).encode() + b"\n"

    calls = [{"function": {"name": name, "arguments": json.loads(TEXT)}} for name in ("Edit", "Bash")]
    return line(content="<x>") + b"\n" + line(content="", tool_calls=calls) + b'{"done": true}'


def ollama_calls(data: bytes) -> dict[str, str]:
    lines = [json.loads(line) for line in data.split(b"\n") if line]
    calls = [call["function"] for line in lines for call in line.get("message", {}).get("tool_calls", ())]
    return {call["name"]: json.dumps(call["arguments"], ensure_ascii=False) for call in calls}


Calls = Callable[[bytes], dict[str, str]]
CUT = EDITED[:-1] + "<"
STREAMS: dict[str, tuple[str, bytes, Calls, dict[str, str]]] = {
    "anthropic": (
        "anthropic",
        anthropic_stream(),
        anthropic_calls,
        {"Edit.1": EDITED, "Bash.2": TEXT, "Edit.3": TEXT, "Edit.4": EDITED},
    ),
    "crlf": (
        "anthropic",
        anthropic_stream().replace(b"\n", b"\r\n"),
        anthropic_calls,
        {"Edit.1": EDITED, "Bash.2": TEXT, "Edit.3": TEXT, "Edit.4": EDITED},
    ),
    "bedrock": ("bedrock", converse_stream(), converse_calls, {"Edit": EDITED}),
    "chat": (
        "openai_chat",
        chat_stream(),
        chat_calls,
        {"a": CUT, "b": TEXT, "d": EDITED, "e": EDITED + "<", "e'": TEXT, "f": FREE_EDITED},
    ),
    "responses": (
        "openai_responses",
        responses_stream(),
        responses_calls,
        {"f": EDITED + "<", "s": TEXT, "c": FREE_EDITED, "m": "<x>"},
    ),
    "gemini": (
        "gemini",
        sse(*gemini_pieces()),
        gemini_calls,
        {"Edit.0": EDITED, "Bash.1": TEXT, "Edit.2": EDITED},
    ),
    "gemini-array": (
        "gemini",
        json.dumps(gemini_pieces(), indent=1).encode(),
        gemini_calls,
        {"Edit.0": EDITED, "Bash.1": TEXT, "Edit.2": EDITED},
    ),
    "ollama": ("ollama", ollama_stream(), ollama_calls, {"Edit": EDITED, "Bash": TEXT}),
}
every_stream = pytest.mark.parametrize("name", STREAMS)


def passing(format_name: str, open_: Any, *, stream: bool) -> Response:
    api = FORMATS[format_name].responses
    return api.passed([api.arguments(open_)], stream=stream)


def passed(name: str, pieces: Iterator[bytes] | list[bytes], open_: Any = opened) -> bytes:
    format_name = STREAMS[name][0]
    edited = passing(format_name, open_, stream=True)
    return b"".join([*(edited.feed(piece) for piece in pieces), edited.close()])


@every_stream
def test_the_client_gets_other_arguments_and_nothing_else_changes(name: str) -> None:
    _, data, calls, expected = STREAMS[name]
    out = passed(name, [data])
    assert calls(out) == expected
    assert passed(name, [data], untouched) == data
    assert b'"<x>' in out


@every_stream
def test_a_stream_without_the_injected_tool_is_not_touched(name: str) -> None:
    format_name, data, _, _ = STREAMS[name]
    for stream in (data, data + b"no event", data[:-1], b"data: no json\n\n" + data, b""):
        out, (turn,) = byte_by_byte(lambda: FORMATS[format_name].stream("expand_context"), [stream])
        assert out == stream
        assert turn.injected == ()


@every_stream
def test_cut_at_every_byte(name: str) -> None:
    data = STREAMS[name][1]
    out = passed(name, [data])
    assert passed(name, [data[at : at + 1] for at in range(len(data))]) == out
    for at in range(0, len(data), len(data) // 25):
        assert passed(name, [data[:at], data[at:]]) == out


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses"])
def test_every_event_goes_at_once(name: str) -> None:
    """An event is delayed only by the part of its fragment that may still change."""
    format_name, data, _, _ = STREAMS[name]
    edited = passing(format_name, opened, stream=True)
    for event in data.split(b"\n\n")[:-1]:
        assert edited.feed(event + b"\n\n").endswith(b"\n\n")


@pytest.mark.parametrize("name", ["anthropic", "chat"])
def test_a_broken_stream_releases_its_delayed_text(name: str) -> None:
    _, data, calls, expected = STREAMS[name]
    pieces = data.split(b"\n\n")
    plain = calls(data)
    for count in range(1, len(pieces), 5):
        begun = b"".join(piece + b"\n\n" for piece in pieces[:count])
        for key, text in calls(begun).items():
            other = Angles("VALUE" if key == "f" else 'long \\"value\\" \\\\ \u00fc')
            edited = other.feed(text) + other.finish() if expected[key] != plain[key] else text
            assert calls(passed(name, [begun]))[key] == edited


DOCUMENTS = {
    "anthropic": {
        "content": [
            {"type": "text", "text": "<x>"},
            {"type": "tool_use", "id": "1", "name": "Edit", "input": {"a": "<x>"}},
            {"type": "tool_use", "id": "2", "name": "Bash", "input": {"a": "<x>"}},
            {"type": "server_tool_use", "id": "3", "name": "Edit", "input": {"a": "<x>"}},
        ]
    },
    "bedrock": {
        "output": {
            "message": {"content": [{"toolUse": {"name": "Edit", "input": {"a": "<x>"}}}, {"text": "<x>"}]}
        }
    },
    "openai_chat": {
        "choices": [
            {
                "message": {
                    "content": "<x>",
                    "tool_calls": [
                        {"function": {"name": "Edit", "arguments": '{"a": "<x>"}'}},
                        {"function": {"name": "Bash", "arguments": '{"a": "<x>"}'}},
                        {"custom": {"name": "Edit", "input": "<x>"}},
                    ],
                }
            }
        ]
    },
    "openai_responses": {
        "output": [
            {"type": "message", "content": [{"type": "output_text", "text": "<x>"}]},
            {"type": "function_call", "name": "Edit", "arguments": '{"a": "<x>"}'},
            {"type": "custom_tool_call", "name": "Edit", "input": "<x>"},
            {"type": "mcp_call", "name": "Edit", "arguments": '{"a": "<x>"}'},
        ]
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"functionCall": {"name": "Edit", "args": {"a": "<x>"}}}]}}]
    },
    "ollama": {
        "message": {
            "content": "<x>",
            "tool_calls": [{"function": {"name": "Edit", "arguments": {"a": "<x>"}}}],
        }
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(name: str) -> None:
    body = json.dumps(DOCUMENTS[name], indent=1).encode()
    for open_ in (opened, untouched):
        edited = passing(name, open_, stream=False)
        assert edited.feed(body[:9]) + edited.feed(body[9:]) == b""
        out = edited.close()
        if open_ is untouched:
            assert out == body
            continue
        value = 'long "value" \\ ü'
        assert json.loads(out) == json.loads(body) | json.loads(_expected(json.dumps(DOCUMENTS[name]), value))


def _expected(text: str, value: str) -> str:
    """Return a response with the expected arguments: only the client's calls of `Edit` change."""
    document = json.loads(text)

    def walk(node: Any) -> None:
        if isinstance(node, list):
            for one in node:
                walk(one)
        elif isinstance(node, dict):
            if node.get("name") == "Edit" and node.get("type") not in ("server_tool_use", "mcp_call"):
                for key in ("input", "arguments", "args"):
                    given = node.get(key)
                    if given == "<x>":
                        node[key] = "VALUE"
                    elif isinstance(given, str):
                        node[key] = given.replace("<x>", json.dumps(value, ensure_ascii=False)[1:-1])
                    elif given:
                        node[key] = {"a": value}
            for one in node.values():
                walk(one)

    walk(document)
    return json.dumps(document)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"openai_responses_socket"}))
@pytest.mark.parametrize("stream", [False, True])
def test_bytes_that_are_no_response_pass(name: str, stream: bool) -> None:
    for body in (b"", b"no json", b"[]", b'{"choices": 3, "content": "x"}', b"data: {\n\n", b"data: []\n\n"):
        edited = passing(name, opened, stream=stream)
        assert edited.feed(body) + edited.close() == body
