"""A provider and a proxy on this machine, without a key or a network, for scripts that show or measure
something. `scripts/` imports this folder through this module alone, which needs only the package's own
dependencies."""

from support.mitm import Mitmdump, NotStarted
from support.upstream import Received, Response, Text, ToolCall, Turn, Upstream, tls

__all__ = [
    "Mitmdump", "NotStarted", "Received", "Response", "Text", "ToolCall", "Turn", "Upstream", "tls",
]  # fmt: skip
