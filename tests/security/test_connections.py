"""The destination of a request: its connection, its request line and its headers, in odd shapes, too."""

import contextlib
import socket
import ssl
import time
from typing import Any

import certifi
import h2.connection
import h2.events
import pytest

from support.apis import BY_ID, Api
from support.by_hand import CHAT, LOG, PATH, SECRET, TURNS, sent, tunnelled
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
OTHERS = {"bytes": [b"\0\1\2" + BODY], "text": [b"\r\n" + BODY + b"\n"], "greeting": [b"SSH-2.0-x\r\n", BODY]}
NO_VERSION = {"no version": [b"POST ", PATH.encode() + b"\r\n\r\n" + BODY]}


def said(
    running: Any, host: str, pieces: list[bytes], *, greeting: bytes = b"", ends: bool = False
) -> tuple[bytes, bytes]:
    """Send some bytes through a tunnel without TLS, and close the sending side if the client `ends`. Return
    the answer, and all that the server got."""
    with Sink(greeting) as sink, socket.create_connection(("127.0.0.1", running.port), 20) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.sendall(f"CONNECT {host}:{sink.port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n" + greeting):
            answer += stream.recv(4096)
        with contextlib.suppress(OSError):
            for piece in pieces:
                stream.sendall(piece)
                time.sleep(0.1)  # The proxy reads the pieces one by one.
            if ends:
                stream.shutdown(socket.SHUT_WR)
            while not answer.endswith(b"{}") and (data := stream.recv(4096)):
                answer += data
        stream.close()
    return answer, sink.got


@pytest.fixture
def strict(proxy: Any) -> Any:
    """A proxy that identifies a tunnel by the name that its client gives, and lets those of two other hosts
    pass unread."""
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
    """The client gets the server's own certificate, although the connection is shown."""
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


def test_the_operator_lets_one_host_pass(strict: Any) -> None:
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
    """The request may go to either of the two."""
    upstream.pages[PATH] = Raw(body=b"{}")
    assert b" 200 " in tunnelled(strict, tunnel, name, name, BODY)
    assert SECRET.encode() not in upstream.requests[-1].raw_body


def over_http2(running: Any, path: str, trailers: list[tuple[str, str]]) -> list[Any]:
    """Send a request with trailers over HTTP/2; return the events of its answer."""
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
    """Trailers are not searched: a request that must be searched is refused if it has some, any other one
    passes."""
    upstream.pages[PATH] = upstream.pages["/v1/oauth/token"] = Raw(body=b"{}")
    trailers = [("x-result", f"token: {SECRET}")]
    events = over_http2(proxy("regular"), PATH, trailers)
    assert b"trailers" in b"".join(one.data for one in events if isinstance(one, h2.events.DataReceived))
    assert upstream.requests == []
    over_http2(proxy("regular"), "/v1/oauth/token", trailers)
    assert upstream.requests[-1].raw_body == BODY
    assert upstream.requests[-1].header("x-result") == f"token: {SECRET}"


def test_trailers_over_http1(proxy: Any, upstream: Any) -> None:
    """mitmproxy can't send trailers; the client gets an end."""
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


def secured(running: Any, name: str | None, target: str, host: str) -> bytes:
    """Send a request through TLS that ends at the proxy; return the answer."""
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", running.port), 20) as plain,
        anyone.wrap_socket(plain, server_hostname=name) as stream,
    ):
        return sent(stream, target, host, CHAT.body(TURNS))


def test_the_name_of_the_proxy_is_no_host(proxy: Any, upstream: Any) -> None:
    """A client that asks the proxy for a provider's certificate does not make another host that provider."""
    upstream.pages[PATH] = Raw(body=b"{}")
    secured(proxy("regular", ssl_insecure="true"), "api.openai.com", f"http://evil.example.org{PATH}", "evil")
    assert upstream.requests[-1].raw_body == CHAT.body(TURNS)
    running = proxy("regular")
    before = running.log().count("evil.example.org openai-chat")
    secured(running, "api.openai.com", f"https://evil.example.org{PATH}", "evil.example.org")
    assert running.log().count("evil.example.org openai-chat") == before


