"""The first line of a connection decides whether its protocol is HTTP, in any pieces of bytes."""

import pytest
from mitmproxy import connection, options
from mitmproxy.addons.next_layer import NextLayer
from mitmproxy.proxy import commands, events, layer, layers
from mitmproxy.proxy.context import Context
from mitmproxy.test import taddons, tflow

from penumbra.flow import splice
from penumbra.flow.only_http import FirstLine, OnlyHttp

REQUESTS = {
    "plain": b"POST /v1/messages HTTP/1.1\r\nHost: h\r\n\r\n",
    "empty lines first": b"\r\n\n POST /v1/messages HTTP/1.1\r\n",
    "blanks of other kinds": b"post\t\x0b/v1/messages\x0cHTTP/1.1\n",
    "whole address": b"POST http://localhost/v1/messages HTTP/1.1\r\n",
    "no version": b"POST /v1/messages\r\nHost: h\r\n\r\n",
    "no path": b"OPTIONS v1 HTTP/1.1\r\n",
    "long": b"POST " + b"v" * 8_000 + b" HTTP/1.1\r\n",
    "long path": b"POST /" + b"v" * 70_000,
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
OTHERS = {
    "line of JSON": b'{"jsonrpc": "2.0", "path": "POST /v1 HTTP/1.1"}',
    "bytes": b"\0\0\0\x08\x04\xd2\x16\x2f",
    "mail": b"EHLO example.org\r\n",
    "command": b"PING\r\n",
    "no line": b"PING",
    "secure shell": b"SSH-2.0-OpenSSH_9.9\r\n",
    "blanks, bytes": b"\r\n\r\n\0\x01 POST /v1 HTTP/1.1\r\n",
    "nothing but blanks": b" \r\n",
    "long word": b"x" * 70_000,
    "not quite TLS": b"\x16\x03\x09abc",
    "a byte of TLS": b"\x16",
}
STEPS = [1, 2, 3, 7, 100_000]


class Taker(layer.Layer):
    """A layer that stores its events."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.got, self.heard = b"", b""
        self.begun = self.closed = False

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        self.begun |= isinstance(event, events.Start)
        if isinstance(event, events.DataReceived) and event.connection == self.context.client:
            self.got += event.data
        elif isinstance(event, events.DataReceived):
            self.heard += event.data
        self.closed |= isinstance(event, events.ConnectionClosed)
        yield from ()


class Line:
    """A connection before its first line."""

    def __init__(self, *, is_free: bool = True) -> None:
        self.context = Context(tflow.tclient_conn(), options.Options())
        self.context.server = connection.Server(address=("localhost", 1))
        self.http, self.other = Taker(self.context), Taker(self.context)
        self.layer = FirstLine(self.context, self.other if is_free else None)
        self.layer.child_layer = self.http
        self.commands: list[commands.Command] = list(self.layer.handle_event(events.Start()))

    def event(self, event: events.Event) -> None:
        self.commands += self.layer.handle_event(event)

    def say(self, data: bytes, step: int = 100_000) -> None:
        for start in range(0, len(data), step):
            self.event(events.DataReceived(self.context.client, data[start : start + step]))

    def end(self) -> None:
        self.event(events.ConnectionClosed(self.context.client))


def steps(data: bytes) -> list[int]:
    return STEPS if len(data) < 1_000 else [3_000, 100_000]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_is_read(name: str) -> None:
    data = REQUESTS[name]
    for step in steps(data):
        line = Line()
        line.say(data, step)
        assert line.http.begun
        assert line.http.got == data.lstrip()
        line.end()
        assert line.http.closed
        assert not line.other.begun


@pytest.mark.parametrize("name", OTHERS)
def test_another_protocol_keeps_its_bytes(name: str) -> None:
    data = OTHERS[name]
    for step in steps(data):
        for greeting in (b"", b"220 welcome\r\n"):
            line = Line()
            if greeting:
                line.event(events.DataReceived(line.context.server, greeting))
            line.say(data, step)
            line.end()
            assert (line.other.begun, line.other.got, line.other.heard) == (True, data, greeting)
            assert line.other.closed
            assert not line.http.begun
            assert line.commands == []


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_to_a_server_that_speaks_first_ends_the_connection(name: str) -> None:
    for step in steps(REQUESTS[name]):
        line = Line()
        line.event(events.DataReceived(line.context.server, b"220 welcome\r\n"))
        line.say(REQUESTS[name], step)
        assert line.other.heard
        assert line.other.got == line.http.got == b""
        assert any(isinstance(one, commands.CloseConnection) for one in line.commands)


@pytest.mark.parametrize("name", [*REQUESTS, *OTHERS])
def test_where_nothing_but_requests_may_pass(name: str) -> None:
    data = {**REQUESTS, **OTHERS}[name]
    for step in steps(data):
        for greeting in (b"", b"220 welcome\r\n"):
            line = Line(is_free=False)
            if greeting:
                line.event(events.DataReceived(line.context.server, greeting))
            line.say(data, step)
            line.end()
            assert not line.other.begun
            assert line.http.got == data.lstrip()


def test_a_failed_hook_ends_the_connection() -> None:
    """After a failed hook, the client's connection is closed."""
    line = Line()
    line.http.got = line.other.got = None  # type: ignore[assignment]
    line.say(REQUESTS["plain"])
    assert any(isinstance(one, commands.CloseConnection) for one in line.commands)


def test_responses_of_such_a_connection_can_be_continued() -> None:
    made = FirstLine(Line().context, None)
    splice.install(made)
    assert isinstance(made.child_layer, splice.SpliceHttpLayer)


@pytest.mark.parametrize("is_searched", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_tls_to_an_llm_host_is_read_however_its_bytes_arrive(step: int, is_searched: bool) -> None:
    hello = b"\x16\x03\x01\x00\x05" + b"x" * 5
    with taddons.context(NextLayer()) as tctx:
        tctx.options.rawtcp = True
        context = Context(connection.Client(peername=("h", 1), sockname=("h", 2)), tctx.options)
        context.server.address = ("llm.example", 443)
        layers.modes.TransparentProxy(context)
        chosen = layer.NextLayer(context)
        chosen.events.append(events.DataReceived(context.client, hello[:step]))
        OnlyHttp(lambda _: True, lambda _: is_searched, lambda _: True).next_layer(chosen)
        assert not isinstance(chosen.layer, layers.TCPLayer)
