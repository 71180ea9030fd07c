"""Originals that are asked for after the time for which the store keeps them."""

from __future__ import annotations

import time
from typing import Any

from support.agents.agent import AnthropicAgent, bash
from support.agents.model import CAP, COMMANDS, Model, expand, refs
from support.agents.requests import hidden_results
from support.upstream import turn

LOG = COMMANDS["cat worker.log"]
OPTIONS = {"penumbra_max_output_bytes": CAP, "penumbra_originals_ttl": "1s"}


def asked_late(agent: Any, upstream: Any, change: Any) -> str:
    """What the model gets of a log that it asks for after the time."""
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    agent.say("What is in the log?")
    [ref] = refs(upstream.asked()[-1])
    time.sleep(2.2)
    change(agent)
    upstream.script(Model(turn(expand(ref)), turn("So it is.")))
    agent.say("And now?")
    [given] = hidden_results(upstream.asked()[-1])[-1:]
    return given


def cleared(agent: Any) -> None:
    """As clients do with old results."""
    agent.messages[2]["content"][0]["content"] = "[Old tool result content cleared]"


def test_the_original_is_there_as_long_as_the_client_sends_it(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", **OPTIONS)
    whole = AnthropicAgent(clients.anthropic(running))
    assert asked_late(whole, upstream, lambda agent: None) == LOG
    upstream.reset()
    forgetful = AnthropicAgent(clients.anthropic(running))
    assert "not available any more" in asked_late(forgetful, upstream, cleared)