@pytest.mark.parametrize("name", ["proxy.example.org", "api.openai.com", None])
def test_a_proxy_that_is_reached_through_tls(name: str | None, proxy: Any, upstream: Any) -> None:
    """A request to a proxy with TLS is searched."""
    upstream.pages[PATH] = Raw(body=b"{}")
    answer = secured(proxy("regular"), name, f"https://api.openai.com{PATH}", "api.openai.com")
    assert b" 200 " in answer
    assert SECRET.encode() not in upstream.requests[-1].raw_body


@pytest.mark.parametrize("pieces", [[b"P", b"OST"], [b"POST", b" "], [b"\r\n"], [b"\0"], [b" "]])
def test_first_bytes_that_look_like_nothing(pieces: list[bytes], proxy: Any, upstream: Any) -> None:
    """mitmproxy would forward all later bytes as those of an unknown protocol."""
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
                time.sleep(0.1)  # The proxy reads the pieces one by one.
            with contextlib.suppress(OSError):
                secure.recv(4096)
    assert all(SECRET.encode() not in one.raw_body for one in upstream.requests)
    if head.encode().startswith(first):
        assert upstream.requests


def test_a_host_header_makes_no_host_a_provider(proxy: Any, upstream: Any) -> None:
    """An attacker's server claims to be a provider's."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    with socket.create_connection(("127.0.0.1", proxy("regular").port), 20) as stream:
        sent(stream, f"http://attacker.example.org{PATH}", "api.openai.com", body)
    assert upstream.requests[-1].raw_body == body


def test_a_host_header_takes_no_request_away_from_its_provider(proxy: Any, upstream: Any) -> None:
    """A request to a provider is searched and rewritten with any host header."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "api.openai.com", "api.openai.com", "attacker.example.org", body)
    got = upstream.requests[-1].raw_body
    assert SECRET.encode() not in got
    assert len(got) < len(body)


def test_the_certificate_names_the_host_of_a_tunnel(proxy: Any, upstream: Any) -> None:
    """An address stands for the name that its certificate is checked for."""
    upstream.pages[PATH] = Raw(body=b"{}")
    body = CHAT.body(TURNS)
    tunnelled(proxy("regular"), "192.0.2.1", "api.openai.com", "api.openai.com", body)
    assert len(upstream.requests[-1].raw_body) < len(body)


def test_a_server_without_the_certificate_gets_nothing(own_proxy: Any, upstream: Any) -> None:
    """The tunnel ends where the server can't prove that it is the provider."""
    running = own_proxy("regular", ssl_verify_upstream_trusted_ca=certifi.where())
    before = len(upstream.requests)
    with contextlib.suppress(OSError):
        tunnelled(running, "192.0.2.1", "api.openai.com", "api.openai.com", CHAT.body(TURNS))
    assert len(upstream.requests) == before


CLAUDE, GEMINI, CONVERSE = BY_ID["anthropic-messages"], BY_ID["gemini"], BY_ID["bedrock-converse"]
BEDROCK = "bedrock-runtime.us-east-1.amazonaws.com"
SIGNED = (
    (
        "Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    ),
    "X-Amz-Date: 20260101T000000Z",
)


@pytest.fixture
def sink() -> Any:
    with Sink() as made:
        yield made


def body_of(api: Api) -> bytes:
    turns = [("user", "go"), ("call", "call_0", "cat log"), ("result", "call_0", f"{LOG}\ntoken: {SECRET}")]
    return api.body(turns)


def asked(running: Any, sink: Sink, host: str, target: bytes, api: Api, *headers: str) -> tuple[bytes, bytes]:
    """Send one request, written by hand; return its answer, and the body that the server got."""
    before, content = len(sink.got), body_of(api)
    authority = f"{host}:{sink.port}"
    lines = (f"Host: {authority}", "Connection: close", "Content-Type: application/json", *headers)
    head = "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {len(content)}", ""))
    with socket.create_connection(("127.0.0.1", running.port), 20) as stream:
        stream.sendall(b"POST " + target + b" HTTP/1.1\r\n" + head.encode() + content)
        answer = b""
        while data := stream.recv(65_536):
            answer += data
    return answer, sink.got[before:].partition(b"\r\n\r\n")[2]


