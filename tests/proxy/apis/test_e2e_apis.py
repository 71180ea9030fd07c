"""Behaviour of single APIs, over their official SDKs and a real mitmdump."""

import hashlib
import json
from typing import Any

import pytest

from support.agents.agent import PRINTS, SESSION, bash
from support.agents.apis import BY_NAME, Client, both_ways, every_sdk
from support.agents.model import CAP, COMMANDS, Model, ask, expand, refs
from support.agents.requests import PHANTOM, assert_prefix_kept, hidden_results, results
from support.upstream import Thinking, turn

LOG = COMMANDS["cat worker.log"]


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, printed in COMMANDS.items():
        monkeypatch.setitem(PRINTS, command, printed)


@pytest.fixture
def start(clients: Any, api_key: str, proxy: Any) -> Any:
    def start(name: str, addon: bool = True, **more: Any) -> Any:
        options = {"penumbra_max_output_bytes": CAP} if addon else {}
        running = proxy("regular", addon=addon, **options)
        return BY_NAME[name].caller(clients, running, api_key, False, **more)

    return start


@both_ways
@every_sdk
def test_same_conversation_in_fewer_bytes(api: Client, stream: bool, start: Any, upstream: Any) -> None:
    upstream.answers(*SESSION)
    plain = start(api.name, addon=False, stream=stream)
    plain.say("Why does the total test fail?")
    sent = upstream.asked()[-1]
    upstream.reset()
    upstream.answers(*SESSION)
    ours = start(api.name, stream=stream)
    ours.say("Why does the total test fail?")
    assert upstream.statuses() == {200}
    assert ours.messages == plain.messages
    assert_prefix_kept(upstream.asked())
    before, after = (sum(len(text) for _, text in results(one.json)) for one in (sent, upstream.asked()[-1]))
    assert after < 0.7 * before


def test_gemini_calls_without_ids(start: Any, upstream: Any) -> None:
    """Neither the provider nor the client sends ids."""
    for stream, given in ((False, False), (True, False), (True, True)):
        upstream.gemini.call_ids = given
        upstream.script(
            Model(
                turn(bash("cat worker.log")),
                lambda received: turn(expand(refs(received)[0]), bash("ls"), bash("ls")),
                ask("Again.", pattern="NEEDLE"),
                turn("Done."),
            )
        )
        agent = start("gemini", stream=stream, ids=False)
        assert agent.say("What is in the log?").endswith("Done.")
        upstream.script(Model(turn(bash("ls")), turn("Bye.")))
        agent.say("Go on.")
        assert upstream.statuses() == {200}
        assert len(hidden_results(upstream.asked()[-1])) == 2


@both_ways
def test_responses_with_the_history_at_the_provider(
    stream: bool, start: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = "\n".join(hashlib.sha256(bytes([n])).hexdigest() for n in range(150))
    monkeypatch.setitem(PRINTS, "cat worker.log", noise)
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Hm."), "Let me see."),
            lambda received: turn("Both.", bash("cat db.log"), expand("shadow_999999999999999999")),
            turn(Thinking("So."), "Done."),
        )
    )
    agent = start("responses", stream=stream, at_provider=True)
    assert agent.say("What is in the log?") == "Done."
    assert upstream.statuses() == {200}
    assert PHANTOM not in str(agent.messages)
    kept = list(upstream.asked())
    upstream.script(Model(turn(bash("ls")), turn("Bye.")))
    assert agent.say("Go on.") == "Bye."
    assert upstream.statuses() == {200}
    assert [len(one.json["input"]) for one in upstream.asked()[-2:]] == [1, 1]
    given = [text for one in kept for _, text in results(one.json)]
    assert noise in given
    assert any("not available any more" in text for text in given)


def test_a_websocket_is_sent_back_to_http(clients: Any, proxy: Any, upstream: Any) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    key = {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
    client = clients.http(proxy("regular", penumbra_websocket="downgrade"))
    answer = client.get("https://api.openai.com/v1/responses", headers=headers | key)
    assert answer.status_code == 426
    assert answer.json()["error"]["code"] == "upgrade_required"
    assert upstream.requests == []
    assert client.get("https://api.openai.com/v1/models", headers={"authorization": "x"}).status_code == 200


HOST = "https://generativelanguage.googleapis.com"
MODEL = "gemini-2.5-pro"


def contents(response: Any) -> list[Any]:
    call = {"name": "Bash", "args": {"command": "cat worker.log"}}
    return [
        {"role": "user", "parts": [{"text": "What is in the log?"}]},
        {"role": "model", "parts": [{"functionCall": call}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "Bash", "response": response}}]},
    ]


