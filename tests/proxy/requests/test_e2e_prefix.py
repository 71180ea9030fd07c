"""Sent prefixes stay where thinking is bound to them, and broken ones are counted."""

from typing import Any

import pytest

from support.agents.agent import SESSION, THINKING_SESSION, AnthropicAgent, agent, bash
from support.agents.requests import result_texts
from support.mitm import eventually
from support.upstream import Thinking, turn


@pytest.mark.parametrize("adopt", ["auto", "raw", "compress"])
def test_results_before_bound_thinking_keep_their_form(
    adopt: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    """The conversation began without Penumbra, and the test provider refuses thinking whose prefix has changed."""
    upstream.answers(*THINKING_SESSION)
    direct = agent("anthropic", clients, proxy("regular", addon=False), thinking=True)
    direct.say("Why does the total test fail?")
    calls = bash("npm install"), bash("docker compose logs worker")
    upstream.answers(turn(Thinking("Once more."), *calls), turn(Thinking("So be it."), "Done."))
    running = proxy("regular", penumbra_adopt=adopt, penumbra_recover="off")
    caller = agent("anthropic", clients, running, messages=direct.messages, thinking=True, cache=True)
    if adopt == "compress":
        with pytest.raises(Exception, match="bound to a different conversation"):
            caller.say("And now?")
        return
    caller.say("And now?")
    sent = result_texts(upstream.asked()[-1].json)
    same = [
        ours == theirs for ours, theirs in zip(sent, result_texts({"messages": caller.messages}), strict=True)
    ]
    assert same == [True, True, False, False]
    assert upstream.statuses() == {200}


class Diagnosing(AnthropicAgent):
    """An agent that asks the provider to compare each prompt with the one before it."""

    def ask(self) -> Any:
        self.extra = {"extra_body": {"diagnostics": {"previous_message_id": self.last_id or None}}}
        return super().ask()


def said(proxy: Any, line: str) -> Any:
    return eventually(lambda: line in proxy.command("penumbra.stats") or None)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
def test_a_prefix_that_holds_is_counted_as_compared(
    stream: bool, clients: Any, own_proxy: Any, upstream: Any
) -> None:
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    made = agent("anthropic", clients, proxy)
    Diagnosing(made.client, stream=stream).say("Why does the total test fail?")
    assert said(proxy, "broken by Penumbra 0 times in 4 comparisons")


def test_a_prefix_that_is_broken_on_purpose_is_counted(clients: Any, own_proxy: Any, upstream: Any) -> None:
    """After the store is emptied, results stay raw, so a result that was sent shortened changes."""
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    caller = Diagnosing(agent("anthropic", clients, proxy).client)
    caller.say("Why does the total test fail?")
    proxy.set("penumbra_adopt", "raw")
    proxy.command("penumbra.forget")
    upstream.answers(turn("Nothing."))
    caller.say("And now?")
    assert said(proxy, "broken by Penumbra 1 times in 5 comparisons")
    assert "prefix broken by Penumbra" in proxy.command("penumbra.stats")
