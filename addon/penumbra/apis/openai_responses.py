"""This module has the format of OpenAI Responses.

The input is a string or a list of items. Each result of a client's tool is a separate item. With
`previous_response_id` the provider has the history, and the request has only new items. The request has the
id of the last response that the client got. The provider may know the response by another id.

A response is a list of output items. Events of a stream name the index of their item. Calls of the injected
tool are removed, and the other items and the events get new numbers. The last event repeats the whole
response, and the first events repeat the request's tools. The injected tool is removed from all of these.
Events that describe the response get the id of the first turn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Any

from msgspec import Raw, structs

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import (
    ENDED_IN_AN_ERROR,
    Event,
    Failure,
    Hidden,
    InjectedCall,
    MadeCall,
    Reasoning,
    Tool,
    Tools,
    Turn,
    Visible,
    called_as,
)
from penumbra.apis.call_arguments import NumberedArguments, Open
from penumbra.apis.parts import PastCall, joined_text, text_values
from penumbra.apis.prompt import Kind, Message, Part, Prompt
from penumbra.apis.responses import Responses
from penumbra.apis.result_blocks import reads_result
from penumbra.apis.turns import Framing, Turns
from penumbra.apis.upstream_error import DescribedError, openai_error
from penumbra.apis.usage import EndingTable, UsageTable
from penumbra.wire.document import Document, Edit
from penumbra.wire.framing import Piece
from penumbra.wire.json_values import encode

CALLS = {
    "function_call": ("", "arguments"),
    "custom_tool_call": ("", "input"),
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
}
"""The types of calls that the client answers and that have arguments. First value: the name of the tool if
the item has no name. Second value: the member with the arguments."""
_RESULTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
}
_RESULTS_WITHOUT_TEXT = {"mcp_approval_response": "approval_request_id", "tool_search_output": "call_id"}
"""The types of results without texts to shorten. The value is the member that names the call."""
_FROM_CLIENT = {
    "additional_tools",
    "compaction_trigger",
    "configuration_update",
    "mcp_approval_response",
    "tool_search_output",
}
"""The types of the client's items other than messages and `…_call_output`."""
_OWN_TOOLS = ("function", "custom", "local_shell", "shell", "apply_patch", "computer", "computer_use_preview")
_BEFORE = "previous_response_id"
_OPAQUE = ("compaction", "compaction_summary", "compaction_trigger")
TEXTS = ("input_text", "output_text", "text")


