"""`scripts/bench examples` shows results as they were and as they are sent."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_the_page_holds_both_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    bench = importlib.import_module("bench_examples")
    call = bench.Call("script", "Bash", {"command": "./x"}, "waiting for the server\n" * 200 + "``` done")
    shown = bench.section(call, bench.sent(call), whole=False)
    assert shown.startswith("## script: `./x`\n")
    before, after = shown.split("As it is sent, ")
    assert "⋮ (this page leaves 197 lines out)" in before
    assert "[the line above 199 more times]" in after
    assert after.count("\n````") == 2


def test_the_page_in_the_repository() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    kinds = re.findall(r"(?m)^## ([\w ,-]+): `", page)
    assert len(kinds) == len(set(kinds)) == 20
    assert page.count("As it was, about ") == page.count("As it is sent, about ") == len(kinds)
