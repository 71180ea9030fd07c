"""What stands around a request that is sent to the proxy: TLS with the proxy itself, and first bytes that
look like nothing."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

import pytest

from support.by_hand import CHAT, PATH, SECRET, TURNS, sent
from support.upstream import Raw


def secured(running: Any, name: str | None, target: str, host: str) -> bytes:
    """A request through TLS that ends at the proxy."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", running.port), 20) as plain,
        anyone.wrap_socket(plain, server_hostname=name) as stream,
    ):
        return sent(stream, target, host, CHAT.body(TURNS))


def test_the_name_of_the_proxy_is_nobodys_host(proxy: Any, upstream: Any) -> None:
    """Who asks the proxy for the certificate of a provider does not make another host that provider."""
    upstream.pages[PATH] = Raw(body=b"{}")
    secured(proxy("regular", ssl_insecure="true"), "api.openai.com", f"http://evil.example.org{PATH}", "evil")
    assert upstream.requests[-1].raw_body == CHAT.body(TURNS)
    running = proxy("regular")
    before = running.log().count("evil.example.org openai-chat")
    secured(running, "api.openai.com", f"https://evil.example.org{PATH}", "evil.example.org")
    assert running.log().count("evil.example.org openai-chat") == before


@pytest.mark.parametrize("name", ["proxy.example.org", "api.openai.com", None])
def test_a_proxy_that_is_reached_through_tls(name: str | None, proxy: Any, upstream: Any) -> None:
    """It is a proxy like any other, and what goes through it is searched."""
    upstream.pages[PATH] = Raw(body=b"{}")
    answer = secured(proxy("regular"), name, f"https://api.openai.com{PATH}", "api.openai.com")
    assert b" 200 " in answer
    assert SECRET.encode() not in upstream.requests[-1].raw_body


@pytest.mark.parametrize("pieces", [[b"P", b"OST"], [b"POST", b" "], [b"\r\n"], [b"\0"], [b" "]])
def test_first_bytes_that_look_like_nothing(pieces: list[bytes], proxy: Any, upstream: Any) -> None:
    """mitmproxy would pass on everything behind them as bytes of an unknown protocol."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body, running = CHAT.body(TURNS), proxy("regular")
    head = f"POST {PATH} HTTP/1.1\r\nHost: api.openai.com\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    first = b"".join(pieces)
    rest = head.encode().removeprefix(first) + body
    with socket.create_connection(("127.0.0.1", running.port), 20) as tunnel:
        tunnel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tunnel.sendall(b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com\r\n\r\n")
        assert b"200" in tunnel.recv(4096)
        with running.trust().wrap_socket(tunnel, server_hostname="api.openai.com") as secure:
            for piece in [*pieces, rest]:
                secure.sendall(piece)
                time.sleep(0.1)  # So that the proxy reads the pieces one by one.
            with contextlib.suppress(OSError):
                secure.recv(4096)
    assert all(SECRET.encode() not in one.raw_body for one in upstream.requests)
    if head.encode().startswith(first):
        assert upstream.requests
