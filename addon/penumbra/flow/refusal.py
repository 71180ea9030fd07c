"""This module refuses requests. A refused request is not sent, and its client gets a response."""

from __future__ import annotations

import logging
from functools import partial

from penumbra import errors
from penumbra.apis import recognise
from penumbra.apis.recognise import Api
from penumbra.conversation.incoming import Refused, message_of
from penumbra.flow import destination
from penumbra.flow.mitm import Flow, HttpResponse, json_response
from penumbra.metrics.journal import Journal
from penumbra.redaction import RedactionError

_log = logging.getLogger(__name__)


def refuse(flow: Flow, refused: Refused, journal: Journal) -> None:
    flow.response = json_response(refused.status, refused.body)
    flow.metadata["penumbra"] = {"refused": refused.status}
    flow.comment = f"Penumbra refused: {refused.reason}"
    count(flow, refused, journal)


def count(flow: Flow, refused: Refused, journal: Journal) -> None:
    """Count and log a refused request or a refused frame of a WebSocket."""
    journal.refused()
    _log.warning(f"Penumbra refused a request to {destination.shown(flow)}: {refused.reason}")


def refuse_websocket(flow: Flow) -> None:
    """Send the client of a WebSocket back to HTTP."""
    content = {"content-type": "application/json", "upgrade": "HTTP/1.1", "connection": "upgrade"}
    status = recognise.REFUSAL_STATUS
    flow.response = HttpResponse.make(status, recognise.upgrade_refusal(), content)
    flow.metadata["penumbra"] = {"refused": status}
    flow.comment = "Penumbra refused a WebSocket: the client goes on over HTTP"


def of_failure(flow: Flow, api: Api | None, error: BaseException) -> Refused:
    """Return the refusal of a request or frame that could not be searched for secrets. The error has the
    format of the API. Without an API, the host decides the format."""
    if not isinstance(error, RedactionError):
        error = RedactionError(errors.place(error))
    message = message_of(error)
    shape = api.wire.error if api is not None else partial(recognise.error_body, flow.request.pretty_host)
    return Refused(error.status, shape(error.status, message), message)


def leave(flow: Flow, error: BaseException) -> None:
    """Log that a request or frame is forwarded unchanged although something failed."""
    _log.warning(f"Penumbra leaves a request to {destination.shown(flow)} alone: {errors.place(error)}")
