"""Which responses arrive piece by piece."""

from __future__ import annotations

import pytest

from penumbra.wire.framing import is_stream


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
