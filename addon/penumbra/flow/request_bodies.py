"""Bodies of mitmproxy's requests, taken out of their content coding and put back into it."""

from __future__ import annotations

import asyncio

from mitmproxy import http

from penumbra.wire import content_encoding


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
