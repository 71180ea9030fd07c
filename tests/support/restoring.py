"""Responses whose calls hold placeholders, for the tests of values that are put back."""

from __future__ import annotations

from typing import Any

from penumbra.redaction.placeholder import PATTERN
from support.agents.apis import CLIENTS
from support.upstream import Received, turn

OPTIONS = {"penumbra_restore_secrets": "edits"}


BY_NAME = {api.name: api for api in CLIENTS}


def mark(received: Received) -> str:
    found = PATTERN.search(received.body.decode())
    assert found, received.body
    return found[0]


def play(upstream: Any, *answers: Any, **delivery: Any) -> None:
    """Script the model: each answer is a list of blocks, or a function that returns them for the request that
    arrived."""
    waiting = list(answers)

    def script(received: Received) -> Any:
        blocks = waiting.pop(0) if waiting else ("Done.",)
        blocks = blocks(received) if callable(blocks) else blocks
        return turn(*blocks, **delivery)

    upstream.script(script)
