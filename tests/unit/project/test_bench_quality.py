"""`scripts/bench quality` measures what it says: nothing is lost where nothing is done, and what is lost is."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("bench_quality")


def conversation() -> dict[str, Any]:
    def use(name: str, tool: str, arguments: dict[str, str]) -> dict[str, Any]:
        call = {"type": "tool_use", "id": name, "name": tool, "input": arguments}
        return {"role": "assistant", "content": [call]}

    def result(name: str, text: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": text}]}

    edit = {"file_path": "a.py", "old_string": "total_7 = count(7)", "new_string": "total_7 = 0"}
    messages = [
        {"role": "user", "content": "make it work"},
        use("toolu_1", "Read", {"file_path": "a.py"}),
        result("toolu_1", "\n".join(f"total_{n} = count({n})" for n in range(20))),
        use("toolu_2", "Edit", edit),
        result("toolu_2", "done"),
        use("toolu_3", "Bash", {"command": "./x"}),
        result("toolu_3", "wrote out/report_9.html"),
        {"role": "assistant", "content": "See out/report_9.html"},
    ]
    return {"api": "anthropic-messages", "model": "m", "max_tokens": 9, "system": "s", "messages": messages}


def test_what_is_there_is_kept_and_what_is_not_is_lost(bench: ModuleType) -> None:
    body = conversation()
    same, cut = bench.Scores(), bench.Scores()
    whole = bench.plain(body)
    same.add(body, whole)
    total = same.total()
    assert (total.results, total.pieces, total.kept) == (3, 2, 2)
    assert (total.edits, total.whole, same.unharmed) == (1, 1, 1)
    gone = json.loads(whole)
    gone["messages"][2]["content"][0]["content"] = "total_7 =\n[left out]"
    gone["messages"][6]["content"][0]["content"] = "wrote a report"
    cut.add(body, json.dumps(gone).encode())
    total = cut.total()
    assert total.kept < total.pieces
    assert (total.edits, total.whole, cut.unharmed) == (1, 0, 0)
    assert total.after < total.before
