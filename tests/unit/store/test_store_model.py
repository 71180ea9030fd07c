"""The model of a store's traffic: what a proxy asks for that has not seen a conversation for a while."""

from __future__ import annotations

import pytest

pytest.importorskip("redis")

from support.fleet.store_model import p99_wait, simulated
from support.fleet.store_traffic import Asked, _read

READ = Asked("GETEX", "decisions", 0, 60)
PUT = Asked("SET", "decisions", 0, 200, 100)
TOLD = Asked("PUBLISH", "", -1, 90, 30)
TURNS = [[READ, PUT, TOLD], [READ], [], []]
"""The first proxy decides, the second one asks for that, and both know it then."""


def test_a_row_is_read_once_by_each_proxy_that_has_not_put_it() -> None:
    one = simulated([TURNS], 50, 1)
    assert (one.turns, one.rows) == (200, 50)
    assert one.commands == {"getex": 50, "set": 50, "publish": 50}
    assert simulated([TURNS], 50, 4, sticky=1.0).commands == one.commands
    many = simulated([TURNS], 50, 1_000)
    assert many.commands["getex"] > 190, "nearly each turn lands where nothing is known"
    assert many.commands["set"] == 50
    assert many.kept == one.kept


def test_what_is_told_goes_to_every_proxy() -> None:
    few, many = (simulated([TURNS], 50, proxies, sticky=1.0).sent for proxies in (10, 20))
    assert many - few == 50 * 10 * (30 + 120)


def test_a_busy_store_lets_wait_and_one_that_is_too_busy_for_ever() -> None:
    load = simulated([TURNS], 50, 4)
    idle, busy = (p99_wait(load, rate, 0.001) for rate in (10, 800))
    assert idle < 0.01 < busy
    assert p99_wait(load, 1_000, 0.001) == float("inf")


def test_a_recording_tells_turns_tables_rows_and_sizes() -> None:
    lines = [
        rb'+1.5 [0 127.0.0.1:1] "GETEX" "penumbra:decisions:\x00a" "PX" "1000"',
        rb'+1.5 [0 127.0.0.1:1] "ECHO" "a-turn-begins 0"',
        rb'+1.6 [0 127.0.0.1:1] "GETEX" "penumbra:decisions:\x00a" "PX" "1000"',
        rb'+1.6 [0 127.0.0.1:1] "SET" "penumbra:decisions:\x00a" "\xff\"\n3" "PX" "1000" "NX"',
        rb'+1.7 [0 127.0.0.1:1] "ECHO" "a-turn-begins 0"',
        rb'+1.8 [0 127.0.0.1:1] "PUBLISH" "penumbra:news:x" "abc"',
    ]
    ((first, second),) = _read(lines, 1)
    assert [(each.command, each.table, each.value) for each in first] == [
        ("GETEX", "decisions", 0),
        ("SET", "decisions", 4),
    ]
    assert first[0].row == first[1].row
    assert first[0].sent == len("*4\r\n$5\r\nGETEX\r\n$21\r\n" + "n" * 21 + "\r\n$2\r\nPX\r\n$4\r\n1000\r\n")
    assert [(each.command, each.value) for each in second] == [("PUBLISH", 3)]
