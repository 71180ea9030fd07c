"""The model asks for originals on a WebSocket, and the client never notices."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from support.agents.agent import bash
from support.agents.callers import ResponsesAgent
from support.agents.model import CAP, COMMANDS, Model, ask, expand, refs, seen
from support.agents.requests import PHANTOM, hidden_results
from support.agents.websocket_caller import Failed
from support.mitm import eventually
from support.upstream import Fault, Received, Thinking, turn

LOG = COMMANDS["cat worker.log"]


def outputs(received: Received) -> list[str]:
    """The texts of the results in a frame."""
    items = received.json["input"]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def once(*last: Any) -> Model:
    """A model that asks once."""
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
def test_once(
    mode: str, warm: bool, tools_once: bool, talk: Any, proxy: Any, upstream: Any, statuses: Any
) -> None:
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
    assert statuses() == {200}
    assert PHANTOM not in seen(caller.frames)


def test_many_in_one_conversation(talk: Any, upstream: Any, statuses: Any) -> None:
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
    assert statuses() == {200}


def test_beside_real_calls_nothing_is_asked_upstream(talk: Any, upstream: Any, statuses: Any) -> None:
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
    assert statuses() == {200}
    assert PHANTOM not in seen(caller.frames)


def test_several_at_once_and_again(talk: Any, upstream: Any, statuses: Any) -> None:
    def again(received: Received) -> Any:
        one, other = refs(received)
        return turn(expand(one), expand(other, pattern="needle", ignore_case=True, context=0), expand(one))

    upstream.script(Model(turn(bash("cat worker.log"), bash("cat db.log")), again, turn("Done.")))
    caller = talk()
    assert caller.say("What is in the logs?") == "Done."
    first, second, third = outputs(upstream.asked()[-1])
    assert first == LOG
    assert second == "[1 matching line in 150 lines]\n91:db NEEDLE-90 is only said here"
    assert "already been provided" in third
    assert statuses() == {200}


def test_the_limit(talk: Any, upstream: Any, statuses: Any) -> None:
    found: list[str] = []

    def model(received: Received) -> Any:
        found.extend(refs(received))
        if len(upstream.asked()) == 1:
            return turn(bash("cat worker.log"))
        if received.json.get("tool_choice") == "none":
            return turn("I give up.")
        return turn(expand(found[0], lines=f"{len(upstream.asked())}"))

    upstream.script(model)
    caller = talk()
    assert caller.say("What is in the log?") == "I give up."
    assert len(upstream.asked()) == 9
    assert "tool_choice" not in upstream.asked()[-2].json
    upstream.script(Model(turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert statuses() == {200}


@pytest.mark.parametrize("mixed", [False, True], ids=["hidden", "mixed"])
@pytest.mark.parametrize("way", ["socket", "http"])
@pytest.mark.parametrize("words", ["call", "text"])
def test_a_history_that_is_sent_whole_again(
    way: str, mixed: bool, words: str, talk: Any, clients: Any, running: Any, upstream: Any, statuses: Any
) -> None:
    """After a lost connection: what was hidden is put back, and every result keeps its form."""
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
    assert statuses() == {200}
    assert hidden_results(again) == [LOG]
    assert outputs(shortened)[0] in outputs(again)
    assert again.json.get("previous_response_id") is None


def test_the_same_answer_is_gone_on_from_twice(talk: Any, upstream: Any) -> None:
    """A fork of a stored history finds the hidden turns under the id that the client knows."""
    upstream.script(once())
    caller = talk(extra={"store": True})
    caller.say("What is in the log?")
    known = caller.frames[-1]["response"]["id"]
    for words in ("One.", "Two."):
        upstream.script(Model(turn(words)))
        caller.send({**caller.request(), "previous_response_id": known, "input": "Go on."})
        assert caller.answer()[0]["content"][0]["text"] == words
        assert upstream.asked()[-1].json["previous_response_id"] != known


@pytest.mark.parametrize("how", ["refused", "broken"])
def test_a_continuation_that_fails(how: str, talk: Any, upstream: Any) -> None:
    fault = Fault(400, "Overloaded") if how == "refused" else turn("NEED", error_after=5)
    upstream.script(once(fault))
    caller = talk()
    with pytest.raises(Failed) as failed:
        caller.say("What is in the log?")
    assert "Overloaded" not in str(failed.value)
    assert failed.value.args[0]["type"] == "response.failed"
    assert PHANTOM not in seen(caller.frames)
    caller.reconnect()
    caller.messages.clear()
    upstream.script(once())
    assert caller.say("Again.") == "Let me see.NEEDLE-90 it is."


def test_the_connection_dies_in_a_hidden_turn(talk: Any, upstream: Any) -> None:
    upstream.script(once(turn("NEED", cut_after=5)))
    caller = talk()
    with pytest.raises(ConnectionClosed):
        caller.say("What is in the log?")
    caller.reconnect()
    caller.messages.clear()
    upstream.script(Model(turn("Never mind.")))
    assert caller.say("Again.") == "Never mind."


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


def test_lanes_don_t_mix(talk: Any, upstream: Any, statuses: Any) -> None:
    """Two conversations on one socket, their answers at the same time."""
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
    callers = {name: talk(lane=name) for name in gates}
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
    assert statuses() == {200}
    assert PHANTOM not in seen(first.frames)
    second.socket = None
