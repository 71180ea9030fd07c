"""Requests as real clients were seen to send them, and what these clients make of answers."""

import base64
import json
from typing import Any

import pytest

from support.agents.agent import AnthropicAgent, bash
from support.agents.apis import CLIENTS, both_ways
from support.agents.callers import HOST, MODEL
from support.agents.model import CAP, COMMANDS, Model, ask, expand
from support.agents.requests import PHANTOM, hidden_results, results
from support.upstream import Thinking, ToolCall, turn

LOG = COMMANDS["cat worker.log"]
CLAUDE_CODE = "claude-cli/2.1.329 (external, sdk-cli)"
BETAS = (
    "message-threads-2026-08-12,thinking-binding-controls-2026-08-01,context-management-2025-06-27,"
    "mid-conversation-tool-changes-2026-07-01"
)


@pytest.fixture
def running(proxy: Any) -> Any:
    return proxy("regular", penumbra_max_output_bytes=CAP)


@pytest.fixture
def adopting(proxy: Any) -> Any:
    """A proxy that treats conversations which began elsewhere like new ones."""
    return proxy("regular", penumbra_max_output_bytes=CAP, penumbra_adopt="compress")


class Billed(AnthropicAgent):
    """An agent like Claude Code: the first block of its system prompt differs in every request."""

    asked = 0

    def ask(self) -> list[dict[str, Any]]:
        self.asked += 1
        billing = (
            f"x-anthropic-billing-header: cc_version=2.1; cch={self.asked:05x}; cc_turn_index={self.asked}"
        )
        system = [{"type": "text", "text": billing}, {"type": "text", "text": "You are Claude Code."}]
        headers = {
            "user-agent": CLAUDE_CODE,
            "x-claude-code-session-id": "session-1",
            "anthropic-beta": BETAS,
        }
        self.extra = {"system": system, "extra_headers": headers, "extra_query": {"beta": "true"}}
        return super().ask()


def test_a_system_block_that_changes_with_every_request(clients: Any, running: Any, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Hm.")),
            turn(Thinking("So."), bash("ls")),
            turn("NEEDLE-90."),
        )
    )
    caller = Billed(clients.anthropic(running), thinking=True, cache=True)
    assert caller.say("What is in the log?") == "NEEDLE-90."
    upstream.script(Model(turn("Done.")))
    caller.say("Go on.")
    assert upstream.statuses() == {200}
    assert {request.target for request in upstream.asked()} == {"/v1/messages?beta=true"}
    assert {request.header("anthropic-beta") for request in upstream.asked()} == {BETAS}
    # The hidden request repeats the block of the request that it continues.
    blocks = [request.json["system"][0]["text"] for request in upstream.asked()]
    counts = [int(text.rpartition("=")[2]) for text in blocks]
    assert counts == [1, 2, 2, 3, 4]
    assert hidden_results(upstream.asked()[-1]) == [LOG]