class ResponsesFormat(ApiFormat):
    """The format of bodies of `/responses`, and of paths that accept the same bodies."""

    messages = "input"
    opens_with_first = False
    error_body = staticmethod(openai_error)
    joins_messages = True

    def message(self, document: Document, value: Raw, turn: int = 0) -> Message:
        item = document.members(value)
        name = kind(document, item)
        return Message(
            value,
            turn,
            document.text_of(item.get("role")) if "role" in item else "",
            is_of_model(name, document.string(item.get("role"))),
            _parts(document, value, item, name),
            bound="encrypted_content" in item,
            opaque=name in _OPAQUE,
            tools=item.get("tools") if name == "additional_tools" else None,
            known_by=reasoning_name(document, item) if name in ("reasoning", "item_reference") else "",
        )

    def _prompt(self, document: Document) -> Prompt:
        prompt = super()._prompt(document)
        if prompt.place is None or not document.is_string(prompt.place):
            # Codex declares tools in items.
            declared = [message.tools for message in prompt.messages if message.tools is not None]
            return structs.replace(prompt, tools=(*prompt.tools, *declared)) if declared else prompt
        text = Part(Kind.TEXT, prompt.place, texts=(prompt.place,))
        return structs.replace(prompt, messages=(Message(prompt.place, 0, "user", False, (text,)),))

    def system(self, document: Document) -> Iterator[Part]:
        for text in text_values(document, document.top.get("instructions"), TEXTS):
            yield Part(Kind.TEXT, text, texts=(text,))

    def schema_arrays(self, document: Document) -> Iterator[Raw]:
        yield from self.prompt(document).tools
        for message in self.prompt(document).messages:
            item = document.members(message.value)
            if "tools" in item and kind(document, item) != "additional_tools":
                yield item["tools"]

    def past_calls(self, document: Document) -> Iterator[PastCall]:
        messages = self.prompt(document).messages
        for call in super().past_calls(document):
            # A call without a name has the type of a tool, so the type is the name.
            item = document.members(messages[call.turn].value)
            name = document.string(item.get("name") or item["type"])
            yield structs.replace(call, name=name or "")

    def tools(self, request: Document) -> Tools:
        top = request.top
        names, own = [], 0
        for tool in _all_tools(request, self.prompt(request).tools):
            names.append(request.text_of(tool.get("name")))
            own += request.string(tool.get("type")) in _OWN_TOOLS
        # A conversation object stores every response, even one that the client has not seen.
        elsewhere = bool(request.plain(top.get("background")) or request.plain(top.get("conversation")))
        stored = request.plain(top.get("store")) is not False
        return Tools(tuple(names), own, _forced(request, top), "input" in top and not elsewhere, stored)

    def declare(self, request: Document, tool: Tool) -> None:
        head = encode({"type": "function", "name": tool.name, "description": tool.description})
        declaration = head[:-1] + b',"parameters":' + tool.parameters + b',"strict":false}'
        arrays = self.prompt(request).tools
        request.append(next(array for array in arrays if request.items(array)), declaration)

    def result(self, call: InjectedCall, text: str) -> bytes:
        kind = f"{call.kind or 'function_call'}_output"
        return encode({"type": kind, "call_id": call.id, "output": text})

    def user_message(self, text: str) -> bytes:
        return encode({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})

    def extended(self, request: bytes, messages: Sequence[bytes], response_id: str = "") -> bytes:
        document = Document(request)
        top = document.top
        added = b",".join(storable(document, messages))
        if (text := document.string(top["input"])) is not None:
            start, end = document.place(top["input"])
            first = encode({"role": "user", "content": text})
            document.edits.append(Edit(start, end, b"[" + first + b"," + added + b"]"))
        else:
            document.append(top["input"], added)
        return document.render()

    def continued(self, document: Document) -> str:
        return document.text_of(document.top.get(_BEFORE))

    def _visible(self, document: Document, messages: list[Message], last: Visible) -> Visible:
        visible = super()._visible(document, messages, last)
        items = self.prompt(document).messages
        references = [_reference(document, message) for message in messages]
        if messages[-1] is not items[-1] and not any(references):
            return visible
        calls = visible.calls
        if any(references):
            # A request that only refers to a response lacks the calls of the response. The results after the
            # reference have the ids of these calls.
            after = takewhile(lambda message: not message.by_model, items[messages[-1].turn + 1 :])
            calls = tuple(part.id for message in after for part in message.of(Kind.RESULT)) or calls
        return structs.replace(visible, calls=calls, item=references[-1], open=messages[-1] is items[-1])

    def put_back(self, request: Document, visible: Visible, hidden: Hidden) -> bool:
        top = request.top
        items = request.items(top.get("input"))
        if visible.response_id:
            if hidden.results and not items:
                return False
            if hidden.results:
                request.insert(top["input"], 0, b",".join(hidden.results))
            if hidden.response_id:
                request.replace(top[_BEFORE], hidden.response_id)
            return True
        # Later requests do not show where a cut-off response ends and the next response continues it.
        if hidden.broken and visible.open:
            return False
        messages = [*hidden.before, *([hidden.last] if hidden.last else []), *hidden.results]
        run = self.response_at(request, visible.index)
        return self.replace_run(request, run, storable(request, messages))

    def reasoning(self, request: Document) -> list[Reasoning]:
        named = (message for message in self.prompt(request).messages if message.known_by)
        return [Reasoning(message.turn, message.known_by) for message in named]

    def take_out(self, request: Document, places: Collection[int]) -> None:
        bounds = [request.place(item) for item in request.items(self.members(request).get("input"))]
        kept = [place for place in range(len(bounds)) if place not in places]
        for place in sorted(places):
            before = max((other for other in kept if other < place), default=None)
            is_last = place + 1 == len(bounds)
            # The comma before the item is also removed; for the first item, the comma after it.
            if before is not None:
                start, end = bounds[place - 1][1], bounds[place][1]
            else:
                start, end = bounds[place][0], bounds[place][1] if is_last else bounds[place + 1][0]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))

    def drop_unbound(self, request: Document, first: int, offered: bool) -> bool:
        # The API itself drops reasoning of another prefix. But a missing hidden exchange may have left
        # reasoning at the end of a turn, which the API refuses.
        items = self.prompt(request).messages
        dropped = False
        for item, after in pairwise(items[max(first, 0) :]):
            if not _is_reasoning(item) or (after.by_model and not _is_reasoning(after)):
                continue
            start, end = request.place(item.value)[0], request.place(after.value)[0]
            if not request.is_edited(start, end):
                request.edits.append(Edit(start, end, b""))
                dropped = True
        return dropped


