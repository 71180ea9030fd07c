"""The off switch: what goes through while it is off, and what secrets and conversations under way need."""

import json
import os
import signal

import pytest

from support.agents.raw import Conversation
from support.mitm import eventually
from support.upstream.script import ToolCall, turn

OFF = {"X-Penumbra": "off"}
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
LOG = "\n".join(f"2026-01-01 00:00:{n % 60:02d} INFO worker idle, nothing to do" for n in range(200))


class Talk(Conversation):
    def __init__(self, upstream, *arguments):
        super().__init__(*arguments)
        self.upstream = upstream

    def calls(self, text, headers=None):
        """The model calls a tool, through the proxy, and the tool prints."""
        self.upstream.answers(turn(ToolCall("Bash", {"command": "docker logs worker"})))
        content = self.send(headers).json()["content"]
        self.messages.append({"role": "assistant", "content": content})
        self.printed((next(block["id"] for block in content if block["type"] == "tool_use"), text))

    def sent(self, headers=None, **more):
        """What the provider got, and what was meant for it."""
        response = self.send(headers, **more)
        return self.upstream.asked()[-1], response.request.content


@pytest.fixture
def talk(own_proxy, clients, api_key, upstream):
    proxy = own_proxy("regular")

    def begin(name):
        return Talk(upstream, clients.http(proxy), f"{api_key}-{name}")

    begin.proxy = proxy
    return begin


def test_a_pause_passes_what_comes_but_secrets_and_keeps_what_was_begun(talk):
    process = talk.proxy.process.pid
    begun = talk("begun")
    begun.calls(LOG)
    first, came = begun.sent()
    assert len(first.body) < len(came) / 2

    lossless = talk("lossless")
    lossless.calls("one line")
    tools = json.loads(lossless.sent()[0].body)["tools"]
    assert [tool["name"] for tool in tools] == ["Bash", "expand_context"]

    os.kill(process, signal.SIGUSR1)
    assert eventually(lambda: "Penumbra pauses: only secrets" in talk.proxy.log())
    fresh = talk("fresh")
    fresh.calls(LOG)
    got, came = fresh.sent()
    assert got.body == came
    fresh.calls(f"token={SECRET}")
    got, came = fresh.sent()
    assert SECRET.encode() in came
    assert SECRET.encode() not in got.body
    assert LOG.split("\n")[7].encode() in got.body
    # What the provider has cached begins with the tools.
    assert json.loads(lossless.sent()[0].body)["tools"] == tools
    fresh.body["_forge"] = {"tool_output_compression": "aggressive"}
    fresh.calls(LOG)
    assert fresh.sent()[0].body.count(b"worker idle") == 400
    # The tool, and the form that the provider has cached and bound.
    begun.calls(LOG.replace("worker", "waiter"))
    got, _ = begun.sent()
    shared = first.body[: first.body.index(b"]}", first.body.index(b"tool_result"))]
    assert got.body.startswith(shared)
    assert got.body.count(b"waiter idle") == 200

    os.kill(process, signal.SIGUSR1)
    assert eventually(lambda: "Penumbra goes on." in talk.proxy.log())
    again = talk("again")
    again.calls(LOG)
    got, came = again.sent()
    assert len(got.body) < len(came) / 2

    # One request for itself; the header does not go on.
    single = talk("single")
    single.calls(LOG, OFF)
    got, came = single.sent(OFF)
    assert got.body == came
    assert "x-penumbra" not in got.headers
    refused = single.post({"X-Penumbra": "perhaps"})
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == "X-Penumbra must be off or observe, got 'perhaps'"

    talk.proxy.command("penumbra.pause")
    got, came = single.sent()
    assert got.body == came
    os.kill(process, signal.SIGUSR2)
    assert eventually(lambda: talk.proxy.log().count("Penumbra goes on.") == 2)
