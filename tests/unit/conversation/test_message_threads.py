"""Threads are refused if the client then continues without threads."""

import json
from typing import Any

from penumbra.conversation import request_reader
from penumbra.wire.document import Document

CLAUDE_CODE = "claude-cli/2.1.329 (external, sdk-cli)"
SDK = "Anthropic/Python 2.11.0"


def refused(policy: str, user_agent: str, thread: Any = "none") -> bool:
    body = {"messages": []} if thread == "none" else {"messages": [], "thread": thread}
    try:
        request_reader.check(Document(json.dumps(body).encode()), policy, user_agent)
    except request_reader.ThreadRefused as error:
        details = json.loads(error.body)["error"]
        assert details["type"] == "invalid_request_error"
        assert details["details"] == {"error_code": "thread_unsupported_request"}
        return True
    return False


def test_threads_are_refused_for_clients_that_can_do_without() -> None:
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}):
        assert refused("auto", CLAUDE_CODE, thread)
        assert not refused("auto", SDK, thread)
        assert refused("refuse", SDK, thread)
        assert not refused("pass", CLAUDE_CODE, thread)
    for policy in ("auto", "refuse", "pass"):
        assert not refused(policy, CLAUDE_CODE)
        assert not refused(policy, CLAUDE_CODE, None)
