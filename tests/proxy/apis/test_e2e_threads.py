"""Histories at the provider: results without their calls, hidden exchanges, lost threads."""

from typing import Any

import pytest

from support.agents.agent import PRINTS, SESSION, AnthropicAgent, bash
from support.agents.apis import both_ways
from support.agents.callers import ResponsesAgent, ThreadAgent
from support.agents.model import CAP, COMMANDS, Model, ask, expand, log, refs
from support.agents.requests import PHANTOM, hidden_results, results
from support.upstream import Thinking, turn

LOG = COMMANDS["cat worker.log"]
APIS = ["anthropic", "responses"]
SAME = "cat worker.log"


@pytest.fixture
def start(clients: Any, proxy: Any) -> Any:
    def start(api: str, at_provider: bool = True, **more: Any) -> Any:
        running = proxy("regular", penumbra_max_output_bytes=CAP)
        if api == "responses":
            return ResponsesAgent(clients.openai(running), at_provider=at_provider, **more)
        kind = ThreadAgent if at_provider else AnthropicAgent
        return kind(clients.anthropic(running), **more)

    return start


def new_items(received: Any) -> list[Any]:
    found: list[Any] = received.json.get("input") or received.json["messages"]
    return found


@both_ways
@pytest.mark.parametrize("api", APIS)
def test_results_are_read_by_calls_that_are_not_in_the_request(
    api: str, stream: bool, start: Any, upstream: Any
) -> None:
    """The forwarded results are the same as where the whole history is sent."""
    forwarded = []
    for kept in (False, True):
        upstream.reset()
        upstream.answers(*SESSION[:4], turn(bash(SAME)), turn(bash(SAME)), turn("Done."))
        start(api, at_provider=kept, stream=stream).say("Why does the total test fail?")
        assert upstream.statuses() == {200}
        found = [text for _, text in results(upstream.asked()[-1].json)]
        if kept:
            found = [text for one in upstream.asked() for _, text in results(one.json)]
        forwarded.append(found)
    whole, new = forwarded
    assert len(whole) == len(new) == 9
    # The last result repeats an earlier one, which the provider has from either request.
    assert "[Duplicate of " in new[-1]
    # A result that tells of failures is not replaced by a reference.
    assert "1 failed, 60 passed" in new[6]
    assert "Duplicate of " not in new[6]
    assert new[:-1] == whole[:-1]


@both_ways
def test_a_thread_with_hidden_exchanges(stream: bool, start: Any, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Hm."), "Let me see."),
            lambda received: turn(
                Thinking("So."), "Both.", bash("cat db.log"), expand("shadow_999999999999999999")
            ),
            turn(Thinking("Well."), "Done."),
        )
    )
    agent = start("anthropic", stream=stream, thinking=True)
    assert agent.say("What is in the log?") == "Done."
    assert upstream.statuses() == {200}
    assert PHANTOM not in str(agent.messages)
    assert [len(new_items(one)) for one in upstream.asked()] == [1] * 4
    upstream.script(Model(turn(Thinking("Look."), bash("ls")), turn("Bye.")))
    assert agent.say("Go on.") == "Bye."
    assert upstream.statuses() == {200}
    # The history is too old: the client sends everything, and the hidden exchanges are put back.
    upstream.anthropic.threads.lose()
    upstream.script(Model(turn("Again.")))
    assert agent.say("Once more.") == "Again."
    refused, last = upstream.asked()[-2:]
    assert (refused.status, last.status) == (404, 200)
    original, unknown = hidden_results(last)
    assert original == LOG
    assert "not available any more" in unknown
    upstream.script(Model(turn("Yes.")))
    assert agent.say("Still there?") == "Yes."
    assert upstream.asked()[-1].json["thread"]["type"] == "continue"
    assert upstream.asked()[-1].status == 200


@both_ways
@pytest.mark.parametrize("api", APIS)
def test_a_hidden_request_that_does_not_fit(
    api: str, stream: bool, start: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused request has not continued the earlier response, so the next one can."""
    monkeypatch.setitem(PRINTS, "cat worker.log", log("big", 380))

    def asks(received: Any) -> Any:
        upstream.window = 3_000
        return turn("See.", expand(refs(received)[0]))

    upstream.script(Model(turn(bash("cat worker.log")), asks, turn("Done.")))
    agent = start(api, stream=stream)
    assert agent.say("What is in the log?") == "See.Done."
    first, second, *refused, last = upstream.asked()
    assert (first.status, second.status, last.status) == (200, 200, 200)
    assert 1 <= len(refused) <= 2
    assert {one.status for one in refused} == {400}
    upstream.window = 0
    upstream.script(Model(turn("So.")))
    assert agent.say("Go on.") == "So."
    assert upstream.asked()[-1].status == 200


@both_ways
def test_items_by_reference(stream: bool, start: Any, upstream: Any) -> None:
    """The input may refer to stored items by their ids."""
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
    agent = start("responses", stream=stream, at_provider=False)
    agent.extra = {"store": True}
    agent.say("What is in the log?")
    known = {item["id"]: item for item in agent.messages if "id" in item}
    upstream.openai_responses.items |= known
    agent.messages = [
        {"type": "item_reference", "id": item["id"]} if "id" in item else item for item in agent.messages
    ]
    upstream.script(Model(turn("Done.")))
    assert agent.say("Go on.") == "Done."
    last = upstream.asked()[-1]
    assert last.status == 200
    assert hidden_results(last) == [LOG]
