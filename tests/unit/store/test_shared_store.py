"""A store that several proxies share: the first decision is valid, its rows are sealed, and failures lose
nothing."""

import asyncio
import gc
import itertools
import logging
import random
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from redis import exceptions

from penumbra.metrics import exposition
from penumbra.metrics.journal import Journal
from penumbra.store import decisions, exchanges, outage
from penumbra.store.decisions import Decision, Facts
from penumbra.store.exchanges import PastResponse
from penumbra.store.key_file import SharedPlace
from penumbra.store.keyed_values import Schema
from penumbra.store.outage import EVICTION_ID, OTHER_KEY_ID, Reach
from penumbra.store.shared_store import SECONDS, WARNING_ID, SharedStore, SharedTable
from support.fleet import redis_server
from support.fleet.redis_server import RedisServer, Relay

pytestmark = pytest.mark.skipif(not redis_server.program(), reason=redis_server.MISSING)
KEY = b"k" * 32
ONE = Decision("the first form", Facts("shortened"))
OTHER = Decision("another form", Facts("shortened"))
KEPT = Decision(None, Facts())
PATIENCE = 20.0
"""Seconds; on a busy machine a healthy store can take longer to answer than `SECONDS`."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    yield running
    running.close()


@pytest.fixture
def redis(server: RedisServer) -> Iterator[RedisServer]:
    yield server
    server.start()
    server.unfill()
    server.client.flushall()


@asynccontextmanager
async def proxies(redis: RedisServer, count: int = 2, key: bytes = KEY) -> AsyncIterator[list[SharedStore]]:
    stores = [SharedStore(SharedPlace(redis.url, key)) for _ in range(count)]
    for store in stores:
        store.patience = PATIENCE
        store.begin()
    await until(lambda: redis.client.pubsub_numsub(*redis.client.pubsub_channels())[0][1] >= count)
    yield stores
    for store in stores:
        store.close()
    await asyncio.sleep(0.01)


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(6_000):
        try:
            if condition():
                return
        except (IndexError, OSError):
            pass
        await asyncio.sleep(0.01)
    raise AssertionError("it never was so")


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def ledger(store: SharedStore, ttl: float = 1000.0) -> SharedTable[Decision]:
    return SharedTable(store, decisions.SCHEMA, ttl)


async def test_the_first_decision_is_valid(redis: RedisServer) -> None:
    async with proxies(redis) as (one, other):
        first, second = ledger(one), ledger(other)
        assert await first.settle({b"a": ONE, b"b": KEPT})
        assert not await second.settle({b"a": OTHER, b"c": OTHER})
        assert await second.get([b"a", b"c"]) == {b"a": ONE, b"c": OTHER}
        assert await second.settle({b"b": KEPT}), "the same is no conflict"
        assert other.figures.conflicts == 1
        assert await second.settle({b"a": OTHER}, over={b"a"})
        first.forget([b"a"])
        assert await first.get([b"a"]) == {b"a": OTHER}


async def test_nothing_can_be_read_or_recognised_without_the_key(redis: RedisServer) -> None:
    secret = b"a key of a conversation"
    async with proxies(redis, 1) as (one,):
        await ledger(one).put({secret: ONE})
        plain = {b"penumbra:key", b"penumbra:probe"}
        rows = {name: redis.client.get(name) for name in {*redis.client.scan_iter()} - plain}
        assert redis.client.get("penumbra:key") not in (KEY, KEY[:8])
        assert len(rows) == 2
        assert all(name.startswith((b"penumbra:decisions:", b"penumbra:filled:")) for name in rows)
        assert not any(secret in name or b"first form" in value for name, value in rows.items())
    async with proxies(redis, 1, b"x" * 32) as (stranger,):
        assert await ledger(stranger).get([secret]) == {}
        assert await ledger(stranger).settle({secret: OTHER}), "its rows have other names"
    async with proxies(redis, 1) as (again,):
        assert await ledger(again).get([secret]) == {secret: ONE}


async def test_a_row_that_was_put_in_anothers_place_is_not_there(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        await ledger(store).put({b"a": ONE, b"b": OTHER})
        names = [store.name("decisions", key) for key in (b"a", b"b")]
        redis.client.set(names[0], redis.client.get(names[1]))
        assert await ledger(store).get([b"a", b"b"]) == {b"b": OTHER}


async def test_a_value_of_another_kind_takes_nothing_else_away(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        table = SharedTable(store, decisions.SCHEMA, 60)
        name = store.name("decisions", b"a")
        redis.client.lpush(name, "of somebody else")
        assert await table.get([b"a"]) == {}
        assert store.is_whole
        assert await table.settle({b"a": ONE})
        assert redis.client.type(name) == b"string"


async def test_announcements_with_invalid_names_are_not_kept(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        name = store.name("decisions", b"a")
        (channel,) = redis.client.pubsub_channels()
        long = b"x" * 1_000_000
        redis.client.publish(channel, msgspec.msgpack.encode([(long, b""), (name, b"")]))
        await until(lambda: store.news.record(name) == b"")
        assert store.news.record(long) is None


async def test_rows_stay_for_their_time_since_the_last_use(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        await ledger(store, 1000).put({b"a": ONE})
        name = store.name("decisions", b"a")
        assert 990_000 < redis.client.pttl(name) <= 1_000_000
        redis.client.pexpire(name, 5_000)
        assert await ledger(store, 1000).touch([b"a", b"b"]) == {b"a"}
        assert redis.client.pttl(name) > 990_000
        redis.client.pexpire(name, 5_000)
        assert await ledger(store, 1000).get([b"a"]) == {b"a": ONE}
        assert redis.client.pttl(name) > 990_000


async def test_concurrent_commands_share_a_round_trip(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        book, known = ledger(store), SharedTable(store, exchanges.SCHEMA, 60)
        await until(lambda: store.figures.round_trips >= 2)
        before = store.figures.round_trips
        keys = [str(number).encode() for number in range(300)]
        await asyncio.gather(book.get(keys), known.get(keys), book.settle({b"x": KEPT}))
        assert store.figures.round_trips == before + 1
        await book.settle({b"y": ONE, b"z": KEPT})
        # Other proxies hear of values once the store has confirmed them, and no request waits for that.
        await until(lambda: store.figures.round_trips == before + 3)


async def test_memory_takes_over_during_an_outage_and_rows_are_written_later(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxies(redis) as (one, other):
        first = ledger(one)
        assert await first.settle({b"a": ONE})
        redis.kill()
        assert not await first.settle({b"new": ONE}), "nobody knows whether it was written"
        assert one.outage.reach is Reach.AWAY
        assert await first.get([b"a", b"new"]) == {b"a": ONE}
        assert not await first.settle({b"more": ONE}), "it was made for a store that remembers"
        assert await first.settle({b"new": OTHER, b"more": OTHER}, unasked=True)
        assert await first.get([b"new", b"more"]) == {b"new": OTHER, b"more": OTHER}
        redis.start()
        await until(lambda: one.is_whole)
        assert not one.outage.is_settled, "others may not know it yet"
        assert one.delayed == 0
        assert await ledger(other).get([b"a", b"new", b"more"]) == {b"a": ONE, b"new": OTHER, b"more": OTHER}
    messages = [record.getMessage() for record in caplog.records if WARNING_ID in record.getMessage()]
    assert len([line for line in messages if "the store can be used again" in line]) >= 1
    assert len(messages) <= 4, "once for each proxy and end"


async def test_a_slow_store_is_not_waited_for(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        book = ledger(store)
        assert await book.settle({b"a": ONE})
        redis.pause()
        try:
            # The store does not answer at all.
            store.patience = SECONDS
            assert not await asyncio.wait_for(book.settle({b"b": ONE}), PATIENCE)
            assert await asyncio.wait_for(book.get([b"a", b"c"]), PATIENCE) == {b"a": ONE}
            assert await book.settle({b"b": OTHER}, unasked=True)
        finally:
            store.patience = PATIENCE
            redis.go_on()
        await until(lambda: store.is_whole)
        # The row of the first form arrived first, and was never sent to a provider.
        assert await ledger(store).get([b"b"]) == {b"b": OTHER}


async def test_commands_that_waited_for_a_failed_round_trip_are_not_sent(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        await until(lambda: not store.asking)
        redis.pause()
        store.patience = 10 * SECONDS
        try:
            reads = []
            for number in range(6):
                reads.append(asyncio.create_task(ledger(store).get([bytes([number])])))
                await until(lambda number=number: store.asking == min(number + 1, 3))
            assert await asyncio.gather(*reads) == [{}] * 6
            assert store.figures.failures == 2, "each round trip at the same time has failed once"
        finally:
            store.patience = PATIENCE
            redis.go_on()
        await until(lambda: store.is_whole)


@asynccontextmanager
async def far_and_near(redis: RedisServer) -> AsyncIterator[tuple[Relay, SharedStore, SharedStore]]:
    """Yield a relay, a proxy that reaches the store through it, and one that reaches the store directly."""
    relay = Relay(redis.port)
    stores = [SharedStore(SharedPlace(url, KEY)) for url in (relay.url, redis.url)]
    for store in stores:
        store.patience = PATIENCE
        store.begin()
    await until(lambda: redis.client.pubsub_numsub(*redis.client.pubsub_channels())[0][1] >= 2)
    yield relay, *stores
    for store in stores:
        store.close()
    await asyncio.sleep(0.01)
    relay.close()


@pytest.mark.parametrize("hinder", [Relay.hold_replies, Relay.cut])
async def test_rows_without_a_confirmation_are_never_read(
    redis: RedisServer, hinder: Callable[[Relay], None]
) -> None:
    async with far_and_near(redis) as (relay, far, near):
        first, second = ledger(far), ledger(near)
        assert await first.settle({b"known": ONE})
        name = far.name("decisions", b"known")
        far.patience = SECONDS
        hinder(relay)
        assert not await first.settle({b"known": OTHER, b"new": ONE}, over={b"known"})
        assert far.outage.reach is Reach.AWAY
        if hinder is Relay.cut:
            relay.mend()
            await until(lambda: far.is_whole)
        # The announcement has reached no proxy, and the test does not wait for the first proxy's next try.
        await until(lambda: ledger_row(near, redis.client.get(name), b"known") == ONE)
        assert await second.get([b"known", b"new"]) == {b"known": ONE}
        await until(lambda: not second.elsewhere([b"new"]))
        assert not first.elsewhere([b"new"]), "it does not believe its own words either"
        far.patience = PATIENCE
        assert await first.settle({b"new": KEPT}, unasked=hinder is Relay.hold_replies)
        relay.mend()
        await until(lambda: far.is_whole)
        second.forget([b"new"])
        assert await second.get([b"known", b"new"]) == {b"known": ONE, b"new": KEPT}


def ledger_row(store: SharedStore, record: bytes, key: bytes) -> Decision | None:
    opened = store.seal("decisions").open(key, record)
    return None if opened is None else decisions.SCHEMA.unpack(opened)


async def test_a_later_row_of_another_proxy_is_not_taken_back(redis: RedisServer) -> None:
    async with far_and_near(redis) as (relay, far, near):
        first, second = ledger(far), ledger(near)
        assert await first.get([b"new"]) == {}
        far.patience = SECONDS
        relay.cut()
        assert not await first.settle({b"new": ONE})
        assert await second.settle({b"new": OTHER})
        relay.mend()
        await until(lambda: far.is_whole)
        assert await ledger(near).get([b"new"]) == {b"new": OTHER}


async def test_rows_that_the_store_has_lost_are_written_again(redis: RedisServer) -> None:
    async with proxies(redis) as (one, other):
        first = ledger(one)
        assert await first.settle({b"a": ONE, b"b": KEPT})
        assert not await ledger(other).settle({b"a": OTHER})
        redis.kill()
        redis.forget()
        assert await first.get([b"a", b"unknown"]) == {b"a": ONE}, "it is away"
        redis.start()
        await until(lambda: one.is_whole)
        assert await ledger(one).get([b"a", b"b"]) == {b"a": ONE, b"b": KEPT}
        assert one.samples()["forgotten_rows_total"] == 0


async def test_a_request_that_lacks_something_has_the_store_tried_at_once(redis: RedisServer) -> None:
    async with far_and_near(redis) as (relay, far, near):
        first, second = ledger(far), ledger(near)
        far.patience = SECONDS
        relay.cut()
        assert not await first.settle({b"x": ONE})
        for _ in range(8):
            far.outage.pause()
        tries = far.outage.tries
        await until(lambda: far.outage.tries > tries)
        relay.mend()
        far.patience = PATIENCE
        assert await second.settle({b"a": ONE})
        for _ in range(500):
            await until(lambda: not far.outage.is_tried_out)
            if await far.look_again():
                break
        assert far.outage.reach is Reach.WHOLE
        assert await first.get([b"a"]) == {b"a": ONE}


def test_a_hanging_connection_is_noticed(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "QUIET_SECONDS", 0.2)

    async def test() -> None:
        async with far_and_near(redis) as (relay, far, near):
            number = redis.client.info("stats")["total_connections_received"]
            # Only connections that are open now hang: a new one works.
            relay.lose_the_present()
            await until(lambda: redis.client.info("stats")["total_connections_received"] > number)
            heard = ledger(far)
            for number in itertools.count():
                assert number < 3_000
                key = str(number).encode()
                await ledger(near).put({key: ONE})
                await asyncio.sleep(0.02)
                if heard.elsewhere([key]):
                    return

    run(test)


async def test_a_full_store_takes_all_rows_or_none(redis: RedisServer) -> None:
    async with proxies(redis) as (one, other):
        assert await ledger(one).settle({b"a": ONE})
        large = Decision(random.Random(1).randbytes(3_000_000).hex(), Facts("shortened"))
        redis.client.config_set("maxmemory", redis.info("memory")["used_memory"] + 1_000_000)
        assert not await ledger(one).settle({b"small": ONE, b"large": large})
        assert one.outage.reach is Reach.FULL
        assert await ledger(other).get([b"a", b"small"]) == {b"a": ONE}
        assert not await ledger(one).settle({b"more": ONE}), "it is known to be full"
        assert not ledger(other).elsewhere([b"small", b"large", b"more"])


async def test_a_full_store_reads_and_tells(redis: RedisServer) -> None:
    async with proxies(redis) as (one, other):
        known = PastResponse("expand_context", "", behind=(b"x",))
        first, second = (SharedTable(each, exchanges.SCHEMA, 60) for each in (one, other))
        assert await ledger(one).settle({b"a": ONE})
        redis.fill()
        await first.put({b"k": known})
        assert one.outage.reach is Reach.FULL
        assert not await ledger(other).settle({b"b": ONE})
        assert await ledger(other).get([b"a"]) == {b"a": ONE}
        redis.kill()
        assert await second.get([b"k"]) == {b"k": known}, "it was told"
        assert ledger(other).elsewhere([b"a", b"zz"]) == {b"a"}


def test_a_store_that_evicts_is_reported(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with proxies(redis, 1):
            await until(lambda: EVICTION_ID in caplog.text)

    redis.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with caplog.at_level(logging.WARNING):
            run(test)
    finally:
        redis.client.config_set("maxmemory-policy", "noeviction")


async def test_another_key_is_reported_and_changes_nothing(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with proxies(redis, 1) as (one,):
        assert await ledger(one).settle({b"a": ONE})
    assert OTHER_KEY_ID not in caplog.text
    async with proxies(redis, 1, b"x" * 32) as (stranger,):
        await until(lambda: OTHER_KEY_ID in caplog.text)
        assert await ledger(stranger).settle({b"a": OTHER})
    async with proxies(redis, 1) as (again,):
        assert await ledger(again).get([b"a"]) == {b"a": ONE}


RIGHTS = {
    "no scripts": ("&penumbra:* +@all -eval", "eval"),
    "no channel": ("resetchannels +@all", "channel"),
    "reading only": ("&penumbra:* +@read", "getex"),
    "all that is needed": ("&penumbra:* +getex +set +pexpire +publish +subscribe +eval +getrange +del", ""),
}
"""Rights of a user of Redis, and the word by which the log names the missing one; empty if none is missing."""


@pytest.mark.parametrize(("rights", "missing"), RIGHTS.values(), ids=RIGHTS)
def test_a_user_of_the_store_needs_some_rights(
    redis: RedisServer, caplog: pytest.LogCaptureFixture, rights: str, missing: str
) -> None:
    command = f"acl setuser user on >pw ~penumbra:* {rights}"
    redis.client.execute_command(*command.split())  # type: ignore[no-untyped-call]

    async def test() -> None:
        store = SharedStore(SharedPlace(redis.url.replace("//", "//user:pw@"), KEY))
        store.begin()
        if missing:
            await until(lambda: WARNING_ID in caplog.text)
            await until(lambda: store.outage.tries > 2)
            assert store.outage.reach is Reach.AWAY, "it does not come and go"
        else:
            await until(lambda: store.figures.round_trips >= 2)
            assert await ledger(store).settle({b"a": ONE})
            await until(lambda: store.news.record(store.name("decisions", b"a")) == b"")
        store.close()
        await asyncio.sleep(0.01)

    try:
        run(test)
    finally:
        redis.client.execute_command("acl", "deluser", "user")  # type: ignore[no-untyped-call]
    lines = [record.getMessage() for record in caplog.records if WARNING_ID in record.getMessage()]
    assert len(lines) == bool(missing)
    assert all(missing in line.lower() and "\n" not in line and "pw@" not in line for line in lines)


@pytest.mark.parametrize(
    ("scheme", "error", "needed"),
    [
        ("redis", exceptions.ConnectionError("Connection closed by server."), "begins with rediss://"),
        ("rediss", exceptions.ConnectionError("Connection closed by server."), ""),
        ("rediss", exceptions.ConnectionError("CERTIFICATE_VERIFY_FAILED"), "?ssl_ca_certs=FILE"),
        ("redis", exceptions.MovedError("1 10.0.0.1:6379"), "part of a cluster"),
        ("redis", exceptions.InvalidResponse("Protocol Error: b'HTTP/1.1'"), "no Redis answers there"),
        ("redis", exceptions.ReadOnlyError("READONLY"), "is a replica of"),
        ("unix", exceptions.ConnectionError("Error 13: Permission denied"), ""),
    ],
)
def test_advice_depends_on_the_address_and_the_error(scheme: str, error: Exception, needed: str) -> None:
    said = outage.at_start(error, f"{scheme}://:secret-word@host")
    assert said.startswith(outage.why(error))
    assert needed in said
    assert bool(needed) == (said != outage.why(error))
    assert "secret-word" not in said


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ({"redis_mode": "cluster"}, "cluster"),
        ({"redis_mode": "sentinel"}, "Sentinel"),
        ({"redis_version": "6.0.16"}, "6.2 or later"),
        ({"redis_version": "5"}, "6.2 or later"),
        ({"redis_version": "6.2.0", "redis_mode": "standalone"}, ""),
        ({"redis_version": "7.2.4", "server_name": "valkey"}, ""),
        ({"redis_version": "another"}, ""),
        ({}, ""),
    ],
)
def test_unfit_stores_are_reported(says: dict[str, str], expected: str) -> None:
    if not expected:
        outage.check(says)
        return
    with pytest.raises(outage.UnfitStore, match=expected) as error:
        outage.check(says)
    assert "\n" not in outage.why(error.value)


async def test_settled_and_delayed_rows_make_a_database_nonempty(redis: RedisServer) -> None:
    async with proxies(redis) as (one, other):
        assert await ledger(one).settle({b"a": ONE})
        assert not await ledger(other).is_empty()
    redis.client.flushall()
    async with proxies(redis) as (one, other):
        redis.fill()
        await ledger(one).put({b"a": ONE})
        redis.unfill()
        await until(lambda: one.is_whole)
        assert not await ledger(other).is_empty()


async def test_tables_of_closed_engines_are_collected(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        gone = weakref.ref(ledger(store))
        gc.collect()
        assert gone() is None


@pytest.mark.parametrize("steps", range(4))
async def test_closing_ends_all_waits(redis: RedisServer, steps: int) -> None:
    """The round trips are waiting, about to begin, or under way."""
    async with proxies(redis, 1) as (store,):
        asking = []
        for number in range(4):
            asking.append(asyncio.ensure_future(ledger(store).get([b"%d" % number])))
            for _ in range(steps):
                await asyncio.sleep(0)
        store.close()
        assert await asyncio.wait_for(asyncio.gather(*asking), PATIENCE) == [{}] * 4
        assert await asyncio.wait_for(ledger(store).get([b"a"]), PATIENCE) == {}


async def test_its_figures_are_exposed(redis: RedisServer) -> None:
    async with proxies(redis, 1) as (store,):
        await ledger(store).put({b"a": ONE})
        messages = exposition.text(Journal(), store.samples())
        assert "penumbra_store_up 1.0\n" in messages
        assert "# TYPE penumbra_store_commands_total counter" in messages
    assert "penumbra_store" not in exposition.text(Journal())


pytest.importorskip("redis")


async def test_an_outage_of_any_length_is_remembered_within_bounds() -> None:
    store = SharedStore(SharedPlace("redis://127.0.0.1:1/0", b"k" * 32))
    store.outage.worsen(Reach.AWAY)
    schema: Schema[bytes] = Schema("decisions", bytes, bytes, memory=100)
    table = SharedTable(store, schema, 3_600.0)
    most = 0
    for number in range(0, 6_000, 20):
        values = {b"%d" % each: b"v" for each in range(number, number + 20)}
        if number % 40:
            await table.put(values)
        else:
            assert await table.settle(values, unasked=True)
        most = max(most, len(table.unwritten))
        recent = [b"%d" % each for each in range(max(0, number - 100), number + 20)]
        assert set(await table.get(recent)) <= table.unwritten, "none passes for one that was first"
    assert most < 1_500
    latest = [b"%d" % each for each in range(5_900, 6_000)]
    assert len(await table.get(latest)) == 100
    table.forget_unwritten()
    assert not await table.get(latest), "the store is asked what holds"
    assert not table.unwritten
    store.close()
