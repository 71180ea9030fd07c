"""The tool that the client does not know: what it says of itself, and where it belongs.

Its bytes are constant: tools come first in the prefix that providers cache and that signed reasoning
is bound to.
"""

from __future__ import annotations

from penumbra.wire.answer import Tool, Tools
from penumbra.wire.document import encode

NAMES = ("expand_context", "penumbra_expand_context")
"""The second one is for requests in which a client tool has the first one's name."""

LEGEND = "[REDACTED:kind:code] stands for a secret value; never write it in the value's place."
"""What placeholders are. It stands here because these bytes are in every request from the first one on,
so that no cached prefix moves when the first secret comes."""
_DESCRIPTION = (
    "Full text of a tool result that begins with <<<SHADOW:id>>>: it was shortened. Use this instead of "
    "guessing or running the tool again. `pattern` (RE2) returns matching lines, `lines` a range like "
    "120-180. "
) + LEGEND
_PARAMETERS = encode(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "pattern": {"type": "string"},
            "lines": {"type": "string"},
            "offset": {"type": "integer"},
        },
        "required": ["id"],
    }
)
"""As few bytes as will do, since they are sent with every request. `expand` takes `ignore_case` and
`context` too, and its answers tell when an `offset` helps."""


def tool(name: str) -> Tool:
    """The declaration under one of `NAMES`."""
    return Tool(name, _DESCRIPTION, _PARAMETERS)


def name_for(tools: Tools) -> str | None:
    """The phantom's name in a request, None where it does not belong: without client tools, where an
    answer can't be continued, and where a lone tool is forced, which asks for data in a shape."""
    if not tools.own or not tools.continuable or (tools.forced and len(tools.names) == 1):
        return None
    return next((name for name in NAMES if name not in tools.names), None)
