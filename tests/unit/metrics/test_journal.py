"""Sums over requests and responses, and the causes of cache misses."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from msgspec import structs

from penumbra.apis.base import CacheDiagnosis, Turn
from penumbra.apis.prefix_hash import PromptHead
from penumbra.expand.hidden_exchanges import Answered
from penumbra.metrics import overview, sessions
from penumbra.metrics.amounts import Amounts, Rates
from penumbra.metrics.cache_miss import ColdTurn, ComparedPrompt, Prompt, Prompts
from penumbra.metrics.events import NewResult, SentRequest, Summary
from penumbra.metrics.journal import Journal, Timeline
from penumbra.metrics.sessions import TurnRecord
from penumbra.metrics.totals import expiry_lines
from penumbra.store.decisions import Facts

RATES = Rates(input=1e-6, cached=1e-7, written=1.25e-6, output=5e-6)
HEAD = PromptHead(b"tools", b"system")
START, FIRST = b"", b"1"


def result(
    tool: str = "Bash", before: int = 1_000, after: int = 100, call: bytes = b"c", **facts: Any
) -> NewResult:
    made = Facts(how="shortened", tokens_before=before, tokens_after=after, ref="shadow_1", loss=2)
    shown: Any = SimpleNamespace(tool=tool, facts=structs.replace(made, **facts), new=True, call_id="")
    return NewResult(shown, call, "")


def request(*new: NewResult, carried: tuple[int, int] = (0, 0), **more: Any) -> SentRequest:
    facts = [each.shown.facts for each in new]
    before, after = (
        carried[0] + sum(f.tokens_before for f in facts),
        carried[1] + sum(f.tokens_after for f in facts),
    )
    prompt = Prompt(1_000.0, "m", HEAD, (START, FIRST), 1_024, 300.0)
    values: dict[str, Any] = {
        "conversation": b"\x01" * 32, "model": "m", "agent": "claude-cli", "host": "h", "api": "a", "note": "",
        "summary": Summary(len(new), len(new), 0, 0, before, after), "new": new, "secrets": {}, "changed": True,
        "body": (9, 9), "milliseconds": 20.0, "prompt": prompt, "rates": RATES, "dollars_saved": 0.001,
        "declared": 100, "put_back": 0,
    }  # fmt: skip
    return SentRequest(**values | more)


def usage(cached: int = 0, uncached: int = 0, written: int = 0, output: int = 0) -> dict[str, int]:
    return {
        "input_tokens": uncached,
        "cache_read_input_tokens": cached,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }


@pytest.fixture
def journal() -> Journal:
    return Journal(lambda: None, lambda: 1_000.0)


def test_the_overhead_is_subtracted(journal: Journal) -> None:
    turn = journal.sent(request(result(), put_back=80))
    journal.responded(
        turn,
        200,
        [
            Turn(usage=usage(written=5_000, output=50)),
            Turn(usage=usage(cached=5_000, written=200, output=70)),
        ],
    )
    sums = journal.amounts
    assert (sums.saved, sums.declared, sums.put_back, sums.hidden_tokens) == (900, 100, 20, 5_200)
    assert sums.net == 900 - 100 - 20 - 5_200
    assert sums.input == 10_200
    # The overhead is the second call's prompt, the first call's output, and the tokens that each request
    # carries.
    spent = 5_000 * 1e-7 + 200 * 1.25e-6 + 50 * 5e-6 + 120 * 1e-7
    assert sums.dollars_spent == pytest.approx(spent)
    assert sums.dollars == pytest.approx(
        5_000 * 1.25e-6 + 50 * 5e-6 + 5_000 * 1e-7 + 200 * 1.25e-6 + 70 * 5e-6
    )
    shares = overview.overview(journal)["amounts"]["shares"]
    assert shares["results"] == sums.net / 1_000
    assert overview.advice(journal)[0].about == "net"


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_request_that_is_not_taken_saves_and_costs_nothing(journal: Journal, is_observed: bool) -> None:
    more = {"put_back": 80, "is_observed": is_observed}
    for status in (400, 429, 503, 529):
        journal.responded(journal.sent(request(result(), **more)), status, [])
    for broken_off in (None, 502):
        journal.failed(journal.sent(request(result(), **more)), broken_off)
    sums = journal.amounts
    assert sums.requests == sums.errors.total() == 6
    assert (sums.dollars_saved, sums.dollars_spent, sums.unpriced) == (0, 0, 0)
    before = journal.take().all
    turn = journal.sent(request(result(), **more))
    journal.failed(turn, 200)
    journal.responded(turn, 200, [Turn(usage=usage(written=5_000))])
    journal.taken(turn)
    assert turn.amounts.dollars_saved == sums.dollars_saved == 0.001
    assert (sums.requests, sums.turns) == (7, 1)
    # The results are the same as before, and count as read again.
    assert turn.amounts.dollars_spent == sums.dollars_spent == pytest.approx(120 * 1e-7 + 100 * 1.25e-6)
    pending = journal.take()
    kept = [pending.all, *pending.conversations.values()]
    assert [each.dollars_saved for each in kept] == ([0] if is_observed else [0.001] * 2)
    assert before.dollars_saved == 0


def test_sums_by_project(journal: Journal) -> None:
    journal.sent(request(result(), project="shop (3f2a)"))
    journal.sent(request(result(), project="shop (3f2a)"))
    journal.sent(request(conversation=b"\x02" * 32))
    shown = overview.overview(journal)["projects"]
    assert [(each["name"], each["amounts"]["requests"]) for each in shown] == [
        ("shop (3f2a)", 2),
        ("(unknown)", 1),
    ]
    assert overview.sessions(journal)[-1]["project"] == "shop (3f2a)"
    assert journal.take().projects == {"01010101": "shop (3f2a)", "02020202": "(unknown)"}


def test_overview_with_unchanged_results_is_json(journal: Journal) -> None:
    journal.sent(request(structs.replace(result(how="kept"), kept="small")))
    tools = orjson.loads(orjson.dumps(overview.overview(journal)))["tools"]
    assert [(each["name"], each["kept"]) for each in tools] == [("Bash", {"small": 1})]


def test_unknown_prices_are_not_zero(journal: Journal) -> None:
    turn = journal.sent(request(result(), dollars_saved=None, rates=Rates()))
    assert journal.amounts.unpriced == 0
    journal.responded(turn, 200, [])
    shares = overview.overview(journal)["amounts"]["shares"]
    assert (shares["input"], shares["bill"]) == (None, None)
    assert shares["results"] is not None
    assert journal.amounts.unpriced == 1


def test_a_repeated_result_is_counted_if_something_was_left_out(journal: Journal) -> None:
    journal.sent(request(result(call=b"lossy"), result(call=b"whole", loss=0)))
    journal.sent(
        request(result(call=b"lossy", after=300), result(call=b"whole", loss=0), result(call=b"new"))
    )
    assert (journal.amounts.read_again, journal.amounts.read_again_tokens) == (1, 300)
    ((_, sums),) = journal.tools.items()
    assert (sums.results, sums.read_again) == (5, 1)


def test_expanded_results_are_marked(journal: Journal) -> None:
    turn = journal.sent(request(*[result(call=bytes([n]), family="pytest") for n in range(6)]))
    journal.asked(
        turn, [Answered("shadow_1", True, 900, "Bash", "pytest"), Answered("x", False, 0, "Bash", "pytest")]
    )
    assert all(each.asked == 1 for each in turn.results)
    titles = [each.title for each in overview.advice(journal)]
    assert "2 of 6 changed results of family pytest were asked for again" in titles
    assert "1 original asked for and not there any more" in titles


def test_the_results_of_all_turns_have_a_bound(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MOST_RESULTS", 10)
    made = [journal.sent(request(*[result(call=bytes([n])) for n in range(4)])) for _ in range(5)]
    made.append(journal.sent(request()))
    assert [len(turn.results) for turn in made] == [0, 0, 0, 4, 4, 0]
    assert journal.sessions.result(made[4].results[0].number) is made[4].results[0]
    assert journal.amounts.new_results == 20


def test_a_model_of_any_name_can_be_shown(journal: Journal) -> None:
    for model in ("m\ud800" * 100, "n"):
        prompt = Prompt(1_000.0, model, HEAD, (START, FIRST), 1_024, 300.0)
        turn = journal.sent(request(prompt=prompt, model=model))
        journal.responded(turn, 200, [Turn(usage=usage(written=50_000))])
    assert turn.miss is not None
    assert turn.miss.cause == "another model"
    assert len(orjson.dumps(overview.session(journal, turn.session))) < 10_000


WRITTEN, NO_EDITS = (b"1", b"2"), (b"", b"", b"head")
COMPARED = ComparedPrompt("msg_1", (*WRITTEN, b"3"), (b"", b"", b"", b"head"))
"""The prompt of the second of two turns, as the provider compares it."""


def turns(
    journal: Journal,
    compared: ComparedPrompt | None = None,
    diagnosis: CacheDiagnosis | None = None,
    cached: int = 0,
    **second: Any,
) -> TurnRecord:
    """Return the second of two turns of a conversation, which finds `cached` tokens in the cache."""
    first = Prompt(1_000.0, "m", HEAD, (START, FIRST, b"2"), 1_024, 300.0)
    if compared is not None:
        first, second["compared"] = (
            structs.replace(first, compared=ComparedPrompt("", WRITTEN, NO_EDITS)),
            compared,
        )
    now = structs.replace(first, **{"time": 1_010.0, "messages": (*first.messages, b"3")} | second)
    turn = journal.sent(request(prompt=first))
    journal.responded(turn, 200, [Turn(usage=usage(written=50_000), response_id="msg_1")])
    turn = journal.sent(request(prompt=now))
    billed = usage(cached=cached, written=50_500 - cached)
    journal.responded(turn, 200, [Turn(usage=billed, response_id="msg_2", diagnosis=diagnosis)])
    return turn


@pytest.mark.parametrize(
    ("second", "cause", "detail"),
    [
        ({}, "unknown", "the prompt was the same"),
        ({"time": 1_400.0}, "expired", "400 seconds after"),
        ({"model": "n"}, "another model", "m before"),
        ({"head": PromptHead(b"other", b"system")}, "tools changed", "tools"),
        ({"head": PromptHead(b"tools", b"other")}, "system changed", "system"),
        ({"messages": (START, FIRST, b"x", b"3")}, "messages changed", "message 2 of 2"),
        ({"rewrote": "rewrote 2 results: it pays"}, "rewritten by Penumbra", "2 results"),
    ],
)
def test_a_cache_that_misses_has_a_cause(
    journal: Journal, second: dict[str, Any], cause: str, detail: str
) -> None:
    miss = turns(journal, **second).miss
    assert miss is not None
    assert (miss.cause, miss.tokens) == (cause, 50_000)
    assert detail in miss.detail
    assert journal.amounts.misses == {cause: 1}
    assert journal.amounts.dollars_missed == pytest.approx(50_000 * 1.15e-6)


@pytest.mark.parametrize(
    ("word", "second", "more", "cause", "detail"),
    [
        ("messages_changed", {}, {}, "prefix broken by Penumbra", "no edit"),
        ("messages_changed", {"edits": (b"", b"\x0a", b"", b"head")}, {}, "prefix broken by Penumbra", "none before, 0a now"),
        ("messages_changed", {"edits": (b"", b"\x0a", b"", b"head")}, {"rewrote": "rewrote 2"}, "rewritten by Penumbra", "2"),
        ("messages_changed", {"written": (b"1", b"x", b"3")}, {}, "messages changed", "message 2 of 2"),
        ("messages_changed", {"written": (b"1",)}, {}, "messages changed", "message 2 of 2"),
        ("messages_changed", {"previous": "msg_9"}, {}, "messages changed", "provider"),
        ("tools_changed", {}, {}, "prefix broken by Penumbra", "the client's tools are the same"),
        ("tools_changed", {}, {"head": PromptHead(b"other", b"system")}, "tools changed", "provider"),
        ("tools_changed", {"edits": (b"", b"", b"", b"x")}, {}, "prefix broken by Penumbra", "outside of messages"),
        ("system_changed", {}, {}, "system changed", "provider"),
        ("model_changed", {}, {}, "another model", "provider"),
        ("unavailable", {}, {}, "unknown", "the prompt was the same"),
        ("", {}, {}, "unknown", "the prompt was the same"),
    ],
    ids=str,
)  # fmt: skip
def test_a_diagnosis_of_the_provider_names_the_cause(
    journal: Journal, word: str, second: dict[str, Any], more: dict[str, Any], cause: str, detail: str
) -> None:
    turn = turns(journal, replace(COMPARED, **second), CacheDiagnosis(word, 41_000), **more)
    assert turn.miss is not None
    assert (turn.miss.cause, detail in turn.miss.detail) == (cause, True), turn.miss
    assert journal.amounts.compared == (word != "unavailable")
    assert journal.amounts.broken == (cause == "prefix broken by Penumbra")


@pytest.mark.parametrize(
    ("pause", "name"),
    [(400.0, "up to 10 minutes"), (3_000.0, "10 to 60 minutes"), (20_000.0, "1 to 8 hours"), (90_000.0, "over 8 hours")],
)  # fmt: skip
def test_the_costs_of_a_pause_are_counted_apart(journal: Journal, pause: float, name: str) -> None:
    turns(journal, time=1_000.0 + pause)
    sums = journal.amounts
    assert (sums.expired, sums.pauses) == (50_000, {name: 1})
    assert sums.dollars_expired == sums.dollars_missed > 0
    assert f"pauses {name} 1" in expiry_lines(sums)[0]


@pytest.mark.parametrize(
    ("turn", "cached", "found", "cause"),
    [
        (ColdTurn(3_000, 9_000), 0, "cold", "expired"),
        (ColdTurn(3_000, 0), 0, "unknown", "expired"),
        (ColdTurn(3_000, 9_000), 12_000, "warm", "rewritten by Penumbra"),
    ],
    ids=["cold", "unknown", "warm"],
)
@pytest.mark.parametrize("word", ["", "messages_changed"], ids=["guessed", "diagnosed"])
def test_changes_after_a_pause_are_counted_by_the_state_of_the_cache(
    journal: Journal, word: str, turn: ColdTurn, cached: int, found: str, cause: str
) -> None:
    compared = replace(COMPARED, edits=(b"", b"shorter", b"", b"head"))
    diagnosis = CacheDiagnosis(word, 38_000) if word else None
    rewrote = "rewrote 2 results: the cache is cold"
    sent = turns(journal, compared, diagnosis, cached, time=1_700.0, cold_turn=turn, rewrote=rewrote)
    assert sent.miss is not None
    assert sent.miss.cause == cause
    sums = journal.amounts
    assert (sums.cold_turns, sums.broken) == ({found: 1}, 0)
    assert sums.pauses.total() == (cause == "expired")
    assert f"whose cache was {found} 1" in expiry_lines(sums)[-1]


def test_no_miss_is_seen_where_there_is_none(journal: Journal) -> None:
    prompt = Prompt(1_000.0, "m", HEAD, (START, FIRST, b"2"), 1_024, 300.0)
    for figures, opening in (
        (usage(written=50_000), FIRST),
        (usage(cached=49_000, written=2_000), FIRST),
        # A subagent has another thread of the conversation.
        (usage(written=60_000), b"other"),
        (usage(cached=50_000, written=100), FIRST),
    ):
        turn = journal.sent(request(prompt=structs.replace(prompt, messages=(START, opening, b"2"))))
        journal.responded(turn, 200, [Turn(usage=figures)])
    assert not journal.amounts.misses


def test_a_client_that_asks_for_no_cache_misses_none(journal: Journal) -> None:
    prompt = Prompt(1_000.0, "m", HEAD, (START, FIRST, b"2"), 1_024, 300.0, is_automatic=False)
    for _ in range(2):
        journal.responded(journal.sent(request(prompt=prompt)), 200, [Turn(usage=usage(uncached=50_000))])
    assert not journal.amounts.misses


def test_sums_of_other_releases_are_read() -> None:
    sums = Amounts(requests=2, dollars=0.5)
    sums.misses["expired"] += 1
    assert Amounts.of({**sums.record(), "later": 3, "of_later": {"x": 1}}) == sums


def test_names_and_turns_are_bounded(journal: Journal) -> None:
    for number in range(300):
        journal.sent(
            request(result(tool=f"tool{number}"), conversation=bytes([number % 256, number // 256]) * 16)
        )
    assert len(journal.tools.items()) <= 201
    assert len(journal.sessions) == 200
    assert all("\n" not in name for name, _ in journal.tools.items())


def test_observed_requests_have_no_history(journal: Journal) -> None:
    journal.sent(request(result(), is_observed=True))
    assert journal.amounts.requests == 1
    assert not journal.take().all.record()
    journal.sent(request(result()))
    pending = journal.take()
    assert (pending.all.requests, len(pending.conversations)) == (1, 1)


def test_the_timeline_keeps_its_sums_in_ever_wider_steps() -> None:
    timeline = Timeline()
    for minute in range(1_000):
        timeline.add(60.0 * minute, 10, 5)
    assert len(timeline.points) <= Timeline.MOST
    assert timeline.step == 960
    assert [sum(point[place] for point in timeline.points) for place in (1, 2)] == [10_000, 5_000]
    assert timeline.points == sorted(timeline.points)


@pytest.mark.parametrize("is_taken", [False, True], ids=["not answered yet", "taken meanwhile"])
def test_results_counted_in_steps_have_the_sum_of_one_step(is_taken: bool) -> None:
    new = [result(call=bytes([n % 3]), tool=f"t{n % 2}", stages=("x",)) for n in range(9)]
    once, steps = (Journal(lambda: None, lambda: 1_000.0) for _ in range(2))
    summary = request(*new).summary
    whole = once.sent(request(*new, body=(4_000, 4_000)))
    turn = steps.sent(request(*new[:4], body=(4_000, 4_000), summary=summary))
    if is_taken:
        steps.taken(turn)
    steps.further(turn, new[4:6])
    steps.further(turn, new[6:])
    if not is_taken:
        steps.taken(turn)
    once.taken(whole)
    assert turn.amounts.record() == pytest.approx(whole.amounts.record())
    assert turn.amounts.dollars_spent > 0
    assert steps.amounts.record() == pytest.approx(once.amounts.record())
    assert [(name, sums.record()) for name, sums in steps.tools.items()] == [
        (name, sums.record()) for name, sums in once.tools.items()
    ]


HASHES = (b"0123456789abcdef",) * 100_000


def prompt(messages: int) -> Prompt:
    return Prompt(1.0, "m", PromptHead(), HASHES[:messages], 1_024, 300.0)


def test_the_oldest_prompts_are_dropped_first() -> None:
    prompts = Prompts()
    for number in range(9):
        prompts.put(prompt(90_000), number)
        assert prompts.get(number) is not None
    assert [number for number in range(9) if prompts.get(number)] == [6, 7, 8]
    prompts.put(prompt(10), 8)
    prompts.put(prompt(100_000), 9)
    assert prompts.get(6) is not None
    assert prompts.take(6) is not None
    assert prompts.take(6) is None


def test_a_prompt_that_is_too_large_is_not_kept() -> None:
    prompts = Prompts()
    prompts.put(prompt(10), "small")
    large = Prompt(1.0, "m", PromptHead(), HASHES * 4, 1_024, 300.0)
    prompts.put(large, "large")
    assert prompts.get("small") is not None
    assert prompts.get("large") is None
