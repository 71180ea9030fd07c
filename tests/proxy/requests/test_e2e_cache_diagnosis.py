"""The provider's own comparison of prompts: Penumbra reads whether it broke a prefix, and whose change it was."""

from __future__ import annotations

from typing import Any

import pytest

from support.agents.agent import SESSION, AnthropicAgent, agent
from support.mitm import eventually
from support.upstream import turn


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
    """The store is emptied and results go raw: what the provider had seen shortened is another text now."""
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


def test_a_history_that_the_client_changes_is_its_own_change(
    clients: Any, own_proxy: Any, upstream: Any
) -> None:
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    caller = Diagnosing(agent("anthropic", clients, proxy).client)
    caller.say("Why does the total test fail?")
    caller.messages[0] = {"role": "user", "content": "Something else."}
    upstream.answers(turn("Nothing."))
    caller.say("And now?")
    assert said(proxy, "broken by Penumbra 0 times in 5 comparisons")
    assert "messages changed 1" in proxy.command("penumbra.stats")
