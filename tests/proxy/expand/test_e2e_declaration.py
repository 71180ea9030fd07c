"""The declaration of the injected tool, late and inline, too, and the headers of hidden requests."""

from typing import Any

import pytest

from support.agents.agent import AnthropicAgent, OpenAIAgent, bash
from support.agents.callers import ResponsesAgent
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import PHANTOM, assert_bytes_kept, hidden_results
from support.upstream import Received, Thinking, turn
from support.upstream.anthropic_rules import VERSIONS

BETAS = "mid-conversation-tool-changes-2026-07-01,inline-tools-2026-09-15"


def agent(clients: Any, proxy: Any, **more: Any) -> AnthropicAgent:
    extra = {"extra_headers": {"anthropic-beta": BETAS}}
    return AnthropicAgent(clients.anthropic(proxy), extra=extra, **more)


def declared(received: Received) -> tuple[bool, list[int]]:
    """Return whether `tools` has the tool, and the numbers of messages before its later declarations."""
    body = received.json
    places = [index for index, message in enumerate(body["messages"]) if message["role"] == "system"]
    return PHANTOM in [tool["name"] for tool in body["tools"]], places


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
def test_the_tool_is_declared_with_the_first_loss_and_stays_in_its_place(
    stream: bool, clients: Any, own_proxy: Any, upstream: Any
) -> None:
    proxy = own_proxy(penumbra_max_output_bytes=CAP)
    caller = agent(clients, proxy, stream=stream, thinking=True)
    hm = Thinking("Hm.")
    upstream.script(
        Model(
            turn(hm, bash("ls")),
            turn(hm, bash("cat worker.log")),
            ask(hm),
            turn(hm, bash("cat db.log")),
            turn(hm, "So it is."),
        )
    )
    caller.say("What is in the log?")
    proxy.restart()
    again = agent(clients, proxy, stream=stream, thinking=True, messages=caller.messages)
    again.say("Are you sure?")
    requests = upstream.asked()
    assert {request.status for request in requests} == {200}
    assert [declared(request) for request in requests] == [
        (False, []),
        (False, []),
        *[(False, [5])] * (len(requests) - 2),
    ]
    assert hidden_results(requests[-1]) == [COMMANDS["cat worker.log"]]
    assert_bytes_kept(requests)
    assert PHANTOM not in str(again.messages)


def test_a_conversation_met_under_way_gets_it_too(clients: Any, proxy: Any, upstream: Any) -> None:
    """The provider has the raw earlier turns and thinking that is bound to them, so these turns stay raw."""
    upstream.script(Model(turn(Thinking("Hm."), bash("cat db.log")), turn(Thinking("Oh."), "Read.")))
    direct = agent(clients, proxy("regular", addon=False), thinking=True)
    direct.say("Read the log.")
    upstream.script(
        Model(
            turn(Thinking("Now."), bash("cat worker.log")),
            ask(Thinking("Hm.")),
            turn(Thinking("Ah."), "So it is."),
        )
    )
    caller = agent(clients, proxy(penumbra_max_output_bytes=CAP), thinking=True, messages=direct.messages)
    caller.say("And the worker?")
    requests = upstream.asked()
    assert {request.status for request in requests} == {200}
    assert [declared(request) for request in requests[-3:]] == [(False, []), (False, [7]), (False, [7])]
    assert COMMANDS["cat db.log"] in str(requests[-1].json).replace("\\n", "\n")
    assert_bytes_kept(requests)


@pytest.mark.parametrize(
    "extra",
    [{}, {"extra_headers": {"anthropic-beta": "inline-tools-2026-09-15"}}],
    ids=["no betas", "one beta"],
)
def test_without_the_betas_it_is_there_from_the_first_request(
    extra: dict[str, Any], clients: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy(penumbra_max_output_bytes=CAP)
    upstream.script(Model(turn(bash("cat worker.log")), ask(), turn("So it is.")))
    AnthropicAgent(clients.anthropic(running), extra=extra).say("What is in the log?")
    assert [declared(request) for request in upstream.asked()] == [(True, [])] * 3


def test_a_client_that_drops_its_betas_gets_the_tool_with_the_others(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy(penumbra_max_output_bytes=CAP)
    caller = agent(clients, running)
    upstream.script(Model(turn(bash("cat worker.log")), ask(), turn("So it is."), turn("Yes.")))
    caller.say("What is in the log?")
    caller.extra = {}
    caller.say("Are you sure?")
    requests = upstream.asked()
    assert {request.status for request in requests} == {200}
    assert declared(requests[-1]) == (True, [])


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
def test_a_provider_that_refuses_the_tool_gets_the_request_without_it(
    stream: bool, clients: Any, own_proxy: Any, upstream: Any
) -> None:
    """Nothing is left out for which there would be no tool, and the conversation does not try again."""
    proxy = own_proxy(penumbra_max_output_bytes=CAP)
    upstream.anthropic.takes_late_tools = False
    caller = agent(clients, proxy, stream=stream, thinking=True)
    hm = Thinking("Hm.")
    upstream.script(
        Model(turn(hm, bash("cat worker.log")), turn(hm, bash("cat db.log")), turn(hm, "So it is."))
    )
    assert caller.say("What is in the log?") == "So it is."
    proxy.restart()
    again = agent(clients, proxy, stream=stream, thinking=True, messages=caller.messages)
    upstream.answers(turn(hm, "Yes."))
    assert again.say("Are you sure?") == "Yes."
    requests = upstream.asked()
    assert [request.status for request in requests] == [200, 400, 200, 200, 200]
    assert [declared(request) for request in requests] == [(False, []), (False, [3]), *[(False, [])] * 3]
    taken = [request for request in requests if request.status == 200]
    assert "SHADOW" not in str([request.json["messages"] for request in taken])
    assert_bytes_kept(taken)


def test_a_provider_that_refuses_it_later_gets_it_with_the_others(
    clients: Any, own_proxy: Any, upstream: Any
) -> None:
    """The tool is declared at any cost, since the model has read references."""
    proxy = own_proxy(penumbra_max_output_bytes=CAP)
    caller = agent(clients, proxy, thinking=True)
    hm = Thinking("Hm.")
    upstream.script(Model(turn(hm, bash("cat worker.log")), ask(hm), turn(hm, "So it is."), turn(hm, "Yes.")))
    caller.say("What is in the log?")
    upstream.anthropic.takes_late_tools = False
    assert caller.say("Are you sure?") == "Yes."
    *_, first, second, last = upstream.asked()
    assert [request.status for request in (first, second, last)] == [400, 400, 200]
    assert declared(last) == (True, [])


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
    """Codex' host makes another attestation for each request; hidden requests can only repeat it."""
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
