"""A mitmweb with the addon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.mitm.web import Mitmweb


@pytest.fixture
def mitmweb(upstream: Any, confdir: Path, tmp_path: Path) -> Any:
    """`mitmweb(**options)` returns a running mitmweb."""
    made: list[Mitmweb] = []

    def start(**options: str) -> Mitmweb:
        made.append(Mitmweb(upstream, confdir, tmp_path / f"web{len(made)}", options=options))
        made[-1].start()
        return made[-1]

    yield start
    for each in made:
        each.stop()
