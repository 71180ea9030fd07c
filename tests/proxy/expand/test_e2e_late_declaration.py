"""A conversation that begins small: the model can ask once there is something to ask for, and ever after."""

from __future__ import annotations

from typing import Any

from support.agents.agent import OpenAIAgent, bash
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import PHANTOM, hidden_results
from support.upstream import turn


def test_the_tool_comes_with_the_first_request_that_pays_and_stays(
    clients: Any, own_proxy: Any, upstream: Any
) -> None:
    running = own_proxy(penumbra_expand_from="10k", penumbra_max_output_bytes=CAP)
    agent = OpenAIAgent(clients.openai(running))
    upstream.script(Model(turn("Hello."), turn(bash("cat worker.log")), ask(), turn("So it is.")))
    agent.say("Hello?")
    agent.say("What is in the log?")
    running.restart()
    agent = OpenAIAgent(clients.openai(running), messages=agent.messages)
    agent.say("Are you sure?")
    requests = upstream.asked()
    assert {request.status for request in requests} == {200}
    assert [PHANTOM.encode() in request.body for request in requests] == [False, False, True, True, True]
    assert hidden_results(requests[-1]) == [COMMANDS["cat worker.log"]]
