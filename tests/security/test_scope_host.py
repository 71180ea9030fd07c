"""Where a request goes is what its connection says, whatever its headers say."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import certifi

from support.agents.agent import PRINTS
from support.engines import APIS
from support.upstream import Raw

LOG = PRINTS["docker compose logs worker"]
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
CHAT = APIS[1]
PATH = "/v1/chat/completions"
TURNS = [("user", "hi"), ("call", "call_0", "cat log"), ("result", "call_0", f"{LOG}\ntoken: {SECRET}")]


def sent(stream: Any, target: str, host: str, body: bytes) -> bytes:
    """One request, written by hand, and its answer."""
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer k\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    stream.sendall(head.encode() + body)
    return b"".join(iter(lambda: stream.recv(65536), b""))


def tunnelled(running: Any, address: str, name: str, host: str, body: bytes) -> bytes:
    """The same through a tunnel to `address`, for the certificate of `name`."""
    with socket.create_connection(("127.0.0.1", running.port), 20) as tunnel:
        tunnel.sendall(f"CONNECT {address}:443 HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        assert b"200" in tunnel.recv(4096)
        with running.trust().wrap_socket(tunnel, server_hostname=name) as secure:
            return sent(secure, PATH, host, body)


def test_a_host_header_makes_nobody_a_provider(proxy: Any, upstream: Any) -> None:
    """A server of the attacker's own, which says that it is a provider's."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    with socket.create_connection(("127.0.0.1", proxy("regular").port), 20) as stream:
        sent(stream, f"http://attacker.example.org{PATH}", "api.openai.com", body)
    assert upstream.requests[-1].raw_body == body


def test_a_host_header_takes_no_request_away_from_its_provider(proxy: Any, upstream: Any) -> None:
    """What goes to a provider is searched and rewritten whatever name stands in it."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "api.openai.com", "api.openai.com", "attacker.example.org", body)
    got = upstream.requests[-1].raw_body
    assert SECRET.encode() not in got
    assert len(got) < len(body)


def test_the_certificate_names_the_host_of_a_tunnel(proxy: Any, upstream: Any) -> None:
    """An address counts by the name that its certificate is checked for."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "192.0.2.1", "api.openai.com", "api.openai.com", body)
    assert len(upstream.requests[-1].raw_body) < len(body)


def test_a_server_without_the_certificate_gets_nothing(own_proxy: Any, upstream: Any) -> None:
    """The same address for a server that can't show that it is the provider: the tunnel ends."""
    running = own_proxy("regular", ssl_verify_upstream_trusted_ca=certifi.where())
    before = len(upstream.requests)
    with contextlib.suppress(OSError):
        tunnelled(running, "192.0.2.1", "api.openai.com", "api.openai.com", CHAT.body(TURNS))
    assert len(upstream.requests) == before
