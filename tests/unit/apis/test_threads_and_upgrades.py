"""What is refused so that the client goes on in a way that can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis import websocket_upgrade
from penumbra.conversation import message_threads
from penumbra.wire.document import Document
from penumbra.wire.framing import is_stream

CLAUDE_CODE = "claude-cli/2.1.329 (external, sdk-cli)"
SDK = "Anthropic/Python 2.11.0"


def refused(policy: str, user_agent: str, thread: Any = "none") -> bool:
    body = {"messages": []} if thread == "none" else {"messages": [], "thread": thread}
    try:
        message_threads.check(Document(json.dumps(body).encode()), policy, user_agent)
    except message_threads.ThreadRefused as error:
        details = json.loads(error.body)["error"]
        assert details["type"] == "invalid_request_error"
        assert details["details"] == {"error_code": "thread_unsupported_request"}
        return True
    return False


def test_threads_are_refused_where_the_client_goes_on_without() -> None:
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}):
        assert refused("auto", CLAUDE_CODE, thread)
        assert not refused("auto", SDK, thread)
        assert refused("refuse", SDK, thread)
        assert not refused("pass", CLAUDE_CODE, thread)
    for policy in ("auto", "refuse", "pass"):
        assert not refused(policy, CLAUDE_CODE)
        assert not refused(policy, CLAUDE_CODE, None)


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
    api = websocket_upgrade.asks_for(method, path, headers)
    assert (api.id if api else "") == ("openai-responses" if found else "")


@pytest.mark.parametrize(
    ("content_type", "path", "found"),
    [
        ("text/event-stream; charset=utf-8", "/v1/messages", True),
        ("application/vnd.amazon.eventstream", "/model/m/converse-stream", True),
        ("application/x-ndjson", "/api/chat", True),
        ("application/json", "/v1beta/models/m:streamGenerateContent?key=k", True),
        ("application/json", "/v1beta/models/m:generateContent", False),
        ("text/html", "/v1beta/models/m:streamGenerateContent", False),
        ("", "/v1/messages", False),
    ],
)
def test_which_responses_arrive_piece_by_piece(content_type: str, path: str, found: bool) -> None:
    assert is_stream(content_type, path) is found
