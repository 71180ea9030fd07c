"""Arguments of older calls through a real proxy: the strict stand-in takes them, and they stay as they are."""

from __future__ import annotations

import json
from typing import Any

from support.apis import BY_ID, printed
from support.upstream import turn

COMPACTION = json.dumps({"compactArguments": True, "toolIdentifierFields": {"write_file": ["path"]}})
TOOL = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}


def content(seed: int) -> str:
    return "\n".join(f"value_{n} = {n * seed * 7919 % 10007}" for n in range(60))


def claude(writes: list[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
    turns = printed(
        *["ok"] * len(writes),
        tool="write_file",
        arguments=lambda n: {"path": writes[n][0], "content": writes[n][1]},
    )
    messages = BY_ID["anthropic-messages"].written(turns)
    tools = [{"name": "write_file", "description": "Write.", "input_schema": TOOL}]
    return "https://api.anthropic.com/v1/messages", {
        "model": "claude-x",
        "max_tokens": 99,
        "tools": tools,
        "messages": messages,
    }


def first_arguments(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = request.json["messages"][1]["content"][0]["input"]
    return found


def test_once_omitted_always_omitted_also_after_a_restart(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    options = {"penumbra_tool_compaction": COMPACTION, "penumbra_supersede": "priced"}
    proxy = own_proxy(**options)
    headers = {"x-api-key": api_key, "authorization": f"Bearer {api_key}", "anthropic-version": "2023-06-01"}
    writes = [("a.py", content(3)), ("a.py", content(4)), ("b.py", content(5)), ("c.py", content(6))]

    def send(count: int) -> Any:
        url, value = claude(writes[:count])
        upstream.answers(turn("Done."))
        answer = clients.http(proxy).post(url, json=value, headers=headers)
        assert answer.status_code == 200, answer.text
        return upstream.asked()[-1]

    assert first_arguments(send(1)) == {"path": "a.py", "content": content(3)}
    send(2)
    third = send(3)
    omitted = first_arguments(third)
    assert (omitted["path"], omitted["content"]) == ("a.py", "[omitted]")
    assert omitted["_tool_compaction"]["omittedFields"]["content"]["bytes"] == len(content(3))
    assert first_arguments(send(4)) == omitted
    # Switched off in between: what the provider has seen stays.
    proxy.restart()
    fourth = send(4)
    assert first_arguments(fourth) == omitted
    assert third.body[: third.body.rindex(b"b.py")] == fourth.body[: third.body.rindex(b"b.py")]
