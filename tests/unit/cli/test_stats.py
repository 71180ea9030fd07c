"""`penumbra stats` prints the days of the store, as text and for programs."""

import json
import os
import time
from pathlib import Path

import pytest

from penumbra.cli import stats
from penumbra.cli.command import Failure
from penumbra.metrics.running import StatsFile
from penumbra.store.database import Database
from penumbra.store.history import History
from penumbra.store.key_file import installation_key


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("PENUMBRA_DATABASE", raising=False)


def keep(tmp_path: Path) -> None:
    """Store three requests of one conversation."""
    path = tmp_path / "penumbra" / "penumbra.sqlite"
    path.parent.mkdir()
    database = Database(path, 10_000_000, installation_key(path.with_suffix(".key")))
    database.begin()
    History(database).add({"requests": 3}, {"abcd": {"requests": 3, "agent": "codex"}}).result()
    database.close()


def test_the_json_has_the_printed_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stats.main(["--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"proxies": [], "days": []}

    keep(tmp_path)

    assert stats.main(["--json"]) == 1
    output = json.loads(capsys.readouterr().out)
    assert [day["amounts"]["requests"] for day in output["days"]] == [3]
    assert stats.main([]) == 1
    head, day = capsys.readouterr().out.split("\n")[2:4]
    assert (head.split()[1], day.split()[1]) == ("requests", "3")


def test_the_time_of_the_latest_change_and_missing_requests_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path)
    written = time.mktime((2026, 11, 23, 11, 29, 2, 0, 0, -1))
    output = {"pid": os.getpid(), "written": written, "not_in_history": 2}
    file = StatsFile(tmp_path / "penumbra" / "running" / f"{os.getpid()}.json", lambda: output)
    file.start()
    assert stats.main([]) == 0
    text = capsys.readouterr().out
    assert ", latest change 11:29:02\n" in text
    assert text.endswith("\n2 requests of these processes still to be added to the days\n")
    output["not_in_history"] = 0
    file.start()
    assert stats.main([]) == 0
    assert "still to be added" not in capsys.readouterr().out
    file.close()


def test_a_report_is_written_as_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.html"
    assert stats.main(["--report", str(file)]) == 0
    assert "0 days written" in capsys.readouterr().out
    assert file.read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(Failure, match=r"stats --report: .*no/report.html: No such file"):
        stats.main(["--report", str(tmp_path / "no" / "report.html")])
