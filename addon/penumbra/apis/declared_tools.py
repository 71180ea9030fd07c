"""The tools that a request declares, in every API's way to write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Raw

from penumbra.wire.document import Document

_WRAPPERS = ("function", "toolSpec")
"""Members that hold one declaration."""
_LISTS = ("functionDeclarations", "function_declarations", "tools")
"""Members that hold several: Gemini's, and namespaces of Responses."""
_SCHEMAS = ("input_schema", "parameters", "inputSchema", "parametersJsonSchema", "parameters_json_schema")
_DEEPEST = 4


def declared_schemas(document: Document, arrays: Iterable[Raw]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Name and top-level properties of each client tool. Tools without a schema are left out.

    `arrays`: those that declare tools.
    """
    for array in arrays:
        for name, _, tool in _listed(document, array, 0):
            schema = next((tool[member] for member in _SCHEMAS if member in tool), None)
            if schema is not None:
                members = document.members(schema)
                members = document.members(members.get("json")) or members
                yield name, tuple(document.members(members.get("properties")))


def declarations(document: Document, arrays: Iterable[Raw]) -> Iterator[tuple[str, bytes]]:
    """Return name and JSON text of each tool that stands in the prompt; a tool that loads later does not."""
    for array in arrays:
        for name, declaration, tool in _listed(document, array, 0):
            if document.plain(tool.get("defer_loading")) is not True:
                yield name, document.source(declaration)


def _listed(document: Document, value: Raw | None, depth: int) -> Iterator[tuple[str, Raw, dict[str, Raw]]]:
    """Return name, declaration and members of each tool with a name."""
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
