"""If the disk does not answer for long, requests continue, forms stay, and memory is bounded."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from penumbra.conversation.incoming import Accepted, Incoming, Refused
from penumbra.store import database as store_database
from support.apis import APIS, Turn
from support.engines import Callers, arriving
from support.planted import GITHUB

API = APIS[0]


def log(number: int) -> str:
    lines = [f"{line:05} worker {number} idle, nothing to do" for line in range(300)]
    return "\n".join([*lines, f"GITHUB_TOKEN={GITHUB}"])


def turns(count: int) -> list[Turn]:
    made: list[Turn] = [("user", "Why?")]
    for number in range(count):
        made += [
            ("call", f"toolu_{number}", f"docker logs w{number}"),
            ("result", f"toolu_{number}", log(number)),
        ]
    return made


class Disk:
    """An engine's disk. After `hang`, it does not answer the next write until `free`."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._free = threading.Event()

    @property
    def _database(self) -> store_database.Database:
        return self._callers.engine.database

    def hang(self) -> None:
        def wait(statement: str) -> None:
            if statement.startswith(("INSERT", "UPDATE", "REPLACE")):
                self._free.wait(60)

        self._free.clear()
        self._database.patience = self._database.last_patience = 0.1
        self._database.submit(lambda connection: connection.set_trace_callback(wait)).result()

    async def free(self) -> None:
        self._free.set()
        while self._database.hangs:
            await asyncio.sleep(0.001)
        self._database.patience = 10.0
        await self._database.run(lambda connection: connection.set_trace_callback(None))

    def let_go(self) -> None:
        self._free.set()


@pytest.fixture
def callers(start: Callable[..., Callers]) -> Callers:
    return start(adopt="compress")


@pytest.fixture
def disk(callers: Callers) -> Iterator[Disk]:
    made = Disk(callers)
    yield made
    made.let_go()


def incoming(count: int, key: str = "k") -> Incoming:
    return arriving(API, API.body(turns(count)), API.credential(key))


async def sent(callers: Callers, count: int, key: str = "k") -> Accepted:
    """Return the accepted turn with `count` results. Waits only some seconds."""
    found = await asyncio.wait_for(callers.engine.process(incoming(count, key), callers.settings), 10)
    await asyncio.wait_for(callers.engine.stores.written(), 10)
    assert isinstance(found, Accepted)
    return found


def forms(accepted: Accepted) -> list[str]:
    """Return the sent form of each result."""
    assert GITHUB.encode() not in accepted.rewritten.body
    messages = json.loads(accepted.rewritten.body)["messages"]
    blocks = [
        block for message in messages if isinstance(message["content"], list) for block in message["content"]
    ]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


async def test_results_are_only_redacted_meanwhile_and_keep_that_form(callers: Callers, disk: Disk) -> None:
    found = [forms(await sent(callers, 1))]
    disk.hang()
    # The first request has waited, so the engine knows that the disk hangs.
    found += [forms(await sent(callers, count)) for count in (2, 3, 4)]
    assert callers.engine.database.samples()["up"] == 0
    await disk.free()
    found.append(forms(await sent(callers, 5)))
    callers.restart()
    found = [*found, forms(await sent(callers, 6))]
    for before, after in pairwise(found):
        assert after[: len(before)] == before
    is_whole = [form.count("idle, nothing") == 300 for form in found[-1]]
    assert is_whole == [False, False, True, True, False, False]


async def test_no_later_request_waits_and_the_log_names_beginning_and_end(
    callers: Callers, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    await sent(callers, 1)
    disk.hang()
    await sent(callers, 2)
    callers.engine.database.patience = 60.0
    for number in range(5):
        await sent(callers, 2, f"another {number}")
    await disk.free()
    said = [line.getMessage().rpartition(": ")[2] for line in caplog.records]
    assert said == ["the disk does not answer; requests no longer wait for it", "the disk answers again"]


async def test_waiting_writes_are_bounded_and_forgotten_results_keep_their_form(
    callers: Callers, disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A form stays even if memory has forgotten the decision."""
    monkeypatch.setattr(store_database, "MUCH_WAITING", 20_000)
    monkeypatch.setattr(store_database, "MOST_WAITING", 50_000)
    known = callers.engine.database
    await sent(callers, 1)
    disk.hang()
    for number in range(10):
        await sent(callers, 3, f"another {number}")
    during = await sent(callers, 3)
    figures = known.samples()
    assert figures["waiting_bytes"] <= 50_000
    assert figures["forgotten_rows_total"] == known.forgotten > 0
    await disk.free()
    assert known.samples()["waiting_bytes"] == 0
    callers.engine.stores.decisions.forget(during.decided)
    after = await sent(callers, 4)
    assert forms(after)[:3] == forms(during)
    assert "rows were forgotten" in caplog.text


async def test_a_disk_that_is_only_slow_is_still_asked(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If too much waits to be written, no decision is made that must be remembered."""
    monkeypatch.setattr(store_database, "MUCH_WAITING", -1)
    whole = forms(await sent(callers, 1))
    assert not callers.engine.database.hangs
    monkeypatch.setattr(store_database, "MUCH_WAITING", 1 << 20)
    both = forms(await sent(callers, 2))
    assert both[:1] == whole
    assert [form.count("idle, nothing") == 300 for form in both] == [True, False]


async def test_requests_are_refused_if_the_settings_require_the_store(start: Callable[..., Callers]) -> None:
    callers = start(store_away="refuse")
    disk = Disk(callers)
    try:
        await sent(callers, 1)
        disk.hang()
        # The disk hangs at any write.
        callers.engine.database.later(
            lambda connection: connection.execute("UPDATE decisions SET used = used")
        )
        assert isinstance(await callers.engine.process(incoming(2), callers.settings), Refused)
        await disk.free()
        await sent(callers, 2)
    finally:
        disk.let_go()


async def test_a_conversation_that_memory_does_not_know_waits_for_the_disk(callers: Callers) -> None:
    """Only the disk knows the forms that were sent before."""
    before = forms(await sent(callers, 3))
    callers.restart()
    known, free = callers.engine.database, threading.Event()
    known.patience = 0.05
    known.submit(lambda connection: free.wait(30))
    asked = asyncio.ensure_future(sent(callers, 4))
    while not known.hangs:
        await asyncio.sleep(0.001)
    free.set()
    assert forms(await asked)[:3] == before
