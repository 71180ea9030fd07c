"""WebSockets that are none of the Responses API's: their clients' frames are searched for secrets; nothing
else is done."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mitmproxy import http

from penumbra.apis import other_paths
from penumbra.apis.other_paths import UNKNOWN_SOCKET, SocketKind
from penumbra.conversation.refused import message_of
from penumbra.flow import destination, websocket_frames
from penumbra.flow.other_requests import OtherRequests
from penumbra.redaction import RedactionError

_log = logging.getLogger(__name__)


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
        """A frame is there; the next one waits for the end of this hook."""
        if flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if message.injected or not message.from_client:
            return
        known, kind = socket.kind is not UNKNOWN_SOCKET, "text/plain" if message.is_text else ""
        try:
            frame = await self._requests.frame(flow, message.content, kind, known=known, strict=socket.strict)
        except RedactionError as error:
            told = message_of(error)
            _log.warning(f"Penumbra refused a frame to {destination.shown(flow)}: {told}")
            message.drop()
            websocket_frames.inject(flow, socket.kind.refusal(told), to_client=True)
            return
        if frame is not message.content:
            websocket_frames.put(message, frame)
