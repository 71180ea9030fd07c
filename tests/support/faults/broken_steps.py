"""The outcome of requests in a real mitmdump if a function of the package raises. Each request has a
connection of its own, so that all hooks run, a secret of its own, and no text of earlier requests."""

import itertools
import json
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from websockets.exceptions import WebSocketException

from support.agents.websocket_caller import opened
from support.apis import APIS
from support.by_hand import LOG, sent
from support.mitm import Mitmdump
from support.upstream import Raw, Upstream, turn

HOST = "api.openai.com"
SECONDS = 5.0
"""Seconds after which a client without a response counts as hanging."""
GOOD = ("clean", "refused", "closed", "passed")
"""The allowed outcomes."""
CATCHERS = ("flow/splice.py:SpliceHttpLayer.handle_event", "flow/guarded.py:closing")
"""Functions that catch exceptions of others."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Kind:
    """A `Kind` is one way to send a request. `send` returns the client's part of the answer."""

    name: str
    send: Callable[[Mitmdump, str], bytes]
    searched: bool


def _chat(secret: str, *, stream: bool = False) -> bytes:
    number = next(_numbers)
    turns = [("user", f"hi {number}"), ("call", f"call_{number}", f"cat log{number}")]
    turns.append(("result", f"call_{number}", f"{number} {LOG}\ntoken: {secret}"))
    body = json.loads(APIS[1].body(turns))
    tools = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]
    return json.dumps({**body, "stream": stream, "tools": tools}).encode()


def _tunnelled(target: str, make: Callable[[str], bytes], proxy: Mitmdump, secret: str) -> bytes:
    with _connected(proxy) as tunnel:
        tunnel.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        if b" 200 " not in tunnel.recv(4096):
            return b"no tunnel"
        with proxy.trust().wrap_socket(tunnel, server_hostname=HOST) as secure:
            return sent(secure, target, HOST, make(secret))


def _plain(host: str, target: str, proxy: Mitmdump, secret: str) -> bytes:
    with _connected(proxy) as stream:
        return sent(stream, f"http://{host}{target}", host, _chat(secret))


def _in_pieces(proxy: Mitmdump, secret: str) -> bytes:
    """Send a request through a tunnel without TLS, its first line in two segments."""
    body = _chat(secret)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nAuthorization: Bearer k\r\n"
    with _connected(proxy) as tunnel:
        tunnel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tunnel.sendall(f"CONNECT {HOST}:80 HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        if b" 200 " not in tunnel.recv(4096):
            return b"no tunnel"
        tunnel.sendall(b"\r\nP")
        time.sleep(0.02)  # The proxy reads the pieces one by one.
        tunnel.sendall(f"{head[1:]}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        return b"".join(iter(lambda: tunnel.recv(65_536), b""))


def _passed_by(proxy: Mitmdump, secret: str) -> bytes:
    """Send a request through a tunnel to a host that is no provider: the certificate is the test provider's
    own."""
    with _connected(proxy) as tunnel:
        tunnel.sendall(b"CONNECT elsewhere.example.org:443 HTTP/1.1\r\nHost: elsewhere.example.org\r\n\r\n")
        if b" 200 " not in tunnel.recv(4096):
            return b"no tunnel"
        anyone = proxy.trust()
        anyone.load_verify_locations(str(proxy.upstream.ca_file))
        with anyone.wrap_socket(tunnel, server_hostname="elsewhere.example.org") as secure:
            return sent(secure, "/page", "elsewhere.example.org", _chat(secret))


def _socket(proxy: Mitmdump, secret: str) -> bytes:
    with opened(proxy, f"key-{next(_numbers)}") as one:
        item = {"type": "function_call_output", "call_id": "c", "output": f"{LOG}\ntoken: {secret}"}
        one.send(json.dumps({"type": "response.create", "model": "m", "input": [item]}))
        answer = one.recv(SECONDS)
        return answer.encode() if isinstance(answer, str) else answer


def _connected(proxy: Mitmdump) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), SECONDS)


KINDS = (
    Kind("call", partial(_tunnelled, "/v1/chat/completions", _chat), True),
    Kind("stream", partial(_tunnelled, "/v1/chat/completions", partial(_chat, stream=True)), True),
    Kind("other path", partial(_tunnelled, "/v1/threads/t/messages", _chat), True),
    Kind("call without TLS", partial(_plain, HOST, "/v1/chat/completions"), True),
    Kind("line in pieces", _in_pieces, True),
    Kind("WebSocket", _socket, True),
    Kind("other host", partial(_plain, "elsewhere.example.org", "/page"), False),
    Kind("other host, TLS", _passed_by, False),
)


def run(proxy: Mitmdump, upstream: Upstream, kind: Kind) -> str:
    """Send one request of this kind; return one of GOOD, or the name of what is wrong."""
    upstream.requests.clear()
    secret = "ghp_" + secrets.token_hex(18)
    answer, outcome = b"", ""
    try:
        answer = kind.send(proxy, secret)
    except TimeoutError:
        outcome = "HANGS"
    except (OSError, WebSocketException, EOFError):
        outcome = "closed"
    arrived = b"".join(one.raw_body for one in upstream.requests)
    if not kind.searched:
        return outcome or ("passed" if secret.encode() in arrived else _refusal(answer))
    if secret.encode() in arrived:
        return "SECRET SENT"
    return outcome or ("clean" if arrived else _refusal(answer))


def _refusal(answer: bytes) -> str:
    refused = (b"no tunnel", b"could not", b"Penumbra failed", b"HTTP/1.1 50")
    return "refused" if any(word in answer for word in refused) else "closed" if not answer else "LOST"


class Breaker:
    """A `Breaker` makes functions of a running proxy raise."""

    def __init__(self, proxy: Mitmdump, upstream: Upstream) -> None:
        upstream.pages["/v1/threads/t/messages"] = upstream.pages["/page"] = Raw(body=b"{}")
        upstream.script(lambda _: turn("all is well"))
        self._proxy, self._upstream = proxy, upstream
        port = json.loads(proxy.command("tests.steps"))
        self._line = socket.create_connection(("127.0.0.1", int(port)), SECONDS).makefile("rw")

    def steps(self, kind: Kind) -> list[str]:
        """Return the functions that such a request calls, in the order of their first calls."""
        self._say("mend")
        run(self._proxy, self._upstream, kind)
        return [step for step in self._say("mend") if step not in CATCHERS]

    def outcome(self, kind: Kind, step: str, error: str = "ZeroDivisionError") -> str:
        """Return the outcome of such a request while this function raises."""
        self._say(f"break {step} {error}")
        try:
            return run(self._proxy, self._upstream, kind)
        finally:
            self._say("mend")

    def _say(self, words: str) -> list[str]:
        self._line.write(f"{words}\n")
        self._line.flush()
        found: list[str] = json.loads(self._line.readline())
        return found
