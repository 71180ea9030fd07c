"""`penumbra page`: which link it prints, and what it says where none can be opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penumbra.cli import page
from penumbra.cli.command import Failure
from penumbra.metrics.running import StatsFile

THROUGH, OWN = "http://penumbra.local/?token=x", "http://127.0.0.1:8765/?token=x"


@pytest.mark.parametrize(
    ("link", "proxy", "told"),
    [
        (THROUGH, "127.0.0.1:8080", f"{THROUGH}  (through the proxy at 127.0.0.1:8080)\n"),
        (OWN, "", f"{OWN}\n"),
        (THROUGH, "", "start it with --set penumbra_page=8765"),
        ("", "127.0.0.1:8080", "no proxy with a page"),
    ],
)
def test_a_link_that_a_browser_can_open_or_why_there_is_none(
    link: str,
    proxy: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    entry = {"pid": os.getpid(), "page": link, "proxy": proxy}
    file = StatsFile(tmp_path / "penumbra" / "running" / f"{os.getpid()}.json", lambda: entry)
    file.start()
    try:
        if told.startswith("http"):
            assert page.main([]) == 0
            assert capsys.readouterr().out == told
        else:
            with pytest.raises(Failure, match=told):
                page.main([])
    finally:
        file.close()
