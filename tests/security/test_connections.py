"""What a client can say on a connection beside a request's head and body: first bytes in odd shapes through a tunnel
without TLS, another name in its TLS than in its tunnel, and trailers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from typing import Any

import h2.connection
import h2.events
import pytest

from support.by_hand import CHAT, PATH, SECRET, TURNS, sent, tunnelled
from support.upstream import Raw
from support.upstream.sink import Sink

BODY = CHAT.body(TURNS)
HEAD = f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
REQUEST = HEAD.encode() + BODY
REQUESTS = {
    "plain": [REQUEST],
    "an empty line": [b"\r\n" + REQUEST],
    "an empty line first": [b"\r\n", REQUEST],
    "half a word": [b"P", REQUEST[1:]],
    "half a line": [b"POST ", REQUEST[5:]],
    "a blank": [b" " + REQUEST],
}
"""Pieces of a request, each in a segment of its own."""
OTHERS = {
    "bytes": [b"\0\1\2" + BODY],
    "text": [b"\r\n" + BODY + b"\n"],
    "greeting": [b"SSH-2.0-x\r\n", BODY],
}
NO_VERSION = {"no version": [b"POST ", PATH.encode() + b"\r\n\r\n" + BODY]}


def said(
    running: Any, host: str, pieces: list[bytes], *, greeting: bytes = b"", ends: bool = False
) -> tuple[bytes, bytes]:
    """Say something through a tunnel without TLS, and then nothing more if it `ends`. Return the answer, and all
    that the server got."""
    with Sink(greeting) as sink, socket.create_connection(("127.0.0.1", running.port), 20) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(f"CONNECT {host}:{sink.port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n" + greeting):
            answer += stream.recv(4096)
        with contextlib.suppress(OSError):
            for piece in pieces:
                stream.sendall(piece)
                time.sleep(0.1)  # So that the proxy reads the pieces one by one.
            if ends:
                stream.shutdown(socket.SHUT_WR)
            while not answer.endswith(b"{}") and (data := stream.recv(4096)):
                answer += data
        stream.close()
    return answer, sink.got


@pytest.fixture
def strict(proxy: Any) -> Any:
    """A proxy that knows a tunnel by the name that its client gives, and lets two other hosts' pass unread."""
    return proxy(
        "regular",
        connection_strategy="lazy",
        tcp_hosts="chatgpt[.]com",
        ignore_hosts="openrouter[.]ai",
        show_ignored_hosts="true",
    )


@pytest.mark.parametrize("pieces", REQUESTS.values(), ids=REQUESTS)
def test_a_request_to_a_provider_without_tls(pieces: list[bytes], strict: Any) -> None:
    answer, got = said(strict, "api.openai.com", pieces)
    assert answer.endswith(b"{}")
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize("pieces", [*OTHERS.values(), *NO_VERSION.values()], ids=[*OTHERS, *NO_VERSION])
def test_nothing_but_requests_goes_to_a_provider(pieces: list[bytes], strict: Any) -> None:
    assert said(strict, "api.openai.com", pieces, ends=True)[1] == b""


def test_tls_that_the_operator_ignores(strict: Any, upstream: Any) -> None:
    """Its certificate is the server's own, although it is shown."""
    with socket.create_connection(("127.0.0.1", strict.port), 20) as tunnel:
        tunnel.sendall(b"CONNECT openrouter.ai:443 HTTP/1.1\r\nHost: openrouter.ai\r\n\r\n")
        assert b" 200 " in tunnel.recv(4096)
        trust = ssl.create_default_context(cafile=str(upstream.ca_file))
        with trust.wrap_socket(tunnel, server_hostname="openrouter.ai") as stream:
            sent(stream, PATH, "openrouter.ai", BODY)
    assert upstream.requests[-1].raw_body == BODY


