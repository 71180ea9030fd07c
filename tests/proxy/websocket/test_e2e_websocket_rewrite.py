"""Frames on their way to the provider and back."""

import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from support.agents.agent import PRINTS, SESSION, bash
from support.agents.callers import ResponsesAgent
from support.agents.model import CAP, Model, expand, log, refs, seen
from support.agents.requests import PHANTOM, results
from support.agents.websocket_caller import Failed, opened
from support.mitm import eventually
from support.planted import GITHUB
from support.upstream import Fault, Received, turn

# Careless rewriting would change the spacing, escapes, repeated key, lone surrogate and numbers.
ODD = (
    '{"type" : "response.create", "model":"m","input": [ {"role":"user","content":"\\u00e9 é \\ud800 \\/"} ] ,\n'
    '"max_output_tokens":1.0e3, "temperature":1.10,"top_p":1,"top_p":0.5}'
)

REF = re.compile(r"shadow_[0-9a-f]{18,32}")


def raw(running: Any, api_key: str, *frames: str | bytes) -> Iterator[str | bytes]:
    """Send frames; return the first answer to each."""
    with opened(running, api_key) as socket:
        for frame in frames:
            socket.send(frame)
            yield socket.recv(30)


def test_a_frame_without_changes_keeps_its_bytes(running: Any, api_key: str, upstream: Any) -> None:
    with opened(running, api_key) as socket:
        socket.send(ODD)
        events = [socket.recv(30)]
        while '"type": "response.completed"' not in events[-1]:
            events.append(socket.recv(30))
    assert upstream.asked()[0].raw_body.decode() == ODD
    shown = [json.loads(event)["type"] for event in events]
    assert shown[0] == "response.created"
    # The test provider writes its frames so.
    assert all(json.dumps(json.loads(event), ensure_ascii=False) == event for event in events)


