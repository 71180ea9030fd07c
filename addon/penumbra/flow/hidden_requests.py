"""This module runs hidden requests. The client does not see these requests.

If responses can be spliced, the splice runs the hidden requests. Otherwise they run as replays of mitmproxy.
A replay goes through mitmproxy's core (all hooks, upstream mode, TLS options) on a connection of its own.
mitmproxy does not cancel replays when the client goes away, so `client_disconnected` cancels them.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from mitmproxy import connection, ctx, http
from mitmproxy.addons.clientplayback import ReplayHandler

from penumbra.flow import bodies
from penumbra.flow import state as states
from penumbra.flow.state import FlowState

_TIMEOUT_SECONDS = 600.0
_DISCONNECT_SECONDS = 0.05
_NOT_REPEATED = ("idempotency-key", "expect", "content-encoding", "transfer-encoding", "content-length")


@dataclass
class HiddenRequest:
    client_id: str
    """Id of the client's connection."""
    body: bytearray = field(default_factory=bytearray)
    """The bytes of the response that have arrived."""
    end: asyncio.Future[None] | None = None
    """A future that is set when the replay ends; None if nothing waits for the end."""


# These ids belong to the process and not to the addon: a reload of the script makes a new addon while
# responses continue.
_CLIENTS: set[str] = set()
"""The ids of open connections that may have caused hidden requests."""


def watch(client: connection.Client) -> None:
    """Remember the id of this client, whose hidden requests must be cancelled when the client goes away."""
    _CLIENTS.add(client.id)


def make(parent: http.HTTPFlow, state: FlowState, body: bytes, comment: str) -> http.HTTPFlow:
    """Return the flow of a hidden request, linked to the client's flow `parent`."""
    flow = http.HTTPFlow(parent.client_conn, parent.server_conn)
    flow.request = parent.request.copy()
    for name in _NOT_REPEATED:
        flow.request.headers.pop(name, None)
    flow.request.data.content = body
    flow.request.headers["content-length"] = str(len(body))
    flow.request.timestamp_start = flow.request.timestamp_end = time.time()
    flow.is_replay = "request"
    flow.comment = f"Penumbra: {comment} {parent.id[:8]}, not seen by the client"
    described = parent.metadata.get("penumbra", {})
    same = {name: described[name] for name in ("session", "declared") if name in described}
    flow.metadata["penumbra"] = {"continues": parent.id, **same}
    hidden = HiddenRequest(parent.client_conn.id)
    states.begin(flow, state.handle.share()).put(hidden)
    return flow


async def run(flow: http.HTTPFlow) -> str | None:
    """Send a hidden request and wait for its end. Return the error, or None."""
    state = states.of(flow)
    if state is None or (hidden := state.get(HiddenRequest)) is None:
        return "the flow has ended"
    end = hidden.end = asyncio.get_running_loop().create_future()
    flow.server_conn = flow.server_conn.copy()
    handler = ReplayHandler(flow, ctx.options)
    task = asyncio.ensure_future(handler.replay())
    try:
        await asyncio.wait_for(end, _TIMEOUT_SECONDS)
    except TimeoutError:
        return "no response in time"
    except asyncio.CancelledError:
        if not end.cancelled():
            raise
        return "the client is gone"
    finally:
        states.forget(flow)
        task.cancel()
        for transport in list(handler.transports.values()):
            if transport.handler is not None:
                transport.handler.cancel("Penumbra: the hidden request has ended")
    return flow.error.msg if flow.error else None


def headers(flow: http.HTTPFlow, hidden: HiddenRequest, state: FlowState) -> None:
    """If the response to a hidden request is a stream, read it as it arrives."""
    if flow.response is None or flow.response.status_code != 200:
        return
    if bodies.is_stream(flow):
        bodies.stream_continuation(flow.response, hidden.body, state)


def ended(flow: http.HTTPFlow, hidden: HiddenRequest) -> None:
    """End the wait for a hidden request whose response is complete or will never come."""
    if flow.response is not None and hidden.body:
        flow.response.data.content = bytes(hidden.body)
    if hidden.end is not None and not hidden.end.done():
        hidden.end.set_result(None)


async def client_disconnected(client: connection.Client) -> None:
    """Cancel the hidden requests of a client that has gone. Wait a moment, because mitmproxy cancels the
    upstream connections after this hook. From Python 3.12 on, the upstream's socket would stay open if a
    second cancellation came while the first cancellation waits for a hook."""
    if client.id not in _CLIENTS:
        return
    _CLIENTS.discard(client.id)
    for state in states.all_states():
        hidden = state.get(HiddenRequest)
        if hidden is not None and hidden.client_id == client.id and hidden.end is not None:
            hidden.end.cancel()
    await asyncio.sleep(_DISCONNECT_SECONDS)
