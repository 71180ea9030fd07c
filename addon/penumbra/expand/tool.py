"""The tool that the client does not know: what it says of itself, and where it belongs.

Its bytes are constant: tools come first in the prefix that providers cache and that signed reasoning
is bound to.
"""

from __future__ import annotations

from penumbra.apis.base import Tool, Tools
from penumbra.wire.json_values import encode

NAMES = ("expand_context", "penumbra_expand_context")
"""The second one is for requests in which a client tool has the first one's name."""

EDITING_NAMES = {name: name.replace("context", "original") for name in NAMES}
"""The same in conversations in which values are put back into edits: the legend is another one there,
and a conversation keeps its tool, whatever becomes of the setting."""

LEGEND = "[REDACTED:kind:code] hides a secret: never write it in its place."
"""What placeholders are. It stands here because these bytes are in every request from the first one on,
so that no cached prefix moves when the first secret comes."""
EDITING_LEGEND = (
    "[REDACTED:kind:code] stands for a secret value; write it as it is where you edit the file that it "
    "came from, and nowhere else in the value's place."
)
_DESCRIPTION = (
    "Full text behind <<<SHADOW:id>>>, or its lines that match `pattern` (RE2), or `lines` 120-180. "
    "Use it, don't guess or rerun. [N lines: same as in …]: the named earlier result shows them. "
)
_PARAMETERS = encode(
    {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "pattern": {"type": "string"},
            "lines": {"type": "string"},
        },
        "required": ["id"],
    }
)
"""As few bytes as will do, since they are sent with every request: in small conversations they are most of
what it costs. `query` takes `ignore_case`, `context` and `offset` too; where a part begins within a line, its
answers say so in `lines`."""


def tool(name: str) -> Tool:
    """The declaration under one of `NAMES` or `EDITING_NAMES`."""
    legend = EDITING_LEGEND if name in EDITING_NAMES.values() else LEGEND
    return Tool(name, _DESCRIPTION + legend, _PARAMETERS)


def editing_name(name: str, tools: Tools) -> str:
    """The name that takes this one's place where a conversation begins in which edits get values."""
    other = EDITING_NAMES.get(name, name)
    return name if other in tools.names else other


def name_for(tools: Tools) -> str | None:
    """The injected tool's name in a request, None where it does not belong: without client tools, where an
    response can't be continued, and where a lone tool is forced, which asks for data in a shape."""
    if not tools.own or not tools.continuable or (tools.forced and len(tools.names) == 1):
        return None
    return next((name for name in NAMES if name not in tools.names), None)
