"""Calls to services, through the operator's proxies but never through ourselves.

Every call carries a header with a number of its own, so that a call that comes back to us over any
way (a transparent proxy, a proxy in front) is recognised and left alone. The number means nothing as
soon as the call is over.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import certifi
import httpx
import orjson

from penumbra.external.strategy import Failure
from penumbra.wire import content_encoding, request_path
from penumbra.wire.request_path import is_this_machine

Listening = Callable[[], Collection[int]]
"""The ports that this process listens on."""
# They would write addresses and keys into the log.
for _name in ("httpx", "httpcore", "hpack", "h2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Call:
    """A POST with a JSON body."""

    url: str
    headers: Mapping[str, str]
    body: Any


class Http:
    """One client for all calls, made when the first one is. `listening` is asked for every new client."""

    def __init__(self, listening: Listening = tuple) -> None:
        self._listening = listening
        self._client: httpx.AsyncClient | None = None
        self._ports: frozenset[int] = frozenset()

    async def post(self, call: Call, timeout: float, limit: int) -> Any:
        """The decoded JSON of a 200 response of at most `limit` bytes, within `timeout` seconds.

        Raises Failure.
        """
        try:
            async with asyncio.timeout(timeout):
                body = await self._post(call, limit)
        except TimeoutError:
            raise Failure("timeout", f"{timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as error:
            raise Failure("connection", type(error).__name__) from None
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            raise Failure("malformed", "not JSON") from None

    async def _post(self, call: Call, limit: int) -> bytes:
        number = secrets.token_hex(16)
        accepted = {"accept": "application/json", "accept-encoding": ", ".join(content_encoding.SUPPORTED)}
        headers = {**call.headers, request_path.HEADER: number, **accepted}
        client = self._connected()
        request = client.build_request("POST", call.url, json=call.body, headers=headers)
        request_path.under_way.add(number)
        try:
            return await self._received(await client.send(request, stream=True), limit)
        finally:
            request_path.under_way.discard(number)

    async def _received(self, response: httpx.Response, limit: int) -> bytes:
        try:
            if response.status_code != 200:
                raise Failure("status", str(response.status_code))
            # Raw: httpx would decode a small piece into as much memory as it takes.
            decoder = content_encoding.Decoder(response.headers.get("content-encoding", ""), limit)
            body, received = bytearray(), 0
            async for piece in response.aiter_raw():
                received += len(piece)
                if received > limit:
                    raise content_encoding.TooLarge("before decoding")
                body += decoder.feed(piece)
            return bytes(body)
        except content_encoding.TooLarge:
            raise Failure("larger", f"over {limit} bytes") from None
        except content_encoding.NotDecodable:
            raise Failure("malformed", "content coding") from None
        finally:
            await response.aclose()

    def _connected(self) -> httpx.AsyncClient:
        ports = frozenset(self._listening())
        if self._client is None or ports != self._ports:
            ours = leads_here(getproxies().values(), ports)
            self._client = httpx.AsyncClient(
                http2=True,
                verify=trust(),
                trust_env=not ours,
                timeout=None,
                # How many calls there are at once is bounded before they come here.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=60),
            )
            self._ports = ports
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@cache
def trust() -> ssl.SSLContext:
    """Public CAs, and those of `SSL_CERT_FILE`."""
    context = ssl.create_default_context(cafile=certifi.where())
    extra = os.environ.get("SSL_CERT_FILE")
    if extra and os.path.isfile(extra):
        context.load_verify_locations(extra)
    return context


def leads_here(proxies: Collection[str], ports: Collection[int]) -> bool:
    """Whether one of these proxy URLs is an address that this process listens on."""
    for url in proxies:
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            continue
        if port in ports and is_this_machine(parts.hostname or ""):
            return True
    return False
