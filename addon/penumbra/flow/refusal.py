"""Requests that are not sent: their clients get a response of ours, and the log a line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from mitmproxy import http

from penumbra import errors
from penumbra.apis import other_paths, websocket_upgrade
from penumbra.apis.recognise import Api
from penumbra.config.settings import Settings
from penumbra.conversation.refused import Refused, message_of, unsearched
from penumbra.flow import destination
from penumbra.metrics.journal import Journal
from penumbra.redaction import RedactionError, Unreadable

Read = Callable[[Iterable[tuple[str, str]]], str]
"""What is ambiguous in some headers; empty: nothing."""
_log = logging.getLogger(__name__)


def refuse(flow: http.HTTPFlow, refused: Refused, journal: Journal) -> None:
    """Answer a request here."""
    flow.response = http.Response.make(refused.status, refused.body, {"content-type": "application/json"})
    flow.metadata["penumbra"] = {"refused": refused.status}
    flow.comment = f"Penumbra refused: {refused.reason}"
    count(flow, refused, journal)


def count(flow: http.HTTPFlow, refused: Refused, journal: Journal) -> None:
    """A request, or a frame of a WebSocket, is refused."""
    journal.refused()
    _log.warning(f"Penumbra refused a request to {destination.shown(flow)}: {refused.reason}")


def refuse_websocket(flow: http.HTTPFlow) -> None:
    """Send the client of a WebSocket back to HTTP."""
    content = {"content-type": "application/json", "upgrade": "HTTP/1.1", "connection": "upgrade"}
    status = websocket_upgrade.REFUSAL_STATUS
    flow.response = http.Response.make(status, websocket_upgrade.refusal(), content)
    flow.metadata["penumbra"] = {"refused": status}
    flow.comment = "Penumbra refused a WebSocket: the client goes on over HTTP"


def of_ambiguous(flow: http.HTTPFlow, read: Read, settings: Settings) -> Refused | None:
    """The refusal of a request whose head can be read in two ways; None: it can't."""
    why = read(flow.request.headers.items(multi=True)) if settings.must_search else ""
    if not why:
        return None
    error = Unreadable(why)
    body = other_paths.error(flow.request.host, error.status, message_of(error))
    return Refused(error.status, body, message_of(error))


def of_failure(flow: http.HTTPFlow, api: Api, error: Exception, settings: Settings) -> Refused | None:
    """The refusal of a request that could not be rewritten; None: it goes on. Without a refusal mitmproxy
    would send it as it came, with its secrets."""
    where = errors.place(error)
    if settings.redact_secrets:
        return unsearched(api, RedactionError(where))
    _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {where}")
    return None