def _parts(document: Document, value: Raw, item: Mapping[str, Raw], name: str) -> tuple[Part, ...]:
    by_program = "caller" in item and reads_result(document.plain(item["caller"]))
    if name == "message":
        texts = text_values(document, item.get("content"), TEXTS)
        return tuple([Part(Kind.TEXT, text, texts=(text,)) for text in texts])
    if name in CALLS:
        tool, arguments = CALLS[name]
        called, id_ = document.string(item.get("name")) or tool, _id(document, item)
        return (
            Part(
                Kind.CALL,
                value,
                id_,
                called,
                item.get(arguments),
                counts=bool(id_),
                checked=arguments in ("action", "operation"),
                by_program=by_program,
                is_text=name == "custom_tool_call",
            ),
        )
    if name.endswith("_call_output"):
        found = _texts(document, item.get("output")) if name in _RESULTS else ()
        tool = document.text_of(item.get("name"))
        id_ = _id(document, item)
        return (Part(Kind.RESULT, value, id_, tool, texts=tuple(found), by_program=by_program),)
    if name in _RESULTS_WITHOUT_TEXT:
        return (Part(Kind.RESULT, value, document.text_of(item.get(_RESULTS_WITHOUT_TEXT[name]))),)
    if name == "reasoning":
        return (Part(Kind.REASONING, value, signature=""),)
    if id_ := call_id(document, name, item):
        return (Part(Kind.OTHER, value, id_),)
    return (Part(Kind.OTHER, value, _id(document, item), counts=False),) if name.endswith("_call") else ()


def kind(document: Document, item: Mapping[str, Raw]) -> str:
    """Return the type of an item. Messages may have no `type`."""
    return document.string(item.get("type")) or ("message" if "role" in item else "")


def call_id(document: Document, name: str, item: Mapping[str, Raw]) -> str:
    """Return the id that the client's answer to a call needs; empty if the client answers no such call."""
    is_search = name == "tool_search_call" and document.string(item.get("execution")) == "client"
    if name in CALLS or name == "computer_call" or is_search:
        return _id(document, item)
    return document.text_of(item.get("id")) if name == "mcp_approval_request" else ""


def reasoning_name(document: Document, item: Mapping[str, Raw]) -> str:
    """Return the encrypted content of a reasoning item. Without encrypted content, return the id."""
    return document.string(item.get("encrypted_content")) or document.text_of(item.get("id"))


def is_of_model(name: str, role: str | None) -> bool:
    """Return whether the model or the provider wrote an item of this type."""
    if name == "message":
        return role == "assistant"
    return bool(name) and name not in _FROM_CLIENT and not name.endswith("_call_output")


def _id(document: Document, item: Mapping[str, Raw]) -> str:
    return document.string(item.get("call_id")) or document.text_of(item.get("id"))


def _texts(document: Document, output: Raw | None) -> Iterator[Raw]:
    yield from text_values(document, output, TEXTS)
    # A result of the shell tool has an entry for each command.
    for entry in document.items(output):
        members = document.members(entry)
        if "outcome" in members:
            streams = (members.get("stdout"), members.get("stderr"))
            yield from (stream for stream in streams if stream is not None and document.is_string(stream))


def _is_reasoning(item: Message) -> bool:
    return bool(item.of(Kind.REASONING))


def _reference(document: Document, item: Message) -> str:
    """Return the id of an item that the request refers to without its content."""
    members = document.members(item.value)
    return document.text_of(members.get("id")) if kind(document, members) == "item_reference" else ""


def _all_tools(request: Document, arrays: Sequence[Raw]) -> Iterator[Mapping[str, Raw]]:
    """Yield every tool of a request, including tools in namespaces."""
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
    """Return the items that a request may repeat. If the provider must not store responses, reasoning without
    encrypted content is left out."""
    if request.plain(request.top.get("store")) is not False:
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