@pytest.mark.parametrize("host", ["api.openai.com", "localhost"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_tls_whose_first_bytes_come_apart(
    host: str, size: int, proxy: Any, strict: Any, upstream: Any
) -> None:
    upstream.pages[PATH] = Raw(body=b"{}")
    running = strict if host != "localhost" else proxy("regular")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = running.trust().wrap_bio(incoming, outgoing, server_hostname=host)
    with socket.create_connection(("127.0.0.1", running.port), 20) as tunnel:
        tunnel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tunnel.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert b" 200 " in tunnel.recv(4096)

        def step(work: Any, *given: Any) -> Any:
            while True:
                try:
                    return work(*given)
                except ssl.SSLWantReadError:
                    data = outgoing.read()
                    for piece in (data[:size], data[size:]) if data else ():
                        tunnel.sendall(piece)
                        time.sleep(0.05)
                    incoming.write(tunnel.recv(65_536))

        step(client.do_handshake)
        step(client.write, REQUEST)
        assert step(client.read, 65_536).startswith(b"HTTP/1.1 ")
    assert SECRET.encode() not in upstream.requests[-1].raw_body


def test_what_the_operator_lets_pass_is_one_host(strict: Any) -> None:
    for pieces in OTHERS.values():
        assert said(strict, "chatgpt.com", pieces, ends=True)[1] == b"".join(pieces)


@pytest.mark.parametrize("pieces", REQUESTS.values(), ids=REQUESTS)
def test_a_request_to_this_machine_without_tls(pieces: list[bytes], proxy: Any) -> None:
    answer, got = said(proxy("regular"), "localhost", pieces)
    assert answer.endswith(b"{}")
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize("pieces", [*REQUESTS.values(), *NO_VERSION.values()], ids=[*REQUESTS, *NO_VERSION])
def test_a_request_to_a_server_that_speaks_first(pieces: list[bytes], proxy: Any) -> None:
    answer, got = said(proxy("regular"), "localhost", pieces, greeting=b"220 welcome\r\n")
    assert answer.endswith(b"220 welcome\r\n")
    assert got == b""


@pytest.mark.parametrize("pieces", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("greeting", [b"", b"220 welcome\r\n"], ids=["silent", "speaks first"])
def test_other_protocols_of_this_machine(pieces: list[bytes], greeting: bytes, proxy: Any) -> None:
    assert said(proxy("regular"), "localhost", pieces, greeting=greeting, ends=True)[1] == b"".join(pieces)


@pytest.mark.parametrize(
    ("tunnel", "name"),
    [("api.openai.com", "elsewhere.example.org"), ("elsewhere.example.org", "api.openai.com")],
    ids=["a provider's tunnel", "a provider's certificate"],
)
def test_a_tunnel_and_its_tls_with_two_names(tunnel: str, name: str, strict: Any, upstream: Any) -> None:
    """Either may be where the request goes."""
    upstream.pages[PATH] = Raw(body=b"{}")
    assert b" 200 " in tunnelled(strict, tunnel, name, name, BODY)
    assert SECRET.encode() not in upstream.requests[-1].raw_body


def over_http2(running: Any, path: str, trailers: list[tuple[str, str]]) -> list[Any]:
    """A request with trailers over HTTP/2; return the events of its answer."""
    trust = running.trust()
    trust.set_alpn_protocols(["h2"])
    machine = h2.connection.H2Connection()
    with socket.create_connection(("127.0.0.1", running.port), 20) as tunnel:
        tunnel.sendall(b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: api.openai.com\r\n\r\n")
        assert b" 200 " in tunnel.recv(4096)
        with trust.wrap_socket(tunnel, server_hostname="api.openai.com") as stream:
            machine.initiate_connection()
            head = {":method": "POST", ":scheme": "https", ":authority": "api.openai.com", ":path": path}
            machine.send_headers(1, [*head.items(), ("content-type", "application/json")])
            machine.send_data(1, BODY)
            machine.send_headers(1, trailers, end_stream=True)
            events: list[Any] = []
            while not any(isinstance(one, (h2.events.StreamEnded, h2.events.StreamReset)) for one in events):
                stream.sendall(machine.data_to_send())
                data = stream.recv(65_536)
                assert data, "the connection has ended"
                events += machine.receive_data(data)
    return events


def test_trailers_over_http2(proxy: Any, upstream: Any) -> None:
    """Nobody searches them: a request that has to be searched is not sent with some, any other is."""
    upstream.pages[PATH] = upstream.pages["/v1/oauth/token"] = Raw(body=b"{}")
    trailers = [("x-result", f"token: {SECRET}")]
    events = over_http2(proxy("regular"), PATH, trailers)
    assert b"trailers" in b"".join(one.data for one in events if isinstance(one, h2.events.DataReceived))
    assert upstream.requests == []
    over_http2(proxy("regular"), "/v1/oauth/token", trailers)
    assert upstream.requests[-1].raw_body == BODY
    assert upstream.requests[-1].header("x-result") == f"token: {SECRET}"


def test_trailers_over_http1(proxy: Any, upstream: Any) -> None:
    """mitmproxy can't send any: the client is not left waiting."""
    upstream.pages[PATH] = Raw(body=b"{}")
    head = HEAD.partition("Content-Length")[0] + "Transfer-Encoding: chunked\r\nTrailer: x-result\r\n\r\n"
    chunked = head.encode() + b"%x;a=b\r\n%s\r\n0\r\n" % (len(BODY), BODY)
    for host in ("api.openai.com", "elsewhere.example.org"):
        with socket.create_connection(("127.0.0.1", proxy("regular").port), 20) as stream:
            whole = chunked.replace(b"POST ", f"POST http://{host}".encode(), 1)
            stream.sendall(whole + f"X-Result: {SECRET}\r\n\r\n".encode())
            while stream.recv(4096):
                pass
    assert upstream.requests == []
