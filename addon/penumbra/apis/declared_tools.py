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
        yield from _listed(document, array, 0)


def _listed(document: Document, value: Raw | None, depth: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    if value is None or depth > _DEEPEST:
        return
    for item in document.items(value):
        tool = document.members(item)
        for wrapper in _WRAPPERS:
            tool = document.members(tool.get(wrapper)) or tool
        for several in _LISTS:
            yield from _listed(document, tool.get(several), depth + 1)
        name = document.string(tool.get("name"))
        schema = next((tool[member] for member in _SCHEMAS if member in tool), None)
        if name and schema is not None:
            members = document.members(schema)
            members = document.members(members.get("json")) or members
            yield name, tuple(document.members(members.get("properties")))
