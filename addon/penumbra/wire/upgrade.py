"""Responses over WebSocket: how a client asks for it, and how it is sent back to HTTP.

Clients that are refused the upgrade with status 426 go on over HTTP at once, with the whole history in
every request; other refusals are retried for seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from penumbra.wire.document import encode
from penumbra.wire.recognise import by_request_line

REFUSAL_STATUS = 426
_MESSAGE = "WebSocket is not supported here; use HTTP."


def is_responses_socket(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request wants to open a WebSocket where the Responses API is. Header names in lower case."""
    if method != "GET" or headers.get("upgrade", "").lower() != "websocket":
        return False
    api = by_request_line("POST", path, "")
    return api is not None and api.id == "openai-responses"


def refusal() -> bytes:
    """The body of the refusal."""
    error = {"message": _MESSAGE, "type": "invalid_request_error", "param": None, "code": "upgrade_required"}
    return encode({"error": error})
