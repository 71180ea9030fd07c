"""Responses as streams, and frames of WebSockets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penumbra.apis import responses_socket
from penumbra.apis.formats import FORMATS
from penumbra.expand.loop import Ask, Continue, Done, ToolLoop
from support.properties.source import Source

PHANTOM = "expand_context"


_EVENTS: dict[str, tuple[bytes, ...]] = {
    "anthropic": (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}\n\n',
        b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n',
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}\n\n',
        b'data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"NAME","input":{}}}\n\n',
        b'data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n',
        b'data: {"type":"content_block_stop","index":1}\n\n',
        b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}\n\n',
        b'data: {"type":"message_stop"}\n\n',
        b'data: {"type":"error","error":{"type":"overloaded_error","message":"x"}}\n\n',
    ),
    "openai_chat": (
        b'data: {"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","type":"function","function":{"name":"NAME","arguments":""}}]}}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]}\n\n',
        b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n',
        b'data: {"id":"c","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n',
        b"data: [DONE]\n\n",
    ),
    "openai_responses": (
        b'data: {"type":"response.created","sequence_number":0,"response":{"id":"r","output":[]}}\n\n',
        b'data: {"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"function_call","id":"f","call_id":"t","name":"NAME","arguments":""}}\n\n',
        b'data: {"type":"response.function_call_arguments.delta","sequence_number":2,"item_id":"f","output_index":0,"delta":"{}"}\n\n',
        b'data: {"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"type":"function_call","id":"f","call_id":"t","name":"NAME","arguments":"{}"}}\n\n',
        b'data: {"type":"response.output_text.delta","sequence_number":4,"output_index":1,"delta":"hi"}\n\n',
        b'data: {"type":"response.completed","sequence_number":5,"response":{"id":"r","output":[],"usage":{"output_tokens":1}}}\n\n',
    ),
    "gemini": (
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]}}],"responseId":"r"}\n\n',
        b'data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"NAME","args":{}}}]}}]}\n\n',
        b'data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"candidatesTokenCount":1}}\n\n',
        b'[{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}',
        b',\r\n{"candidates":[{"finishReason":"STOP"}]}',
        b"]",
    ),
    "ollama": (
        b'{"model":"m","message":{"role":"assistant","content":"hi"},"done":false}\n',
        b'{"model":"m","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"NAME","arguments":{}}}]},"done":false}\n',
        b'{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","eval_count":3}\n',
        b'{"error":"x"}\n',
    ),
}  # fmt: skip


def _own(taken: bytes) -> bytes:
    return b"data: " + taken.replace(b"\r", b"").replace(b"\n", b"") + b"\n\n"


def answers(data: bytes) -> None:
    """A stream in any cut is the same for the client, whatever is in it; one as providers write them,
    which may break off or have unknown events in between, comes out as it came in without the injected tool."""
    source = Source(data)
    name = source.one(tuple(_EVENTS))
    own = _own if name != "ollama" else bytes
    anything = b"".join(source.some(_EVENTS[name], own, 20))
    for tool in ("read_file", PHANTOM):
        given = anything.replace(b"NAME", tool.encode())
        assert _driven(name, [given]) == _driven(name, source.cuts(given)), "the cut makes a difference"
    events = _EVENTS[name]
    if name == "gemini":
        events = source.one((events[:3], events[3:]))
    usual = [event for event in events[: source.number(len(events) + 1)] if b"error" not in event]
    if events[0][:1] != b"[":
        usual = [own(source.bytes(source.number(9))) if one is None else one for one in _sown(source, usual)]
    stream = b"".join(usual).replace(b"NAME", b"read_file")
    if PHANTOM.encode() not in stream:
        assert _driven(name, source.cuts(stream))[0] == stream, "bytes have changed"


def _sown(source: Source, events: Sequence[bytes]) -> Iterator[bytes | None]:
    """The events, and None where one of the source's own comes in between."""
    for event in events:
        if source.number(4) == 1:
            yield None
        yield event


def _driven(name: str, parts: Iterable[bytes]) -> tuple[bytes, str]:
    wire = FORMATS[name]
    request = b'{"messages":[],"input":[],"contents":[]}'
    exchange = ToolLoop(wire, wire.stream(PHANTOM), request)
    out = b"".join([exchange.feed(part) for part in parts])
    step: Ask | Continue | Done = exchange.end_turn()
    if isinstance(step, Ask):
        step = exchange.answered(["the text"] * len(step.calls))
    return out + step.out, type(step).__name__


_SOCKET = (
    *(
        b'{"type":"response.create"', b',"input":[]', b',"previous_response_id":"r"', b',"stream_id":"s"',
        b'{"type":1', b"}", b"{", b"]",
    ),
    *(
        b'{"type":"response.created","response":{"id":"r"}}', b'{"type":"error"}', b'"type"', b":", b",",
        b"null", b"\xff", b"\xef\xbb\xbf",
    ),
    b'{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","name":"expand_context"}}',
    b'{"type":"response.completed","response":{"id":"r","output":[]}}',
)  # fmt: skip


def sockets(data: bytes) -> None:
    """Frames that make no sense are no error, and frames without the injected tool go on as they came."""
    source = Source(data)
    wire = FORMATS["openai_responses_socket"]
    exchange = ToolLoop(wire, wire.stream(PHANTOM), b'{"type":"response.create","input":[]}')
    plain = True
    while not source.is_over:
        frame = b"".join(source.some(_SOCKET, bytes, 6))
        outside = responses_socket.envelope(frame)
        plain = plain and PHANTOM.encode() not in frame
        if outside is None:
            continue
        responses_socket.renamed(frame, {"r": "q"})
        shown = exchange.feed(frame)
        assert shown == frame or not plain, "bytes have changed"
    exchange.end_turn()