USAGE = UsageTable(
    inputs=("input_tokens", "input_tokens_details"),
    outputs=("output_tokens",),
    within=("response", ""),
    total="total_tokens",
    in_total=("input_tokens",),
)
ENDS = EndingTable(reasons=(("incomplete_details", "reason"), ("status",)))
_CALL_ENDS = (
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.done",
    "response.output_item.done",
)
_BEGINS = ("response.created", "response.in_progress", "response.queued")
_ENDS = ("response.completed", "response.incomplete")
_FAILED = ("response.failed", "error")
_KEPT = ("id", "created_at", _BEFORE)
"""In later turns, these members of a response have the values of the first turn."""


@dataclass(slots=True)
class _Turn:
    items: dict[int, bytes] = field(default_factory=dict)
    """The complete items, as the model wrote them, by index."""
    hidden: set[int] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    """The indexes of items by id, for events without an index."""
    end: dict[str, Any] = field(default_factory=dict)

    def sources(self) -> list[bytes]:
        return [item for _, item in sorted(self.items.items())]


class ResponsesTurns(Turns):
    """The turns of a response in events, or in one document."""

    usage = USAGE
    ends = ENDS
    error_body = staticmethod(openai_error)
    always_edits = True

    def __init__(self, framing: Framing, injected_tool: str, before: str = "") -> None:
        self._sequence = -1
        """Sequence number of the last event that the client got."""
        self._shown: list[bytes] = []
        """The visible items of the earlier turns."""
        self._first: dict[str, Any] = {}
        """The response as the first event described it."""
        self._begun = False
        """True if the client got the beginning of the response in an earlier turn or try."""
        super().__init__(framing, injected_tool, before)

    def begin_turn(self) -> None:
        self.seen = _Turn()
        self._begun = bool(self._first)

    def hide_turn(self) -> None:
        seen = self.seen
        self._shown += [item for place, item in sorted(seen.items.items()) if place not in seen.hidden]

    def hides(self) -> bool:
        return bool(self.seen.hidden)

    def turn(self) -> Turn:
        return read_turn(self.seen.sources(), self.seen.end, self.injected_tool)

    def is_error(self, event: Event) -> bool:
        return event.type in _FAILED or "error" in event.members

    def failed_by(self, event: Event) -> Failure:
        assert event.document is not None
        status = event.document.plain(event.members.get("status"))
        number = status if isinstance(status, int) else None
        return Failure(number, event.data(), ENDED_IN_AN_ERROR, reported=True)

    def own_error(self, event: Event) -> Iterable[Event]:
        assert event.document is not None
        return self._item_event(event, event.document)

    def error(self, error: DescribedError) -> Piece:
        self._sequence += 1
        response = {**self._first, "status": "failed", "error": _error(error)}
        value = {"type": "response.failed", "response": response, "sequence_number": self._sequence}
        return self.framing.piece("response.failed", encode(value))

    def read(self, event: Event, document: Document) -> Iterable[Event]:
        name = event.type
        if name in _BEGINS:
            return self._begin(event, document)
        if name not in _ENDS:
            return self._item_event(event, document)
        response = event.members.get("response")
        described = document.plain(response)
        members = described if isinstance(described, dict) else {}
        self.seen.end = {"status": name.removeprefix("response."), **members}
        self.note_usage(document, response)
        if self.seen.hidden:
            return self.delay(event)
        self.put_right(event)
        return (event,)

    def _begin(self, event: Event, document: Document) -> Iterable[Event]:
        if self.continued or self._begun:
            return ()
        response = event.members.get("response")
        scrub(document, document.members(response), self.injected_tool)
        name_before(document, document.members(response), self.before)
        if not self._first and response is not None:
            rendered = Document(document.render())
            described = rendered.plain(rendered.top["response"])
            self._first = described if isinstance(described, dict) else {}
        self._number(document, event.members)
        return (event,)

    def _item_event(self, event: Event, document: Document) -> Iterable[Event]:
        members, name, seen = event.members, event.type, self.seen
        if "response" in members:
            response = document.members(members["response"])
            name_before(document, response, self.before)
            show(document, response, self.injected_tool, [])
        if (place := self._place(document, members)) is not None:
            item = members.get("item")
            if item is not None or "name" in members:
                named = document.string(members.get("name")) in self.called_as
                hidden = named or is_hidden(document, item, self.injected_tool)
                seen.hidden |= {place} if hidden else set()
                self.hidden_names.note(_names(document, item), hidden=hidden)
            if name == "response.output_item.done" and item is not None:
                seen.items[place] = document.source(item)
            if place in seen.hidden:
                return ()
            shown = len(self._shown) + place - sum([hidden < place for hidden in seen.hidden])
            if shown != place and "output_index" in members:
                document.replace(members["output_index"], shown)
        self._number(document, members)
        return (event,)

    def _place(self, document: Document, members: dict[str, Raw]) -> int | None:
        """Return the index of an event's item, or None. Some servers write only the item's id."""
        index, item = document.plain(members.get("output_index")), members.get("item")
        if isinstance(index, int) and item is None:
            return index
        id_ = document.text_of(members.get("item_id", document.members(item).get("id")))
        places = self.seen.places
        if isinstance(index, int):
            places[id_] = index
            return index
        return places.setdefault(id_, max(places.values(), default=-1) + 1) if id_ else None

    def _number(self, document: Document, members: dict[str, Raw]) -> None:
        """If an event has a sequence number, replace it by the next number."""
        number = document.plain(members.get("sequence_number"))
        if isinstance(number, int):
            wanted = number if self._sequence < 0 else self._sequence + 1
            if wanted != number:
                document.replace(members["sequence_number"], wanted)
            self._sequence = wanted

    def put_right(self, event: Event) -> None:
        document = event.document
        assert document is not None
        owner = event.members.get("response")
        response = document.members(owner)
        # Some servers leave the items of a stream out of its last event.
        left_out = bool(self.seen.items) and not document.items(response.get("output"))
        show(document, response, self.injected_tool, [] if left_out else self._shown)
        self.usage.add(document, owner, self.hidden_usage, {})
        later = self.continued or self._begun
        if not later:
            name_before(document, response, self.before)
        for name in _KEPT if later else ():
            if name in response and name in self._first:
                document.replace(response[name], self._first[name])
        self._number(document, event.members)

    # Documents

    def read_whole(self, document: Document) -> Turn:
        members = document.top
        has_error = bool(document.plain(members.get("error")))
        if "output" not in members:
            return Turn(failed=has_error)
        items = [document.source(item) for item in document.items(members["output"])]
        turn = read_turn(items, document.plain(document.root), self.injected_tool)
        return structs.replace(turn, failed=has_error and not turn.finished)

    def keep(self, document: Document) -> None:
        self._shown += visible_items(document, document.top, self.injected_tool)

    def put_together(self, document: Document) -> None:
        members = document.top
        show(document, members, self.injected_tool, self._shown)
        name_before(document, members, self.before)


