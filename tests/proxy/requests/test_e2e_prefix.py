"""What was sent once is sent again with the same bytes, whatever happens in between."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from support.agents.agent import SESSION, THINKING_SESSION, AnthropicAgent, agent, bash
from support.agents.requests import assert_bytes_kept, result_texts
from support.upstream import Thinking, turn


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("mode", ["safe", "standard", "aggressive"])
def test_a_growing_conversation_keeps_its_prefix(
    api: str, mode: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    upstream.answers(*SESSION, *SESSION)
    caller = agent(api, clients, proxy("regular", penumbra_mode=mode))
    caller.say("Why does the total test fail?")
    caller.say("Look again.")
    assert len(upstream.asked()) == 2 * len(SESSION)
    assert_bytes_kept(upstream.asked())


def test_the_cache_of_the_provider_holds(clients: Any, proxy: Any, upstream: Any) -> None:
    upstream.answers(*SESSION)
    metrics = []
    caller = agent("openai", clients, proxy("regular"))
    create = caller.client.chat.completions.create

    def spy(**request: Any) -> Any:
        answer = create(**request)
        metrics.append(answer.usage)
        return answer

    caller.client.chat.completions.create = spy
    caller.say("Why does the total test fail?")
    for before, after in itertools.pairwise(metrics):
        assert after.prompt_tokens_details.cached_tokens == before.prompt_tokens


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_the_prefix_survives_a_restart(api: str, clients: Any, own_proxy: Any, upstream: Any) -> None:
    proxy = own_proxy("reverse")
    upstream.answers(*SESSION)
    caller = agent(api, clients, proxy)
    caller.say("Why does the total test fail?")
    proxy.restart()
    upstream.answers(*SESSION)
    again = agent(api, clients, proxy, messages=caller.messages)
    again.say("Look again.")
    assert_bytes_kept(upstream.asked())


@pytest.mark.parametrize("change", ["running", "restart"])
def test_what_was_decided_stays_decided(change: str, clients: Any, own_proxy: Any, upstream: Any) -> None:
    """The mode changes between two turns: earlier results keep their bytes, new ones follow the new mode."""
    proxy = own_proxy("reverse", penumbra_mode="standard")
    upstream.answers(*THINKING_SESSION)
    caller = agent("anthropic", clients, proxy, thinking=True)
    caller.say("Why does the total test fail?")
    if change == "running":
        proxy.set("penumbra_mode", "disabled")
    else:
        proxy.restart(penumbra_mode="disabled")
    upstream.answers(
        turn(Thinking("Hm."), bash("docker compose logs worker")), turn(Thinking("Oh."), "Done.")
    )
    again = agent("anthropic", clients, proxy, messages=caller.messages, thinking=True)
    again.say("And the worker?")
    last = upstream.asked()[-1]
    assert [request.status for request in upstream.asked()] == [200] * 5
    assert_bytes_kept(upstream.asked())
    ours = list(result_texts(last.json))
    theirs = list(result_texts({"messages": again.messages}))
    assert len(ours[1]) < 0.7 * len(theirs[1])
    assert ours[2] == theirs[2]


def test_a_mode_asked_for_by_one_request_binds_the_later_ones(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    upstream.answers(*SESSION)
    caller = agent("anthropic", clients, proxy("reverse"))
    caller.extra = {"extra_body": {"_forge": {"tool_output_compression": "safe"}}}
    caller.say("Why does the total test fail?")
    caller.extra = {}
    upstream.answers(turn(bash("curl -s localhost:8000/users")), turn("Done."))
    caller.say("Once more.")
    assert_bytes_kept(upstream.asked())


def test_shape_may_change_while_the_text_stays(clients: Any, proxy: Any, upstream: Any) -> None:
    """Some clients send a result as a string on one turn and as a block on the next."""
    upstream.answers(*SESSION)
    caller = agent("anthropic", clients, proxy("reverse"))
    caller.say("Why does the total test fail?")
    before = list(result_texts(upstream.asked()[-1].json))
    for message in caller.messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result" and isinstance(block["content"], str):
                block["content"] = [{"type": "text", "text": block["content"]}]
    caller.say("More?")
    assert list(result_texts(upstream.asked()[-1].json)) == before


def test_two_callers_with_the_same_conversation(
    clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """Decisions are kept by credential: one caller's mode is not another's."""
    running = proxy("reverse")
    upstream.answers(*THINKING_SESSION)
    first = agent("anthropic", clients, running)
    first.extra = {"extra_body": {"_forge": {"tool_output_compression": "off"}}}
    first.say("Why does the total test fail?")
    other = AnthropicAgent(
        clients.anthropic(running, api_key=f"{api_key}-other"), messages=first.messages[:3]
    )
    upstream.answers(turn("Done."))
    other.ask()
    raw, shortened = (next(result_texts(upstream.asked()[i].json)) for i in (1, -1))
    assert len(shortened) < len(raw)
    assert "assert 702 == 700" in shortened
