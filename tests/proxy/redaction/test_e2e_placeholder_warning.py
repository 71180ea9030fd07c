"""Placeholders that leave in a call are logged and marked, and the call's result tells the model; what they are
is said from the start."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.expand import reference
from penumbra.redaction.placeholder import NOTE, make
from support.agents.disk import PATH, give_tools
from support.agents.requests import assert_prefix_kept
from support.apis import BY_ID, printed
from support.planted import PASSWORD
from support.restoring import BY_NAME, mark, play
from support.upstream import Received, ToolCall, turn

MARK = make("password", b"k", b"v")
RESULT = f"DB_PASSWORD={PASSWORD}\nDEBUG=true\n"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
WRITTEN = "1 calls write a [REDACTED] placeholder instead of a value"


def request(name: str, result: str, *, stream: bool) -> tuple[str, dict[str, Any]]:
    api = BY_ID[name]
    more: dict[str, Any] = {"tools": [{"name": "Write", "description": "x", "input_schema": SCHEMA}]}
    if name == "openai-chat":
        more["tools"] = [{"type": "function", "function": {"name": "Write", "parameters": SCHEMA}}]
    turns = printed(result, tool="Write", arguments=lambda _: {})
    return api.path, json.loads(api.body(turns, stream=stream, **more))


@pytest.mark.parametrize("expand", ["true", "false"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-chat"])
def test_a_placeholder_in_a_call(
    api: str, stream: bool, expand: str, proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    running = proxy("reverse", penumbra_enable_expand_context=expand)
    running.command("tests.forget")
    headers = {"x-api-key": api_key, "authorization": f"Bearer {api_key}", "anthropic-version": "2023-06-01"}
    arguments = {"path": ".env", "content": f"DB_PASSWORD={MARK}\nDEBUG=false\n"}
    path, body = request(api, RESULT, stream=stream)
    before = running.log().count(WRITTEN)
    for blocks in (
        ("See", ToolCall("Write", arguments)),
        (f"It is {MARK}.", ToolCall("Write", {"path": "x"})),
    ):
        upstream.answers(turn(*blocks))
        answer = clients.http(running).post(f"{running.url}{path}", json=body, headers=headers)
        assert answer.status_code == 200
    written, said = (flow for flow in running.flows() if flow["path"] == path)
    assert (written["marked"], written["metadata"]["penumbra_placeholders_written"]) == (":warning:", 1)
    assert written["comment"].endswith(WRITTEN)
    assert said["marked"] != ":warning:"
    assert "penumbra_placeholders_written" not in said["metadata"]
    assert running.log().count(WRITTEN) == before + 1
    assert MARK not in running.log()


def test_the_legend_is_sent_from_the_first_request_on(
    proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    running = proxy("reverse", penumbra_enable_expand_context="true")
    path, body = request("anthropic-messages", "nothing", stream=False)
    first = {**body, "messages": body["messages"][:1]}
    client, headers = clients.http(running), {"x-api-key": api_key, "anthropic-version": "2023-06-01"}
    for each in (first, body):
        client.post(f"{running.url}{path}", json=each, headers=headers)
    tools = [received.json["tools"] for received in upstream.requests[-2:]]
    assert tools[0] == tools[1]
    assert tools[0][-1]["description"].endswith(reference.LEGEND)


def test_the_model_is_told_once_and_for_good(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, running = give_tools(monkeypatch), own_proxy()

    def write(received: Received) -> Any:
        return (
            ToolCall("Write", {"file_path": "/repo/copy.env", "content": f"DB_PASSWORD={mark(received)}"}),
        )

    mend = ToolCall("Bash", {"command": f"grep DB_PASSWORD {PATH} > /repo/copy.env"})
    play(upstream, (ToolCall("Read", {"file_path": PATH}),), write, (mend,), ("Mended.",))
    agent = BY_NAME["anthropic"].caller(clients, running, api_key, False)
    assert agent.say("Copy it.") == "Mended."
    running.restart()
    again = BY_NAME["anthropic"].caller(clients, running, api_key, False, messages=agent.messages)
    assert [again.say("And now?"), again.say("Sure?")] == ["Done.", "Done."]
    assert disk.files["/repo/copy.env"].startswith("DB_PASSWORD=[REDACTED:")
    told = [received.body.decode().count(f"written\\n{NOTE}") for received in upstream.asked()]
    assert told == [0, 0, 1, 1, 1, 1]
    assert [received.body.decode().count("[Note:") for received in upstream.asked()] == told
    assert_prefix_kept(upstream.asked())
