"""Modes, observing and pausing: each leaves parts alone, and conversations under way keep their form."""

import json
import os
import random
import signal
import threading
from typing import Any

import pytest

from support.agents.apis import CLIENTS
from support.agents.model import refs
from support.agents.raw import BASH, Conversation
from support.agents.requests import PHANTOM, result_texts, tool_names
from support.apis import BY_ID, printed
from support.mitm import eventually
from support.upstream.script import Text, ToolCall, turn

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
PRICED = {"penumbra_supersede": "priced", "penumbra_lossy": "on"}
"""Superseded results shrink in the next turn, since so little is cached nowhere."""


def listing(name: str, lines: int = 200) -> str:
    """Return some 8 KB in which nothing repeats."""
    chance = random.Random(name)
    return "\n".join(f"{name}{n:04} {chance.getrandbits(96):024x}" for n in range(lines))


def asks(talk: Conversation, mode: str = "") -> Any:
    """Send the next request, with a mode of its own; return it as the provider got it."""
    return talk.sent(**({"_forge": {"tool_output_compression": mode}} if mode else {}))[0]


@pytest.fixture
def talk(proxy: Any, clients: Any, api_key: str, upstream: Any) -> Any:
    def begin(**options: str) -> Conversation:
        return Conversation(clients.http(proxy("regular", **options)), api_key, upstream=upstream)

    return begin


def grown(talk: Conversation, mode: str) -> list[Any]:
    """Return the requests of a conversation in which the first result is superseded."""
    requests = []
    for text in (listing("first"), listing("second"), listing("third") + f"\ntoken: {SECRET}"):
        talk.prints(text, command="./list")
        requests.append(asks(talk, mode))
    return requests


@pytest.mark.parametrize(
    ("mode", "options"), [("disabled", PRICED), ("", {**PRICED, "penumbra_strategy": "passthrough"})]
)
def test_without_compression_there_is_neither_tool_nor_reference(
    mode: str, options: dict[str, str], talk: Any
) -> None:
    """Secrets are taken out all the same."""
    begun = talk(**options)
    requests = grown(begun, mode)
    sent = requests[0].json
    assert sent["tools"] == [BASH]
    assert sent["messages"] == begun.messages[:3]
    last = list(result_texts(requests[-1].json))
    assert last[:2] == [listing("first"), listing("second")]
    assert SECRET not in last[2]
    assert last[2].startswith(listing("third"))


def test_safe_mode_keeps_earlier_forms(talk: Any) -> None:
    begun = talk(**PRICED)
    last = grown(begun, "safe")[-1]
    assert list(result_texts(last.json))[:2] == [listing("first"), listing("second")]
    # The mode may truncate, so the model has the tool.
    assert PHANTOM in tool_names(last)


def test_standard_mode_refers_to_the_original_of_a_superseded_result(talk: Any) -> None:
    first = next(result_texts(grown(talk(**PRICED), "standard")[-1].json))
    assert first.startswith("<<<SHADOW:shadow_")
    assert "[tool_compaction]" in first


def test_an_unanswered_reference_is_removed_where_no_tool_can_be_declared(talk: Any) -> None:
    begun = talk()
    begun.prints(listing("long", 900))
    assert len(refs(asks(begun))) == 1
    sent = asks(begun, "disabled")
    assert sent.json["tools"] == [BASH]
    assert list(result_texts(sent.json)) == [listing("long", 900)]
    # The last form is final from now on.
    begun.prints("ok")
    assert next(result_texts(asks(begun).json)) == listing("long", 900)


def test_a_reference_that_was_answered_keeps_its_tool(talk: Any) -> None:
    begun = talk()
    begun.prints(listing("long", 900))
    first = asks(begun)
    begun.prints(listing("later", 900))
    second = asks(begun, "disabled")
    assert PHANTOM in tool_names(second)
    kept, later = result_texts(second.json)
    assert [kept] == list(result_texts(first.json))
    assert later == listing("later", 900)


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


