"""Data from an HTTP/2 client is read in pieces, because one read may contain a thousand streams."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import HttpLayer
from mitmproxy.test import tflow

from penumbra.flow import splice
from penumbra.flow.splice import SMALLEST_PIECE, SpliceHttpLayer


class Looked:
    """A layer that stores its pieces of data, and takes some seconds for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.events: list[events.Event] = []
        now = [0.0]

        def look(layer: HttpLayer, event: events.Event) -> Iterator[commands.Command]:
            self.events.append(event)
            now[0] += seconds
            yield commands.Log("looked")

        monkeypatch.setattr(HttpLayer, "handle_event", look)
        monkeypatch.setattr(splice, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    @property
    def data(self) -> bytes:
        return b"".join(each.data for each in self.events if isinstance(each, events.DataReceived))


def layer(alpn: bytes = b"h2") -> Any:
    made: Any = SpliceHttpLayer.__new__(SpliceHttpLayer)
    client = tflow.tclient_conn()
    client.alpn = alpn
    made.context = SimpleNamespace(client=client, server=tflow.tserver_conn())
    made.waiting, made.piece = deque(), SMALLEST_PIECE
    return made


def pauses(given: Any) -> list[commands.RequestWakeup]:
    return [each for each in given if isinstance(each, commands.RequestWakeup)]


def test_between_slow_pieces_others_go_on_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(monkeypatch, 1.0), layer()
    client, data = made.context.client, bytes(range(256)) * 40
    turns = pauses(made.handle_event(events.DataReceived(client, data)))
    assert len(looked.events) == len(turns) == 1
    # Later events of the client wait, but events of other connections do not.
    assert not list(made.handle_event(events.DataReceived(client, b"behind")))
    assert list(made.handle_event(events.DataReceived(made.context.server, b"")))
    while turns:
        turns = pauses(made.handle_event(events.Wakeup(turns.pop())))
    assert looked.data == data + b"behind"
    sizes = [len(each.data) for each in looked.events if isinstance(each, events.DataReceived)]
    assert max(sizes) <= SMALLEST_PIECE


def test_data_that_take_no_time_are_handled_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(monkeypatch, 0.0), layer()
    data = b"x" * 60_000
    assert not pauses(made.handle_event(events.DataReceived(made.context.client, data)))
    assert looked.data == data
    assert len(looked.events) < 30


def test_a_client_that_is_gone_is_not_looked_at_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(monkeypatch, 1.0), layer()
    client = made.context.client
    [pause] = pauses(made.handle_event(events.DataReceived(client, b"x" * 9_000)))
    list(made.handle_event(events.ConnectionClosed(client)))
    assert [type(each) for each in looked.events] == [events.DataReceived, events.ConnectionClosed]
    assert not list(made.handle_event(events.Wakeup(pause)))


def test_other_protocols_are_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, made = Looked(monkeypatch, 1.0), layer(b"http/1.1")
    given = events.DataReceived(made.context.client, b"x" * 9_000)
    list(made.handle_event(given))
    assert looked.events == [given]
