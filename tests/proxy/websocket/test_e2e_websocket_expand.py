"""The model asks for originals on a WebSocket, and the client never notices."""

import json
import threading
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from support.agents.agent import PRINTS, bash
from support.agents.callers import ResponsesAgent
from support.agents.model import CAP, COMMANDS, Model, ask, expand, log, refs, seen
from support.agents.requests import PHANTOM, hidden_results
from support.agents.websocket_caller import Failed
from support.mitm import eventually
from support.upstream import Fault, Received, Text, Thinking, turn
from support.upstream.server import Upstream

LOG = COMMANDS["cat worker.log"]


def outputs(received: Received) -> list[str]:
    """Return the texts of the results in a frame."""
    items = received.json["input"]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def once(*last: Any) -> Model:
    """Return a model that asks once."""
    return Model(turn(bash("cat worker.log")), ask("Let me see."), *(last or (turn("NEEDLE-90 it is."),)))


@pytest.mark.parametrize(
    ("mode", "warm", "tools_once"),
    [
        ("regular", False, False),
        ("regular", True, False),
        ("regular", True, True),
        ("regular", False, True),
        ("reverse", True, False),
        ("reverse-tls", True, True),
    ],
)
def test_once(mode: str, warm: bool, tools_once: bool, talk: Any, proxy: Any, upstream: Any) -> None:
    upstream.script(once())
    running = proxy(mode, penumbra_max_output_bytes=CAP)
    caller = talk(running, tools_once=tools_once)
    if warm:
        caller.prewarm()
    assert caller.say("What is in the log?") == "Let me see.NEEDLE-90 it is."
    shortened, continued = upstream.asked()[-2:]
    assert len(refs(shortened)) == 1
    assert outputs(continued) == [LOG]
    assert len(continued.json["input"]) == 1
    assert continued.json["previous_response_id"] != shortened.json["previous_response_id"]
    assert continued.json.get("tools") == shortened.json.get("tools")
    upstream.script(Model(turn(bash("ls")), turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert upstream.statuses() == {200}
    assert PHANTOM not in seen(caller.frames)


def test_many_in_one_conversation(talk: Any, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Too short."), "Let me see."),
            turn(Thinking("I see."), bash("cat db.log"), bash("ls")),
            ask(Thinking("Hm."), pattern="NEEDLE"),
            turn(Thinking("So."), bash("cat web.log")),
            ask(Thinking("And this?"), lines="91"),
            turn(Thinking("That's all."), "Now I know."),
        )
    )
    caller = talk()
    caller.prewarm()
    assert caller.say("What is in the logs?") == "Now I know."
    assert PHANTOM not in seen(caller.frames)
    for number in range(3):
        upstream.script(Model(turn(bash("ls")), turn(f"{number}.")))
        assert caller.say(f"And {number}?") == f"{number}."
    assert upstream.statuses() == {200}


def test_no_hidden_request_is_sent_beside_real_calls(talk: Any, upstream: Any) -> None:
    def both(received: Received) -> Any:
        return turn("Both.", expand(refs(received)[0]), bash("ls"), expand("shadow_999999999999999999"))

    upstream.script(Model(turn(bash("cat worker.log")), both, turn("NEEDLE-90.")))
    caller = talk()
    assert caller.say("What is in the log?") == "NEEDLE-90."
    assert len(upstream.asked()) == 3
    original, unknown, real = outputs(upstream.asked()[-1])
    assert original == LOG
    assert "not available any more" in unknown
    assert real == "README.md\nsrc\ntests\n"
    upstream.script(Model(turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert upstream.statuses() == {200}
    assert PHANTOM not in seen(caller.frames)


@pytest.mark.parametrize("mixed", [False, True], ids=["hidden", "mixed"])
@pytest.mark.parametrize("way", ["socket", "http"])
@pytest.mark.parametrize("words", ["call", "text"])
def test_a_history_that_is_sent_whole_again(
    way: str, mixed: bool, words: str, talk: Any, clients: Any, running: Any, upstream: Any
) -> None:
    """After a lost connection the hidden exchanges are put back, and every result keeps its form."""
    upstream.script(
        Model(
            turn(Thinking("Hm."), bash("cat worker.log")),
            lambda received: turn("See.", expand(refs(received)[0]), *([bash("ls")] if mixed else [])),
            *([turn(bash("ls"))] if words == "call" else []),
            turn(Thinking("So."), "NEEDLE-90 it is."),
        )
    )
    caller = talk()
    caller.prewarm()
    caller.say("What is in the log?")
    shortened = next(received for received in upstream.asked() if refs(received))
    caller.reconnect()
    upstream.script(Model(turn("Done.")))
    if way == "socket":
        assert caller.say("Go on.") == "Done."
    else:
        agent = ResponsesAgent(clients.openai(running), stream=True, messages=caller.messages)
        assert agent.say("Go on.") == "Done."
    again = upstream.asked()[-1]
    assert upstream.statuses() == {200}
    assert hidden_results(again) == [LOG]
    assert outputs(shortened)[0] in outputs(again)
    assert again.json.get("previous_response_id") is None


def test_a_response_can_be_continued_twice(talk: Any, upstream: Any) -> None:
    """A fork of a stored history finds the hidden turns by the id that the client knows."""
    upstream.script(once())
    caller = talk(extra={"store": True})
    caller.say("What is in the log?")
    known = caller.frames[-1]["response"]["id"]
    for words in ("One.", "Two."):
        upstream.script(Model(turn(words)))
        caller.send({**caller.request(), "previous_response_id": known, "input": "Go on."})
        assert caller.answer()[0]["content"][0]["text"] == words
        assert upstream.asked()[-1].json["previous_response_id"] != known


def test_a_client_that_goes_away_ends_the_hidden_turn(talk: Any, upstream: Any) -> None:
    never = threading.Event()
    upstream.script(once(turn("NEED", hold={6: never})))
    caller = talk()
    thread = threading.Thread(target=lambda: _say(caller))
    thread.start()
    assert eventually(lambda: len(upstream.asked()) == 3)
    hidden = upstream.asked()[2]
    caller.close()
    thread.join(30)
    assert hidden.done.wait(30)
    assert hidden.cancelled
    caller.reconnect()
    caller.messages.clear()
    upstream.script(Model(turn("Done.")))
    assert caller.say("Again.") == "Done."


def _say(caller: Any) -> None:
    with pytest.raises(ConnectionClosed):
        caller.say("What is in the log?")


def test_frames_that_come_before_the_end_of_a_hidden_turn_wait(talk: Any, upstream: Any) -> None:
    gate = threading.Event()
    caller = talk()
    upstream.script(Model(turn(bash("cat worker.log"))))
    caller.messages.append({"type": "message", "role": "user", "content": "What is in the log?"})
    caller.messages.append(caller.result(caller.ask()[0]))
    upstream.script(Model(ask("Let me see."), turn("NEEDLE-90.", hold={0: gate}), turn("Second.")))
    caller.send(caller.request())
    known = caller.receive()["response"]["id"]
    assert eventually(lambda: len(upstream.asked()) == 3)
    caller.send({**caller.request(), "previous_response_id": known, "input": "Second?"})
    caller.send(b"\x00 what")
    assert eventually(lambda: upstream.requests[-1].api == "openai_responses:frame")
    assert len(upstream.asked()) == 3
    gate.set()
    while caller.frames[-1].get("type") != "response.completed":
        frame = caller.socket.recv(30)
        caller.frames.append(json.loads(frame) if frame[0] == "{" else {"answer": frame})
    assert {"answer": "what is 6 bytes?"} in caller.frames
    assert caller.frames[-1]["response"]["output"][-1]["content"][0]["text"] == "NEEDLE-90."
    assert caller.answer()[0]["content"][0]["text"] == "Second."
    assert upstream.asked()[-1].json["previous_response_id"] != known


def test_two_conversations_on_one_socket_do_not_mix(talk: Any, upstream: Any) -> None:
    """Two conversations share one socket, and their answers come at the same time."""
    gates = {"worker": threading.Event(), "db": threading.Event()}

    def model(received: Received) -> Any:
        frame = received.json
        name = frame["stream_id"]
        if not frame.get("previous_response_id"):
            return turn(bash(f"cat {name}.log"))
        if refs(received):
            return turn(expand(refs(received)[0], pattern="NEEDLE", context=0), hold={2: gates[name]})
        return turn(f"In {name}.")

    upstream.script(model)
    callers = {name: talk(stream_id=name) for name in gates}
    first, second = callers.values()
    first.send(first.start("What is there?"))
    second.socket = first.socket
    second.send(second.start("What is there?"))
    assert first.socket is second.socket
    done: dict[str, list[Any]] = {name: [] for name in gates}
    while not all(done.values()):
        event = first.receive()
        if event["type"] == "response.completed":
            done[event["stream_id"]] = event["response"]["output"]
            callers[event["stream_id"]].take(event["response"])
    for name, caller in callers.items():
        caller.messages.append(caller.result(done[name][0]))
        caller.send(caller.request())
    assert eventually(lambda: len(upstream.asked()) == 4)
    for name in ("db", "worker"):
        gates[name].set()
        while first.receive()["type"] != "response.completed":
            pass
        ended = first.frames[-1]
        assert (ended["stream_id"], ended["response"]["output"][0]["content"][0]["text"]) == (
            name,
            f"In {name}.",
        )
    for frame in upstream.asked()[-2:]:
        assert outputs(frame) == [
            f"[1 matching line in 150 lines]\n91:{frame.json['stream_id']} NEEDLE-90 is only said here"
        ]
    assert upstream.statuses() == {200}
    assert PHANTOM not in seen(first.frames)
    second.socket = None


WORDS = f"what is {PHANTOM}?"


def answered(*faults: Any) -> Model:
    return Model(
        turn(Thinking("A log."), bash("cat worker.log")),
        ask(Thinking("Too short."), "Let me see."),
        *faults,
        turn(Thinking("So."), "NEEDLE-90 it is."),
    )


@pytest.mark.parametrize(
    ("faults", "stored", "stream_id"),
    [
        ((Fault(503, WORDS),), False, ""),
        ((Fault(429, WORDS), Fault(500, WORDS)), False, "a"),
        ((turn("Half", error_after=1),), False, ""),
        ((turn("Half", error_after=2), Fault(529)), True, ""),
    ],
    ids=["once", "twice", "event", "stored"],
)
def test_a_passing_failure_is_tried_again(
    faults: Any, stored: bool, stream_id: str, talk: Any, upstream: Any
) -> None:
    """The provider drops the response that a failed request continues, so the whole history is sent again."""
    upstream.script(answered(*faults))
    caller = talk(stream_id=stream_id, extra={"store": stored})
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
    """Return the items of an answer that broke off, as Codex keeps them."""
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
def test_the_client_continues_from_a_response_that_broke_off(
    words: Any, ids: bool, talk: Any, upstream: Any
) -> None:
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
        # The client sends everything again, as Codex does, and then further requests on a third connection.
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
    """The socket ends without a closing frame, or with that frame's code, and with nothing of Penumbra's
    before it."""
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
    # The result of the original is still in the history.
    kinds = [item.get("type", "message") for item in upstream.asked()[-1].json["input"]]
    assert kinds[3:] == ["reasoning", "function_call", "function_call_output", "message"]
    upstream.script(Model(turn("Good.")))
    assert caller.say("And now?") == "Good."


BIG_LOG = log("big", 380)


@pytest.fixture(autouse=True)
def big_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log, and notes that are read: these keep their text, which is larger than the context."""
    monkeypatch.setitem(PRINTS, "cat big.log", BIG_LOG)
    monkeypatch.setitem(PRINTS, "cat src/notes.py", BIG_LOG)


@pytest.fixture
def roomy(proxy: Any) -> Any:
    """A proxy that leaves results of reads unchanged."""
    return proxy("reverse")


def tokens_so_far(upstream: Upstream) -> int:
    """Return the tokens of the conversation so far, as the test provider counts them."""
    return sum(len(json.dumps(one.json, ensure_ascii=False)) for one in upstream.asked()) // 4


def bounded(upstream: Upstream, space: int, *blocks: Any) -> Any:
    """Return a step: a turn after whose request so many more tokens fit."""

    def step(received: Received) -> Any:
        upstream.window = tokens_so_far(upstream) + space
        return turn(*blocks)

    return step


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
    # The refusal drops the response that the request continues, so the whole history is sent again.
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
    # The form that was taken is final.
    caller.reconnect()
    upstream.script(Model(turn("Again.")))
    assert caller.say("And now?") == "Again."
    assert outputs(upstream.asked()[-1])[0] == outputs(taken)[0]


def test_the_answer_to_the_smaller_frame_may_ask_for_an_original(
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
    for running in (proxy("reverse", penumbra_recover="off"), proxy("reverse", penumbra_mode="standard")):
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