def test_observing_changes_nothing_and_shows_the_possible_changes(own_proxy, send, upstream, tmp_path):
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
    found = eventually(lambda: text if "\n  + " in (text := proxy.command("tests.explained")) else "")
    assert "would have been shortened by" in " ".join(found.split())
    # The header of one request has the same effect.
    got, came = send(proxy, "b", LOG, **{"X-Penumbra": "observe"})
    assert got.raw_body == came
    assert not any(name.lower() == "x-penumbra" for name, _ in got.headers)


def test_a_stream_arrives_as_it_is_made(own_proxy, clients, api_key, upstream):
    """The response to the first request streams at once, although the request is evaluated later, and so does
    one during a pause."""
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


def test_one_request_may_be_observed_and_is_sent_without_its_secrets(own_proxy, send, upstream, tmp_path):
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
    # The provider has seen the raw form: a form that was only worked out does not count as sent.
    got, _ = send(proxy, "c", f"TOKEN={SECRET}\n{LOG}")
    assert got.body.count(b"worker idle") == 200


OFF = {"X-Penumbra": "off"}


@pytest.fixture
def paused_talk(own_proxy, clients, api_key, upstream):
    proxy = own_proxy("regular")

    def begin(name):
        return Conversation(clients.http(proxy), f"{api_key}-{name}", upstream=upstream)

    begin.proxy = proxy
    return begin


def test_a_pause_passes_all_but_secrets_and_keeps_earlier_forms(paused_talk):
    process = paused_talk.proxy.process.pid
    begun = paused_talk("begun")
    begun.calls(LOG)
    first, came = begun.sent()
    assert len(first.body) < len(came) / 2

    lossless = paused_talk("lossless")
    lossless.calls("one line")
    tools = json.loads(lossless.sent()[0].body)["tools"]
    assert [tool["name"] for tool in tools] == ["Bash", "expand_context"]

    os.kill(process, signal.SIGUSR1)
    assert eventually(lambda: "Penumbra pauses: only secrets" in paused_talk.proxy.log())
    fresh = paused_talk("fresh")
    fresh.calls(LOG)
    got, came = fresh.sent()
    assert got.body == came
    fresh.calls(f"token={SECRET}")
    got, came = fresh.sent()
    assert SECRET.encode() in came
    assert SECRET.encode() not in got.body
    assert LOG.split("\n")[7].encode() in got.body
    # The provider's cached prefix begins with the tools.
    assert json.loads(lossless.sent()[0].body)["tools"] == tools
    fresh.body["_forge"] = {"tool_output_compression": "aggressive"}
    fresh.calls(LOG)
    assert fresh.sent()[0].body.count(b"worker idle") == 400
    # The tool and the cached form stay.
    begun.calls(LOG.replace("worker", "waiter"))
    got, _ = begun.sent()
    shared = first.body[: first.body.index(b"]}", first.body.index(b"tool_result"))]
    assert got.body.startswith(shared)
    assert got.body.count(b"waiter idle") == 200

    os.kill(process, signal.SIGUSR1)
    assert eventually(lambda: "Penumbra has resumed." in paused_talk.proxy.log())
    again = paused_talk("again")
    again.calls(LOG)
    got, came = again.sent()
    assert len(got.body) < len(came) / 2

    # The header switches one request off, and is not forwarded.
    single = paused_talk("single")
    single.calls(LOG, OFF)
    got, came = single.sent(OFF)
    assert got.body == came
    assert "x-penumbra" not in got.headers
    refused = single.post({"X-Penumbra": "perhaps"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "X-Penumbra must be off or observe, got 'perhaps'"

    paused_talk.proxy.command("penumbra.pause")
    got, came = single.sent()
    assert got.body == came
    os.kill(process, signal.SIGUSR2)
    assert eventually(lambda: paused_talk.proxy.log().count("Penumbra has resumed.") == 2)
