"""Conversations that the provider holds: only new messages travel, each answer is continued once."""

from __future__ import annotations

from typing import Any

_BETA = "message-threads-2026-08-12"


class BadThread(Exception):
    """A thread that can't be gone on with."""

    def __init__(self, message: str, code: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Threads:
    """What is held, by the id of the last answer."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, Any]] = {}
        self._continued: set[str] = set()

    def lose(self) -> None:
        """Everything is too old."""
        self._held.clear()

    def whole(self, body: Any, beta: str) -> Any:
        """The request with the history that it continues. Raises BadThread."""
        thread = body.get("thread") if isinstance(body, dict) else None
        if thread is None or _BETA not in beta:
            return body
        new = {key: value for key, value in body.items() if key != "thread"}
        if thread == {"type": "create"}:
            return new
        before = thread["previous_message_id"]
        held = self._held.get(before)
        if held is None:
            raise BadThread("No usable thread state was found.", "thread_not_found", 404)
        if before in self._continued:
            raise BadThread("The response has already been continued.", "thread_already_continued")
        for key in ("model", "system", "tools"):
            if new.get(key, held.get(key)) != held.get(key):
                raise BadThread(f"differing field: {key}", "thread_fingerprint_mismatch")
        return {**held, **new, "messages": [*held["messages"], *new["messages"]]}

    def keep(self, body: Any, whole: Any, number: str, content: list[Any]) -> None:
        """Hold a conversation by its newest answer."""
        if "thread" in body:
            self._continued.add(body["thread"].get("previous_message_id", ""))
            messages = [*whole["messages"], {"role": "assistant", "content": content}]
            self._held[number] = {**whole, "messages": messages}
