"""The fallback where responses can't be spliced: hidden requests run as replays of mitmproxy's own.

A replay goes through mitmproxy's core: all hooks, upstream mode, TLS options. It opens a connection
of its own, and nothing cancels it when the client goes away, so `cancel` does.
"""

from __future__ import annotations

import asyncio

from mitmproxy import ctx, http
from mitmproxy.addons.clientplayback import ReplayHandler

_TIMEOUT_SECONDS = 600.0


class Reissue:
    """Hidden requests under way, by id of their flow."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}
        self._clients: dict[str, str] = {}

    async def run(self, flow: http.HTTPFlow) -> str | None:
        """Send the flow's request and wait for its end; what went wrong, if something did."""
        future = self._waiting[flow.id] = asyncio.get_running_loop().create_future()
        self._clients[flow.id] = flow.client_conn.id
        flow.server_conn = flow.server_conn.copy()
        handler = ReplayHandler(flow, ctx.options)
        task = asyncio.ensure_future(handler.replay())
        try:
            await asyncio.wait_for(future, _TIMEOUT_SECONDS)
        except TimeoutError:
            return "no answer in time"
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
            return "the client is gone"
        finally:
            self._waiting.pop(flow.id, None)
            self._clients.pop(flow.id, None)
            task.cancel()
            for transport in list(handler.transports.values()):
                if transport.handler is not None:
                    transport.handler.cancel("Penumbra: the hidden request has ended")
        return flow.error.msg if flow.error else None

    def ended(self, flow: http.HTTPFlow) -> None:
        """The flow's `response` or `error` hook."""
        future = self._waiting.get(flow.id)
        if future is not None and not future.done():
            future.set_result(None)

    def cancel(self, client_id: str) -> None:
        """The client is gone: nobody waits for its hidden requests."""
        for flow_id, owner in list(self._clients.items()):
            if owner == client_id and not self._waiting[flow_id].done():
                self._waiting[flow_id].cancel()