PATHS: dict[str, tuple[str, bytes, Api]] = {
    "a byte at the end": ("api.anthropic.com", b"/v1/messages\xe9", CLAUDE),
    "a byte on the way": ("api.anthropic.com", b"/\xe9/../v1/messages", CLAUDE),
    "a byte in a parameter": ("api.anthropic.com", b"/v1/messages;\xff", CLAUDE),
    "a byte in the query": ("api.anthropic.com", b"/v1/messages?beta=\xe9", CLAUDE),
    "half a letter": ("api.anthropic.com", b"/v1/messages%c3", CLAUDE),
    "Gemini": ("generativelanguage.googleapis.com", b"/v1beta/models/gem\xe9:generateContent", GEMINI),
    "Gemini, escaped": ("generativelanguage.googleapis.com", b"/v1beta/models/g%E9%ff%253A:generateContent", GEMINI),
    "Gemini, a path for a model": ("generativelanguage.googleapis.com", b"/v1beta/models/a%2Fb:generateContent", GEMINI),
    "Bedrock": (BEDROCK, b"/model/cl\xe9/converse", CONVERSE),
    "Bedrock, escaped": (BEDROCK, b"/model/us.anthropic%E9%252F/converse", CONVERSE),
    "Bedrock, by name": (BEDROCK, b"/model/arn:aws:bedrock:us-east-1:1:inference-profile/\xe9/converse", CONVERSE),
}  # fmt: skip


@pytest.mark.parametrize(("host", "target", "api"), PATHS.values(), ids=PATHS)
def test_a_path_with_any_bytes(host: str, target: bytes, api: Api, proxy: Any, sink: Sink) -> None:
    """The request is searched, and its path keeps its bytes."""
    answer, got = asked(proxy("regular"), sink, host, target, api)
    assert b" 200 " in answer
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got
    assert target in sink.got


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "127.255.0.3", "2130706433", "0x7f.1", "0177.0.0.1", "0", "localhost.", "LocalHost"),
        *("a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]"),
    ],
)
def test_this_machine_by_any_name(host: str, proxy: Any, sink: Sink) -> None:
    answer, got = asked(proxy("regular"), sink, host, b"/v1/messages", CLAUDE)
    assert b" 200 " in answer
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize(
    ("host", "api"),
    [
        ("api.anthropic.com", CLAUDE),
        ("api.anthropic.com", CONVERSE),
        ("openrouter.ai", CONVERSE),
        ("localhost", CLAUDE),
    ],
    ids=["another provider", "another provider, its path", "a gateway", "this machine"],
)
def test_a_signature_outside_of_the_signed_headers(host: str, api: Api, proxy: Any, sink: Sink) -> None:
    _, got = asked(proxy("regular"), sink, host, api.path.encode(), api, *SIGNED)
    assert SECRET.encode() not in got
    assert b"[REDACTED:" in got


@pytest.mark.parametrize("host", [BEDROCK, "localhost"], ids=["Bedrock", "what may lead there"])
def test_a_signature_that_a_change_would_break(host: str, proxy: Any, sink: Sink) -> None:
    _, got = asked(proxy("regular"), sink, host, CONVERSE.path.encode(), CONVERSE, *SIGNED)
    assert got == body_of(CONVERSE)


def test_a_signature_that_covers_no_body(proxy: Any, sink: Sink) -> None:
    free = (*SIGNED, "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD")
    _, got = asked(proxy("regular"), sink, BEDROCK, CONVERSE.path.encode(), CONVERSE, *free)
    assert SECRET.encode() not in got
