"""The tool that the client does not know: what it says of itself, and where it belongs.

Its bytes are constant: tools come first in the prefix that providers cache and that signed reasoning
is bound to.
"""

from __future__ import annotations

from penumbra.wire.answer import Tool, Tools
from penumbra.wire.document import encode

NAMES = ("expand_context", "penumbra_expand_context")
"""The second one is for requests in which a client tool has the first one's name."""

LEGEND = (
    "Where a text says [REDACTED:kind:code], a secret value was taken out, and the same mark always stands "
    "for the same value: never write a mark where the value belongs."
)
"""What placeholders are. It stands here because these bytes are in every request from the first one on,
so that no cached prefix moves when the first secret comes."""
_DESCRIPTION = (
    "Returns the full text of a tool result that was shortened to save context. A shortened result "
    "begins with <<<SHADOW:id>>>. Call this with that id when the shortened text lacks something you "
    "need. For a large text, ask for a part of it: `pattern` returns the matching lines with their line "
    "numbers, `lines` a range of lines. Never guess what was left out, and do not run a tool again "
    "only to see its full output. "
) + LEGEND
_PARAMETERS = encode(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "The id of the shortened result: shadow_…"},
            "pattern": {
                "type": "string",
                "description": "Return only lines that match this regular expression (RE2, line by line).",
            },
            "ignore_case": {"type": "boolean", "description": "Match the pattern in any case."},
            "context": {
                "type": "integer",
                "description": "Lines to return before and after each matching line (default 2).",
            },
            "lines": {"type": "string", "description": 'Return only these lines, for example "120-180".'},
            "offset": {
                "type": "integer",
                "description": "Go on at this character; only as told by an earlier answer.",
            },
        },
        "required": ["id"],
    }
)


def tool(name: str) -> Tool:
    """The declaration under one of `NAMES`."""
    return Tool(name, _DESCRIPTION, _PARAMETERS)


def name_for(tools: Tools) -> str | None:
    """The phantom's name in a request, None where it does not belong: without client tools, where an
    answer can't be continued, and where a lone tool is forced, which asks for data in a shape."""
    if not tools.own or not tools.continuable or (tools.forced and len(tools.names) == 1):
        return None
    return next((name for name in NAMES if name not in tools.names), None)
