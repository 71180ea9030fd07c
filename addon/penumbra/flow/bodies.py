"""This module limits, decodes and encodes the bodies of requests, and reads the bodies of responses."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from penumbra.apis import bedrock, upstream_error
from penumbra.apis.base import Failure
from penumbra.errors import place
from penumbra.expand.hidden_exchanges import Prepared
from penumbra.expand.loop import Done
from penumbra.flow import destination
from penumbra.flow.mitm import Flow, HttpRequest, HttpResponse, header, json_response
from penumbra.flow.state import FlowState
from penumbra.wire import content_encoding, framing


class Bound(NamedTuple):
    """A `Bound` is the limit for a request's body. Requests with a larger body are refused."""

    most: int
    """The limit in bytes, before decoding."""
    refuse: Callable[[Flow], None]
    """A function that answers a flow's request. The function must not refer to the flow: if the client left
    before the end of the body, the flow would never be freed."""


BOUNDS: WeakKeyDictionary[Flow, Bound] = WeakKeyDictionary()
"""The bounds of the requests that are arriving."""


async def decoded(request: HttpRequest, limit: int) -> bytes:
    """Return the decoded body, which may have at most `limit` bytes. Raises NotDecodable, OverLimit."""
    coding = header(request, "content-encoding")
    raw = request.raw_content or b""
    if coding:
        return await asyncio.to_thread(content_encoding.decode, raw, coding, limit)
    return content_encoding.decode(raw, "", limit)


async def put(request: HttpRequest, body: bytes) -> None:
    """Put a decoded body into a message, in the coding that the headers announce."""
    coding = header(request, "content-encoding")
    if coding:
        body = await asyncio.to_thread(content_encoding.encode, body, coding)
    request.raw_content = body
    if "transfer-encoding" not in request.headers:
        request.headers["content-length"] = str(len(request.raw_content))


PAUSE = 0.5
_LONGEST_PAUSE = 5.0
_WHEN = ("retry-after", "x-should-retry")
_TOKEN_HEADER = "x-amzn-bedrock-output-token-count"
_log = logging.getLogger(__name__)


def ask_for_codings(request: HttpRequest) -> None:
    """Ask only for content codings that can be decoded piece by piece."""
    codings = header(request, "accept-encoding")
    if codings and (accepted := content_encoding.acceptable(codings)) != codings:
        request.headers["accept-encoding"] = accepted


def stream_plainly(flow: Flow, response: HttpResponse) -> None:
    """Prepare the headers for a stream without content coding and without a known length."""
    response.headers.pop("content-encoding", None)
    response.headers.pop("content-length", None)
    if flow.request.http_version == "HTTP/1.1" and response.http_version != "HTTP/1.0":
        # Without chunks, the body would end with the connection, and a broken body would look complete.
        response.headers["transfer-encoding"] = "chunked"


def pass_live(response: HttpResponse) -> None:
    """Let a stream pass as it arrives, and keep a copy of it in the flow."""
    copy = bytearray()

    def take(data: bytes) -> bytes | list[bytes]:
        copy.extend(data)
        if data:
            return data
        response.data.content = bytes(copy)
        return []

    response.stream = take


def stream_continuation(response: HttpResponse, body: bytearray, state: FlowState) -> None:
    """Decode the stream of a hidden request as it arrives, and keep a copy of it in `body`."""
    decode = content_encoding.decoder(response.headers.pop("content-encoding", ""))
    decoded = LiveDecoding(decode, state) if decode is not None else None

    def take(data: bytes) -> bytes | list[bytes]:
        if not data or decoded is None:
            return []
        plain = decoded.feed(data)
        body.extend(plain)
        return plain or []

    response.stream = take


def let_go(flow: Flow) -> None:
    """Drop the reader of an ended stream. The reader refers to the request, and flows may be kept as long as
    mitmproxy runs."""
    if flow.response is not None and callable(flow.response.stream):
        flow.response.stream = True


