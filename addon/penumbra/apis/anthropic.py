"""This module has the format of Anthropic Messages.

In a request, a tool result is a `tool_result` block of a user message. Its content is a string or a list of
blocks. Only this string and the `text` blocks of this list are shortened. Results of tools that the provider
runs are in assistant messages and stay whole. A response is a list of content blocks, in a stream or in a
document (`content_blocks.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import CacheDiagnosis, Event, Hidden, InjectedCall, Tool, Tools, Turn, Visible
from penumbra.apis.call_arguments import NumberedArguments
from penumbra.apis.content_blocks import Block, BlockTurns, EventKind, object_or_empty
from penumbra.apis.parts import text_values
from penumbra.apis.prompt import Kind, Message, Part
from penumbra.apis.responses import Responses
from penumbra.apis.result_blocks import reads_result
from penumbra.apis.turns import growing
from penumbra.apis.upstream_error import ANTHROPIC, DescribedError, by_status
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.wire.document import Document, Edit
from penumbra.wire.framing import Piece
from penumbra.wire.json_values import encode

_RUN_BY_CLIENT = ("custom", "bash_", "text_editor_", "computer_", "memory_")
"""Prefixes of the types of tools that the client runs. The provider runs tools of all other types."""
"""The index of a response that the request does not contain."""
_TOOL_CHANGES = (b"tool_addition", b"tool_removal")
SIGNATURES = {"thinking": "signature", "redacted_thinking": "data"}
"""Maps each type of thinking block to the member by which the provider recognises a block."""
_ERRORS = {**by_status(ANTHROPIC), 503: "overloaded_error"}


def write_error(error: DescribedError) -> bytes:
    is_named = error.type.endswith("_error") or error.type in ANTHROPIC
    kind = error.type if is_named else _ERRORS.get(error.status or 0, "api_error")
    return encode({"type": "error", "error": {"type": kind, "message": error.message}})


class AnthropicFormat(ApiFormat):
    """The format of bodies of `/v1/messages` and `/v1/messages/count_tokens`."""

    no_calls = "tool_choice", b'{"type":"none"}'
    error_body = staticmethod(write_error)

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        members = document.members(value)
        (role,) = document.texts(members, "role")
        parts = self.content(document, members.get("content"))
        thinks = Kind.REASONING in [part.kind for part in parts]
        return Message(value, turn, role, role == "assistant", parts, bound=thinks)

    def content(self, document: Document, content: Raw | None) -> tuple[Part, ...]:
        if content is not None and document.is_string(content):
            return (Part(Kind.TEXT, content, texts=(content,)),)
        parts: list[Part] = []
        for block in document.items(content):
            if document.is_filled(block):
                parts += self.block(document, block)
        return tuple(parts)

    def block(self, document: Document, value: Raw) -> Sequence[Part]:
        block = document.members(value)
        kind, call_id, name, answered = document.texts(block, "type", "id", "name", "tool_use_id")
        if kind == "text":
            if (text := block.get("text")) is not None and document.is_string(text):
                return (Part(Kind.TEXT, value, texts=(text,)),)
        elif kind == "tool_use":
            by_program = "caller" in block and reads_result(document.plain(block["caller"]))
            return (Part(Kind.CALL, value, call_id, name, block.get("input"), by_program=by_program),)
        elif kind == "tool_result":
            texts = tuple(text_values(document, block.get("content")))
            is_error = "is_error" in block and document.plain(block["is_error"]) is True
            return (Part(Kind.RESULT, value, answered, texts=texts, is_error=is_error),)
        elif kind in SIGNATURES:
            signature = document.text_of(block.get(SIGNATURES[kind]))
            return (Part(Kind.REASONING, value, signature=signature),)
        return ()

    def system(self, document: Document) -> Iterable[Part]:
        return self.content(document, document.top.get("system"))

    def tools(self, request: Document) -> Tools:
        top = request.top
        names, own = [], 0
        for item in request.items(top.get("tools")):
            name, kind = request.texts(request.members(item), "name", "type")
            names.append(name)
            own += (kind or "custom").startswith(_RUN_BY_CLIENT)
        if any(map(request.contains, _TOOL_CHANGES)):
            available = set(names)
            for message in self.prompt(request).messages:
                for name, is_added in request.about(message.value, _tool_changes):
                    own += (name not in available) if is_added else -(name in available)
                    names += [name] if name not in names else []
                    available = available | {name} if is_added else available - {name}
        choice = request.string(request.members(top.get("tool_choice")).get("type"))
        return Tools(tuple(names), own, choice in ("any", "tool"), True, threaded="thread" in top)

    def declare(self, request: Document, tool: Tool) -> None:
        request.append(request.top["tools"], tool.declared("input_schema"))

    def declare_after(self, request: Document, tool: Tool, count: int) -> bool:
        messages = self.prompt(request).messages
        if not 0 < count <= len(messages) or messages[count - 1].role != "user":
            return False
        if count < len(messages) and messages[count].role != "assistant":
            return False
        definition = tool.declared("input_schema")
        _, end = request.place(messages[count - 1].value)
        addition = (
            b'{"type":"tool_addition","tool":{"type":"tool_definition","definition":' + definition + b"}}"
        )
        request.edits.append(Edit(end, end, b',{"role":"system","content":[' + addition + b"]}"))
        return True

    def brings(self, request: Document, tool: Tool) -> bool:
        if not request.contains(b'"tool_changes"'):
            return False
        blocks = [
            block
            for message in self.prompt(request).messages
            for block in map(request.members, request.items(self.blocks(request, message.value)))
            if request.string(block.get("type")) == "compaction"
        ]
        for change in request.items(blocks[-1].get("tool_changes")) if blocks else ():
            declared = request.members(request.members(request.members(change).get("tool")).get("definition"))
            texts = [request.string(declared.get(name)) for name in ("name", "description")]
            if texts == [tool.name, tool.description]:
                return True
        return False

    def may_declare_after(self, request: Document) -> bool:
        messages = self.prompt(request).messages
        tools = map(request.members, request.items(request.top.get("tools")))
        # If all other tools are loaded later, the new tool changes the beginning of the prompt, so no prefix
        # is cached.
        loads = any(request.plain(tool.get("defer_loading")) is not True for tool in tools)
        return bool(messages) and loads and messages[-1].role == "user"

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"type": "tool_result", "tool_use_id": call.id, "content": text})

    def continuation(self, turn: Turn, results: Sequence[bytes]) -> tuple[bytes, ...]:
        results_message = b'{"role":"user","content":[' + b",".join(results) + b"]}"
        return (turn.message, results_message) if turn.message else (results_message,)

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        document = Document(request)
        top = document.top
        if "thread" in top:
            # The provider already has all earlier messages and this response.
            messages_there = document.items(top["messages"])
            marked = [one for one in messages_there if _cache_mark(document, one) is not None]
            # The request has only new blocks, so the cache breakpoint moves to these blocks.
            new = self.marked(messages[-1], document, marked[-1]) if marked else messages[-1]
            start, end = document.place(top["messages"])
            document.edits.append(Edit(start, end, b"[" + new + b"]"))
            document.replace(top["thread"], {"type": "continue", "previous_message_id": response_id})
        else:
            document.append(top["messages"], b",".join(messages))
        return document.render()

    def compared_with(self, request: Document) -> Raw | None:
        return request.members(request.top.get("diagnostics")).get("previous_message_id")

    def thinking(self, request: Document) -> Raw | None:
        return request.top.get("thinking")

    def continued(self, document: Document) -> str:
        return _continued(document)

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        items = request.items(request.top.get("messages"))
        if visible.response_id:
            return _put_into_thread(request, items, hidden)
        message = items[visible.index]
        if request.is_edited(*request.place(message)):
            return False
        after = items[visible.index + 1] if visible.index + 1 < len(items) else None
        blocks = None if after is None else request.members(after)
        if hidden.results and (blocks is None or not _put_results(request, blocks, hidden)):
            return False
        texts = [*hidden.before, *([hidden.last] if hidden.last else [])]
        if hidden.signed and not visible.signed:
            texts = [text for text in map(self._without_thinking, texts) if text]
        texts = self.joined(texts, request, after)
        texts[-1] = self.marked(texts[-1], request, message)
        start, end = request.place(message)
        request.edits.append(Edit(start, end, b",".join(texts)))
        return True

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        signed = [message for message in self.prompt(request).messages if message.bound and message.by_model]
        signed = [message for message in signed if message.turn >= first]
        thinking = self.thinking(request)
        kind = request.string(request.members(thinking).get("type"))
        if not signed or kind == "disabled":
            return False
        if offered and thinking is not None:
            return _ask_to_drop(request, thinking)
        if kind == "enabled":
            # If a request continues a turn, the thinking of the turn must be in the request.
            return False
        return sum(self._remove_thinking(request, message.value) for message in signed) > 0

    def joined(self, texts: list[bytes], request: Document, after: Raw | None) -> list[bytes]:
        """Return the messages unchanged. The API itself joins adjacent messages of one role."""
        return texts

    def marked(self, text: bytes, request: Document, message: Raw) -> bytes:
        """Return `text` with the cache breakpoint of `message`. Without a breakpoint, or if the last block
        can't have any, return `text` unchanged."""
        mark = _cache_mark(request, message)
        document = Document(text)
        blocks = document.items(document.top.get("content"))
        thinks = blocks and any(part.kind is Kind.REASONING for part in self.block(document, blocks[-1]))
        if mark is not None and blocks and not thinks:
            members = document.members(blocks[-1])
            if "cache_control" not in members:
                document.add_member(blocks[-1], "cache_control", mark)
        return document.render()

    def _without_thinking(self, message: bytes) -> bytes:
        """Return a message without its thinking. A message that has only thinking stays unchanged."""
        document = Document(message)
        self._remove_thinking(document, document.root)
        return document.render() if document.top else b""

    def _remove_thinking(self, document: Document, message: Raw) -> bool:
        """Remove the thinking of a message. Return False if nothing is removed: the message has no thinking,
        only thinking, or edits."""
        content, left = self.blocks(document, message), self.without_reasoning(document, message)
        if content is None or not left or document.is_edited(*document.place(message)):
            return False
        document.rewrite(content, b"[" + b",".join(left) + b"]")
        return True


