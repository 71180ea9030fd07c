"""Tools of MCP servers that no model calls: their tokens, and the setting that removes them."""

import json
from pathlib import Path
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.prompt import declarations
from penumbra.cli import stats
from penumbra.metrics.tool_use import LEAST_REQUESTS, DeclaredTool, ToolUses, server_of, unused
from penumbra.store.database import Database
from penumbra.store.history import History
from penumbra.store.key_file import installation_key
from penumbra.wire.document import Document

RULES = rules.load("unused_tools.yaml")
GITHUB = (DeclaredTool("mcp__github__search", 300), DeclaredTool("mcp__github__open", 200))
TOOLS = (DeclaredTool("Bash", 500), DeclaredTool("WebSearch", 100), *GITHUB)


@pytest.mark.parametrize(("agent", "tool", "server"), RULES["examples"], ids=str)
def test_a_name_states_the_server_that_brings_the_tool(agent: str, tool: str, server: str | None) -> None:
    assert server_of(agent, tool) == (server or "")


@pytest.mark.parametrize("rule", RULES["agents"], ids=lambda rule: rule["agent"])
def test_a_setting_names_the_removed_tool_or_server(rule: dict[str, Any]) -> None:
    assert "{tool}" in rule["one"]
    assert "{server}" in rule["all"]


def counted(requests: int, called: set[str], agent: str = "claude-cli") -> dict[str, Any]:
    uses = ToolUses()
    for _ in range(requests):
        uses.add("shop", agent, TOOLS, called, 1e-6)
    return uses.take()


def test_server_whose_tools_are_all_unused_is_one_line() -> None:
    (found,) = unused(counted(20, {"Bash"}))
    assert (found.server, found.requests, found.tokens) == ("github", 20, 20 * 500)
    assert found.names == ("mcp__github__open", "mcp__github__search")
    assert found.setting == '{"permissions": {"deny": ["mcp__github"]}}'
    assert found.dollars == pytest.approx(0.01)


def test_server_of_which_one_tool_is_called_stays() -> None:
    (found,) = unused(counted(20, {"mcp__github__open"}))
    assert found.setting == '{"permissions": {"deny": ["mcp__github__search"]}}'


@pytest.mark.parametrize(
    ("requests", "agent"),
    [(LEAST_REQUESTS - 1, "claude-cli"), (LEAST_REQUESTS, "mine")],
    ids=["few", "unknown"],
)
def test_there_is_no_advice_without_enough_requests_or_a_known_setting(requests: int, agent: str) -> None:
    assert not unused(counted(requests, set(), agent))


def test_taken_counts_are_counted_once() -> None:
    uses = ToolUses()
    uses.add("shop", "codex", TOOLS, set(), 0.0)
    assert uses.take()
    assert uses.take() == {}


@pytest.mark.parametrize(
    "tools",
    [
        [{"name": "a", "input_schema": {}}, {"name": "late", "input_schema": {}, "defer_loading": True}],
        [{"type": "function", "function": {"name": "a", "parameters": {}}}],
        [{"functionDeclarations": [{"name": "a"}]}],
        [{"toolSpec": {"name": "a", "inputSchema": {"json": {}}}}],
        [{"type": "web_search"}, {"type": "namespace", "name": "", "tools": [{"name": "a"}]}],
    ],
    ids=["anthropic", "chat", "gemini", "bedrock", "responses"],
)
def test_declarations_of_every_api_are_read(tools: list[Any]) -> None:
    document = Document(json.dumps({"tools": tools}).encode())
    arrays = [document.members(document.root)["tools"]]
    assert [name for name, _ in declarations(document, arrays)] == ["a"]


def test_the_command_prints_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("PENUMBRA_DATABASE", raising=False)
    assert stats.main(["--tools"]) == 0
    assert "no MCP tool was declared" in capsys.readouterr().out
    path = tmp_path / "penumbra" / "penumbra.sqlite"
    path.parent.mkdir()
    database = Database(path, 10_000_000, installation_key(path.with_suffix(".key")))
    database.begin()
    for requests in (12, 8):
        History(database).add({"requests": requests}, {}, counted(requests, {"Bash"})).result()
    database.close()
    assert stats.main(["--tools"]) == 0
    text = capsys.readouterr().out
    assert "github: 2 tools (claude-cli, project shop)\n  20 requests, 10,000 tokens of declarations" in text
    assert '.claude/settings.json: {"permissions": {"deny": ["mcp__github"]}}' in text
    assert stats.main(["--tools", "--json"]) == 0
    assert [row["server"] for row in json.loads(capsys.readouterr().out)] == ["github"]
