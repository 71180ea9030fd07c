"""A compressed message of a WebSocket decodes to a bounded size, and others as ever."""

from __future__ import annotations

import pytest
import wsproto.extensions
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, TextMessage

from penumbra.flow import websocket_frames


@pytest.fixture
def ends(monkeypatch):
    """A server whose extension is the one that mitmproxy would make, and a client as they come."""
    monkeypatch.setattr(wsproto.extensions, "PerMessageDeflate", wsproto.extensions.PerMessageDeflate)
    client_deflate = wsproto.extensions.PerMessageDeflate()
    websocket_frames.bound_messages()
    server_deflate = wsproto.extensions.PerMessageDeflate()
    assert isinstance(server_deflate, websocket_frames.BoundedDeflate)
    for one in (client_deflate, server_deflate):
        one.finalize("permessage-deflate")
    return (
        Connection(ConnectionType.CLIENT, [client_deflate]),
        Connection(ConnectionType.SERVER, [server_deflate]),
    )


def _received(server, data):
    server.receive_data(data)
    return list(server.events())


def _whole(events):
    return b"".join(event.data for event in events if isinstance(event, BytesMessage))


def test_messages_arrive_and_the_limit_is_one_of_each_message(ends, monkeypatch):
    client, server = ends
    monkeypatch.setattr(websocket_frames, "MOST_BYTES", 100_000)
    for number in range(5):
        message = bytes([number]) * 90_000
        assert _whole(_received(server, client.send(BytesMessage(message)))) == message
    (event,) = _received(server, client.send(TextMessage("é" * 100)))
    assert event.data == "é" * 100
    parts = [b"a" * 40_000, b"b" * 40_000]
    sent = client.send(BytesMessage(parts[0], message_finished=False)) + client.send(BytesMessage(parts[1]))
    assert _whole(_received(server, sent)) == b"".join(parts)


@pytest.mark.parametrize("parts", [1, 30])
def test_a_message_that_decodes_to_more_closes_its_connection(ends, monkeypatch, parts):
    client, server = ends
    monkeypatch.setattr(websocket_frames, "MOST_BYTES", 1_000_000)
    data = b"\0" * (30_000_000 // parts)
    bomb = b"".join(
        client.send(BytesMessage(data, message_finished=number == parts - 1)) for number in range(parts)
    )
    assert len(bomb) < 100_000
    events = _received(server, bomb)
    assert len(_whole(events)) <= 1_000_000
    assert isinstance(events[-1], CloseConnection)
