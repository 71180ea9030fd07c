"""This module keeps exceptions of hooks away from mitmproxy.

After an exception, mitmproxy continues as if the hook did not exist. A request that must be searched for
secrets would be sent unchanged, and the hooks of later scripts would not be called. Therefore each addon
decides what happens to the flow or connection of a failed hook.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

from mitmproxy import ctx, hooks, http
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from penumbra.errors import place

LIFE = ("load", "configure", "running", "update", "done")
"""The hooks of the addon itself. Their errors are shown to the operator."""
_OUTWARD = ("next_layer", "server_connect", "http_connect", "requestheaders", "request", "websocket_message")
"""The hooks after which data goes to a server."""
_ENDS = (KeyboardInterrupt, SystemExit, GeneratorExit)
_REFUSAL = b'{"type":"error","error":{"message":"Penumbra failed and did not send this request"}}'
_log = logging.getLogger(__name__)


class Guarded:
    """A base class for addons. Exceptions of a subclass's hooks go to `failed`, except in the hooks of
    `LIFE`."""

    def __init_subclass__(cls) -> None:
        for name, method in list(vars(cls).items()):
            if (name in hooks.all_hooks and name not in LIFE) or name.startswith("penumbra_"):
                setattr(cls, name, _guarded(name, method))

    def failed(self, hook: str, subject: Any, error: BaseException) -> bool:
        """Handle the flow or connection of a hook that raised. Return whether the exception has been logged.
        By default, flows are forwarded unchanged. If this method also raises, no data is sent to a server."""
        return False


def _guarded(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def later(self: Guarded, subject: Any) -> None:
            try:
                await method(self, subject)
            except BaseException as error:
                if _is_end(error):
                    raise
                _caught(self, name, subject, error)

        return later

    @functools.wraps(method)
    def at_once(self: Guarded, subject: Any) -> None:
        try:
            method(self, subject)
        except BaseException as error:
            if _is_end(error):
                raise
            _caught(self, name, subject, error)

    return at_once


def _is_end(error: BaseException) -> bool:
    """Return whether the error ends the process or the hook's task. No caller waits for the hook then."""
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, _ENDS)
    with contextlib.suppress(RuntimeError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return False


def _caught(addon: Guarded, hook: str, subject: Any, error: BaseException) -> None:
    is_logged = False
    try:
        is_logged = addon.failed(hook, subject, error)
    except BaseException as another:
        if _is_end(another):
            raise
        if hook in _OUTWARD:
            stop(subject)
    if not is_logged:
        with contextlib.suppress(Exception):
            _log.error(f"penumbra: the hook {hook} failed: {place(error)}")


def stop(subject: Any) -> None:
    """Keep the flow or connection of a hook away from all servers."""
    if isinstance(subject, layer.NextLayer):
        subject.layer = Closed(subject.context)
    elif isinstance(subject, ServerConnectionHookData):
        subject.server.error = "Penumbra failed"
    elif isinstance(subject, http.HTTPFlow) and subject.websocket is not None:
        if subject.websocket.messages and subject.websocket.messages[-1].from_client:
            subject.websocket.messages[-1].drop()
            ctx.master.commands.call("inject.websocket", subject, True, _REFUSAL, True)
    elif isinstance(subject, http.HTTPFlow):
        subject.response = http.Response.make(500, _REFUSAL, {"content-type": "application/json"})


class Closed(layer.Layer):
    """A layer that forwards nothing and closes its connection."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        if isinstance(event, events.Start):
            yield commands.CloseConnection(self.context.client)


def closing(context: Context, work: layer.CommandGenerator[None]) -> layer.CommandGenerator[None]:
    """Do a layer's work. After an exception, close the client's connection, which would otherwise stay
    open."""
    try:
        yield from work
    except Exception as error:
        yield commands.Log(f"penumbra: a connection is closed: {place(error)}", logging.ERROR)
        yield commands.CloseConnection(context.client)
