"""Requests written by hand, to the proxy or through a tunnel."""

import socket
from typing import Any

from support.agents.agent import PRINTS
from support.apis import APIS

LOG = PRINTS["docker compose logs worker"]
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
CHAT = APIS[1]
PATH = "/v1/chat/completions"
TURNS = [("user", "hi"), ("call", "call_0", "cat log"), ("result", "call_0", f"{LOG}\ntoken: {SECRET}")]


def sent(stream: Any, target: str, host: str, body: bytes) -> bytes:
    """Send one request, written by hand; return its answer."""
    head = (
        f"POST {target} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer k\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    stream.sendall(head.encode() + body)
    return b"".join(iter(lambda: stream.recv(65536), b""))


def tunnelled(running: Any, address: str, name: str, host: str, body: bytes) -> bytes:
    """Send one request through a tunnel to `address`, for the certificate of `name`; return its answer."""
    with socket.create_connection(("127.0.0.1", running.port), 20) as tunnel:
        tunnel.sendall(f"CONNECT {address}:443 HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        assert b"200" in tunnel.recv(4096)
        with running.trust().wrap_socket(tunnel, server_hostname=name) as secure:
            return sent(secure, PATH, host, body)
