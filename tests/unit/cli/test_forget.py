"""`penumbra forget` lists and deletes Penumbra's files, and no others."""

import os
import sqlite3
from pathlib import Path

import pytest

from penumbra.cli import forget
from penumbra.cli.command import Failure
from penumbra.metrics.running import StatsFile
from penumbra.store.database import Database
from penumbra.store.history import History
from penumbra.store.key_file import installation_key


@pytest.fixture
def state(tmp_path, monkeypatch):
    """Return a state folder with files of each kind."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for name in ("PENUMBRA_DATABASE", "PENUMBRA_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "penumbra"
    database = Database(folder / "penumbra.sqlite", 10_000_000, installation_key(folder / "penumbra.key"))
    History(database).add({"requests": 1}, {}).result()
    database.close()
    for name in ("penumbra.sqlite.20260101-000000", "wrap.log", "wrap.old"):
        (folder / name).write_text("x")
    (folder / "ca").mkdir()
    (folder / "ca" / "mitmproxy-ca.pem").write_text("its own business")
    return folder


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_files_are_named_and_deleted_with_all(state, capsys):
    there = names(state)
    assert forget.main([]) == 0
    output = capsys.readouterr().out
    assert names(state) == there
    assert all(name in output for name in there - {"ca/mitmproxy-ca.pem"})
    assert "`penumbra forget --all` deletes it." in output
    assert forget.main(["--all"]) == 0
    assert names(state) == {"ca/mitmproxy-ca.pem"}
    assert "penumbra ca remove" in capsys.readouterr().out
    assert forget.main(["--all"]) == 0
    assert "keeps nothing here" in capsys.readouterr().out


def test_not_under_a_proxy_that_runs(state):
    there = names(state)
    file = StatsFile(state / "running" / f"{os.getpid()}.json", lambda: {"pid": os.getpid()})
    file.start()
    with pytest.raises(Failure, match=f"stop the proxies that run here first: kill {os.getpid()}"):
        forget.main(["--all"])
    file.close()
    assert names(state) == there


def test_another_programs_database_is_left(state, tmp_path, monkeypatch):
    path = tmp_path / "photos.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE photos (name)")
    monkeypatch.setenv("PENUMBRA_DATABASE", str(path))
    there = names(state)
    with pytest.raises(Failure, match="another program's database: nothing is deleted"):
        forget.main(["--all"])
    assert path.exists()
    assert names(state) == there
    path.write_text("no database at all" * 100)
    with pytest.raises(Failure, match="delete it yourself"):
        forget.main(["--all"])
    assert path.exists()