@pytest.mark.parametrize(
    ("first", "wrapper"),
    [
        ("generateContent", ""),
        ("generateContent", "generateContentRequest"),
        # A count without tools can't know which tools the request will declare.
        ("countTokens", "generateContentRequest"),
    ],
)
def test_tokens_of_the_forwarded_request_are_counted(
    first: str, wrapper: str, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_adopt="compress")
    tools = [{"functionDeclarations": [{"name": "Bash", "parameters": {"type": "object"}}]}]
    body = {"contents": contents({"output": LOG}), "tools": tools}
    counting = {wrapper: {"model": f"models/{MODEL}", **body}} if wrapper else {"contents": body["contents"]}
    bodies = {"countTokens": counting, "generateContent": body}
    for way in sorted(bodies, key=lambda way: way != first):
        url = f"{HOST}/v1beta/models/{MODEL}:{way}"
        headers = {"x-goog-api-key": api_key}
        answer = clients.http(running).post(url, json=bodies[way], headers=headers)
        assert answer.status_code == 200
    by_way = {received.path.rpartition(":")[2]: received.json for received in upstream.requests}
    counted = by_way["countTokens"].get(wrapper, by_way["countTokens"])
    assert counted["contents"] == by_way["generateContent"]["contents"]
    assert len(json.dumps(counted["contents"])) < len(LOG)
    assert PHANTOM in json.dumps(by_way["generateContent"]["tools"])
    assert PHANTOM not in json.dumps(by_way["countTokens"].get("tools"))


def test_a_key_in_the_query_goes_to_google_alone(
    clients: Any, own_proxy: Any, upstream: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = tmp_path / "events.jsonl", "AIzaSyQueryKeyOfATest0123456789abcdefg"
    monkeypatch.setitem(PRINTS, "cat worker.log", LOG)
    running = own_proxy("regular", penumbra_max_output_bytes=CAP, penumbra_events=str(path))
    upstream.script(Model(turn(bash("cat worker.log")), ask("Hm."), turn("NEEDLE-90.")))
    BY_NAME["gemini-array"].caller(clients, running, key, False, stream=True).say("What is in the log?")
    assert upstream.statuses() == {200}
    assert all(f"key={key}" in request.target for request in upstream.asked())
    found = json.dumps([[flow["comment"], flow["metadata"]] for flow in running.flows()])
    running.stop()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert {event["event"] for event in events} == {"request", "expansion"}
    assert {event["model"] for event in events if event["event"] == "request"} == {MODEL}
    for text in (found, path.read_text(), running.log()):
        assert key not in text
    assert not [
        file for file in running.state.rglob("*") if file.is_file() and key.encode() in file.read_bytes()
    ]


def test_the_shape_of_an_object_stays(clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    """Texts are shortened in place, and members keep their names."""
    running = proxy("regular", penumbra_adopt="compress")
    response = {
        "exit": 1.10,
        "user": {"login": "anna", "password": "Tr0ub4dor-and-3"},
        "rows": [{"log": PRINTS["docker compose logs worker"], "ok": True}, None],
    }
    body = json.dumps({"contents": contents(response)}).replace("1.1", "1.10")
    headers = {"x-goog-api-key": api_key, "content-type": "application/json"}
    url = f"{HOST}/v1beta/models/{MODEL}:generateContent"
    clients.http(running).post(url, content=body, headers=headers)
    (received,) = upstream.asked()
    assert b'"exit": 1.10' in received.body
    sent = received.json["contents"][2]["parts"][0]["functionResponse"]["response"]
    assert sent["user"]["login"] == "anna"
    assert b"Tr0ub4dor" not in received.body
    log = sent["rows"][0].pop("log")
    assert len(log) < len(PRINTS["docker compose logs worker"])
    assert "ERROR queue closed" in log
    assert sent["rows"] == [{"ok": True}, None]
