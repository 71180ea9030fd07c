"""Requests that don't fit, on a WebSocket: sent again smaller on the same one, and the client never notices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.agents.agent import PRINTS, bash
from support.agents.model import Model, expand, log, refs, seen
from support.agents.requests import PHANTOM
from support.agents.websocket_caller import Failed
from support.upstream import Received, turn
from support.upstream.server import Upstream

LOG = log("big", 380)


@pytest.fixture(autouse=True)
def big_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log, and notes that are read: they keep their text, which is more than the context holds."""
    monkeypatch.setitem(PRINTS, "cat big.log", LOG)
    monkeypatch.setitem(PRINTS, "cat src/notes.py", LOG)


@pytest.fixture
def roomy(proxy: Any) -> Any:
    """A proxy that leaves what is read as it is."""
    return proxy("reverse")


def held(upstream: Upstream) -> int:
    """Tokens of what was said so far, as the stand-in counts them."""
    return sum(len(json.dumps(one.json, ensure_ascii=False)) for one in upstream.asked()) // 4


def bounded(upstream: Upstream, room: int, *blocks: Any) -> Any:
    """A turn after which so many more tokens fit behind the request that it answers."""

    def step(received: Received) -> Any:
        upstream.window = held(upstream) + room
        return turn(*blocks)

    return step


def outputs(received: Received) -> list[str]:
    items = received.json["input"]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


@pytest.mark.parametrize("late", [False, True], ids=["at-once", "begun"])
@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@pytest.mark.parametrize(("warm", "tools_once"), [(False, False), (True, True)])
def test_a_frame_is_sent_again_smaller(
    late: bool, stored: bool, warm: bool, tools_once: bool, talk: Any, roomy: Any, upstream: Any
) -> None:
    caller = talk(roomy, tools_once=tools_once, extra={"store": stored})
    if warm:
        caller.prewarm()
    before = len(upstream.asked())
    upstream.refuses_late = late
    upstream.script(Model(bounded(upstream, 1_500, bash("cat src/notes.py")), turn("Done.")))
    assert caller.say("What is in the log?") == "Done."
    asked = upstream.asked()[before:]
    assert [request.status for request in asked][:2] == [200, 400]
    assert asked[-1].status == 200
    refused, *_, taken = asked[1:]
    # What it was to go on from is lost with the refusal, so that all of it is said again.
    assert refused.json["previous_response_id"]
    assert "previous_response_id" not in taken.json
    assert (len(refs(refused)), len(refs(taken))) == (0, 1)
    assert len(outputs(taken)[0]) < len(outputs(refused)[0])
    types = [frame["type"] for frame in caller.frames]
    assert not {"error", "response.failed"} & set(types)
    assert types.count("response.created") == types.count("response.completed")
    upstream.window = 0
    upstream.script(Model(turn(bash("ls")), turn("So.")))
    assert caller.say("Go on.") == "So."
    assert [request.status for request in upstream.asked()[-2:]] == [200, 200]
    assert upstream.asked()[-1].json["previous_response_id"]
    # The form that was taken is the one that stays.
    caller.reconnect()
    upstream.script(Model(turn("Again.")))
    assert caller.say("And now?") == "Again."
    assert outputs(upstream.asked()[-1])[0] == outputs(taken)[0]


def test_the_model_may_ask_for_the_rest_in_the_answer_that_was_had(
    talk: Any, roomy: Any, upstream: Any
) -> None:
    upstream.refuses_late = True

    def asks(received: Received) -> Any:
        upstream.window = 0
        return turn("See.", expand(refs(received)[0], lines="91"))

    upstream.script(Model(bounded(upstream, 1_500, bash("cat src/notes.py")), asks, turn("NEEDLE-90.")))
    caller = talk(roomy)
    assert caller.say("What is in the log?") == "See.NEEDLE-90."
    assert PHANTOM not in seen(caller.frames)
    assert "NEEDLE-90" in outputs(upstream.asked()[-1])[-1]
    upstream.script(Model(turn("So.")))
    assert caller.say("Go on.") == "So."
    assert upstream.asked()[-1].status == 200


@pytest.mark.parametrize("late", [False, True], ids=["at-once", "begun"])
def test_where_nothing_helps_the_client_gets_the_first_refusal(
    late: bool, talk: Any, proxy: Any, upstream: Any
) -> None:
    refusals = []
    for running in (
        proxy("reverse", penumbra_recover="off"),
        proxy("reverse", penumbra_mode="standard"),
    ):
        upstream.reset()
        upstream.refuses_late = late
        upstream.script(Model(bounded(upstream, 10, bash("cat src/notes.py"))))
        caller = talk(running)
        with pytest.raises(Failed):
            caller.say("What is in the log?")
        refusals.append([frame for frame in caller.frames if frame.get("status") != "in_progress"][-1])
        assert len(upstream.asked()) == (2 if len(refusals) == 1 else 4)
    assert refusals[0] == refusals[1]
    # The socket works on.
    upstream.window = 0
    caller.messages.clear()
    caller.last_id, caller.known = "", 0
    upstream.script(Model(turn("Never mind.")))
    assert caller.say("Again.") == "Never mind."


@pytest.mark.parametrize("late", [False, True], ids=["at-once", "begun"])
@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
def test_a_hidden_frame_is_sent_again_with_less(late: bool, stored: bool, talk: Any, upstream: Any) -> None:
    def asks(received: Received) -> Any:
        upstream.window = 3_000
        upstream.refuses_late = late
        return turn("See.", expand(refs(received)[0]))

    upstream.script(Model(turn(bash("cat big.log")), asks, turn("Done.")))
    caller = talk(extra={"store": stored})
    assert caller.say("What is in the log?") == "See.Done."
    assert PHANTOM not in seen(caller.frames)
    assert [request.status for request in upstream.asked()][:3] == [200, 200, 400]
    assert upstream.asked()[-1].status == 200
    text = outputs(upstream.asked()[-1])[-1]
    assert text.startswith("[Lines 1-")
    assert "ask for `lines` or `pattern`" in text
    upstream.window = 0
    upstream.script(Model(turn("So.")))
    assert caller.say("Go on.") == "So."
    caller.reconnect()
    upstream.script(Model(turn("Again.")))
    assert caller.say("And now?") == "Again."
    assert text in outputs(upstream.asked()[-1])
    assert upstream.asked()[-1].status == 200


def test_another_error_goes_on_as_it_is(talk: Any, upstream: Any) -> None:
    upstream.script(Model(turn(bash("cat big.log")), turn("NEED", error_after=5)))
    caller = talk()
    with pytest.raises(Failed):
        caller.say("What is in the log?")
    assert len(upstream.asked()) == 2