def _continued(request: Document) -> str:
    """Return the id of the response that a request continues; empty if the request has the whole history."""
    return request.text_of(request.members(request.top.get("thread")).get("previous_message_id"))


def _put_into_thread(request: Document, items: list[Raw], hidden: Hidden) -> bool:
    """Insert hidden results beside the client's results. The provider has the other hidden messages."""
    if hidden.results and not (items and _put_results(request, request.members(items[0]), hidden)):
        return False
    thread = request.members(request.top.get("thread"))
    if hidden.response_id:
        request.replace(thread["previous_message_id"], hidden.response_id)
    return True


def _put_results(request: Document, message: dict[str, Raw], hidden: Hidden) -> bool:
    if request.string(message.get("role")) != "user" or not request.items(message.get("content")):
        return False
    request.insert(message["content"], 0, b",".join(hidden.results))
    return True


def _tool_changes(request: Document, message: Raw) -> tuple[tuple[str, bool], ...]:
    """Return the name of each tool that a system message adds (True) or removes (False), in order."""
    members, changes = request.members(message), []
    if request.string(members.get("role")) != "system":
        return ()
    for item in request.items(members.get("content")):
        block = request.members(item)
        kind, tool = request.string(block.get("type")), request.members(block.get("tool"))
        name = request.string(request.members(tool.get("definition")).get("name", tool.get("name")))
        if name and kind in ("tool_addition", "tool_removal"):
            changes.append((name, kind == "tool_addition"))
    return tuple(changes)


