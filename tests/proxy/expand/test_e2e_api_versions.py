"""Headers that say how a request is meant: hidden turns carry those of the client's own request, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

from support.agents.agent import AnthropicAgent, bash
from support.agents.callers import ResponsesAgent
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import assert_bytes_kept, hidden_results
from support.upstream import Thinking, turn
from support.upstream.anthropic_rules import VERSIONS

ATTESTATION = "x-oai-attestation"


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
@pytest.mark.parametrize("version", VERSIONS)
def test_every_turn_has_the_version_of_its_client(
    version: str, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    sdk = clients.anthropic(
        proxy(penumbra_max_output_bytes=CAP), default_headers={"anthropic-version": version}
    )
    caller = AnthropicAgent(sdk, stream=stream, thinking=True)
    hm = Thinking("Hm.")
    upstream.script(Model(turn(hm, bash("cat worker.log")), ask(hm), turn(hm, "So it is."), turn(hm, "Yes.")))
    assert [caller.say("What is in the log?"), caller.say("Sure?")] == ["So it is.", "Yes."]
    requests = upstream.asked()
    assert [request.status for request in requests] == [200] * 4
    assert {request.header("anthropic-version") for request in requests} == {version}
    assert len({(request.header("authorization"), request.header("x-api-key")) for request in requests}) == 1
    assert hidden_results(requests[-1]) == [COMMANDS["cat worker.log"]]
    assert_bytes_kept(requests)


def test_an_attestation_passes_and_tells_no_callers_apart(clients: Any, proxy: Any, upstream: Any) -> None:
    """Codex' host makes another one for each request; hidden turns can only repeat it."""
    caller = ResponsesAgent(clients.openai(proxy(penumbra_max_output_bytes=CAP)), stream=True)
    upstream.script(Model(turn(bash("cat worker.log")), ask(), turn("So it is."), turn("Yes.")))
    said = []
    for number, words in enumerate(("What is in the log?", "Sure?")):
        caller.extra = {"extra_headers": {ATTESTATION: f'{{"v":1,"s":0,"t":"v1.{number}=="}}'}}
        said.append(caller.say(words))
    assert said == ["So it is.", "Yes."]
    *first, last = upstream.asked()
    assert [request.header(ATTESTATION) for request in first] == ['{"v":1,"s":0,"t":"v1.0=="}'] * 3
    assert last.header(ATTESTATION) == '{"v":1,"s":0,"t":"v1.1=="}'
    assert COMMANDS["cat worker.log"].split("\n")[90] in (last.body or b"").decode()
