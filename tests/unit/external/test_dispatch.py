"""Many texts at once against a real service: stored responses, shared calls, limits, deadlines, cleaning."""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penumbra.config.settings import CompressionService
from penumbra.external.dispatch import Breaker, Dispatcher, Job, Model, Outcome, Shared, response_key
from penumbra.external.strategies import SIMPLE, Credential, Http, Task, of_service
from penumbra.metrics.totals import external_lines
from penumbra.redaction import RedactionError
from penumbra.store.database import Database
from penumbra.store.records import COMPRESSED as SCHEMA
from penumbra.store.table import Table
from support.compressor_service import Does, Service

SECRET = b"k" * 32


def text(number: int = 0) -> str:
    return "\n".join(f"{number} line {n} of a long and rather dull output" for n in range(80))


def ask(body: str = text(), **more: Any) -> Job:
    return Job(Task(body, **more), body)


@dataclass
class Bench:
    """A dispatcher with its database and client, for one event loop."""

    service: Service
    timeout: float = 20.0
    model: str = ""
    shared: Shared = field(default_factory=lambda: Shared(seconds=0.005))
    database: Database = field(default_factory=lambda: Database(None, 1 << 26))
    http: Http = field(default_factory=Http)

    def __post_init__(self) -> None:
        self.compressed = Table(self.database, SCHEMA, 86_400.0)
        self.dispatcher = self.another()
        self.strategy = of_service(
            CompressionService(self.service.url, "", self.model, self.timeout, False), self.http
        )

    def another(self) -> Dispatcher:
        return Dispatcher(SECRET, self.compressed, shared=self.shared)

    async def outcomes(self, *asks: Job, deadline: float = 20.0, **more: Any) -> list[Outcome]:
        return await self.dispatcher.outcomes(self.strategy, asks, deadline, **more)


@asynccontextmanager
async def running(service: Service, **more: Any) -> AsyncIterator[Bench]:
    bench = Bench(service, **more)
    try:
        yield bench
    finally:
        bench.dispatcher.cancel()
        await asyncio.sleep(0)
        await bench.http.close()
        bench.database.close()


EAGER = getattr(asyncio, "eager_task_factory", None)


@pytest.mark.parametrize("factory", [None, EAGER] if EAGER else [None])
async def test_tasks_may_begin_at_once_or_later(factory: Any, service: Service) -> None:
    """Newer versions of mitmproxy run tasks eagerly."""
    async with running(service) as bench:
        asyncio.get_running_loop().set_task_factory(factory)
        outcomes = await bench.outcomes(ask(), ask(), ask(text(1)))
        assert [outcome.how for outcome in outcomes] == ["miss", "miss", "miss"]
        assert (await bench.dispatcher.outcomes(SIMPLE, [ask()], 20))[0].text is not None
    assert len(service.asked) == 2


async def test_an_answer_is_a_miss_once_and_a_hit_from_then_on(service: Service) -> None:
    async with running(service) as bench:
        [first] = await bench.outcomes(ask())
        [again] = await bench.outcomes(ask())
        [later] = await bench.another().outcomes(bench.strategy, [ask()], 20)
        assert (first.how, again.how, later.how) == ("miss", "hit", "hit")
        assert first.text == again.text == later.text
        assert first.text is not None
        assert "(version " in first.text
        assert (bench.dispatcher.metrics.misses, bench.dispatcher.metrics.hits) == (1, 1)
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"question": "Why?"},
        {"intent": "command: ls"},
        {"ratio": 0.3},
        {"tool": "Bash"},
        {"credential": Credential("h", {}, b"someone")},
    ],
)
async def test_another_question_is_another_answer(change: dict[str, Any], service: Service) -> None:
    async with running(service) as bench:
        await bench.outcomes(ask())
        assert [outcome.how for outcome in await bench.outcomes(ask(), ask(**change))] == ["hit", "miss"]


def test_another_model_or_strategy_is_another_answer() -> None:
    task = Task(text())
    http = Http()
    one = of_service(CompressionService("https://h.example", model="a"), http)
    names = {
        response_key(SECRET, strategy, task)
        for strategy in (
            one,
            of_service(CompressionService("https://h.example", model="b"), http),
            of_service(CompressionService("https://i.example", model="a"), http),
            SIMPLE,
        )
    }
    assert len({*names, response_key(b"other", one, task)}) == 5
    assert response_key(SECRET, one, task) == response_key(SECRET, replace(one), Task(text()))


async def test_many_results_keep_to_the_limits_of_the_process(service: Service) -> None:
    """Two dispatchers, as after a change of settings, have no more places than one."""
    service.does(delay=0.03)
    async with running(service) as bench:
        other = bench.another()
        found = await asyncio.gather(
            bench.outcomes(*(ask(text(n)) for n in range(100))),
            other.outcomes(bench.strategy, [ask(text(n)) for n in range(100, 200)], 20),
        )
        for number, outcome in enumerate(itertools.chain(*found)):
            assert outcome.how == "miss"
            assert outcome.text is not None
            assert outcome.text.startswith(f"{number} line 0 ")
    assert len(service.asked) == 200
    assert 5 <= service.most_at_once <= 10


