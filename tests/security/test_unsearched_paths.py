"""However a path is spelled, the call is recognised; what is sent keeps its spelling."""

from __future__ import annotations

import pytest

from penumbra.apis import recognise
from penumbra.wire.framing import is_stream
from penumbra.wire.request_path import normal
from support.spellings import SPELLINGS


@pytest.mark.parametrize("path", SPELLINGS)
def test_a_path_is_recognised_however_it_is_spelled(path: str) -> None:
    assert normal(path).lower() == "/v1/messages"
    found = recognise.by_request_line("POST", path)
    assert found is not None
    assert found.id == "anthropic-messages"
    assert recognise.by_request_line("pOsT", path) is found


@pytest.mark.parametrize(
    "path", ["/v1/messages/..", "/v1/messages/batches", "/v1messages", "/v1/%25messages", "*", ""]
)
def test_another_path_stays_another(path: str) -> None:
    assert recognise.by_request_line("POST", path) is None


@pytest.mark.parametrize("path", ["/v1/responses/", "//v1/responses?x", "/v1/Responses;a", "/v1/%72esponses"])
@pytest.mark.parametrize("asked", ["websocket", "WebSocket", "h2c, websocket"])
def test_sockets_are_recognised_too(path: str, asked: str) -> None:
    api = recognise.asks_for("GET", path, {"upgrade": asked})
    assert api is not None
    assert api.id == "openai-responses"


@pytest.mark.parametrize("ending", ["", "/", "?alt=json", "%3Falt=json"])
def test_streams_of_json_are_told_by_any_spelling(ending: str) -> None:
    assert is_stream("application/json", f"/v1beta/models/m%3AstreamGenerateContent{ending}")