def is_hidden(document: Document, item: Raw | None, injected_tool: str) -> bool:
    """Return whether an item calls the injected tool. Calls of the client's MCP servers name their server."""
    members = document.members(item)
    is_named = document.string(members.get("name")) in called_as(injected_tool)
    return is_named and "server_label" not in members and kind(document, members).endswith("call")


def _names(document: Document, item: Raw | None) -> tuple[str, ...]:
    members = document.members(item)
    return tuple(filter(None, (document.string(members.get(key)) for key in ("id", "call_id"))))


def scrub(document: Document, response: dict[str, Raw], injected_tool: str) -> None:
    """Remove the injected tool from the tools that a response repeats from its request."""
    items = document.items(response.get("tools"))
    kept = [
        document.source(item)
        for item in items
        if document.string(document.members(item).get("name")) != injected_tool
    ]
    if len(kept) < len(items):
        _set_items(document, response["tools"], kept)


def name_before(document: Document, response: dict[str, Raw], before: str) -> None:
    """In a response, replace the id of the previous response by the client's id, `before`."""
    named = response.get(_BEFORE)
    if before and named is not None and document.string(named) not in (None, before):
        document.replace(named, before)


def show(document: Document, response: dict[str, Raw], injected_tool: str, shown: Sequence[bytes]) -> None:
    """Remove the injected tool from a complete response. Insert the items of earlier turns."""
    scrub(document, response, injected_tool)
    items = document.items(response.get("output"))
    visible = visible_items(document, response, injected_tool)
    if "output" in response and (shown or len(visible) < len(items)):
        _set_items(document, response["output"], [*shown, *visible])


def visible_items(document: Document, response: dict[str, Raw], injected_tool: str) -> list[bytes]:
    items = document.items(response.get("output"))
    return [document.source(item) for item in items if not is_hidden(document, item, injected_tool)]


def _set_items(document: Document, array: Raw, items: Sequence[bytes]) -> None:
    document.rewrite(array, b"[" + b",".join(items) + b"]")


