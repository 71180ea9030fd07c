"""In a turn with a cold cache, a conversation that began without Penumbra gets its forms and the tool."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from penumbra.apis.prefix_hash import PromptHead
from penumbra.apis.usage import BilledTokens
from penumbra.compress.result import Mode
from penumbra.conversation import late_declaration
from penumbra.conversation.incoming import Accepted
from penumbra.metrics.cache_miss import COLD, UNSEEN, WARM, ColdTurn, Prompt, found_cold
from support.apis import APIS, Api, Turn
from support.engines import Callers, shown
from support.planted import GITHUB

ANTHROPIC, CHAT, RESPONSES, GEMINI, _, CONVERSE = APIS
LOG = "\n".join(f"{n:05} worker {n * 7919 % 1009} has done step {n} of {n * 31 % 97}" for n in range(600))
OTHER = LOG.replace("worker", "builder") + f"\nexport GITHUB_TOKEN={GITHUB}"
MARKED = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
HOUR = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
SHORT_LIVED = {"model": "gpt-5.1", "prompt_cache_retention": "in_memory"}
CACHE_POINT = {"system": [{"text": "Be brief."}, {"cachePoint": {"type": "default"}}]}
CLAUDE = {"model": "claude-sonnet-4-5", "system": MARKED}
BETAS = {"anthropic-beta": ",".join(late_declaration.table()["betas"])}
MET: list[Turn] = [
    ("user", "Why is it slow?"),
    ("call", "call_a1B2c3D4e5F6g7H8", "cat worker.log"),
    ("result", "call_a1B2c3D4e5F6g7H8", LOG),
    ("call", "call_i9J0k1L2m3N4o5P6", "cat builder.log"),
    ("result", "call_i9J0k1L2m3N4o5P6", OTHER),
    ("said", "The builder waits."),
    ("user", "Go on."),
]
MORE: list[Turn] = [("said", "Yes."), ("user", "And now?")]


class Talk:
    """A conversation with one API whose first turns did not pass through Penumbra."""

    def __init__(self, callers: Callers, api: Api, **more: Any) -> None:
        self.callers, self.api, self.more = callers, api, more
        self.headers = api.credential("sk-1")
        self.turns = list(MET)
        self.now = 0.0

    def after(self, seconds: float) -> None:
        self.now += seconds
        conversations = self.callers.engine.stores.conversations
        conversations.clock = conversations.steady = lambda: time.time() + self.now

    def send(self, *turns: Turn, **more: Any) -> Accepted:
        self.turns += turns
        body = self.api.body(self.turns, **{**self.more, **more})
        return self.callers.send(self.api, body, self.headers)


def forms(accepted: Accepted) -> list[str]:
    return [accepted.sent(entry) for entry in accepted.rewritten.shown]


def how(accepted: Accepted) -> list[str]:
    return [entry.facts.how for entry in accepted.rewritten.shown]


@pytest.mark.parametrize(
    ("api", "more", "pause"),
    [
        (ANTHROPIC, CLAUDE, 700.0),
        (CHAT, SHORT_LIVED, 7_300.0),
        (RESPONSES, SHORT_LIVED, 7_300.0),
        (GEMINI, {}, 180_000.0),
        (CONVERSE, CACHE_POINT, 7_300.0),
    ],
    ids=["messages", "chat", "responses", "gemini", "converse"],
)
def test_an_adopted_conversation_is_shortened_when_the_cache_is_cold(
    api: Api, more: dict[str, Any], pause: float, callers: Callers
) -> None:
    talk = Talk(callers, api, **more)
    met = talk.send()
    warm = talk.send(*MORE)
    assert met.prepared is None is warm.prepared
    assert forms(met) == forms(warm)
    assert forms(met)[0] == LOG
    assert met.cold_turn is None is warm.cold_turn
    talk.after(pause)
    cold = talk.send(*MORE)
    assert cold.prepared is not None
    assert cold.cold_turn is not None
    assert len(set(shown(cold))) == 2
    assert GITHUB not in cold.rewritten.body.decode()
    assert cold.line.startswith(late_declaration.LINE)
    # The forms are final: after a lost response, in the next turn, and after a restart.
    again = talk.send()
    later = talk.send(*MORE)
    callers.restart()
    restarted = talk.send(*MORE)
    for each in (again, later, restarted):
        assert forms(each)[:2] == forms(cold)[:2]
        assert each.prepared is not None
        assert each.prepared.tool == cold.prepared.tool
        assert each.cold_turn is None
        assert not each.line


def test_results_that_later_ones_replace_are_replaced(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    again = "call_y5Z6a7B8c9D0e1F2"
    talk.turns[5:5] = [("call", again, "cat worker.log"), ("result", again, LOG.replace("done", "seen"))]
    assert how(talk.send())[0] == "adopted"
    talk.after(700)
    cold = talk.send(*MORE)
    assert how(cold) == ["superseded", "shortened", "shortened"]
    later = talk.send(*MORE)
    assert forms(later)[:3] == forms(cold)


def test_the_tool_stays_though_nothing_was_left_out(callers: Callers) -> None:
    """The response to the turn that declared the tool may be lost, but the provider has cached the prefix."""
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    talk.turns[2] = (*MET[2][:2], "x  \n" * 900)
    talk.turns[4] = (*MET[4][:2], "ok")
    assert talk.send().prepared is None
    talk.after(700)
    sent = [talk.send(*turns) for turns in (MORE, (), MORE)]
    assert not [ref for each in sent for ref in shown(each)]
    assert len({each.prepared.tool for each in sent if each.prepared}) == 1
    assert all(each.prepared for each in sent)


def test_a_second_pause_changes_nothing(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    talk.send()
    talk.after(700)
    first = talk.send(*MORE)
    talk.after(700)
    second = talk.send(*MORE)
    assert forms(second)[:2] == forms(first)[:2]
    assert second.cold_turn is None


@pytest.mark.parametrize(
    ("api", "more", "pause", "settings"),
    [
        (ANTHROPIC, CLAUDE, 500.0, {}),
        (ANTHROPIC, {**CLAUDE, "system": HOUR}, 3_700.0, {}),
        (ANTHROPIC, {**CLAUDE, "model": "glm-5"}, 90_000.0, {}),
        (CHAT, {"model": "gpt-5.5"}, 80_000.0, {}),
        (ANTHROPIC, CLAUDE, 700.0, {"adopt": "raw"}),
        (ANTHROPIC, CLAUDE, 700.0, {"mode": Mode.SAFE}),
    ],
    ids=["too short", "an hour is asked for", "another maker", "a day by default", "raw", "safe"],
)
def test_adopted_forms_stay_if_the_cache_may_be_warm(
    api: Api, more: dict[str, Any], pause: float, settings: dict[str, Any], start: Callable[..., Callers]
) -> None:
    callers = start(**settings)
    talk = Talk(callers, api, **more)
    met = talk.send()
    talk.after(pause)
    later = talk.send(*MORE)
    assert forms(later) == forms(met)
    assert later.prepared is None is later.cold_turn


def test_a_life_that_was_asked_for_before_counts(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    met = talk.send(system=HOUR)
    talk.after(700)
    assert forms(talk.send(*MORE)) == forms(met)
    talk.after(7_300)
    assert talk.send(*MORE).cold_turn is not None


def test_a_response_is_in_use_until_it_ends(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    met = talk.send()
    talk.after(500)
    asyncio.run(callers.engine.stores.conversations.answered(met.conversation))
    talk.after(500)
    assert forms(talk.send(*MORE)) == forms(met)


def test_turns_that_went_another_way_leave_a_doubt(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    met = talk.send()
    talk.after(700)
    elsewhere: list[Turn] = [
        ("call", "call_q7R8s9T0u1V2w3X4", "make"),
        ("result", "call_q7R8s9T0u1V2w3X4", LOG),
    ]
    later = talk.send(*elsewhere, *MORE)
    assert forms(later)[:2] == forms(met)[:2]
    assert later.cold_turn is None


def forked(talk: Talk) -> Talk:
    """Return another session that continues from here with the same results."""
    fork = Talk(talk.callers, talk.api, **talk.more)
    fork.turns, fork.now = list(talk.turns), talk.now
    fork.headers = {**talk.headers, "x-claude-code-session-id": "another"}
    fork.send(("said", "Yes."), ("user", "Try it in another way."))
    return fork


def test_another_session_with_the_same_beginning_keeps_it_cached(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    met = talk.send()
    fork = forked(talk)
    talk.after(500)
    fork.send(*MORE)
    talk.after(500)
    for later in (talk.send(*MORE), fork.send(*MORE)):
        assert forms(later) == forms(met)
        assert later.prepared is None is later.cold_turn


def test_a_fork_whose_results_were_shortened_meanwhile_gets_the_tool(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    talk.send()
    fork = forked(talk)
    talk.after(700)
    cold = talk.send(*MORE)
    later = fork.send(*MORE)
    assert cold.cold_turn is not None
    assert forms(later) == forms(cold)
    assert later.prepared is not None
    assert json.loads(later.rewritten.body)["tools"] == json.loads(cold.rewritten.body)["tools"]


@pytest.mark.parametrize("went_another_way", [False, True], ids=["all seen", "one unseen"])
def test_in_doubt_a_result_keeps_the_form_that_later_results_replace(
    went_another_way: bool, callers: Callers
) -> None:
    talk = Talk(callers, ANTHROPIC, **CLAUDE)
    talk.turns = MET[:1]
    talk.send()
    first = talk.send(*MET[1:3])
    again: list[Turn] = [("call", "call_y5Z6a7B8c9D0e1F2", "cat worker.log")]
    again.append(("result", "call_y5Z6a7B8c9D0e1F2", LOG.replace("done", "seen")))
    talk.turns += again
    if not went_another_way:
        talk.send()
    talk.after(700)
    later = talk.send(*MORE)
    assert (forms(later)[0] == forms(first)[0]) is went_another_way
    assert (how(later)[0] == "superseded") is not went_another_way


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-sonnet-4-5"])
def test_only_bound_thinking_keeps_the_forms_before_it(model: str, callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **{**CLAUDE, "model": model})
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    messages = json.loads(ANTHROPIC.body(MET))["messages"]
    messages[3]["content"].insert(0, thought)
    met = talk.send(messages=messages)
    talk.after(700)
    ends = [ANTHROPIC.write(turn) for turn in MORE]
    cold = talk.send(messages=[*messages, *ends])
    is_bound = model == "claude-sonnet-5"
    assert (forms(cold)[0] == forms(met)[0]) is is_bound
    assert (cold.prepared is None) is is_bound
    body = json.loads(cold.rewritten.body)
    assert thought in body["messages"][3]["content"]


SESSION = {"x-claude-code-session-id": "11111111-2222-4333-8444-555555555555"}


@pytest.mark.parametrize("pause", [0.0, 700.0], ids=["warm", "cold, with bound thinking"])
def test_another_thread_of_the_session_brings_no_tool(pause: float, callers: Callers) -> None:
    """Tools that an agent declares say nothing of the conversation that called the agent."""
    talk = Talk(callers, ANTHROPIC, **{**CLAUDE, "model": "claude-sonnet-5"})
    talk.headers |= SESSION
    messages = json.loads(ANTHROPIC.body(MET))["messages"]
    if pause:
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        messages[5]["content"] = [thought, {"type": "text", "text": messages[5]["content"]}]
    met = talk.send(messages=messages)
    agent = callers.send(ANTHROPIC, ANTHROPIC.body([("user", "Explore.")], **talk.more), talk.headers)
    assert met.prepared is None is not agent.prepared
    talk.after(pause)
    later = talk.send(messages=[*messages, *map(ANTHROPIC.write, MORE)])
    assert later.prepared is None
    assert forms(later)[:2] == forms(met)


def test_a_request_beside_the_conversation_takes_no_tool_from_it(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **{**CLAUDE, "model": "claude-sonnet-5"})
    talk.headers |= SESSION
    talk.turns, sent = [], []
    for at in (slice(0, 1), slice(1, 3), slice(3, 5), slice(5, 7)):
        sent.append(talk.send(*MET[at]))
        if at.stop < len(MET):
            callers.answer(sent[-1], ANTHROPIC, MET[at.stop])
    callers.answer(sent[-1], ANTHROPIC, MORE[0])
    title = {
        "model": "claude-haiku-4-5",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "A title?"}],
    }
    assert callers.send(ANTHROPIC, json.dumps(title).encode(), talk.headers).prepared is None
    talk.after(700)
    cold = talk.send(*MORE)
    assert cold.prepared is not None
    assert forms(cold)[:2] == forms(sent[-1])[:2]
    assert (cold.line, cold.cold_turn) == ("", None)


def test_only_results_change_where_a_tool_can_be_declared_inline(callers: Callers) -> None:
    talk = Talk(callers, ANTHROPIC, **{**CLAUDE, "model": "claude-opus-5-5"})
    talk.api = Api(**{**vars(ANTHROPIC), "host": "api.anthropic.com:443"})
    talk.headers |= BETAS
    talk.send()
    talk.after(700)
    cold = talk.send(*MORE)
    assert cold.prepared is not None
    assert cold.prepared.declared_at
    body = json.loads(cold.rewritten.body)
    assert [tool["name"] for tool in body["tools"]] == ["Bash", "Read"]
    assert body["messages"][-1]["role"] == "system"
    assert len(set(shown(cold))) == 2
    assert cold.cold_turn is not None
    assert cold.cold_turn.kept < 100


@pytest.mark.parametrize(
    ("turn", "billed", "automatic", "found"),
    [
        (ColdTurn(3_000, 5_000), (0, 12_000, 0), True, COLD),
        (ColdTurn(3_000, 5_000), (3_100, 0, 9_000), False, COLD),
        (ColdTurn(3_000, 5_000), (9_000, 3_000, 0), True, WARM),
        (ColdTurn(3_000, 0), (9_000, 3_000, 0), True, WARM),
        (ColdTurn(3_000, 0), (0, 12_000, 0), True, UNSEEN),
        (ColdTurn(3_000, 200), (3_000, 9_000, 0), True, UNSEEN),
        (ColdTurn(3_000, 5_000), (0, 12_000, 0), False, UNSEEN),
    ],
    ids=["nothing read", "the head read", "more read", "more read, other tools", "other tools", "too little kept",
         "no figures"],
)  # fmt: skip
def test_the_bill_says_whether_it_was_cold(
    turn: ColdTurn, billed: tuple[int, int, int], automatic: bool, found: str
) -> None:
    now = Prompt(0.0, "m", PromptHead(), (), 1_024, 300.0, is_automatic=automatic)
    cached, uncached, written = billed
    assert found_cold(now, turn, BilledTokens(uncached=uncached, cached=cached, written=written)) == found
