"""Only looking: requests go through byte for byte, and what would have become of them is shown."""

import json
import threading

import pytest

from support.agents.apis import CLIENTS
from support.apis import BY_ID, printed
from support.mitm import eventually
from support.upstream.script import Text, ToolCall, turn

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
LOG = "\n".join(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(200))
TOOL = {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}


def messages(name, text):
    turns = printed(text, words=f"Which job is slow, of {name}?", ids="toolu_1")
    return BY_ID["anthropic-messages"].written(turns)


@pytest.fixture
def send(clients, api_key, upstream):
    def send(proxy, name, text, **headers):
        body = {"model": "claude-x", "max_tokens": 9, "tools": [TOOL], "messages": messages(name, text)}
        headers |= {"x-api-key": f"{api_key}-{name}", "anthropic-version": "2023-06-01"}
        url = "https://api.anthropic.com/v1/messages"
        response = clients.http(proxy).post(url, json=body, headers=headers)
        assert response.status_code == 200, response.text
        return upstream.asked()[-1], response.request.content

    return send


def test_nothing_is_changed_and_what_would_have_been_is_shown(own_proxy, send, upstream, tmp_path):
    events = tmp_path / "events.jsonl"
    options = {"penumbra_events": str(events), "penumbra_page_originals": "on"}
    proxy = own_proxy(penumbra_observe="true", **options)
    upstream.answers(turn(ToolCall("Bash", {})), turn(ToolCall("Bash", {})))
    got, came = send(proxy, "a", f"TOKEN={SECRET}\n{LOG}")
    assert got.raw_body == came
    assert eventually(lambda: events.exists() and events.read_text().endswith("\n"))
    event = json.loads(events.read_text().split("\n")[0])
    assert event["observed"]
    assert event["body_bytes"][1] < event["body_bytes"][0] / 2
    assert event["new"][0]["redactions"]
    assert eventually(lambda: "Penumbra would: api.anthropic.com" in proxy.log())
    assert SECRET not in proxy.log() + events.read_text()
    told = eventually(lambda: text if "\n  + " in (text := proxy.command("tests.explained")) else "")
    assert "would have been shortened by" in " ".join(told.split())
    # A word of one request's own asks for no more than that.
    got, came = send(proxy, "b", LOG, **{"X-Penumbra": "observe"})
    assert got.raw_body == came
    assert not any(name.lower() == "x-penumbra" for name, _ in got.headers)


def test_a_stream_arrives_as_it_is_made(own_proxy, clients, api_key, upstream):
    """Also that of the first request, which is worked out long after, and in a pause."""
    proxy = own_proxy(penumbra_observe="true")
    for pause in ("false", "true"):
        proxy.set("penumbra_pause", pause)
        gate = threading.Event()
        upstream.answers(turn(Text("One. Two.", deltas=("One. ", "Two.")), hold={CLIENTS[0].lead + 1: gate}))
        got = b""
        with CLIENTS[0].opened(clients.http(proxy), api_key) as response:
            for chunk in response.iter_raw():
                got += chunk
                if b"One. " in got:
                    gate.set()
        assert b"Two." in got


def test_one_request_may_be_looked_at_and_goes_without_its_secrets(own_proxy, send, upstream, tmp_path):
    events = tmp_path / "events.jsonl"
    proxy = own_proxy(penumbra_events=str(events))
    upstream.answers(turn(ToolCall("Bash", {})), turn(ToolCall("Bash", {})))
    got, _ = send(proxy, "c", f"TOKEN={SECRET}\n{LOG}", **{"X-Penumbra": "Observe"})
    assert got.body.count(b"worker idle") == 200
    assert SECRET.encode() not in got.body

    def both():
        lines = events.read_text().split("\n")[:-1] if events.exists() else []
        return {event["observed"]: event for event in map(json.loads, lines)} if len(lines) == 2 else {}

    seen = eventually(both)
    assert seen[True]["body_bytes"][1] < seen[False]["body_bytes"][1] / 2
    # What the provider has seen stays so: no form that was only thought of counts as sent.
    got, _ = send(proxy, "c", f"TOKEN={SECRET}\n{LOG}")
    assert got.body.count(b"worker idle") == 200