def read_turn(items: Sequence[bytes], end: dict[str, Any], injected_tool: str) -> Turn:
    """Return a turn. `items` are as the model wrote them, and `end` is the finished response."""
    injected: list[InjectedCall] = []
    real_calls: list[str] = []
    texts: list[str] = []
    signatures: list[str] = []
    orphans: list[str] = []
    made: list[MadeCall] = []
    last = ""
    for source in items:
        document = Document(source)
        item = document.top
        name = kind(document, item)
        if is_hidden(document, document.root, injected_tool):
            arguments = document.text_of(item.get(CALLS.get(name, ("", "arguments"))[1]))
            alias = document.text_of(item.get("id"))
            injected.append(InjectedCall(_id(document, item), arguments, (alias,), name))
            continue
        last = document.text_of(item.get("id"))
        # Clients repeat reasoning in full, or refer to it by its id.
        orphans = [*orphans, reasoning_name(document, item), last] if name == "reasoning" else []
        if id_ := call_id(document, name, item):
            real_calls.append(id_)
            made += [call] if (call := _made(document, name, item, id_)) else []
        elif name == "message":
            texts.append(joined_text(document, item.get("content"), TEXTS))
        elif "encrypted_content" in item:
            signatures.append(document.text_of(item["encrypted_content"]))
    status = end.get("status")
    whole = status in ("completed", "incomplete")
    return Turn(
        message=b",".join(items if whole else _followed(items, injected_tool)) or None,
        injected=tuple(injected),
        real_calls=tuple(real_calls),
        text="".join(texts),
        signatures=tuple(signatures),
        orphans=tuple(dict.fromkeys(filter(None, orphans))),
        finished=whole,
        continuable=status == "completed",
        response_id=str(end.get("id") or ""),
        made=tuple(made),
        item=last,
    )


def _followed(items: Sequence[bytes], injected_tool: str) -> list[bytes]:
    """Return the items of a cut-off turn that a request may contain: without calls of the injected tool, and
    without reasoning at the end."""
    kept: list[bytes] = []
    for source in reversed(items):
        document = Document(source)
        item = document.top
        lonely = kind(document, item) == "reasoning" and not kept
        if not lonely and not is_hidden(document, document.root, injected_tool):
            kept.append(source)
    return kept[::-1]


def _made(document: Document, name: str, item: dict[str, Raw], found: str) -> MadeCall | None:
    """Return a call that the client answers, as in a request; None for other items."""
    if name not in CALLS:
        return None
    default, arguments = CALLS[name]
    value = item.get(arguments)
    text = document.string(value)
    if text is None:
        text = document.source(value).decode() if value is not None else ""
    by_program = reads_result(document.plain(item.get("caller")))
    return MadeCall(found, document.string(item.get("name")) or default, text, by_program)


def _error(error: DescribedError) -> dict[str, str]:
    code = str(error.code) if isinstance(error.code, str) else ""
    other = "rate_limit_exceeded" if error.status == 429 else "server_error"
    return {"code": code or other, "message": error.message}


class ResponsesArguments(NumberedArguments):
    """The filter for events that have the index of a call's item."""

    index = "output_index"
    begins = "item"
    fragment = ("delta",)

    def __init__(self, open_: Open) -> None:
        super().__init__(open_)
        self._added = 0
        """The number of events that this filter has added."""
        self._number = 0
        """The next sequence number."""

    def edit(self, event: Event, document: Document) -> Iterable[Event]:
        number = document.plain(event.members.get("sequence_number"))
        self._number = number + self._added if isinstance(number, int) else self._number
        self.document(document)
        before = super().edit(event, document)
        if isinstance(number, int) and number != self._number:
            document.replace(event.members["sequence_number"], self._number)
        self._number += 1
        return before

    def blocks(self, document: Document) -> Iterable[Raw]:
        for response in (document.top, document.members(document.top.get("response"))):
            yield from document.items(response.get("output"))

    def parts(self, document: Document, block: Raw) -> Iterable[Part]:
        item = document.members(block)
        return _parts(document, block, item, kind(document, item))

    def ends(self, document: Document, members: dict[str, Raw]) -> bool:
        return document.string(members.get("type")) in _CALL_ENDS

    def rewrite(self, document: Document, text: str) -> None:
        super().rewrite(document, text)
        if "sequence_number" in document.top:
            document.replace(document.top["sequence_number"], self._number)
            self._added += 1
            self._number += 1


RESPONSES = Responses(ResponsesTurns, ResponsesArguments, keep_alive=b": keep-alive\n\n")
