"""Conversations that Anthropic holds for the client, as message threads.

Of such a conversation only new messages travel, and its responses can be gone on from once: the provider
has what was hidden, and the client's next request is led to the response that can be continued. Where the
operator wants whole histories, such requests are refused with the API's own error for what threads don't
support; a client that knows how to go on then sends everything.
"""

from __future__ import annotations

from penumbra.config.per_request import OverrideError
from penumbra.wire.document import Document
from penumbra.wire.json_values import encode

_MESSAGE = "Requests with `thread` are not supported here; send the full conversation without `thread`."
_GO_ON_WITHOUT = ("claude-cli/",)


class ThreadRefused(OverrideError):
    """A request that is to be sent again with its whole history."""

    def __init__(self) -> None:
        super().__init__(_MESSAGE)
        details = {"error_code": "thread_unsupported_request"}
        error = {"type": "invalid_request_error", "message": _MESSAGE, "details": details}
        self.body = encode({"type": "error", "error": error})


def check(document: Document, policy: str, user_agent: str) -> None:
    """Raises ThreadRefused for a request that the policy (`auto`, `pass`, `refuse`) does not let pass."""
    thread = document.members(document.root).get("thread")
    if policy == "pass" or thread is None or document.plain(thread) is None:
        return
    if policy == "refuse" or user_agent.startswith(_GO_ON_WITHOUT):
        raise ThreadRefused