@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue", "previous_message_id": "msg_1"}])
def test_claude_code_sends_its_whole_history(
    thread: Any, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", penumbra_threads="auto")
    api = CLIENTS[0]
    headers = {**api.headers(api_key), "user-agent": CLAUDE_CODE, "anthropic-beta": BETAS}
    body = {**api.body("x", True), "thread": thread}
    client = clients.http(running)
    answer = client.post(api.host + api.path(True), json=body, headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["details"]["error_code"] == "thread_unsupported_request"
    assert upstream.asked() == []
    client.post(api.host + api.path(True), json=api.body("x", True), headers=headers)
    (whole,) = upstream.asked()
    assert PHANTOM in [tool["name"] for tool in whole.json["tools"]]


def test_tools_that_stand_in_the_first_item_of_the_input(
    clients: Any, api_key: str, adopting: Any, upstream: Any
) -> None:
    """Codex in code mode sends no `tools`, calls with free text, and outputs that are lists."""
    script = 'text(await tools.exec_command({cmd: "cat worker.log"}))'
    namespace = {"type": "namespace", "name": "functions", "description": "All.", "tools": [
        {"type": "custom", "name": "exec", "description": "Run JavaScript."}
    ]}  # fmt: skip
    call_id = "call_ABCDEFGHIJKLMNOPQRSTUVWX"
    parts = [{"type": "input_text", "text": "Script completed"}, {"type": "input_text", "text": LOG}]
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [namespace]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "custom_tool_call", "call_id": call_id, "name": "exec", "input": script, "id": "ctc_1"},
        {"type": "custom_tool_call_output", "call_id": call_id, "output": parts},
    ]
    body = {
        "model": "gpt-6.1-sol",
        "input": items,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    upstream.script(Model(ask("Hm."), turn("NEEDLE-90 it is.")))
    client = clients.http(adopting)
    answer = client.post(
        "https://api.openai.com/v1/responses", json=body, headers={"authorization": f"Bearer {api_key}"}
    )
    first, continued = upstream.asked()
    assert (first.status, continued.status) == (200, 200)
    assert PHANTOM not in answer.text
    declared = first.json["input"][0]["tools"]
    assert [tool["name"] for tool in declared] == ["functions", PHANTOM]
    assert declared[0] == namespace
    assert "tools" not in first.json
    shown = first.json["input"][3]["output"]
    assert shown[0] == parts[0]
    assert len(shown[1]["text"]) < len(LOG)
    assert hidden_results(continued) == [LOG]
    said = answer.json()["output"]
    more = [*items, *said, {"type": "message", "role": "user", "content": "Go on."}]
    upstream.script(Model(turn("Done.")))
    client.post(
        "https://api.openai.com/v1/responses",
        json={**body, "input": more},
        headers={"authorization": f"Bearer {api_key}"},
    )
    last = upstream.asked()[-1]
    assert last.status == 200
    assert hidden_results(last) == [LOG]
    assert last.json["input"][: len(first.json["input"])] == first.json["input"]


NEWER: list[Any] = [
    {"role": "user", "content": "Fix it."},
    {
        "role": "assistant",
        "content": [
            {"type": "compaction", "content": "The log was read.", "encrypted_content": "E1", "tool_changes": []},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "1+1"}},
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {"type": "code_execution_result", "stdout": LOG, "stderr": "", "return_code": 0},
            },
            {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "read", "server_name": "s", "input": {}},
            {
                "type": "mcp_tool_result",
                "tool_use_id": "mcptoolu_1",
                "is_error": False,
                "content": [{"type": "text", "text": LOG}],
            },
            {"type": "tool_use", "id": "toolu_ABCDEFGHIJKLMNOPQRSTUVWX", "name": "Bash", "input": {"command": "cat worker.log"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_ABCDEFGHIJKLMNOPQRSTUVWX", "content": LOG},
            {"type": "container_upload", "file_id": "file_1"},
        ],
    },
    {
        "role": "system",
        "content": [
            {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Read"}},
            {"type": "tool_addition", "tool": {"type": "mcp_toolset_reference", "server_name": "s"}},
        ],
    },
]  # fmt: skip


def test_newer_parts_of_anthropics_requests_are_left_alone(
    clients: Any, api_key: str, adopting: Any, upstream: Any
) -> None:
    api = CLIENTS[0]
    edits = {"edits": [{"type": "compact_20260112"}, {"type": "clear_thinking_20251015", "keep": "all"}]}
    body = {
        **api.body("x", False),
        "messages": NEWER,
        "container": {"id": "container_1", "skills": []},
        "mcp_servers": [{"type": "url", "url": "https://mcp.example.org", "name": "s"}],
        "context_management": edits,
    }
    headers = {**api.headers(api_key), "anthropic-beta": BETAS}
    upstream.script(Model(ask("Hm."), turn("NEEDLE-90.")))
    answer = clients.http(adopting).post(api.host + api.path(False), json=body, headers=headers)
    assert answer.json()["content"][-1] == {"type": "text", "text": "NEEDLE-90."}
    first, continued = upstream.asked()
    assert (first.status, continued.status) == (200, 200)
    sent = first.json
    ((name, shown),) = results(sent)
    assert name == "Bash"
    assert len(shown) < len(LOG)
    # Only the one result and the injected tool differ.
    sent["messages"][2]["content"][0]["content"] = LOG
    assert [tool["name"] for tool in sent["tools"]] == ["Bash", "Read", PHANTOM]
    assert {**sent, "tools": sent["tools"][:-1]} == body
    assert first.header("anthropic-beta") == BETAS
    assert hidden_results(continued) == [LOG]
    assert json.dumps(continued.json["messages"][:4]) == json.dumps(first.json["messages"])


@both_ways
@pytest.mark.parametrize("service", ["anthropic", "bedrock"])
def test_verdicts_about_calls_name_those_that_the_client_sees(
    service: str, stream: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """Claude Code has the provider judge its calls; it ignores the judging where a verdict names a call that
    it did not get."""
    beta, safeguards = "dangerous-tool-use-2026-09-03", [{"type": "dangerous_tool_use"}]
    body = {**CLIENTS[0].body("What is there?", stream), "safeguards": safeguards}
    url, headers = "https://api.anthropic.com/v1/messages", CLIENTS[0].headers(api_key)
    headers["anthropic-beta"] = beta
    if service == "bedrock":
        way = "invoke-with-response-stream" if stream else "invoke"
        url, headers = f"https://{HOST}/model/{MODEL}/{way}", {"authorization": f"Bearer {api_key}"}
        own = {"anthropic_version": "bedrock-2023-05-31", "anthropic_beta": [beta]}
        body = {**own, **{key: value for key, value in body.items() if key not in ("model", "stream")}}
    upstream.script(
        Model(
            turn("See.", expand("shadow_1")),
            turn(ToolCall(PHANTOM, {"id": "shadow_2"}, "toolu_hidden"), ToolCall("bash", {}, "toolu_seen")),
        )
    )
    answer = clients.http(running).post(url, json=body, headers=headers)
    assert answer.status_code == 200, answer.content
    assert [request.json["safeguards"] for request in upstream.asked()] == [safeguards] * 2
    content = answer.content
    if service == "bedrock" and stream:
        values = CLIENTS[-1].events(content)
        content = b"".join(base64.b64decode(value["bytes"]) for value in values)
    assert b"toolu_hidden" not in content
    left = b'"safeguard_results":{"tool_uses":{"toolu_seen":{"verdict":"safe"}}}'
    assert left in content.replace(b" ", b"")