async def test_equal_texts_share_one_call(service: Service) -> None:
    hold = threading.Event()
    service.does(hold=hold)
    async with running(service) as bench:
        waiting = [asyncio.create_task(bench.outcomes(ask(), ask())) for _ in range(5)]
        while not service.asked:
            await asyncio.sleep(0.001)
        # One of the callers is cancelled; the others are not disturbed.
        waiting[0].cancel()
        await asyncio.sleep(0)
        hold.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[0], asyncio.CancelledError)
        texts = {outcome.text for outcomes in found[1:] for outcome in outcomes}
        assert len(texts) == 1
        assert None not in texts
    assert len(service.asked) == 1


async def test_a_response_that_arrived_after_the_look_up_is_used(service: Service) -> None:
    async with running(service) as bench:
        stored = bench.compressed
        looked, answered = asyncio.Event(), asyncio.Event()

        class Late:
            """A store whose first reply arrives after another call for the same text has ended."""

            add, looks = stored.add, 0

            async def get(self, keys: Sequence[bytes]) -> dict[bytes, str]:
                self.looks += 1
                found = await stored.get(keys)
                if self.looks == 1:
                    looked.set()
                    await answered.wait()
                return found

        bench.dispatcher = Dispatcher(SECRET, Late())  # type: ignore[arg-type]
        slow = asyncio.create_task(bench.outcomes(ask()))
        await looked.wait()
        [quick] = await bench.outcomes(ask())
        answered.set()
        [late] = await slow
        assert quick.text == late.text
        assert late.text is not None
    assert len(service.asked) == 1


async def test_a_response_after_the_deadline_is_stored_for_the_next_caller(service: Service) -> None:
    hold = threading.Event()
    service.does(hold=hold)
    async with running(service) as bench:
        # A text that no caller waits for is never sent: another caller waits until it is.
        patient = asyncio.create_task(bench.outcomes(ask()))
        while not service.asked:
            await asyncio.sleep(0.001)
        [late] = await bench.outcomes(ask(), deadline=0.05)
        assert late == Outcome(None, "deadline")
        patient.cancel()
        hold.set()
        while bench.dispatcher.flights:
            await asyncio.sleep(0.001)
        [now] = await bench.outcomes(ask())
        assert now.how == "hit"
    assert len(service.asked) == 1


async def test_a_text_that_waits_at_its_deadline_is_never_sent(service: Service) -> None:
    hold = threading.Event()
    service.does(hold=hold)
    async with running(service) as bench:
        outcomes = await bench.outcomes(*(ask(text(n)) for n in range(30)), deadline=0.3)
        assert {outcome.how for outcome in outcomes} == {"deadline"}
        hold.set()
        while bench.dispatcher.flights:
            await asyncio.sleep(0.001)
    assert len(service.asked) <= 10


async def test_a_service_that_is_down_is_left_alone(service: Service) -> None:
    service.does(status=500)
    async with running(service) as bench:
        outcomes = await bench.outcomes(*(ask(text(n)) for n in range(100)))
        kinds = {outcome.how for outcome in outcomes}
        assert kinds == {"status", "breaker open"}
        assert await bench.outcomes(ask(text(999))) == [Outcome(None, "breaker open")]
        assert bench.dispatcher.metrics.failures.total() == 101
    assert 5 <= len(service.asked) <= 15


async def test_a_text_that_cannot_be_shortened_does_not_count_against_the_service(service: Service) -> None:
    service.does(text="x" * 5_000)
    async with running(service) as bench:
        outcomes = await bench.outcomes(*(ask(text(n)) for n in range(20)))
        assert outcomes == [Outcome(None, "not smaller")] * 20
        # The outcome is stored: the service is not asked again.
        assert await bench.outcomes(ask(text(3))) == [Outcome(None, "not smaller")]
    assert len(service.asked) == 20


@pytest.mark.parametrize(
    ("does", "how"),
    [
        (Does(text=""), "empty"),
        (Does(text=" \n"), "empty"),
        (Does(status=429), "status"),
        (Does(raw=b"<html>"), "malformed"),
        (Does(reset=True), "connection"),
        (Does(hang=True), "timeout"),
        (Does(text=f"<<<SHADOW:shadow_{'0' * 18}>>>\nfine"), "forged markers"),
        (Does(text="fine \x1b[2K"), "control characters"),
    ],
)
async def test_every_event_is_an_outcome(does: Does, how: str, service: Service) -> None:
    service.behaviour = lambda asked: does
    async with running(service, timeout=0.3 if does.hang else 20) as bench:
        [outcome] = await bench.outcomes(ask())
        assert outcome == Outcome(None, how)
        assert not bench.dispatcher.flights


