"""Responses over WebSocket: how a client asks for it, and how it may be sent back to HTTP.

Clients that are refused the upgrade with status 426 go on over HTTP at once, with the whole history in
every request; other refusals are retried for seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from penumbra.apis.recognise import Api, by_request_line
from penumbra.wire.json_values import encode

REFUSAL_STATUS = 426
_MESSAGE = "WebSocket is not supported here; use HTTP."


def asks_for(method: str, path: str, headers: Mapping[str, str]) -> Api | None:
    """The API whose requests would be the frames, of a request for a WebSocket where the Responses API is;
    None for all others. Header names in lower case."""
    if not is_socket(method, headers):
        return None
    api = by_request_line("POST", path)
    return api if api is not None and api.id == "openai-responses" else None


def is_socket(method: str, headers: Mapping[str, str]) -> bool:
    """Whether a request asks for a WebSocket. Header names in lower case, or of a mapping that makes no
    difference."""
    if method.upper() != "GET":
        return False
    asked = {name.strip().lower() for name in headers.get("upgrade", "").split(",")}
    return "websocket" in asked


def refusal() -> bytes:
    """The body of the refusal."""
    error = {"message": _MESSAGE, "type": "invalid_request_error", "param": None, "code": "upgrade_required"}
    return encode({"error": error})
