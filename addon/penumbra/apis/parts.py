"""This module has the classes for tool results and tool calls, and reads their texts and arguments.

Positions are message indexes in the order of the request. Texts and arguments are `Raw` views of the document
until a stage needs their values.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from penumbra.short_texts import remembered
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode

_FILE_KEYS = {"mimeType", "mime_type"}


class ToolCall(Struct, frozen=True):
    """A call of a tool that the client runs."""

    id: str
    name: str
    arguments: Raw | None = None
    """The arguments in the request: an object, or a string with JSON or free text; None if there are none."""
    cached: str | None = None
    """The arguments from the cache of calls if the call is not in the request; otherwise None."""
    by_program: bool = False
    """True if a program made the call and reads its result."""


class OpenCalls:
    """An `OpenCalls` has the calls without a result, in order. A request may have very many calls, so finding
    or closing a call takes constant time."""

    def __init__(self) -> None:
        self._all: OrderedDict[int, ToolCall] = OrderedDict()
        """The calls by `id()`. An ordered dict finds its first member at once, even after removals."""
        self._by_id: dict[str, OrderedDict[int, ToolCall]] = {}
        self._by_name: dict[str, OrderedDict[int, ToolCall]] = {}

    def copy(self) -> OpenCalls:
        """Return a copy. If a call is closed in one copy, the call stays open in the other copy."""
        copied = OpenCalls()
        copied.add(self._all.values())
        return copied

    def add(self, calls: Iterable[ToolCall]) -> None:
        for call in calls:
            self._all[id(call)] = call
            self._by_id.setdefault(call.id, OrderedDict())[id(call)] = call
            self._by_name.setdefault(call.name, OrderedDict())[id(call)] = call

    def first(self) -> ToolCall | None:
        return next(iter(self._all.values()), None)

    def first_with_id(self, call_id: str) -> ToolCall | None:
        return next(iter(self._by_id.get(call_id, {}).values()), None)

    def first_named(self, name: str) -> ToolCall | None:
        return next(iter(self._by_name.get(name, {}).values()), None)

    def close(self, call: ToolCall | None) -> None:
        if call is not None and self._all.pop(id(call), None) is not None:
            del self._by_id[call.id][id(call)]
            del self._by_name[call.name][id(call)]


class ResultText(Struct, frozen=True):
    """A `ResultText` is one text of a tool result: a JSON string of the document, which may be replaced."""

    value: Raw
    call_id: str
    """The call's id as the result spells it; empty if the result has no id."""
    call: ToolCall | None
    is_error: bool
    turn: int
    """Index of the message that contains the result."""
    container: Raw | None = None
    """The whole result if it is JSON and `value` is one of its strings; None if the result is a text."""
    part: tuple[int, int] | None = None
    """Start and end of the result within the string; None if the result is the whole string."""
    says_program: bool = False
    """True if the result itself says that a program made the call."""

    @property
    def by_program(self) -> bool:
        """True if a program reads the result and the model never sees it."""
        return self.says_program or (self.call is not None and self.call.by_program)


class Conversation(Struct, frozen=True):
    """The tool results of a request, and the facts about its messages that shortening needs."""

    model: str
    results: tuple[ResultText, ...]
    messages: Raw | None
    last_response: int
    """The index of the last message that the model wrote; -1 if there is none. The model has not read later
    results. A prefill (the client's beginning of the next response) does not count."""
    last_thinking: int
    """The index of the last message with thinking that the API may bind to its prefix; -1 if none."""
    opening: str
    """The beginning of the conversation, by which conversations without ids are distinguished."""
    calls: Mapping[str, ToolCall] = msgspec.field(default_factory=dict)
    """The calls that have an id, by this id."""


class PastCall(Struct, frozen=True):
    turn: int
    """Index of the call's message."""
    name: str
    arguments: Raw
    """The arguments: an object, or a string of JSON or free text."""


def text_values(document: Document, content: Raw | None, kinds: Sequence[str] = ("text",)) -> list[Raw]:
    """Return the strings of a content that is a string or a list of typed blocks. `kinds` are the types of
    blocks that contain text."""
    if content is not None and document.is_string(content):
        return [content]
    blocks = [document.members(item) for item in document.items(content) if document.is_filled(item)]
    texts = [block.get("text") for block in blocks if document.text_of(block.get("type")) in kinds]
    return [text for text in texts if text is not None and document.is_string(text)]


def joined_text(document: Document, content: Raw | None, kinds: Sequence[str] = ("text",)) -> str:
    """Return the texts of a content as one text, with line breaks between them."""
    return "\n".join(document.text_of(value) for value in text_values(document, content, kinds))


def string_values(document: Document, value: Raw | None) -> Iterator[Raw]:
    """Yield the strings in a value, in order, without keys. Of an object with a MIME type, yield only the
    text."""
    waiting = [] if value is None else [value]
    while waiting:
        one = waiting.pop()
        if document.is_string(one):
            yield one
            continue
        waiting += reversed(document.items(one))
        members = document.members(one)
        if members.keys() & _FILE_KEYS:
            waiting += [member for name, member in members.items() if name == "text"]
        else:
            waiting += reversed(members.values())


def short_hash(name: str | None, arguments: object) -> str:
    """Return 12 hexadecimal digits of a hash of a call. The order of arguments does not matter."""
    canonical = json.dumps([name, arguments], sort_keys=True, ensure_ascii=True).encode("ascii")
    return hashlib.blake2b(canonical, digest_size=6).hexdigest()


_TELLING_ID = 20
"""An id with fewer letters and digits outside of plain words, such as `call_0` or
`functions.run_shell_command:0`, does not identify a conversation."""
_PARTS = re.compile("[^0-9A-Za-z]+")


@remembered(16_384)
def is_telling(call_id: str) -> bool:
    """Return whether a call's id alone identifies its conversation."""
    parts = (part for part in _PARTS.split(call_id) if not part.isalpha())
    return sum(map(len, parts)) >= _TELLING_ID


def is_elsewhere(request: Document) -> bool:
    """Return whether the provider stores the older messages. The request then has only new messages."""
    members = request.top
    thread = request.members(members.get("thread"))
    named = [members.get(name) for name in ("previous_response_id", "conversation", "cachedContent")]
    named.append(thread.get("previous_message_id"))
    return any(map(request.plain, filter(None, named)))


def decoded_arguments(document: Document, call: ToolCall | None, *, came: bool = False) -> Any:
    """Return the decoded arguments of a call, or free text as a string; None if there are none. With `came`,
    the document's edits are ignored."""
    if call is None or (call.arguments is None and call.cached is None):
        return None
    try:
        value: Any = call.cached
        if call.arguments is not None:
            value = decode(document.came(call.arguments)) if came else document.plain(call.arguments)
        if isinstance(value, str) and value[:1] in ("{", "["):
            return json.loads(value)
    except NotJson:
        return None
    except (ValueError, RecursionError):
        return value
    return value


def argument_strings(value: Any) -> Iterator[str]:
    """Yield the strings within decoded arguments, in order, but no keys."""
    # A stack is used because values may be nested deeper than Python's recursion limit.
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            values += reversed([*value.values()] if isinstance(value, dict) else value)
