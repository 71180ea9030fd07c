"""OpenAI Responses: requests, and the injected tool and hidden exchanges in them.

The input is a string or a list of items. Results of the client's tools are items of their own; what
the provider's tools returned, reasoning, compaction and everything encrypted is never touched. With
`previous_response_id` the history is at the provider and only new items travel: the request names the last
response by the id that the client has got; the one to go on from may be another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

import msgspec
from msgspec import Raw

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Hidden, InjectedCall, Reasoning, Tool, Tools, Visible
from penumbra.apis.parts import PastCall, text_values
from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.apis.result_blocks import reads_result
from penumbra.wire.document import Document, Edit
from penumbra.wire.json_values import encode

CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""Items of calls that the client answers: the tool's name where the item has none, and its arguments."""
_RESULTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
}
_RESULTS_WITHOUT_TEXT = {"mcp_approval_response": "approval_request_id", "tool_search_output": "call_id"}
"""Items that answer others without a text that may be shortened, and what names the other."""
# What the client writes besides messages and results.
_FROM_CLIENT = {
    "additional_tools",
    "compaction_trigger",
    "configuration_update",
    "mcp_approval_response",
    "tool_search_output",
}
_OWN_TOOLS = ("function", "custom", "local_shell", "shell", "apply_patch", "computer", "computer_use_preview")
_BEFORE = "previous_response_id"
_ELSEWHERE = -1
_OPAQUE = ("compaction", "compaction_summary", "compaction_trigger")
TEXTS = ("input_text", "output_text", "text")