def test_any_frame_without_a_secret_keeps_its_bytes(running: Any, api_key: str, upstream: Any) -> None:
    frames = [
        *("hello", "[1,  2]", '{"type": "session.update" , "x":1.50}'),
        *(b'{"type":  "session.update"}', '{"type": 5}', ""),
    ]
    answers = list(raw(running, api_key, *frames))
    assert answers == [f"what is {len(frame)} bytes?" for frame in frames]
    arrived = [request.raw_body for request in upstream.requests if request.api == "openai_responses:frame"]
    assert arrived == [frame.encode() if isinstance(frame, str) else frame for frame in frames]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_large_frames_lose_their_secrets_and_no_letters(
    binary: bool, talk: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "".join(f"Zeile {n}: größer als 漢字 🙂 und\n" for n in range(9_000))
    monkeypatch.setitem(PRINTS, "ls", f"{words}GITHUB_TOKEN={GITHUB}\n")
    wish = {"_forge": {"tool_output_compression": "disabled"}}
    upstream.script(Model(turn(bash("ls")), turn("Größer. 漢字 🙂 " * 500)))
    caller = talk(binary=binary, extra=wish)
    assert caller.say("Größe?") == "Größer. 漢字 🙂 " * 500
    text = upstream.asked()[-1].json["input"][0]["output"]
    assert "_forge" not in upstream.asked()[-1].json
    head, _, mark = text.rpartition("GITHUB_TOKEN=")
    assert head == words
    assert mark.startswith("[REDACTED:")


def test_a_result_that_the_socket_has_carried_becomes_a_reference(talk: Any, upstream: Any) -> None:
    upstream.script(Model(*[turn(bash("cat worker.log"))] * 2, turn("Done.")))
    talk().say("What is in the log?")
    found = [text for one in upstream.asked() for _, text in results(one.json)]
    assert ["[Duplicate of " in text for text in found] == [False, True]


def test_the_frames_of_a_socket_add_up_in_its_flow(
    talk: Any, running: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRINTS, "ls", f"GITHUB_TOKEN={GITHUB}\n")
    upstream.script(Model(turn(bash("pytest -v")), turn(bash("ls")), turn("Done.")))
    caller = talk()
    caller.say("Run the tests.")
    # Other tests have used the same proxy.
    flow = [one for one in running.flows() if one["metadata"].get("penumbra", {}).get("frames")][-1]
    known = flow["metadata"]["penumbra"]
    assert (known["frames"], known["results"], known["results_changed"]) == (3, 2, 2)
    assert known["secrets"].keys() != set()
    assert flow["comment"].startswith("Penumbra: 2 of 2 results changed (")
    assert "1 secret redacted (" in flow["comment"]
    before, after = known["body_bytes"]
    assert after == sum(len(request.raw_body) for request in upstream.asked())
    assert before > after


def test_an_open_socket_follows_the_off_switch(running: Any, talk: Any, upstream: Any) -> None:
    upstream.script(Model(turn("Ready."), turn(bash("cat worker.log")), turn("Because.")))
    caller = talk()
    assert caller.say("Are you there?") == "Ready."
    running.command("penumbra.pause")
    try:
        assert caller.say("Why?") == "Because."
    finally:
        running.command("penumbra.resume")
    assert [text for _, text in results(upstream.asked()[-1].json)] == [PRINTS["cat worker.log"]]


def test_a_frame_that_cannot_be_searched_is_not_sent(talk: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_redaction_max_bytes="1k", penumbra_mode="safe")
    caller = talk(running)
    upstream.script(Model(turn(bash("pytest -v")), turn("Done.")))
    with pytest.raises(Failed) as failed:
        caller.say("Run the tests.")
    error = caller.frames[-1]
    assert error["type"] == "error"
    assert error["status"] >= 400
    assert "could not search" in error["error"]["message"]
    assert len(upstream.asked()) == 1
    caller.messages[-1]["output"] = "short"
    caller.ask()
    assert upstream.asked()[-1].json["input"][0]["output"] == "short"
    assert failed.value.args == (error,)


def test_results_have_the_form_that_they_would_have_over_http(
    talk: Any, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """The calls are at the provider, and the results have the form that they have over HTTP, also without an
    injected tool."""
    forms = []
    for can in ("true", "false"):
        running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_enable_expand_context=can)
        upstream.reset()
        upstream.answers(*SESSION)
        agent = ResponsesAgent(clients.of(api_key + can).openai(running))
        agent.say("What is wrong with the orders?")
        whole = [text for _, text in results(upstream.asked()[-1].json)]
        upstream.reset()
        upstream.answers(*SESSION)
        caller = talk(running, key=f"{api_key}{can}socket")
        caller.say("What is wrong with the orders?")
        # Over HTTP alone, the second test run stands beside the first one.
        parts = [text for frame in upstream.asked() for _, text in results(frame.json)]
        # References belong to their conversation.
        assert [REF.sub("", text) for text in parts[:-1]] == [REF.sub("", text) for text in whole[:-1]]
        assert sum(map(len, parts)) < 0.7 * sum(len(message.get("output", "")) for message in caller.messages)
        forms.append(parts)
    assert len(forms[0]) == len(forms[1]) == 7


def test_errors_arrive_as_they_are(talk: Any, upstream: Any) -> None:
    upstream.answers(Fault(429, "Rate limit reached"))
    caller = talk()
    with pytest.raises(Failed):
        caller.say("hi")
    assert caller.frames[-1] == {
        "type": "error",
        "status": 429,
        **upstream.openai_responses.fault(429, "Rate limit reached"),
    }
    caller.send({**caller.request(), "previous_response_id": "resp_unknown"})
    assert caller.receive()["error"]["param"] == "previous_response_id"
    upstream.answers(turn("Hello."))
    caller.ask()
    assert caller.messages[-1]["content"][0]["text"] == "Hello."


def test_words_for_an_answer_under_way(
    talk: Any, proxy: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Input for a response under way is searched for secrets. A response that follows by itself is like any
    other, and its hidden calls stay hidden."""
    monkeypatch.setitem(PRINTS, "cat worker.log", log(lines=4_000))
    running = proxy("reverse", penumbra_redact_scope="all")
    gate = threading.Event()
    found: list[str] = []

    def model(received: Received) -> Any:
        found.extend(refs(received))
        steps = [
            turn(bash("cat worker.log")),
            turn("Long.", hold={2: gate}),
            turn("And more.", expand(found[0], lines="91")) if found else None,
            turn("Done."),
        ]
        said.append(steps[len(said)])
        return said[-1]

    said: list[Any] = []
    upstream.script(model)
    caller = talk(running)
    caller.start("hi")
    caller.messages.append(caller.result(caller.ask()[0]))
    caller.send(caller.request())
    begun = caller.receive()["response"]["id"]
    words = [{"role": "user", "content": f"GITHUB_TOKEN={GITHUB}"}]
    caller.send({"type": "response.steer", "previous_response_id": begun, "input": words})
    assert eventually(lambda: upstream.requests[-1].api == "openai_responses:steer")
    gate.set()
    steer = upstream.requests[-1]
    assert GITHUB not in steer.raw_body.decode()
    assert "[REDACTED:" in steer.raw_body.decode()
    assert steer.json["previous_response_id"] == begun
    caller.answer_begun(caller.frames[-1:])
    assert caller.frames[-1]["response"]["output"][0]["content"][0]["text"] == "Long."
    texts = [item["content"][0]["text"] for item in caller.answer()]
    assert texts == ["And more.", "Done."]
    assert PHANTOM not in seen(caller.frames)


def test_the_other_ways(proxy: Any, api_key: str, upstream: Any) -> None:
    with pytest.raises(InvalidStatus) as refused:
        opened(proxy("regular", penumbra_websocket="downgrade"), api_key)
    assert refused.value.response.status_code == 426
    assert upstream.requests == []
    secret = json.dumps({"type": "response.create", "model": "m", "input": [], "x": f"GITHUB_TOKEN={GITHUB}"})
    running = proxy("regular", penumbra_websocket="pass")
    assert "Unknown parameter" in str(next(raw(running, api_key, secret)))
    assert upstream.asked()[0].raw_body.decode() == secret


def test_the_official_sdk(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("reverse", penumbra_max_output_bytes=CAP)
    upstream.answers(turn("Hello."))
    client = clients.openai(running)
    tools = [{"type": "function", "name": "Bash", "parameters": {}, "strict": False}]
    with client.responses.connect() as connection:
        connection.response.create(model="gpt-5", input="hi", tools=tools, store=False)
        for event in connection:
            assert PHANTOM not in event.to_json()
            if event.type == "response.completed":
                break
    assert event.response.output_text == "Hello."
    assert PHANTOM in upstream.asked()[0].raw_body.decode()
