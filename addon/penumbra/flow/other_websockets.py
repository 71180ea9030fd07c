"""WebSockets that are none of the Responses API's: their clients' frames are searched for secrets; nothing
else is done."""

from __future__ import annotations

from dataclasses import dataclass

from mitmproxy import http

from penumbra.apis import other_paths
from penumbra.apis.other_paths import UNKNOWN_SOCKET, SocketKind
from penumbra.flow import websocket_frames
from penumbra.flow.other_requests import OtherRequests


@dataclass(frozen=True, slots=True)
class SearchedSocket:
    """One connection."""

    kind: SocketKind
    strict: bool
    """Frames that are no JSON make no sense there."""

    @classmethod
    def at(cls, path: str, *, is_provider: bool) -> SearchedSocket | None:
        """Of a WebSocket at a host of LLM APIs, or at one that may be; None: it is left alone."""
        kind = other_paths.socket_by_path(path)
        if kind is None and not is_provider:
            return None
        return cls(kind or UNKNOWN_SOCKET, kind is not None and is_provider)


class OtherWebSockets:
    """State: none."""

    def __init__(self, requests: OtherRequests) -> None:
        self._requests = requests

    async def message(self, flow: http.HTTPFlow, socket: SearchedSocket) -> None:
        """Search a frame. Raises RedactionError."""
        if flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if message.injected or not message.from_client:
            return
        known, kind = socket.kind is not UNKNOWN_SOCKET, "text/plain" if message.is_text else ""
        frame = await self._requests.frame(flow, message.content, kind, known=known, strict=socket.strict)
        if frame is not message.content:
            websocket_frames.put(message, frame)
