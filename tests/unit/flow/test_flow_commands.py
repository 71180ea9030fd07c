"""What `:penumbra.export` says where a file can't be written."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import cast

import pytest
from mitmproxy import types

from penumbra.explain.result_facts import ResultMemory
from penumbra.flow.explainer import Explainer
from penumbra.flow.flow_commands import FlowCommands
from penumbra.flow.page.contents import Contents
from penumbra.flow.page.texts import Texts

FULL = Path("/dev/full")


class Figures:
    async def table(self, of: str) -> str:
        return f"{of}\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs a device that takes nothing")
def test_a_full_disk_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    contents = cast(Contents, Figures())
    commands = FlowCommands(cast(Explainer, None), ResultMemory(), Texts(), contents, lambda: None)

    async def export() -> None:
        commands.export("compared", types.Path(str(FULL)))
        await asyncio.gather(*commands._tasks)

    assert "compared" in commands.tables()
    with caplog.at_level(logging.INFO):
        asyncio.run(export())
    assert [record.levelname for record in caplog.records if "Penumbra" in record.message] == ["ERROR"]
    assert "compared is not written to /dev/full: OSError" in caplog.text
