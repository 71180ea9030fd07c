"""A provider and a proxy on this machine, for whoever shows or measures something: no key, no network.

The one door to this folder for `scripts/`. It needs nothing but the package's own dependencies.
"""

from support.mitm import Mitmdump, NotStarted
from support.upstream import Received, Response, Text, ToolCall, Turn, Upstream, tls

__all__ = [
    "Mitmdump", "NotStarted", "Received", "Response", "Text", "ToolCall", "Turn", "Upstream", "tls",
]  # fmt: skip
