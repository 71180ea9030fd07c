"""A test provider: scripted, strict, and with a memory for every byte that it was sent. The provider speaks
the APIs of all providers over HTTP/1.1 and HTTP/2, with and without TLS, in a thread of its own. The provider
refuses what the real APIs refuse. Tests script the model (`script.py`) and afterwards read what arrived
(`Upstream.requests`). Each API is one module with a subclass of `api.Api`; the server knows nothing of their
contents."""

from support.upstream.api import Received
from support.upstream.encodings import decode, encode
from support.upstream.script import (
    Cut,
    Delivery,
    Fault,
    Hangup,
    Raw,
    Response,
    Text,
    Thinking,
    ToolCall,
    Turn,
    turn,
)
from support.upstream.server import Upstream

__all__ = [
    "Cut", "Delivery", "Fault", "Hangup", "Raw", "Received", "Response", "Text",
    "Thinking", "ToolCall", "Turn", "Upstream", "decode", "encode", "turn",
]  # fmt: skip
