"""`penumbra_blank_flows` and the messages of a WebSocket."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowReader

from support.agents.websocket_caller import opened

WORDS = "words that nobody is to keep"


@pytest.mark.parametrize("blank", ["off", "secrets"])
def test_messages(blank: str, api_key: str, own_proxy: Any, upstream: Any, tmp_path: Path) -> None:
    file = tmp_path / "flows"
    options = {"penumbra_websocket": "rewrite", "penumbra_blank_flows": blank, "save_stream_file": str(file)}
    running = own_proxy("reverse", **options)
    request = {"type": "response.create", "model": "m", "input": [{"role": "user", "content": WORDS}]}
    with opened(running, api_key) as socket:
        socket.send(json.dumps(request))
        while '"type": "response.completed"' not in (event := socket.recv(30)):
            assert event
    running.stop()
    with file.open("rb") as saved:
        flows = [flow for flow in FlowReader(saved).stream() if flow.websocket is not None]
    contents = [message.content for flow in flows for message in flow.websocket.messages]
    assert len(contents) > 3
    assert all(b"not kept by Penumbra" in content for content in contents) == (blank == "secrets")
    assert (WORDS.encode() in file.read_bytes()) == (blank == "off")
    assert WORDS.encode() in upstream.asked()[0].raw_body
