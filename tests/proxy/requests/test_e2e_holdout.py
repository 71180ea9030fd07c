"""Conversations held out: byte for byte as they came, in their arm over a restart, and counted beside the others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.store import trial
from penumbra.store.key_file import installation_key
from support.agents.agent import AnthropicAgent, bash
from support.agents.websocket_caller import opened
from support.mitm import eventually
from support.upstream.script import turn

ASKED = '{"role":"user", "content":"Which job is slow?"}'
CALLED = (
    '{"type":"function_call", "call_id":"call_1", "name":"shell", "arguments":"{}"}, '
    '{"type":"function_call_output", "call_id":"call_1", "output":"' + "idle, nothing to do\\\\n" * 300 + '"}'
)
USAGE = {"input_tokens": 400, "cache_read_input_tokens": 1_000, "cache_creation_input_tokens": 0}


class Talker:
    """An agent of the SDK, in a conversation that its requests name."""

    def __init__(self, clients: Any, proxy: Any, upstream: Any, name: str) -> None:
        self._upstream = upstream
        client = clients.anthropic(proxy)
        self.came: list[bytes] = []
        client._client.event_hooks["request"].append(lambda request: self.came.append(request.content))
        headers = {"x-claude-code-session-id": name}
        self._agent = AnthropicAgent(client, stream=name.endswith("1"), extra={"extra_headers": headers})

    def goes_on(self, clients: Any, proxy: Any) -> None:
        """Through a proxy that was started again."""
        client = clients.anthropic(proxy)
        client._client.event_hooks["request"].append(lambda request: self.came.append(request.content))
        self._agent.client = client

    def works(self) -> list[Any]:
        """What the provider gets while a tool runs twice."""
        call = bash("docker compose logs worker")
        self._upstream.answers(
            *(turn(*said, usage=USAGE) for said in ([call], [bash("pytest -v")], ["Done."]))
        )
        before = len(self._upstream.asked())
        self._agent.say("Which job is slow?")
        return list(self._upstream.asked()[before:])

    def as_it_came(self, requests: list[Any]) -> bool:
        return [each.raw_body for each in requests] == self.came[-len(requests) :]


@pytest.fixture
def talker(clients: Any, upstream: Any) -> Any:
    return lambda proxy, name: Talker(clients, proxy, upstream, name)


def test_both_arms_over_a_restart(
    own_proxy: Any, talker: Any, clients: Any, upstream: Any, tmp_path: Any
) -> None:
    events = tmp_path / "events.jsonl"
    proxy = own_proxy("reverse", penumbra_holdout="50%", penumbra_events=str(events))

    def arm() -> str:
        eventually(lambda: events.exists() and events.read_text().endswith("\n"))
        return str(json.loads(events.read_text().splitlines()[-1])["arm"])

    arms: dict[str, Talker] = {}
    for number in range(40):
        made = talker(proxy, f"conversation {number}")
        requests = made.works()
        held_out = made.as_it_came(requests)
        assert eventually(lambda: arm() == ("held out" if held_out else "shortened"))  # noqa: B023
        arms.setdefault(arm(), made)
        if len(arms) == 2:
            break
    assert set(arms) == {"held out", "shortened"}
    assert "50% of new conversations held out" in proxy.log()

    # Over a restart, and whatever becomes of the option.
    proxy.restart(penumbra_holdout="100%")
    for name, made in arms.items():
        made.goes_on(clients, proxy)
        requests = made.works()
        assert made.as_it_came(requests) == (name == "held out")
        tools = [tool["name"] for tool in json.loads(requests[-1].body)["tools"]]
        assert tools == ["Bash", "Read", *(["expand_context"] if name == "shortened" else [])]
        assert arm() == name
    later = talker(proxy, "begun later")
    assert later.as_it_came(later.works())

    # The same of a WebSocket, whose responses count though nothing of them is held back.
    frame = '{"type" : "response.create", "model":"gpt-5.5", "prompt_cache_key":"socket", "tools":[%s], "input":[%s]}'
    tool = '{"type":"function", "name":"shell", "parameters":{}}'
    with opened(proxy, "sk-1") as socket:
        for said in (ASKED, f"{ASKED}, {CALLED}"):
            socket.send(frame % (tool, said))
            while '"type": "response.completed"' not in socket.recv(30):
                pass
            assert upstream.asked()[-1].raw_body.decode() == frame % (tool, said)

    proxy.stop()
    store = next(proxy.home.rglob("penumbra.sqlite"))
    rows = trial.read_file(store, installation_key(store.with_suffix(".key")))
    longest = {
        record["arm"]: record for _, record in sorted(rows.items(), key=lambda row: row[1]["requests"])
    }
    for record in longest.values():
        assert (record["requests"], record["responses"]) == (6, 6)
        assert (record["uncached"], record["cached"]) == (6 * 400, 6 * 1_000)
        assert record["new_results"] >= 2
        assert record["dollars"] > 0
        assert record["waited"] > 0
