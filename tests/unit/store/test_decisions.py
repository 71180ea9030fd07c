"""Decisions in the database: formats of releases, batches, failing disks, and the key file."""

import asyncio
import logging
import os
import sqlite3
import stat

import pytest
from msgspec import structs

from penumbra.store.database import Database
from penumbra.store.database_file import APPLICATION, VERSION, WARNING_ID
from penumbra.store.decisions import SCHEMA, Decision, Facts
from penumbra.store.key_file import WARNING_ID as KEY_WARNING_ID
from penumbra.store.key_file import existing_key, installation_key
from penumbra.store.table import Table

DAY = 86_400.0
MEGABYTE = 1024 * 1024
SHORT = Decision(
    "short \ud800 é",
    Facts("shortened", 2, ("cap",), "git", ("00ff",), "shadow_x", 9, 5, 3, 2, redactions={"aws": 1}),
)
KEPT = Decision(None, Facts())


class Book(Table):
    """A table of decisions with a database of its own."""

    def __init__(self, path):
        self.database = Database(path, 64 * MEGABYTE)
        super().__init__(self.database, SCHEMA, DAY)


def run(coroutine):
    return asyncio.run(coroutine)


def test_many_new_rows_change_few_pages(tmp_path):
    book = Book(tmp_path / "x.sqlite")
    facts = structs.replace(KEPT.facts, bytes_before=9, bytes_after=9, characters_before=9, lines_before=1)

    def log_pages(mode):
        checkpoint = f"PRAGMA wal_checkpoint({mode})"
        return run(book.database.run(lambda connection: connection.execute(checkpoint).fetchone()))[1]

    run(book.put({os.urandom(16): Decision(None, facts) for _ in range(4_000)}))
    log_pages("TRUNCATE")
    run(book.put({os.urandom(16): Decision(None, facts) for _ in range(500)}))
    assert 20 < log_pages("PASSIVE") < 100
    book.database.close()


def test_tables_without_rowid_of_earlier_releases_can_be_used(tmp_path):
    path = tmp_path / "x.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE decisions (key BLOB PRIMARY KEY, used INTEGER NOT NULL, record BLOB NOT NULL)"
            " WITHOUT ROWID"
        )
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.close()
    for earlier, decision in (({}, SHORT), ({b"a": SHORT}, KEPT), ({b"a": KEPT}, SHORT)):
        book = Book(path)
        assert run(book.get([b"a"])) == earlier
        run(book.put({b"a": decision}))
        book.database.close()


def test_a_second_process_sees_the_rows_of_the_first(tmp_path):
    first, second = Book(tmp_path / "p"), Book(tmp_path / "p")
    assert run(second.get([b"a"])) == {}
    run(first.put({b"a": SHORT}))
    assert run(second.get([b"a"])) == {b"a": SHORT}
    first.database.close()
    second.database.close()


def test_many_keys_are_looked_up_in_batches(tmp_path):
    keys = [str(number).encode() for number in range(2000)]
    book = Book(tmp_path / "p")
    run(book.put(dict.fromkeys(keys, KEPT)))
    book.database.close()
    book = Book(tmp_path / "p")
    assert len(run(book.get(keys))) == 2000
    book.database.close()


def test_the_file_and_its_folder_belong_to_the_user(tmp_path):
    path = tmp_path / "state" / "p.sqlite"
    old = os.umask(0)
    try:
        book = Book(path)
        run(book.put({b"a": KEPT}))
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        book.database.close()
    finally:
        os.umask(old)


def test_a_failing_disk_is_reported_once_and_memory_takes_over(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    book = Book(blocked / "p.sqlite")
    with caplog.at_level(logging.WARNING):
        run(book.put({b"a": SHORT}))
        run(book.put({b"b": KEPT}))
    assert run(book.get([b"a", b"b"])) == {b"a": SHORT, b"b": KEPT}
    assert [record.getMessage().startswith(WARNING_ID) for record in caplog.records] == [True]
    book.database.close()


def test_work_that_raises_changes_nothing():
    database = Database(None, MEGABYTE)
    book = Table(database, SCHEMA, DAY)

    def fail(connection):
        connection.execute("INSERT INTO decisions VALUES (x'00', 1, x'00')")
        raise LookupError

    with pytest.raises(LookupError):
        run(database.run(fail))
    assert run(book.is_empty())
    database.close()


def test_the_installation_key_is_made_once_and_is_the_users_alone(tmp_path):
    path = tmp_path / "state" / "p.key"
    key = installation_key(path)
    assert len(key) == 32
    assert installation_key(path) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["p.key"]
    assert installation_key(None) != installation_key(None)


def test_reading_the_key_makes_and_replaces_none(tmp_path):
    path = tmp_path / "state" / "p.key"
    assert existing_key(None) is None
    assert existing_key(path) is None
    assert list(tmp_path.iterdir()) == []
    key = installation_key(path)
    assert existing_key(path) == key
    path.chmod(0o644)
    assert existing_key(path) is None
    assert path.read_bytes() == key


def test_a_key_that_cannot_be_stored_is_reported(tmp_path, caplog):
    (tmp_path / "p.key").write_bytes(b"short")
    key = installation_key(tmp_path / "p.key")
    assert len(key) == 32
    assert KEY_WARNING_ID in caplog.text
    assert installation_key(tmp_path / "p.key") == key
