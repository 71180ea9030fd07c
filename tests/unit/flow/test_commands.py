"""A command that fails reports this in one line."""

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest
from mitmproxy import exceptions, types

from penumbra.explain.result_facts import ResultMemory
from penumbra.flow.explainer import Explainer, FlowCommands
from penumbra.flow.page.contents import Contents, Texts
from penumbra.metrics.journal import Journal

FULL = Path("/dev/full")


class Figures:
    async def table(self, of: str) -> str:
        return f"{of}\n"


def made(memory: ResultMemory, texts: Texts) -> FlowCommands:
    explainer, contents = cast(Explainer, None), cast(Contents, Figures())
    nothing = lambda: None  # noqa: E731
    return FlowCommands(Journal(), explainer, memory, texts, contents, bool, nothing, nothing)


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that takes nothing")
def test_a_full_disk_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    commands = made(ResultMemory(), Texts())

    async def export() -> None:
        commands.export("turns", types.Path(str(FULL)))
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})

    assert "turns" in commands.tables()
    with caplog.at_level(logging.INFO):
        asyncio.run(export())
    assert [record.levelname for record in caplog.records if "Penumbra" in record.message] == ["ERROR"]
    assert "turns could not be written to /dev/full: OSError" in caplog.text


def test_a_reference_without_an_original_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, texts = ResultMemory(), Texts()
    commands = made(memory, texts)
    with pytest.raises(exceptions.CommandError, match=r"^no original is kept for 'shadow_0': none is, .*=on"):
        commands.expand("shadow_0")
    monkeypatch.setattr(memory, "references", lambda: {"shadow_1": 1})
    monkeypatch.setattr(texts, "get", {1: ("one\ttwo\nthree", "one")}.get)
    assert commands.expand("shadow_1") == ["one    two", "three"]
    with pytest.raises(exceptions.CommandError, match=r"penumbra.references lists the 1 that are$"):
        commands.expand("nope")