def _ask_to_drop(request: Document, thinking: Raw) -> bool:
    members = request.members(thinking)
    wish = {"prefix_mismatch_behavior": "drop_block"}
    if "block_binding" not in members:
        request.add_member(thinking, "block_binding", encode(wish))
    elif request.plain(members["block_binding"]) != wish:
        request.replace(members["block_binding"], wish)
    return True


def _cache_mark(request: Document, message: Raw) -> bytes | None:
    """Return the cache breakpoint of a message; None if the message has no breakpoint."""
    for block in reversed(request.items(request.members(message).get("content"))):
        mark = request.members(block).get("cache_control")
        if mark is not None:
            return request.source(mark)
    return None


_FROM_LAST_CALL = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
USAGE = UsageTable(
    inputs=(*_FROM_LAST_CALL, "cache_creation"),
    outputs=("output_tokens", "server_tool_use."),
    within=("message", ""),
    repeated=_FROM_LAST_CALL,
)
ENDS = EndingTable(reasons=(("stop_reason",), ("delta", "stop_reason")))
_KINDS = {
    "message_start": EventKind.START,
    "content_block_start": EventKind.BLOCK_BEGINS,
    "content_block_delta": EventKind.BLOCK_GROWS,
    "content_block_stop": EventKind.BLOCK_ENDS,
    "message_delta": EventKind.END,
    "message_stop": EventKind.END,
}
_WHOLE = ("type", "encrypted_content")
"""A string in a delta replaces the earlier value of these members. Strings of other members are appended."""
_NO_CONTINUATION = ("refusal", "model_context_window_exceeded")