class ResponsesFormat(ApiFormat):
    """Bodies of `/responses`, and of its kin."""

    messages = "input"
    opens_with_first = False
    joins_messages = True

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        item = document.members(value)
        name = kind(document, item)
        return Message(
            value,
            turn,
            document.string(item.get("role")) or "" if "role" in item else "",
            is_of_model(document, name, item),
            _parts(document, value, item, name),
            bound="encrypted_content" in item,
            opaque=name in _OPAQUE,
        )

    def _prompt(self, document: Document) -> Prompt:
        prompt = super()._prompt(document)
        if prompt.place is None or not document.is_string(prompt.place):
            return prompt
        said = Part(Kind.TEXT, prompt.place, texts=(prompt.place,))
        return msgspec.structs.replace(prompt, messages=(Message(prompt.place, 0, "user", False, (said,)),))

    def system(self, document: Document) -> Iterator[Part]:
        for text in text_values(document, document.members(document.root).get("instructions"), TEXTS):
            yield Part(Kind.TEXT, text, texts=(text,))

    def tool_arrays(self, document: Document) -> Iterator[Raw | None]:
        """The request's own, and those of items that declare tools, as Codex sends them."""
        top = document.members(document.root)
        yield top.get("tools")
        for value in document.items(top.get("input")):
            item = document.members(value)
            if kind(document, item) == "additional_tools":
                yield item.get("tools")

    def schema_arrays(self, document: Document) -> Iterator[Raw]:
        yield from self.prompt(document).tools
        for message in self.prompt(document).messages:
            item = document.members(message.value)
            if "tools" in item and kind(document, item) != "additional_tools":
                yield item["tools"]

    def past_calls(self, document: Document) -> Iterator[PastCall]:
        messages = self.prompt(document).messages
        for call in super().past_calls(document):
            # Calls of a type of their own have their tool's name as type.
            item = document.members(messages[call.turn].value)
            name = document.string(item.get("name") or item["type"])
            yield replace(call, name=name or "")

    def error(self, status: int, message: str) -> bytes:
        name = "invalid_request_error" if status < 500 else "server_error"
        return encode({"error": {"message": message, "type": name, "param": None, "code": None}})

    def tools(self, request: Document) -> Tools:
        top = request.members(request.root)
        names, own = [], 0
        for tool in _all_tools(request, self.prompt(request).tools):
            names.append(request.string(tool.get("name")) or "")
            own += request.string(tool.get("type")) in _OWN_TOOLS
        # A conversation object takes up every response, also one that the client has not seen.
        elsewhere = bool(request.plain(top.get("background")) or request.plain(top.get("conversation")))
        stored = request.plain(top.get("store")) is not False
        return Tools(tuple(names), own, _forced(request, top), "input" in top and not elsewhere, stored)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"type": "function", "name": tool.name, "description": tool.description})
        declaration = head[:-1] + b',"parameters":' + tool.parameters + b',"strict":false}'
        arrays = self.prompt(request).tools
        request.append(next(array for array in arrays if request.items(array)), declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        return encode({"type": "function_call_output", "call_id": call.id, "output": text})

    def user_message(self, text: str) -> bytes:
        return encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        document = Document(request)
        top = document.members(document.root)
        added = b",".join(storable(document, messages))
        if (text := document.string(top["input"])) is not None:
            start, end = document.place(top["input"])
            first = encode({"role": "user", "content": text})
            document.edits.append(Edit(start, end, b"[" + first + b"," + added + b"]"))
        else:
            document.append(top["input"], added)
        return document.render()

    def without_calls(self, request: bytes) -> bytes:
        document = Document(request)
        document.set_member(document.root, "tool_choice", b'"none"')
        return document.render()

    def visible(self, document: Document) -> list[Visible]:
        before = document.string(document.members(document.root).get(_BEFORE))
        first = [Visible(_ELSEWHERE, 0, (), "", "", 0, response_id=before)] if before else []
        return first + super().visible(document)

    def _visible(
        self, document: Document, messages: list[Message], ordinal: int, last_call: str, since: int
    ) -> Visible:
        visible = super()._visible(document, messages, ordinal, last_call, since)
        items = self.prompt(document).messages
        references = [_reference(document, message) for message in messages]
        if messages[-1] is not items[-1] and not any(references):
            return visible
        calls = visible.calls
        if any(references):
            # A reference does not say which call it stands for; the results behind it do.
            behind = takewhile(lambda message: not message.by_model, items[messages[-1].turn + 1 :])
            calls = tuple(part.id for message in behind for part in message.of(Kind.RESULT)) or calls
        return replace(visible, calls=calls, item=references[-1], open=messages[-1] is items[-1])

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        top = request.members(request.root)
        items = request.items(top.get("input"))
        if visible.index == _ELSEWHERE:
            if hidden.results and not items:
                return False
            if hidden.results:
                request.insert(top["input"], 0, b",".join(hidden.results))
            if hidden.response_id:
                request.replace(top[_BEFORE], hidden.response_id)
            return True
        run = next(run for run in self.assistant_runs(request) if run[0].turn == visible.index)
        start, end = request.place(run[0].value)[0], request.place(run[-1].value)[1]
        # A response that goes on from what is left of another is one run with it in later requests.
        if request.is_edited(start, end) or (hidden.broken and visible.open):
            return False
        messages = [*hidden.before, *([hidden.last] if hidden.last else []), *hidden.results]
        request.edits.append(Edit(start, end, b",".join(storable(request, messages))))
        return True

    def reasoning(self, request: Document) -> list[Reasoning]:
        found = []
        for place, value in enumerate(request.items(self.members(request).get("input"))):
            item = request.members(value)
            name = kind(request, item)
            mark = reasoning_name(request, item) if name in ("reasoning", "item_reference") else ""
            found += [Reasoning(place, mark)] if mark else []
        return found

    def take_out(self, request: Document, places: Collection[int]) -> None:
        bounds = [request.place(item) for item in request.items(self.members(request).get("input"))]
        kept = [place for place in range(len(bounds)) if place not in places]
        for place in sorted(places):
            before = max((other for other in kept if other < place), default=None)
            behind = place + 1 < len(bounds)
            # With the comma in front of it, and at the beginning with the one behind it.
            if before is not None:
                start, end = bounds[place - 1][1], bounds[place][1]
            else:
                start, end = bounds[place][0], bounds[place + 1][0] if behind else bounds[place][1]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        # The API itself leaves out reasoning that is bound to something else. It refuses reasoning
        # that nothing follows: of an exchange that is missing now, that is what may be left.
        items = self.prompt(request).messages
        dropped = False
        for item, behind in pairwise(items[max(first, 0) :]):
            if not _is_reasoning(item) or (behind.by_model and not _is_reasoning(behind)):
                continue
            start, end = request.place(item.value)[0], request.place(behind.value)[0]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))
                dropped = True
        return dropped


