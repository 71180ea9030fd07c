"""The place of the injected tool among the tools of a request."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.agents.requests import PHANTOM, names_of_tools
from support.apis import BY_ID
from support.engines import Callers

SECOND = "penumbra_expand_context"
OURS = ["Bash", "Read", PHANTOM]
ONE, NAMED = (("Bash", "command"),), ((PHANTOM, "command"),)
ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA, _ = BY_ID
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    *((api, {}, OURS) for api in BY_ID),
    *((api, {"tools": []}, []) for api in (ANTHROPIC, RESPONSES, GEMINI, OLLAMA)),
    *((api, {"tools": None}, []) for api in (ANTHROPIC, CHAT)),
    *((api, BY_ID[api].declares(NAMED), [PHANTOM, SECOND]) for api in (ANTHROPIC, CHAT, RESPONSES)),
    (ANTHROPIC, {**BY_ID[ANTHROPIC].declares(ONE), "tool_choice": {"type": "tool", "name": "Bash"}}, ["Bash"]),
    (ANTHROPIC, {**BY_ID[ANTHROPIC].declares(ONE), "tool_choice": {"type": "any"}}, ["Bash"]),
    (ANTHROPIC, {"tool_choice": {"type": "any"}}, OURS),
    (ANTHROPIC, {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, ["web_search"]),
    (CHAT, {**BY_ID[CHAT].declares(ONE), "tool_choice": {"type": "function", "function": {"name": "Bash"}}}, ["Bash"]),
    (CHAT, {**BY_ID[CHAT].declares(ONE), "tool_choice": "required"}, ["Bash"]),
    (CHAT, {"tool_choice": "required"}, OURS),
    (CHAT, {"n": 2}, ["Bash", "Read"]),
    (RESPONSES, {**BY_ID[RESPONSES].declares(ONE), "tool_choice": {"type": "function", "name": "Bash"}}, ["Bash"]),
    (RESPONSES, {**BY_ID[RESPONSES].declares(ONE), "tool_choice": "required"}, ["Bash"]),
    (RESPONSES, {"tool_choice": "required"}, OURS),
    (RESPONSES, {"background": True}, ["Bash", "Read"]),
    (RESPONSES, {"conversation": "conv_1"}, ["Bash", "Read"]),
    (RESPONSES, {"tools": [{"type": "web_search"}]}, [""]),
    (GEMINI, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, OURS),
    (GEMINI, {"generationConfig": {"candidateCount": 2}}, ["Bash", "Read"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def callers() -> Iterator[Callers]:
    made = Callers()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "more", "expected"), CASES, ids=[f"{api} {more}"[:80] for api, more, _ in CASES]
)
def test_the_injected_tool_stands_last_where_it_may_be_called(
    name: str, more: dict[str, Any], expected: list[str], callers: Callers
) -> None:
    api = BY_ID[name]
    body = json.loads(api.body([("user", "x")], **more))
    body = {member: value for member, value in body.items() if value is not None}
    sent = json.loads(callers.send(api, json.dumps(body).encode(), api.credential("k")).rewritten.body)
    tools = sent.get("tools") or sent.get("toolConfig", {}).get("tools") or ()
    assert names_of_tools(tools) == expected