@dataclass(slots=True)
class AnthropicBlock(Block):
    _start: dict[str, Any] = field(default_factory=dict)
    _texts: dict[str, list[str]] = field(default_factory=dict)
    _others: dict[str, Any] = field(default_factory=dict)
    _citations: list[Any] = field(default_factory=list)

    def start(self, value: dict[str, Any]) -> None:
        self._start = value

    def add(self, delta: dict[str, Any]) -> None:
        for key, value in delta.items():
            if key == "citation":
                self._citations.append(value)
            elif key not in _WHOLE and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key != "type":
                self._others[key] = value

    def json(self) -> bytes:
        if not self._start:
            return b""
        members = {key: value for key, value in self._start.items() if key != "input"}
        members |= self._others
        members |= {key: self._text(key) for key in self._texts if key != "partial_json"}
        if self._citations:
            members["citations"] = [*(self._start.get("citations") or ()), *self._citations]
        data = encode(members)
        if "input" not in self._start:
            return data
        return data[:-1] + b',"input":' + object_or_empty(self.arguments) + b"}"

    def _text(self, key: str) -> str:
        start = self._start.get(key)
        return (start if isinstance(start, str) else "") + "".join(self._texts.get(key, ()))

    @property
    def arguments(self) -> str:
        return "".join(self._texts.get("partial_json", ())) or encode(self._start.get("input", {})).decode()


class AnthropicTurns(BlockTurns):
    """The turns of a response in server-sent events or in one document."""

    usage = USAGE
    ends = ENDS
    index = "index"
    begins = "content_block"
    grows = growing(
        rb'\{"type":"content_block_delta","index":\d+,"delta":'
        rb'\{"type":"(?:text|thinking|input_json)_delta","(?:text|thinking|partial_json)":',
        rb'(?P<tail>"\}) *(?P<end>\}\n\n)',
    )
    new_block = AnthropicBlock
    error_body = staticmethod(write_error)

    def kind(self, event: Event) -> EventKind | None:
        return _KINDS.get(event.type)

    def is_error(self, event: Event) -> bool:
        return event.type == "error"

    def note(self, event: Event, document: Document) -> None:
        start = event.members.get("message")
        self.note_usage(document, start or document.root)
        if start is not None:
            members = document.members(start)
            self.seen.id = str(document.plain(members.get("id")) or "")
            self.seen.diagnosis = _diagnosis(document, members)
        self.finished |= event.type == "message_stop"

    def reason(self, document: Document) -> Raw | None:
        members = document.top
        holder = members if self.framing.is_whole else document.members(members.get("delta"))
        return holder.get("stop_reason")

    def is_continuable(self) -> bool:
        return self.seen.stop_reason not in _NO_CONTINUATION

    def error(self, error: DescribedError) -> Piece:
        return self.framing.piece("error", self.error_body(error))

    def content(self, document: Document) -> Raw | None:
        return document.top.get("content")

    def parts(self, document: Document, block: Raw) -> Sequence[Part]:
        return AnthropicFormat().block(document, block)

    def read_whole(self, document: Document) -> Turn:
        members = document.top
        if "content" not in members:
            return Turn(failed=document.text_of(members.get("type")) == "error")
        self.seen.id = document.text_of(members.get("id"))
        self.seen.diagnosis = _diagnosis(document, members)
        return super().read_whole(document)


def _diagnosis(document: Document, message: dict[str, Raw]) -> CacheDiagnosis | None:
    """Return the `diagnostics` of a message, which are null if the compared prompts agree."""
    if "diagnostics" not in message:
        return None
    found = document.plain(message["diagnostics"])
    if found is None:
        return CacheDiagnosis()
    reason = found.get("cache_miss_reason") if isinstance(found, dict) else None
    if not isinstance(reason, dict):
        return None
    tokens = reason.get("cache_missed_input_tokens")
    return CacheDiagnosis(str(reason.get("type", ""))[:40], tokens if isinstance(tokens, int) else 0)


class AnthropicArguments(NumberedArguments):
    index = "index"
    begins = "content_block"
    fragment = "delta", "partial_json"

    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return document.string(members.get("type")) == "content_block_stop"

    def blocks(self, document: Document) -> Iterable[Raw]:
        return document.items(document.top.get("content"))

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        return AnthropicFormat().block(document, block)


RESPONSES = Responses(
    AnthropicTurns, AnthropicArguments, keep_alive=b'event: ping\ndata: {"type": "ping"}\n\n'
)
