"""What compared conversations have come to, over restarts, by any number of proxies, and not without end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penumbra.store import trial
from penumbra.store.database import Database
from penumbra.store.trial import Trial

KEY = b"k" * 32


def opened(path: Path) -> tuple[Database, Trial]:
    database = Database(path, 10_000_000, KEY)
    made = Trial(database, time.time)
    database.begin()
    return database, made


def test_conversations_add_up_over_restarts_and_processes(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (first, one), (second, other) = opened(path), opened(path)
    for each in (one, other, one):
        each.add({b"a": {"arm": "held out", "requests": 1, "dollars": 0.5}}).result()
    other.add({b"b": {"arm": "shortened", "requests": 1}}).result()
    first.close()
    second.close()
    later, again = opened(path)
    again.add({b"a": {"arm": "held out", "requests": 1}}).result()
    assert again.all().result() == {
        b"a": {"arm": "held out", "requests": 4, "dollars": 1.5},
        b"b": {"arm": "shortened", "requests": 1},
    }
    later.close()
    assert trial.read_file(path, KEY)[b"b"]["requests"] == 1
    assert trial.read_file(path, b"x" * 32) == {}


def test_those_heard_of_longest_ago_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "MOST", 3)
    now = [1_000_000_000.0]
    database = Database(tmp_path / "store.sqlite", 10_000_000, KEY)
    made = Trial(database, lambda: now[0])
    for name in (b"a", b"b", b"c", b"a", b"d"):
        now[0] += 1
        made.add({name: {"requests": 1}}).result()
    assert set(made.all().result()) == {b"a", b"c", b"d"}
    database.close()
