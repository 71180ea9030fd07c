"""`penumbra_restore_secrets=edits`, over the official SDKs and a real mitmdump."""

from __future__ import annotations

from typing import Any

import pytest

from e2e_apis.callers import assert_prefix_kept
from e2e_expand.apis import APIS, Api, both_ways, every_api
from penumbra.redaction.placeholder import PATTERN
from redaction_wiring.disk import PATH, Disk, give_tools, made_calls
from redaction_wiring.planted import PASSWORD
from upstream import Received, ToolCall, turn

OPTIONS = {"penumbra_restore_secrets": "edits"}
BY_NAME = {api.name: api for api in APIS}
OTHER = "/repo/other.env"


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return give_tools(monkeypatch)


def mark(received: Received) -> str:
    found = PATTERN.search(received.body.decode())
    assert found, received.body
    return found[0]


def edit(received: Received) -> dict[str, Any]:
    line = f"DB_PASSWORD={mark(received)}"
    return {"file_path": PATH, "old_string": line, "new_string": f"{line}\nDB_NAME=[x]"}


def play(upstream: Any, *answers: Any, **delivery: Any) -> None:
    """Each answer: blocks, or a function that gives them for the request that arrived."""
    waiting = list(answers)

    def script(received: Received) -> Any:
        blocks = waiting.pop(0) if waiting else ("Done.",)
        blocks = blocks(received) if callable(blocks) else blocks
        return turn(*blocks, **delivery)

    upstream.script(script)


SESSION = (
    (ToolCall("Read", {"file_path": PATH}),),
    lambda received: ("I edit.", ToolCall("Edit", edit(received))),
    lambda received: (f"It is {mark(received)}.", ToolCall("Bash", {"command": f"echo {mark(received)}"})),
    ("Done.",),
)


@pytest.mark.parametrize("expand", ["true", "false"])
@both_ways
@every_api
def test_an_edit_gets_the_value_and_nothing_else_does(
    api: Api, stream: bool, expand: str, disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", penumbra_enable_expand_context=expand, **OPTIONS)
    play(upstream, *SESSION, delta=3)
    agent = api.caller(clients, running, api_key, False, stream=stream)
    assert agent.say("Add a name.") == "Done."
    assert disk.files[PATH] == f"DEBUG=true\nDB_PASSWORD={PASSWORD}\nDB_NAME=[x]\nPORT=80\n"
    requests = upstream.asked()
    assert [one.status for one in requests] == [200] * 4
    written = mark(requests[-1])
    assert disk.ran == [f"echo {written}"]
    said = str(agent.messages).replace("'}, {'text': '", "")
    assert f"It is {written}." in said
    for one in requests:
        assert PASSWORD.encode() not in one.body
    assert made_calls(requests[-1].json, "Edit") == [edit(requests[1])]
    assert_prefix_kept(requests)
    assert PASSWORD not in running.log()