async def test_an_answer_is_cleaned_before_it_is_kept(service: Service) -> None:
    key_line = "AWS key AKIA" + "IOSFODNN7EXAMPLX"
    service.does(text=f"all is well, {key_line}")
    body = text() + "\nERROR the queue is closed"

    def redact(given: str) -> str:
        return given.replace(key_line, "[REDACTED:aws]")

    async with running(service) as bench:
        asked = replace(ask(body), redact=redact)
        [outcome] = await bench.outcomes(asked)
        assert outcome.text is not None
        assert outcome.text.startswith("all is well, [REDACTED:aws]\n[Lines of the original")
        assert outcome.text.endswith("\nERROR the queue is closed")
        [kept] = await bench.database.run(
            lambda connection: connection.execute("SELECT record FROM compressed").fetchall()
        )
        assert key_line.encode() not in kept[0]
        [hit] = await bench.outcomes(asked)
        assert hit == Outcome(outcome.text, "hit")


async def test_an_answer_is_cleaned_where_its_caller_has_his_turn(service: Service) -> None:
    service.does(text="short " * 10)
    async with running(service) as bench:
        turns: list[Callable[[], Any]] = []

        async def turn(piece: Callable[[], Any]) -> Any:
            turns.append(piece)
            return await asyncio.to_thread(piece)

        [outcome] = await bench.outcomes(replace(ask(), work=turn))
        # The text is cleaned once when it is stored and once for the caller.
        assert (outcome.how, len(turns)) == ("miss", 2)
        [outcome] = await bench.outcomes(replace(ask(), work=turn))
        assert (outcome.how, len(turns)) == ("hit", 3)


async def test_an_answer_that_cannot_be_searched_for_secrets_is_none(service: Service) -> None:
    def redact(given: str) -> str:
        raise RedactionError("no")

    async with running(service) as bench:
        assert await bench.outcomes(replace(ask(), redact=redact)) == [Outcome(None, "redaction")]
        rows = await bench.database.run(
            lambda connection: connection.execute("SELECT 1 FROM compressed").fetchall()
        )
        assert rows == []


async def test_prefix_and_hint_count(service: Service) -> None:
    service.does(text="short " * 10)
    async with running(service) as bench:
        small = "short " * 14
        bare = Job(Task(small), small)
        assert [outcome.how for outcome in await bench.outcomes(bare)] == ["miss"]
        assert await bench.outcomes(replace(bare, overhead="<<<SHADOW:shadow_0>>>\n")) == [
            Outcome(None, "not smaller")
        ]
        # The response to a shortened text must be smaller than that.
        assert await bench.outcomes(replace(bare, instead="short " * 9)) == [Outcome(None, "not smaller")]


async def test_a_call_that_costs_more_than_it_saves_is_not_made(service: Service) -> None:
    dear = replace(ask(), reader=Model("gpt-5-nano", 0.1, 1.0))
    async with running(service, model="toc_latte_v1") as bench:
        assert await bench.outcomes(dear) == [Outcome(None, "not worth its price")]
        assert service.asked == []
        [outcome] = await bench.outcomes(dear, cost_check=False)
        assert outcome.how == "miss"
        metrics = bench.dispatcher.metrics
        assert (metrics.calls, metrics.input_tokens, metrics.output_tokens) == (1, 1000, 40)
        assert metrics.dollars == pytest.approx(0.00025)
        lines = "\n".join(external_lines(metrics))
        assert "1 misses, 1 without an answer" in lines
        assert "1 calls" in lines
        assert "not worth its price 1" in lines


async def test_calls_in_a_second_are_bounded(service: Service) -> None:
    async with running(service, shared=Shared(10, seconds=0.1)) as bench:
        begun = time.monotonic()
        await bench.outcomes(*(ask(text(n)) for n in range(30)))
        assert time.monotonic() - begun > 0.2


def test_breaker_pauses_after_failures_in_a_row_and_after_each_further_one() -> None:
    now = [0.0]
    breaker = Breaker(clock=lambda: now[0])
    for reports in ([breaker.failed] * 4, [breaker.succeeded], [breaker.failed] * 4):
        for report in reports:
            report()
    assert not breaker.is_open
    for _ in range(3):
        breaker.failed()
        assert breaker.is_open
        now[0] += 29
        assert breaker.is_open
        now[0] += 1
        assert not breaker.is_open
    breaker.succeeded()
    breaker.failed()
    assert not breaker.is_open


async def test_the_strategy_simple_calls_no_service(service: Service) -> None:
    async with running(service) as bench:
        [outcome] = await bench.dispatcher.outcomes(SIMPLE, [ask("one two three four five " * 40)], 20)
        assert outcome == Outcome("one two three four five " * 9 + "one two three four five...", "miss")
        assert bench.dispatcher.metrics.dollars == 0
    assert service.asked == []
