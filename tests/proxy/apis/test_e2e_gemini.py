"""Gemini: token counts, keys in queries, models in paths, responses that are objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.agents.agent import PRINTS, bash
from support.agents.apis import CLIENTS
from support.agents.model import CAP, COMMANDS, Model, ask
from support.agents.requests import PHANTOM
from support.upstream import turn

HOST = "https://generativelanguage.googleapis.com"
LOG = COMMANDS["cat worker.log"]
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
        # A count without tools can't know, before the request is there, what they will allow.
        ("countTokens", "generateContentRequest"),
    ],
)
def test_tokens_are_counted_of_what_is_sent(
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


def test_a_key_in_the_query_is_told_to_nobody_but_google(
    clients: Any, own_proxy: Any, upstream: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, key = tmp_path / "events.jsonl", "AIzaSyQueryKeyOfATest0123456789abcdefg"
    monkeypatch.setitem(PRINTS, "cat worker.log", LOG)
    running = own_proxy("regular", penumbra_max_output_bytes=CAP, penumbra_events=str(path))
    (array,) = (api for api in CLIENTS if api.name == "gemini-array")
    upstream.script(Model(turn(bash("cat worker.log")), ask("Hm."), turn("NEEDLE-90.")))
    array.caller(clients, running, key, False, stream=True).say("What is in the log?")
    assert {request.status for request in upstream.asked()} == {200}
    assert all(f"key={key}" in request.target for request in upstream.asked())
    told = json.dumps([[flow["comment"], flow["metadata"]] for flow in running.flows()])
    running.stop()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    assert {event["event"] for event in events} == {"request", "expansion"}
    assert {event["model"] for event in events if event["event"] == "request"} == {MODEL}
    for text in (told, path.read_text(), running.log()):
        assert key not in text
    assert not [
        file for file in running.state.rglob("*") if file.is_file() and key.encode() in file.read_bytes()
    ]


def test_the_shape_of_an_object_stays(clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    """Texts become shorter where they stand, and a member's name tells what its value is."""
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
