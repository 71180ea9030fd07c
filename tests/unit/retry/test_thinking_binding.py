"""Where a provider can be asked to drop thinking that does not belong to its prefix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.conversation import bound_thinking
from penumbra.wire.document import Document

BETA = "thinking-binding-controls-2026-08-01"
BLOCKS = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "text", "text": "So."},
]


def body(**more: Any) -> Document:
    messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": BLOCKS}]
    return Document(json.dumps({"model": "m", "messages": messages, **more}).encode())


@pytest.mark.parametrize(
    ("host", "betas", "needs", "asks"),
    [
        ("api.anthropic.com", "", BETA, True),
        ("api.anthropic.com", "a", f"a,{BETA}", True),
        ("gateway.example", BETA, "", True),
        ("gateway.example", "a", "", False),
        ("notanthropic.com", "", "", False),
    ],
)
def test_where_it_can_not_be_asked_for_it_is_left_out(host: str, betas: str, needs: str, asks: bool) -> None:
    document = body(thinking={"type": "adaptive"})
    assert bound_thinking.drop(document, {"anthropic-beta": betas}, host, False) == needs
    made = json.loads(document.render())
    assert made["messages"][1]["content"] == (BLOCKS if asks else BLOCKS[1:])
    assert ("block_binding" in made["thinking"]) is asks


def test_what_was_dropped_already_is_not_asked_for_twice() -> None:
    document = body(thinking={"type": "adaptive"})
    assert bound_thinking.drop(document, {"anthropic-beta": BETA}, "api.anthropic.com", True) == ""
    assert not document.edits


def test_other_apis_and_other_wishes_are_left_alone() -> None:
    assert bound_thinking.may_drop("anthropic", body())
    assert not bound_thinking.may_drop("openai_chat", body())
    wish = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}
    assert not bound_thinking.may_drop("anthropic", body(thinking=wish))
