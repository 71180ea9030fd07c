"""This module has mitmproxy's flows, messages, options and addons for the steps of requests and responses."""

from __future__ import annotations

from typing import Any

from mitmproxy import ctx, http, websocket
from mitmproxy.proxy import layer

Flow = http.HTTPFlow
HttpRequest = http.Request
HttpResponse = http.Response
Headers = http.Headers
WebSocketMessage = websocket.WebSocketMessage
NextLayer = layer.NextLayer


def json_response(status: int, body: bytes) -> HttpResponse:
    return HttpResponse.make(status, body, {"content-type": "application/json"})


def header(message: HttpRequest | HttpResponse, name: str) -> str:
    """Return a header by its lower-case name; empty without one. mitmproxy's own view decodes each header
    several times."""
    wanted = name.encode()
    values = [value for each, value in message.headers.fields if each.lower() == wanted]
    return b", ".join(values).decode("utf-8", "surrogateescape")


def option(name: str) -> Any:
    return getattr(ctx.options, name)


def addon(name: str) -> Any:
    """Return an addon of mitmproxy by its name; None if this program lacks the addon."""
    return ctx.master.addons.get(name)
