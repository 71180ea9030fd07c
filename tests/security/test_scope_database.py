"""Files on the disk can be read with the installation's key only; files of others are not used."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from penumbra.config.settings import Settings
from penumbra.conversation.engine import Engine
from penumbra.conversation.incoming import EngineSettings
from penumbra.metrics.events import EventFile
from penumbra.store.database import Database
from penumbra.store.database_file import MOVED_ID, VERSION, WARNING_ID
from penumbra.store.decisions import Decision, Facts
from penumbra.store.exchanges import PastResponse
from penumbra.store.key_file import WARNING_ID as KEY_WARNING_ID
from penumbra.store.key_file import Seal, installation_key
from penumbra.store.stores import Stores
from support.apis import APIS
from support.engines import HIDDEN, Callers, database
from support.tenants import ASK, CALL, LOG, begun, result

KEY = b"k" * 32


def opened(path: Path, key: bytes = KEY) -> Stores:
    stores = Stores(Database(path, 10**6, key), 60, 60)
    stores.database.begin()
    return stores


def bytes_below(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.iterdir() if file.suffix != ".key")


def test_no_content_is_readable_on_the_disk(tmp_path: Path) -> None:
    callers = Callers(database=database(tmp_path), redact_secrets=False, expand_from=0)
    asked = begun(callers, APIS[1], {"authorization": "Bearer k"})
    refs = [entry.facts.ref for entry in asked.rewritten.shown]
    callers.close()
    found = bytes_below(tmp_path / "state")
    assert found
    for said in (HIDDEN, LOG[:40], *LOG.split("\n")[:3], *refs, "worker", "call_1"):
        assert said.encode() not in found, said
    with sqlite3.connect(database(tmp_path)) as connection:
        for table in ("carried_originals", "answers", "decisions"):
            rows = connection.execute(f"SELECT record FROM {table}").fetchall()
            assert rows
            # The records are not merely compressed.
            assert not any(b"\x28\xb5\x2f\xfd" in row for (row,) in rows)


def test_without_the_key_there_is_nothing(tmp_path: Path) -> None:
    async def go(key: bytes) -> tuple[object, ...]:
        stores = opened(tmp_path / "p", key)
        try:
            decided, exchanged = await stores.decisions.get([b"a"]), await stores.exchanges.get([b"b"])
            return (decided, exchanged, await stores.originals.get(b"s", "r"))
        finally:
            stores.database.close()

    async def fill() -> None:
        stores = opened(tmp_path / "p")
        await stores.decisions.put({b"a": Decision("text", Facts())})
        await stores.exchanges.put({b"b": PastResponse("tool", "")})
        await stores.originals.put(b"s", {"r": "original"})
        stores.database.close()

    asyncio.run(fill())
    assert asyncio.run(go(KEY)) == (
        {b"a": Decision("text", Facts())}, {b"b": PastResponse("tool", "")}, "original",
    )  # fmt: skip
    assert asyncio.run(go(b"x" * 32)) == ({}, {}, None)


def test_a_record_in_another_place_is_none() -> None:
    seal = Seal(KEY, "originals")
    data = seal.close(b"row", b"text")
    assert seal.open(b"row", data) == b"text"
    assert data != seal.close(b"row", b"text")
    for other in (Seal(KEY, "answers"), Seal(b"x" * 32, "originals")):
        assert other.open(b"row", data) is None
    assert seal.open(b"row2", data) is None
    for end in range(len(data)):
        assert seal.open(b"row", data[:end]) is None
        assert seal.open(b"row", data[:end] + bytes([data[end] ^ 1]) + data[end + 1 :]) is None


def test_rows_of_an_earlier_release_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "p"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE originals (scope BLOB, ref TEXT, used INTEGER, size INTEGER, text BLOB)"
        )
        connection.execute("INSERT INTO originals VALUES (x'00', 'shadow_1', 1, 1, 'READABLE')")
    connection.close()
    stores = opened(path)
    asyncio.run(stores.originals.put(b"s", {"r": "original"}))
    stores.database.close()
    assert b"READABLE" not in bytes_below(tmp_path)
    assert b"shadow_1" not in bytes_below(tmp_path)
    assert not caplog.records
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
    connection.close()


def foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE photographs (name TEXT)")
        connection.execute("INSERT INTO photographs VALUES ('a face')")
    connection.close()


def later(path: Path) -> None:
    Database(path, 10**6, KEY).close()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE decisions (x)")
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()


def damaged(path: Path) -> None:
    stores = opened(path)
    texts = {str(number): os.urandom(3_000).hex() for number in range(40)}
    asyncio.run(stores.originals.put(b"s", texts))
    stores.database.close()
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 9] = os.urandom(4096 * 6)
    path.write_bytes(data)


def garbage(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1000)


@pytest.mark.parametrize("make", [foreign, later, damaged, garbage])
def test_foreign_and_damaged_databases_are_moved_aside_once_at_the_start(
    make: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.sqlite"
    make(path)
    before = path.read_bytes()
    for _ in range(2):
        engine = Engine(EngineSettings.of(Settings(database=str(path))))
        engine.close()
    (line,) = [one.getMessage() for one in caplog.records]
    assert line.startswith(f"{MOVED_ID}: {path}: ")
    assert "\n" not in line
    (aside,) = tmp_path.glob("p.sqlite.2*")
    assert str(aside) in line
    if make in (foreign, garbage):
        assert aside.read_bytes() == before
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM decisions").fetchone() == (0,)
    connection.close()


def test_damage_that_is_met_later_costs_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    callers = Callers(database=database(tmp_path), expand_from=0)
    try:
        begun(callers, APIS[1], {"authorization": "Bearer k"})
        path = Path(database(tmp_path))
        for end in ("", "-wal"):
            file = Path(f"{path}{end}")
            file.write_bytes(b"\xff" * file.stat().st_size)
        body = APIS[1].body([ASK, CALL, result(LOG.replace("part", "share"))])
        assert callers.send(APIS[1], body, {"authorization": "Bearer other"})
    finally:
        callers.close()
    assert all(one.getMessage().startswith((MOVED_ID, WARNING_ID)) for one in caplog.records)
    assert len(caplog.records) <= 1


def test_a_database_that_is_a_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "other").write_bytes(b"")
    (tmp_path / "p").symlink_to(tmp_path / "other")
    opened(tmp_path / "p").database.close()
    assert [one.getMessage().startswith(WARNING_ID) for one in caplog.records] == [True]
    assert (tmp_path / "other").read_bytes() == b""


def test_a_key_that_others_could_read_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "p.key"
    first = installation_key(path)
    path.chmod(0o644)
    second = installation_key(path)
    assert second != first
    assert installation_key(path) == second
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.getMessage().startswith(KEY_WARNING_ID) for one in caplog.records] == [True]
    assert [file.name for file in tmp_path.iterdir()] == ["p.key"]


def link(path: Path) -> None:
    path.with_name("planted").write_bytes(b"p" * 32)
    path.with_name("planted").chmod(0o600)
    path.symlink_to(path.with_name("planted"))


def dangling(path: Path) -> None:
    path.symlink_to(path.with_name("nowhere"))


def pipe(path: Path) -> None:
    os.mkfifo(path, 0o600)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("make", [link, dangling, pipe, folder])
def test_a_key_that_is_no_file_of_ones_own_is_not_used(
    make: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "p.key"
    make(path)
    key = installation_key(path)
    assert key != b"p" * 32
    assert installation_key(path) != key
    assert all(one.getMessage().startswith(KEY_WARNING_ID) for one in caplog.records)
    assert len(caplog.records) == 2
    assert not path.with_name("nowhere").exists()


def test_an_events_file_that_cannot_be_written_is_reported_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    events = EventFile(lambda: str(tmp_path / "file" / "events.jsonl"))
    events.follow()
    events.write(lambda: {"event": "request"})
    events.close()
    assert [one.getMessage().startswith("PENUMBRA_EVENTS_UNAVAILABLE") for one in caplog.records] == [True]
