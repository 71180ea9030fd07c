"""Bodies of mitmproxy's requests: bounded while they arrive, taken out of their content coding and put back
into it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mitmproxy import http

from penumbra.wire import content_encoding


class Bound(NamedTuple):
    """For the body of a request that is refused if its body is larger."""

    most: int
    """Bytes as they arrive."""
    refuse: Callable[[], None]
    """Answers the request."""


BOUNDS: WeakKeyDictionary[http.HTTPFlow, Bound] = WeakKeyDictionary()
"""Those of requests that are arriving."""


async def decoded(request: http.Request, limit: int) -> bytes:
    """The plain body, at most `limit` bytes. Raises NotDecodable, TooLarge."""
    coding = request.headers.get("content-encoding", "")
    raw = request.raw_content or b""
    if coding:
        return await asyncio.to_thread(content_encoding.decode, raw, coding, limit)
    return content_encoding.decode(raw, "", limit)


async def put(request: http.Request, body: bytes) -> None:
    """Put a plain body in, in the coding that the headers announce."""
    coding = request.headers.get("content-encoding", "")
    if coding:
        body = await asyncio.to_thread(content_encoding.encode, body, coding)
    request.raw_content = body
    if "transfer-encoding" not in request.headers:
        request.headers["content-length"] = str(len(request.raw_content))
