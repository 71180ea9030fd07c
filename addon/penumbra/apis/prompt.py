"""This module has the classes for the prompt of a request of any API.

A prompt has a system text, messages and tools. A message has parts: texts, calls, results, reasoning. Facts
about a request are derived from the parts (`api_format.py`). Texts and arguments are `Raw` views of the
document until a stage needs their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto

import msgspec
from msgspec import Raw

from penumbra.wire.document import Document


class Kind(Enum):
    TEXT = auto()
    """A text of the system, the user or the model."""
    CALL = auto()
    """A call of a tool that the client runs."""
    RESULT = auto()
    """Result of a call."""
    REASONING = auto()
    OTHER = auto()
    """Other content, which serves only to distinguish messages."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a message, or a text outside of the messages."""

    kind: Kind
    block: Raw
    """The smallest value that contains the part: a content block, an item, a call, or the text itself."""
    id: str = ""
    """The id of the call, or of the call that the result answers; empty if there is no id."""
    name: str = ""
    """The name of the tool; empty if the request has no name."""
    arguments: Raw | None = None
    """Arguments of a call: an object, or a string with JSON or free text; None if there are none."""
    texts: tuple[Raw, ...] = ()
    """The texts of the part. A result may have no text or several texts."""
    container: Raw | None = None
    """The whole result if it is JSON; None if the result is a text."""
    is_error: bool = False
    signature: str | None = None
    """The signature of reasoning; empty for unsigned reasoning; None for other parts and in APIs without
    signatures."""
    counts: bool = True
    """True if hidden exchanges are recognised by the call's id."""
    checked: bool = False
    """True if the API checks the shape of the call's arguments."""
    by_program: bool = False
    """True if a program made the call and reads its result. The model never sees the result."""
    is_text: bool = False
    """True if the call's arguments are free text; False if they are JSON."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A `Message` is one message, or one item in an API without messages."""

    value: Raw
    turn: int
    """Index among all messages."""
    role: str
    """The role of the message as the request spells it; empty if the message has none."""
    by_model: bool
    """True if the model or its provider wrote the message."""
    parts: tuple[Part, ...]
    bound: bool = False
    """True if the message has reasoning that the API may bind to its prefix."""
    opaque: bool = False
    """True if only the provider can read the message. Such a message is never changed, only removed."""
    tools: Raw | None = None
    """An array in the message that declares tools; None if there is none."""
    known_by: str = ""
    """The name of reasoning that must not end a response, as in `Reasoning`; empty for other messages."""

    def of(self, *kinds: Kind) -> list[Part]:
        return [part for part in self.parts if part.kind in kinds]


class Prompt(msgspec.Struct, frozen=True):
    model: str
    """The name of the model; empty if the body does not name one."""
    system: tuple[Part, ...]
    """The texts outside of the messages."""
    place: Raw | None
    """The array of the messages, or the only message itself; None if there is no message."""
    messages: tuple[Message, ...]
    tools: tuple[Raw, ...]
    """The arrays that declare tools."""


_WRAPPERS = ("function", "toolSpec")
"""The members that contain one declaration."""
_LISTS = ("functionDeclarations", "function_declarations", "tools")
"""The members that contain several declarations, in Gemini and in the namespaces of Responses."""
_SCHEMAS = ("input_schema", "parameters", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
_DEEPEST = 4


def declared_schemas(document: Document, arrays: Iterable[Raw]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each tool with a schema, yield the name and the top-level properties of the schema."""
    for array in arrays:
        for name, _, tool in _listed(document, array, 0):
            schema = next((tool[member] for member in _SCHEMAS if member in tool), None)
            if schema is not None:
                members = document.members(schema)
                members = document.members(members.get("json")) or members
                yield name, tuple(document.members(members.get("properties")))


def declarations(document: Document, arrays: Iterable[Raw]) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the JSON of each tool in the prompt. Tools that are loaded later are left out."""
    for array in arrays:
        for name, declaration, tool in _listed(document, array, 0):
            if document.plain(tool.get("defer_loading")) is not True:
                yield name, document.source(declaration)


def _listed(document: Document, value: Raw | None, depth: int) -> Iterator[tuple[str, Raw, dict[str, Raw]]]:
    """Yield the name, the declaration and the members of each tool that has a name."""
    if value is None or depth > _DEEPEST:
        return
    for item in document.items(value):
        tool = document.members(item)
        for wrapper in _WRAPPERS:
            tool = document.members(tool.get(wrapper)) or tool
        for several in _LISTS:
            yield from _listed(document, tool.get(several), depth + 1)
        if name := document.string(tool.get("name")):
            yield name, item, tool
