"""mitmproxy's face of WebSockets that are none of the Responses API's: their clients' frames are searched
for secrets; nothing else is done.

A child addon.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from mitmproxy import ctx, http
from mitmproxy.proxy.layers import websocket as layers

from penumbra.apis import other_paths
from penumbra.apis.other_paths import UNKNOWN_SOCKET, SocketKind
from penumbra.conversation.refused import message_of
from penumbra.flow import destination
from penumbra.flow.other_requests import OtherRequests
from penumbra.redaction import RedactionError

_WHOLE = 1 << 40
"""Bytes in one frame of a message that was changed."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Watched:
    kind: SocketKind
    strict: bool
    """Frames that are no JSON make no sense there."""


# Of the process, not of the addon: a reload of the script makes a new addon while sockets go on.
_WATCHED: dict[str, _Watched] = {}
"""By id of a flow that is a WebSocket, or asks for one."""


class OtherSockets:
    """State: none but the module's."""

    def __init__(self, requests: OtherRequests) -> None:
        self._requests = requests

    def expect(self, flow: http.HTTPFlow, *, is_provider: bool) -> None:
        """The flow asks for a WebSocket at a host of LLM APIs, or at one that may be."""
        kind = other_paths.socket_by_path(flow.request.path)
        if kind is not None or is_provider:
            _WATCHED[flow.id] = _Watched(kind or UNKNOWN_SOCKET, kind is not None and is_provider)

    # Hooks

    def response(self, flow: http.HTTPFlow) -> None:
        """An upgrade has been answered."""
        if flow.response is None or flow.id not in _WATCHED:
            return
        if flow.response.status_code == 101 and flow.websocket is None:
            # mitmproxy would pass on bytes that nobody reads.
            flow.response = http.Response.make(502)
        if flow.response.status_code != 101:
            _WATCHED.pop(flow.id, None)

    def error(self, flow: http.HTTPFlow) -> None:
        """An upgrade has failed."""
        _WATCHED.pop(flow.id, None)

    def websocket_start(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is open."""
        if flow.id in _WATCHED:
            # mitmproxy cuts changed messages at any byte, and takes halves of letters for broken ones.
            layers.Fragmentizer.FRAGMENT_SIZE = _WHOLE

    async def websocket_message(self, flow: http.HTTPFlow) -> None:
        """A frame is there; the next one waits for the end of this hook."""
        watched = _WATCHED.get(flow.id)
        if watched is None or flow.websocket is None:
            return
        message = flow.websocket.messages[-1]
        if message.injected or not message.from_client:
            return
        known, kind = watched.kind is not UNKNOWN_SOCKET, "text/plain" if message.is_text else ""
        try:
            frame = await self._requests.frame(
                flow, message.content, kind, known=known, strict=watched.strict
            )
        except RedactionError as error:
            told = message_of(error)
            _log.warning(f"Penumbra refused a frame to {destination.shown(flow)}: {told}")
            message.drop()
            refusal = watched.kind.refusal(told)
            ctx.master.commands.call("inject.websocket", flow, True, refusal, True)
            return
        if frame is not message.content:
            # Of a message that keeps its length, mitmproxy would keep the old cuts.
            message.content = frame + b" " if len(frame) == len(message.content) else frame

    def websocket_end(self, flow: http.HTTPFlow) -> None:
        """A WebSocket is closed."""
        _WATCHED.pop(flow.id, None)
