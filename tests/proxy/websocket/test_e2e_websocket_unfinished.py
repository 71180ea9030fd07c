"""A hidden turn on a WebSocket that fails, and what the client goes on from."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from support.agents.agent import bash
from support.agents.model import COMMANDS, Model, ask, refs, seen
from support.agents.requests import PHANTOM
from support.agents.websocket_caller import Failed
from support.upstream import Fault, Text, Thinking, turn

LOG = COMMANDS["cat worker.log"]
WORDS = f"what is {PHANTOM}?"


def answered(*faults: Any) -> Model:
    return Model(
        turn(Thinking("A log."), bash("cat worker.log")),
        ask(Thinking("Too short."), "Let me see."),
        *faults,
        turn(Thinking("So."), "NEEDLE-90 it is."),
    )


@pytest.mark.parametrize(
    ("faults", "stored", "lane"),
    [
        ((Fault(503, WORDS),), False, ""),
        ((Fault(429, WORDS), Fault(500, WORDS)), False, "a"),
        ((turn("Half", error_after=1),), False, ""),
        ((turn("Half", error_after=2), Fault(529)), True, ""),
    ],
    ids=["once", "twice", "event", "stored"],
)
def test_what_passes_is_tried_again(faults: Any, stored: bool, lane: str, talk: Any, upstream: Any) -> None:
    """The provider forgets what a failed request went on from, so everything is said again."""
    upstream.script(answered(*faults))
    caller = talk(lane=lane, extra={"store": stored})
    caller.prewarm()
    assert caller.say("What is in the log?") == "Let me see.NEEDLE-90 it is."
    assert PHANTOM not in seen(caller.frames)
    shortened, refused, *_, taken = upstream.asked()[-2 - len(faults) :]
    assert len(refs(shortened)) == 1
    assert taken.json.get("tools") == shortened.json.get("tools")
    if stored:
        assert taken.body == refused.body
    else:
        assert "previous_response_id" not in taken.json
        assert taken.json["input"][-1]["output"] == LOG
        assert [item.get("type", "message") for item in taken.json["input"]] == [
            *("message", "reasoning", "function_call", "function_call_output"),
            *("reasoning", "message", "function_call", "function_call_output"),
        ]
    upstream.script(Model(turn(Thinking("Hm."), bash("cat db.log")), ask(), Fault(503), turn("Done.")))
    assert caller.say("Go on.") == "Done."
    upstream.script(Model(turn("Done again.")))
    assert caller.say("Go on.") == "Done again."
    assert upstream.asked()[-1].status == 200


def left(caller: Any, number: int, *, ids: bool) -> list[Any]:
    """The items of an answer that broke off, as Codex keeps them."""
    items = [e["item"] for e in caller.frames[number:] if e["type"] == "response.output_item.done"]
    return [
        {k: v for k, v in item.items() if ids or k != "id" or item["type"] == "reasoning"} for item in items
    ]


FAULTS = {
    "refused": Fault(500, WORDS),
    "for-good": Fault(400, WORDS),
    **{
        f"{how}-{at}": turn(Thinking("So it is."), Text("Half"), bash("ls"), **{f"{how}_after": at})
        for how in ("cut", "error")
        for at in (1, 4, 8, 13)
    },
}


@pytest.mark.parametrize(
    ("words", "ids"), [((), False), (("Let me see.",), True)], ids=["silent", "speaking"]
)
def test_the_client_goes_on_from_what_it_has(words: Any, ids: bool, talk: Any, upstream: Any) -> None:
    for name, fault in FAULTS.items():
        caller = talk()
        upstream.script(
            Model(
                turn(Thinking("A log."), bash("cat worker.log")),
                ask(Thinking("Too short."), *words),
                *[fault] * 3,
            )
        )
        caller.messages.append({"type": "message", "role": "user", "content": f"What is in the log, {name}?"})
        caller.messages.append(caller.result(caller.ask()[-1]))
        number = len(caller.frames)
        with pytest.raises((Failed, ConnectionClosed)) as failed:
            caller.ask()
        assert PHANTOM not in seen(caller.frames)
        if isinstance(failed.value, Failed):
            error = failed.value.args[0]["response"]["error"]
            assert error["code"] == "server_error"
            assert "what is" not in error["message"]
        caller.messages += left(caller, number, ids=ids)
        calls = [one for one in caller.messages[-1:] if one["type"] == "function_call"]
        caller.messages += [caller.result(call) for call in calls]
        caller.reconnect()
        # The same once more, as Codex does by itself, and then further requests on a third connection.
        upstream.script(Model(turn(Thinking("Again."), bash("ls")), turn(Thinking("Yes."), "Done.")))
        caller.messages += [caller.result(call) for call in caller.ask() if call["type"] == "function_call"]
        caller.ask()
        caller.reconnect()
        upstream.script(Model(turn("Good.")))
        assert caller.say("Go on.") == "Good.", name
        assert upstream.asked()[-1].status == 200
        caller.close()


@pytest.mark.parametrize("code", [None, 0, 1000, 1011, 4001], ids=["breaks", "none", "1000", "1011", "4001"])
@pytest.mark.parametrize("hides", [True, False], ids=["hidden", "seen"])
def test_a_socket_ends_for_the_client_as_it_ended(
    hides: bool, code: int | None, talk: Any, upstream: Any
) -> None:
    """Without a frame that closes it, or with that frame's code; and nothing of ours in front of it."""
    for number in (0, 1, 4):
        fault = turn(Text("Half of it"), cut_after=number, close_code=code)
        asks = [turn(bash("cat worker.log")), ask("Let me see.")] if hides else [turn(bash("ls"))]
        upstream.script(Model(*asks, fault))
        caller = talk()
        caller.messages.append({"type": "message", "role": "user", "content": f"What is in it, {number}?"})
        caller.messages.append(caller.result(caller.ask()[-1]))
        with pytest.raises(ConnectionClosed) as closed:
            caller.ask()
        got = closed.value.rcvd
        assert (got.code if got is not None else None) == (1005 if code == 0 else code)
        assert caller.frames[-1]["type"] not in ("error", "response.failed")
        assert PHANTOM not in seen(caller.frames)
        caller.close()


def test_a_client_that_gave_up_and_asks_something_else(talk: Any, upstream: Any) -> None:
    caller = talk()
    upstream.script(Model(turn(bash("cat worker.log")), ask(Thinking("Too short.")), *[Fault(503)] * 3))
    caller.messages.append({"type": "message", "role": "user", "content": "What is in the log?"})
    caller.messages.append(caller.result(caller.ask()[-1]))
    number = len(caller.frames)
    with pytest.raises(Failed):
        caller.ask()
    caller.messages += left(caller, number, ids=False)
    caller.reconnect()
    upstream.script(Model(turn("Never mind.")))
    assert caller.say("Never mind the log.") == "Never mind."
    # What the model asked for is still before it.
    kinds = [item.get("type", "message") for item in upstream.asked()[-1].json["input"]]
    assert kinds[3:] == ["reasoning", "function_call", "function_call_output", "message"]
    upstream.script(Model(turn("Good.")))
    assert caller.say("And now?") == "Good."
