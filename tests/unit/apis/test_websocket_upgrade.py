"""What is refused so that the client goes on in a way that can be read."""

from __future__ import annotations

import pytest

from penumbra.apis import recognise


@pytest.mark.parametrize(
    ("method", "path", "headers", "found"),
    [
        ("GET", "/v1/responses", {"upgrade": "websocket"}, True),
        ("GET", "/backend-api/codex/responses", {"upgrade": "WebSocket"}, True),
        ("GET", "/v1/responses", {}, False),
        ("POST", "/v1/responses", {"upgrade": "websocket"}, False),
        ("GET", "/v1/realtime?model=m", {"upgrade": "websocket"}, False),
        ("GET", "/v1/responses/compact", {"upgrade": "websocket"}, False),
    ],
)
def test_which_websockets_are_sent_back(method: str, path: str, headers: dict[str, str], found: bool) -> None:
    api = recognise.asks_for(method, path, headers)
    assert (api.id if api else "") == ("openai-responses" if found else "")
