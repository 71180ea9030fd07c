"""Sums of each day, over restarts and several proxies."""

import time
from collections.abc import Callable
from pathlib import Path

from penumbra.store import history
from penumbra.store.database import Database
from penumbra.store.history import MOST_CONVERSATIONS, OTHERS, History

KEY = b"k" * 32
NOON = 1_790_000_000.0 - 1_790_000_000.0 % 86_400 + 43_200


def opened(
    path: Path, clock: Callable[[], float] = lambda: NOON, key: bytes = KEY
) -> tuple[Database, History]:
    database = Database(path, 10_000_000, key)
    made = History(database, clock)
    database.begin()
    return database, made


def test_days_add_up_over_restarts_and_processes(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    (first, one), (second, other) = opened(path), opened(path)
    for each in (one, other, one, other):
        each.add(
            {"requests": 2, "misses": {"expired": 1}}, {"abcd": {"requests": 1, "agent": "codex"}}
        ).result()
    first.close()
    second.close()
    later, again = opened(path, lambda: NOON + 86_400)
    again.add({"requests": 1}, {}).result()
    days = again.last(7).result()
    later.close()
    assert [record["all"]["requests"] for record in days.values()] == [8, 1]
    record = next(iter(days.values()))
    assert record["all"]["misses"] == {"expired": 4}
    assert record["conversations"] == {"abcd": {"requests": 4, "agent": "codex"}}


def test_first_starts_at_once_share_one_file(tmp_path: Path) -> None:
    for round in range(8):
        path = tmp_path / f"{round}.sqlite"
        pairs = [opened(path) for _ in range(4)]
        for _, made in pairs:
            made.add({"requests": 1}, {}).result()
        assert [record["all"] for record in pairs[0][1].last(1).result().values()] == [{"requests": 4}]
        assert not any(database.file.failed for database, _ in pairs)
        for database, _ in pairs:
            database.close()


def test_another_process_reads_it_with_the_key_only(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    database, made = opened(path, time.time)
    made.add({"requests": 3}, {"abcd": {"agent": "codex"}}).result()
    assert [each["all"] for each in history.read_file(path, KEY, 7).values()] == [{"requests": 3}]
    assert history.read_file(path, b"x" * 32, 7) == {}
    database.close()
    # The file, which no process has open, is read without a second file beside it.
    assert [each["all"] for each in history.read_file(path, KEY, 7).values()] == [{"requests": 3}]
    assert list(tmp_path.iterdir()) == [path]
    assert b"codex" not in path.read_bytes()


def test_conversations_of_a_day_and_days_are_bounded(tmp_path: Path) -> None:
    database, made = opened(tmp_path / "store.sqlite")
    for start in (0, 250):
        made.add({}, {f"c{n}": {"requests": n} for n in range(start, start + 250)}).result()
    (record,) = made.last(1).result().values()
    assert len(record["conversations"]) == MOST_CONVERSATIONS
    assert sum(each["requests"] for each in record["conversations"].values()) == sum(range(500))
    assert record["conversations"][OTHERS]["requests"] == sum(range(201))
    database.close()
    late = NOON + (history.DAYS + 2) * 86_400
    database, made = opened(tmp_path / "store.sqlite", lambda: late)
    made.add({"requests": 1}, {}).result()
    count = database.submit(
        lambda connection: connection.execute("SELECT count(*) FROM history").fetchone()
    ).result()
    database.close()
    assert count == (1,)