class LiveDecoding:
    """A `LiveDecoding` decodes a stream as it arrives. If a response is too large or can't be decoded, the
    client's response breaks off."""

    def __init__(self, decode: content_encoding.Decode, state: FlowState) -> None:
        self._decode = decode
        self._state = state

    def feed(self, data: bytes, then: Callable[[bytes], bytes] = bytes) -> bytes:
        """Decode the next bytes, and return the result of `then` for them."""
        if self._state.broken:
            return b""
        try:
            return then(self._decode(data))
        except Exception as error:
            self._state.broken = f"the response could not be decoded: {place(error)}"
            _log.warning("penumbra: %s", self._state.broken)
            return b""

    def end(self, rest: Callable[[], bytes]) -> bytes:
        """End the stream, and return the delayed bytes from `rest`, or no bytes for a broken response."""
        return b"" if self._state.broken else rest()


def plain_body(flow: Flow, body: bytes) -> bytes | None:
    """Return a response's decoded body; None if the body can't be decoded."""
    assert flow.response is not None
    try:
        coding = header(flow.response, "content-encoding")
        return content_encoding.decode(body, coding, content_encoding.MOST_BYTES)
    except content_encoding.NotDecodable as error:
        _log.warning(f"penumbra: a response of {destination.shown(flow)} could not be read: {error}")
        return None


def content(flow: Flow) -> bytes:
    """Return the decoded body of a flow's response; empty if there is none or if decoding fails."""
    body = flow.response.raw_content if flow.response else None
    return plain_body(flow, body or b"") or b"" if flow.response else b""


def replace_document(flow: Flow, done: Done) -> None:
    """Adapt a response's status and headers to its new body."""
    assert flow.response is not None
    flow.response.headers.pop("content-encoding", None)
    if "content-length" in flow.response.headers:
        flow.response.headers["content-length"] = str(len(done.out))
    if done.status is not None:
        flow.response.status_code = done.status
    if _TOKEN_HEADER in flow.response.headers:
        flow.response.headers.update(bedrock.token_headers(done.out))


def is_stream(flow: Flow) -> bool:
    kind = header(flow.response, "content-type") if flow.response else ""
    return framing.is_stream(kind, flow.request.path)


def refuse(flow: Flow, prepared: Prepared, failure: Failure) -> None:
    """Replace the response by a response that reports the failure. No part of the response has been sent
    yet."""
    failure = replace(failure, reported=False)
    body = prepared.wire.body(prepared.tool).fail(failure)
    status = upstream_error.described(failure, "").status or 502
    flow.response = json_response(status, body)


def failure(flow: Flow, error: str | None, stream: bool, body: bytes) -> tuple[Failure | None, float | None]:
    """Return the failure of a continuation, or None if the continuation can be used. Also return the seconds
    after which the request may be sent again; None means never. `body` is the decoded body of the
    continuation's response."""
    response = flow.response
    if error is not None or response is None:
        return Failure(None, b"", f"the connection to the upstream failed: {error}"), 0.0
    if response.status_code == 200 and is_stream(flow) == stream:
        return None, None
    message = f"the upstream answered with status {response.status_code}"
    failed = Failure(response.status_code, body, message, _wanted_pause(response))
    return failed, None if response.headers.get("x-should-retry") == "false" else pause(failed)


def pause(failure: Failure) -> float | None:
    """Return the seconds after which a failed request may be sent again; None means never."""
    status = upstream_error.status(failure)
    if (failure.body and status is None) or (status is not None and status not in upstream_error.PASSING):
        return None
    wanted = PAUSE if failure.retry_after is None else failure.retry_after
    return wanted if wanted <= _LONGEST_PAUSE else None


def copy_retry_headers(flow: Flow, continuation: Flow | None) -> None:
    """Copy the retry headers of a refused continuation into the client's response if both have the same
    status."""
    refused = continuation.response if continuation is not None else None
    if refused is not None and flow.response is not None and refused.status_code != flow.response.status_code:
        return
    if flow.response is not None and refused is not None and refused.status_code >= 400:
        for name in _WHEN:
            if name in refused.headers:
                flow.response.headers[name] = refused.headers[name]


def _wanted_pause(response: HttpResponse) -> float | None:
    """Return the seconds that the provider asks clients to wait; None if the response names no number."""
    try:
        wanted = float(response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return wanted if 0 <= wanted < math.inf else None
