"""`penumbra discover` finds logs, projects the savings, and shows no secret."""

import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from penumbra.cli import discover
from penumbra.cli.command import Failure
from penumbra.projection.from_logs import LogProjection
from penumbra.session_logs.log_entries import LoggedConversation
from support.session_log_files import ClaudeCodeLog, CodexLog, text_block, write_lines

ADDON = Path(__file__).parents[3] / "addon"
HOSTILE = '</pre><script>alert(1)</script><img src=x onerror="alert(2)">\x1b[2J'
TOKEN = "gh" + "p_lqcPuQybgKxtzX17jVL0GAPxirppHx92KGBZ"
TAGS = (
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "dl", "dt", "dd"),
    *("div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"),
)


class Tags(HTMLParser):
    """Collects the tags, attributes and text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[str] = set()
        self.texts = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts += data


def _claude_code(home: Path) -> Path:
    log = ClaudeCodeLog()
    log.prompt("look")
    use = {"type": "tool_use", "id": "toolu_01", "name": f"Tool{HOSTILE}", "input": {"command": HOSTILE}}
    log.said("m1", use)
    log.gave("toolu_01", f"{HOSTILE}\nGITHUB_TOKEN={TOKEN}\n" + "the same line again\n" * 300)
    log.said("m2", text_block("Done."))
    return write_lines(home / ".claude" / "projects" / "-work" / "s.jsonl", log.lines)


def _codex(home: Path) -> Path:
    log = CodexLog()
    log.prompt("look")
    log.called("call_1", "ls")
    log.gave("call_1", "a.py\n")
    log.said("Done.")
    return write_lines(home / ".codex" / "sessions" / "2026" / "11" / "20" / "rollout-1.jsonl", log.lines)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (
        *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME"),
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    ):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_as_a_process_in_a_home_of_its_own(home: Path) -> None:
    _claude_code(home)
    with _codex(home).open("a") as file:
        file.write("{broken\n")
    page = home / "page.html"
    before = sorted(home.rglob("*"))
    command = [sys.executable, "-m", "penumbra", "discover", "--json", "--html", str(page)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ADDON)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["read"]["files"] == 2
    assert said["read"]["broken"] == 1
    assert said["requests"]["count"] == 4
    assert {name: agent["results"]["count"] for name, agent in said["agents"].items()} == {
        "claude-code": 1,
        "codex": 1,
    }
    assert said["secrets"] == {"by_rule": {"github-token": 1}, "different_values": 1}
    # Only the page that the arguments name is written.
    assert sorted(set(home.rglob("*")) - set(before)) == [page]
    assert TOKEN not in done.stdout + done.stderr


def test_a_page_shows_hostile_text_as_text(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _claude_code(home)
    assert discover.main(["--html", str(home / "page.html")]) == 0
    page = (home / "page.html").read_text()
    out = capsys.readouterr().out
    tags = Tags()
    tags.feed(page)
    assert tags.seen == {*TAGS}
    assert tags.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "style"}
    assert "<script>alert(1)</script>" in tags.texts
    assert TOKEN not in page + out
    assert "\x1b" not in out
    assert "1 of 1 result would be shorter" in out
    assert "github-token 1" in out


def test_paths_agents_and_ages_choose(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    claude, codex = _claude_code(home), _codex(home)
    assert discover.main(["--agent", "codex"]) == 0
    assert "codex 1)" in capsys.readouterr().out
    assert discover.main([str(codex), str(claude.parent)]) == 0
    assert "2 logs read" in capsys.readouterr().out
    os.utime(claude, (1, 1))
    assert discover.main(["--agent", "claude-code", "--since", "7d"]) == 1
    assert "no new enough session log" in capsys.readouterr().err


def test_an_interrupted_run_prints_its_results(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = _codex(home)
    _claude_code(home)
    os.utime(codex, (1, 1))
    add, added = LogProjection.add, list[str]()

    async def interrupted(self: LogProjection, *given: Any) -> None:
        if added:
            raise KeyboardInterrupt
        added.append("the newest log")
        await add(self, *given)

    monkeypatch.setattr(LogProjection, "add", interrupted)
    assert discover.main([]) == 0
    out = capsys.readouterr().out
    assert "1 log read (claude-code 1)" in out
    assert "stopped    1 log left out, or read in part" in out
    assert "1 of 1 result would be shorter" in out


def test_a_log_that_can_t_be_worked_out_is_counted(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _codex(home)
    _claude_code(home)
    add = LogProjection.add

    async def failing(self: LogProjection, conversation: LoggedConversation, *given: Any) -> None:
        if conversation.agent == "codex":
            raise ValueError("something that nobody has thought of")
        await add(self, conversation, *given)

    monkeypatch.setattr(LogProjection, "add", failing)
    assert discover.main([]) == 0
    out = capsys.readouterr().out
    assert "not read   1 conversation that could not be worked out" in out
    assert "1 of 1 result would be shorter" in out


def test_wrong_arguments_are_reported(home: Path) -> None:
    (home / "notes.txt").write_text("hello\n")
    with pytest.raises(
        Failure, match="is no session log of claude-code, codex, gemini-cli, opencode, copilot-cli"
    ):
        discover.main([str(home / "notes.txt")])
    with pytest.raises(Failure, match="No such file"):
        discover.main([str(home / "nothing")])
    with pytest.raises(Failure, match="--since: got 'x', allowed: a time above zero"):
        discover.main(["--since", "x"])
    with pytest.raises(Failure, match="its folder does not exist"):
        discover.main(["--html", str(home / "none" / "page.html")])
