"""A small conversation gets the injected tool only if the tool saves more than it costs."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from penumbra.compress.result import Redacted
from penumbra.conversation import late_declaration
from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Request
from penumbra.store.conversations import ConversationState
from support.apis import APIS, Api, Turn
from support.engines import Callers, shown

ANTHROPIC, CHAT, RESPONSES = APIS[:3]
ASK = ("user", "Do the tests pass?")
WORDS = ("user", "Run all the tests and say what fails. " * 150)
"""A text above the providers' smallest cached prompt, but short for a first request."""
UNBOUND = {"model": "claude-sonnet-4-5"}
SHORT = "\n".join(f"line {number}: {number * 7919 % 1009}" for number in range(9))
WHAT = ["alpha", "beta", "gamma", "delta", "omega", "kappa", "sigma", "theta", "lambda", "zeta"]


def run_of(tests: int) -> str:
    """Return pytest's output for `tests` passed tests. The names of the tests follow no pattern."""
    some = random.Random(3)
    names = (
        f"{some.choice(WHAT)}_{some.randrange(999)}.py::test_{some.choice(WHAT)}_{some.choice(WHAT)}_{n}"
        for n in range(tests)
    )
    lines = [f"tests/{name} PASSED [{n * 100 // tests:3}%]" for n, name in enumerate(names)]
    head = f"===== test session starts =====\ncollected {tests} items\n\n"
    return head + "\n".join(lines) + f"\n\n===== {tests} passed in 4.21s =====\n"


RUN, LONG_RUN = run_of(150), run_of(900)


@pytest.fixture
def callers(start: Callable[..., Callers]) -> Callers:
    return start(max_output_bytes=1 << 16, expand_from=10 << 10)


def turns_of(first: Turn, *results: str) -> list[Turn]:
    turns = [first]
    for number, text in enumerate(results):
        turns += [("call", f"call_{number}", f"pytest -v tests/{number}"), ("result", f"call_{number}", text)]
    return turns


def sent(callers: Callers, api: Api, turns: Sequence[Turn], **more: Any) -> Accepted:
    return callers.send(api, api.body(turns, **more), api.credential("a key"))


def declares(accepted: Accepted) -> bool:
    assert (b'"expand_context"' in accepted.rewritten.body) is (accepted.prepared is not None)
    return accepted.prepared is not None


def is_due(request: Request, state: ConversationState) -> bool:
    return late_declaration.is_due(request, state, {}, lambda text, hint: Redacted(text))


@pytest.mark.parametrize("api", [ANTHROPIC, CHAT, RESPONSES], ids=lambda api: api.id)
def test_the_tool_comes_with_the_first_request_that_is_cached(callers: Callers, api: Api) -> None:
    more = UNBOUND if api is ANTHROPIC else {}
    for results, there in ([], False), ([SHORT], False), ([SHORT, RUN], True), ([SHORT, RUN, SHORT], True):
        accepted = sent(callers, api, turns_of(ASK, *results), **more)
        assert declares(accepted) is there
        callers.restart()
    assert list(shown(accepted))


def test_the_tool_comes_once_a_new_result_saves_more_than_the_cached_prefix_costs(callers: Callers) -> None:
    bodies: list[bytes] = []
    for results, there in (
        ([], False),
        ([RUN], False),
        ([RUN, LONG_RUN], True),
        ([RUN, LONG_RUN, SHORT], True),
    ):
        accepted = sent(callers, CHAT, turns_of(WORDS, *results))
        assert declares(accepted) is there
        assert (accepted.line == late_declaration.LINE) is (there and len(results) == 2)
        bodies.append(accepted.rewritten.body)
        callers.restart()
        again = sent(callers, CHAT, turns_of(WORDS, *results))
        assert again.rewritten.body == accepted.rewritten.body
    messages = [json.loads(body)["messages"] for body in bodies]
    assert all(later[: len(before)] == before for before, later in pairwise(messages))
    assert "test_lambda_gamma_0" in messages[-1][2]["content"]
    assert messages[-1][4]["content"].startswith("<<<SHADOW:")


def test_from_the_start_where_it_could_not_come_later_or_costs_little(callers: Callers) -> None:
    assert declares(sent(callers, ANTHROPIC, [ASK], model="claude-opus-5-5"))
    assert declares(sent(callers, RESPONSES, [ASK], store=True))
    assert declares(sent(callers, CHAT, [("user", "Read this. " * 1_000)]))
    session = {"_forge": {"tool_output_compression": {"session_id": "s"}}}
    assert declares(sent(callers, CHAT, [("user", "Hello.")], **session))
    for settings in {"expand_from": 0}, {"lossy": "on"}, {"restore_secrets": "edits"}:
        callers.settings = replace(callers.settings, **settings)
        assert sent(callers, CHAT, [("user", f"Hello: {settings}")]).prepared is not None


def test_never_without_tools_of_the_client(callers: Callers) -> None:
    for turns in [ASK], turns_of(ASK, RUN, LONG_RUN):
        assert not declares(sent(callers, CHAT, turns, tools=[]))


def test_a_request_without_tools_beside_the_conversation_changes_nothing(callers: Callers) -> None:
    """A request for a session's title has the session's name."""
    for results, there in (([], False), ([SHORT], False), ([SHORT, LONG_RUN], True)):
        assert declares(sent(callers, CHAT, turns_of(WORDS, *results))) is there
        assert not declares(sent(callers, CHAT, [WORDS], tools=[]))


def test_a_conversation_waits_for_the_tool_through_a_pause_of_penumbra(callers: Callers) -> None:
    usual = callers.settings
    assert not declares(sent(callers, CHAT, turns_of(WORDS)))
    callers.settings = usual.untouched()
    assert not declares(sent(callers, CHAT, turns_of(WORDS, SHORT)))
    callers.settings = usual
    assert not declares(sent(callers, CHAT, turns_of(WORDS, SHORT, SHORT)))
    assert declares(sent(callers, CHAT, turns_of(WORDS, SHORT, SHORT, LONG_RUN)))


def test_a_cold_cache_costs_nothing_and_bound_thinking_too_much(callers: Callers) -> None:
    waits = ConversationState(5.0, waits=True)
    request = sent(callers, ANTHROPIC, turns_of(WORDS, SHORT), **UNBOUND).request
    assert not is_due(request, waits)
    cold = replace(waits, idle=1_000.0)
    assert is_due(request, cold)
    conversation = structs.replace(request.conversation, last_thinking=1, model="claude-opus-5-5")
    bound = structs.replace(request, conversation=conversation)
    assert not is_due(bound, cold)