def _parts(document: Document, value: Raw, item: Mapping[str, Raw], name: str) -> tuple[Part, ...]:
    """The parts of an item of a type."""
    by_program = "caller" in item and reads_result(document.plain(item["caller"]))
    if name == "message":
        texts = text_values(document, item.get("content"), TEXTS)
        return tuple([Part(Kind.TEXT, text, texts=(text,)) for text in texts])
    if name in CALLS:
        tool, arguments = CALLS[name]
        called, id_ = document.string(item.get("name")) or tool, _id(document, item)
        given, checked = item.get(arguments), arguments in ("action", "operation")
        call = Part(Kind.CALL, value, id_, called, given, counts=bool(id_), checked=checked)
        return (msgspec.structs.replace(call, by_program=by_program) if by_program else call,)
    if name.endswith("_call_output"):
        texts = _texts(document, item.get("output")) if name in _RESULTS else iter(())
        tool = document.string(item.get("name")) or ""
        id_ = _id(document, item)
        return (Part(Kind.RESULT, value, id_, tool, texts=tuple(texts), by_program=by_program),)
    if name in _RESULTS_WITHOUT_TEXT:
        return (Part(Kind.RESULT, value, document.string(item.get(_RESULTS_WITHOUT_TEXT[name])) or ""),)
    if name == "reasoning":
        return (Part(Kind.REASONING, value, signature=""),)
    if id_ := call_id(document, name, item):
        return (Part(Kind.OTHER, value, id_),)
    return (Part(Kind.OTHER, value, _id(document, item), counts=False),) if name.endswith("_call") else ()


def kind(document: Document, item: Mapping[str, Raw]) -> str:
    """The type of an item; messages may leave theirs out."""
    return document.string(item.get("type")) or ("message" if "role" in item else "")


def call_id(document: Document, name: str, item: Mapping[str, Raw]) -> str:
    """The id by which the client answers a call of this type; empty if it is not the client's to answer."""
    if name in CALLS or name == "computer_call" or _is_client_search(document, name, item):
        return _id(document, item)
    return document.string(item.get("id")) or "" if name == "mcp_approval_request" else ""


def _is_client_search(document: Document, name: str, item: Mapping[str, Raw]) -> bool:
    return name == "tool_search_call" and document.string(item.get("execution")) == "client"


def reasoning_name(document: Document, item: Mapping[str, Raw]) -> str:
    """What reasoning is known by, whatever else a client leaves out of it."""
    opaque = document.string(item.get("encrypted_content"))
    return opaque or document.string(item.get("id")) or ""


def is_of_model(document: Document, name: str, item: Mapping[str, Raw]) -> bool:
    """Whether the model or the provider wrote an item of this type."""
    if name == "message":
        return document.string(item.get("role")) == "assistant"
    return bool(name) and name not in _FROM_CLIENT and not name.endswith("_call_output")


def _id(document: Document, item: Mapping[str, Raw]) -> str:
    return document.string(item.get("call_id")) or document.string(item.get("id")) or ""


def _texts(document: Document, output: Raw | None) -> Iterator[Raw]:
    yield from text_values(document, output, TEXTS)
    # The shell tool's results: one entry for each of its commands.
    for entry in document.items(output):
        members = document.members(entry)
        if "outcome" in members:
            streams = (members.get("stdout"), members.get("stderr"))
            yield from (stream for stream in streams if stream is not None and document.is_string(stream))


def _is_reasoning(item: Message) -> bool:
    return bool(item.of(Kind.REASONING))


def _reference(document: Document, item: Message) -> str:
    """The id of an item that the request has no more of."""
    members = document.members(item.value)
    return document.string(members.get("id")) or "" if kind(document, members) == "item_reference" else ""


def _all_tools(request: Document, arrays: Sequence[Raw]) -> Iterator[Mapping[str, Raw]]:
    """Every tool of a request, those in namespaces one by one."""
    for value in (value for array in arrays for value in request.items(array)):
        tool = request.members(value)
        if request.string(tool.get("type")) == "namespace":
            yield from (request.members(item) for item in request.items(tool.get("tools")))
        else:
            yield tool


def _forced(request: Document, top: dict[str, Raw]) -> bool:
    choice = request.plain(top.get("tool_choice"))
    if isinstance(choice, dict):
        return choice.get("type") != "allowed_tools" or choice.get("mode") == "required"
    return bool(choice == "required")


def storable(request: Document, messages: Sequence[bytes]) -> list[bytes]:
    """Items as this request may send them: what was not stored can't be referred to by its id alone."""
    if request.plain(request.members(request.root).get("store")) is not False:
        return list(messages)
    kept: list[bytes] = []
    for message in messages:
        document = Document(b"[" + message + b"]")
        for value in document.items(document.root):
            item = document.members(value)
            opaque = document.plain(item.get("encrypted_content"))
            if kind(document, item) != "reasoning" or opaque:
                kept.append(document.source(value))
    return kept
