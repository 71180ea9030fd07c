"""Penumbra is switched on in mid-conversation: what the provider has seen raw stays raw."""

from __future__ import annotations

from typing import Any

import pytest

from support.agents.agent import SESSION, THINKING_SESSION, agent, bash
from support.agents.requests import result_texts
from support.upstream import Thinking, turn

MORE = (turn(bash("npm install"), bash("docker compose logs worker")), turn("Done."))
MORE_THINKING = (turn(Thinking("Once more."), *MORE[0].blocks), turn(Thinking("So be it."), "Done."))


def begun(api: str, clients: Any, proxy: Any, upstream: Any, script: Any, **more: Any) -> Any:
    """A conversation that was begun without Penumbra."""
    upstream.answers(*script)
    caller = agent(api, clients, proxy("regular", addon=False), **more)
    caller.say("Why does the total test fail?")
    return caller.messages


def compare(messages: Any, upstream: Any, known: int) -> tuple[list[bool], list[bool]]:
    """Which results arrived as they are: of those that the provider knew, and of the later ones."""
    last = result_texts(upstream.asked()[-1].json)
    same = [ours == theirs for ours, theirs in zip(last, result_texts({"messages": messages}), strict=True)]
    return same[:known], same[known:]


@pytest.mark.parametrize("adopt", ["auto", "raw", "compress"])
def test_bound_thinking(adopt: str, clients: Any, proxy: Any, upstream: Any) -> None:
    """The stand-in refuses a thinking block whose prefix has changed; so nothing may change before it."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    upstream.answers(*MORE_THINKING)
    running = proxy("regular", penumbra_adopt=adopt, penumbra_recover="off")
    caller = agent("anthropic", clients, running, messages=old, thinking=True, cache=True)
    if adopt == "compress":
        with pytest.raises(Exception, match="bound to a different conversation"):
            caller.say("And now?")
        return
    caller.say("And now?")
    known, new = compare(caller.messages, upstream, 2)
    assert known == [True, True]
    assert new == [False, False]
    assert {request.status for request in upstream.asked()} == {200}


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_warm_cache(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    more = {"cache": True} if api == "anthropic" else {}
    old = begun(api, clients, proxy, upstream, SESSION, **more)
    upstream.answers(*MORE)
    caller = agent(api, clients, proxy("regular"), messages=old, **more)
    caller.say("And now?")
    known, new = compare(caller.messages, upstream, 7)
    assert known == [True] * 7
    assert new == [False, False]


def test_adoption_is_final(clients: Any, own_proxy: Any, proxy: Any, upstream: Any) -> None:
    """What stayed raw at first stays raw, after a restart and with another setting too."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    running = own_proxy("reverse")
    upstream.answers(*MORE_THINKING)
    caller = agent("anthropic", clients, running, messages=old, thinking=True)
    caller.say("And now?")
    running.restart(penumbra_adopt="compress")
    upstream.answers(turn(Thinking("Again."), "Done."))
    again = agent("anthropic", clients, running, messages=caller.messages, thinking=True)
    again.say("And then?")
    known, new = compare(again.messages, upstream, 2)
    assert known == [True, True]
    assert new == [False, False]


def test_results_that_wait_for_an_answer_are_new(clients: Any, proxy: Any, upstream: Any) -> None:
    """Switched on between a call and its results: no answer has followed them, so they are ours."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    upstream.answers(turn("Done."))
    caller = agent("anthropic", clients, proxy("regular"), messages=old[:3], thinking=True)
    caller.ask()
    _, new = compare(caller.messages, upstream, 0)
    assert new == [False]
    assert upstream.asked()[-1].status == 200


def test_no_cache_and_no_thinking_means_that_all_may_shrink(clients: Any, proxy: Any, upstream: Any) -> None:
    """Without breakpoints Anthropic caches nothing, so there is nothing to lose."""
    old = begun("anthropic", clients, proxy, upstream, SESSION)
    upstream.answers(turn("Done."))
    caller = agent("anthropic", clients, proxy("regular"), messages=old)
    caller.say("And now?")
    known, _ = compare(caller.messages, upstream, 7)
    assert known.count(False) >= 5


def test_a_lost_ledger_is_an_adoption(clients: Any, own_proxy: Any, upstream: Any) -> None:
    """With its memory gone, Penumbra leaves answered results raw rather than guess how they were sent."""
    running = own_proxy("reverse", penumbra_database="memory")
    upstream.answers(*SESSION)
    caller = agent("openai", clients, running)
    caller.say("Why does the total test fail?")
    running.restart(penumbra_mode="safe")
    upstream.answers(*MORE)
    again = agent("openai", clients, running, messages=caller.messages)
    again.say("And now?")
    known, _ = compare(again.messages, upstream, 7)
    assert known == [True] * 7
    assert {request.status for request in upstream.asked()} == {200}
