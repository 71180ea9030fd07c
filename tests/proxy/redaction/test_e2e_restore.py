"""`penumbra_restore_secrets=edits`, over the official SDKs and a real mitmdump."""

import json
from typing import Any

import pytest

from penumbra.expand import reference
from penumbra.redaction.placeholder import PATTERN
from support.agents.apis import BY_NAME, Client, both_ways, every_api
from support.agents.disk import OPTIONS, PATH, Disk, give_tools, made_calls, mark, play
from support.agents.requests import assert_prefix_kept
from support.apis import BY_ID, printed
from support.planted import PASSWORD
from support.upstream import Raw, Received, Thinking, ToolCall, turn

OTHER = "/repo/other.env"
TRANSCRIPT = (
    f">>> TRANSCRIPT START\n[1] tool result: API_PASSWORD={'kW7x-' + 'Qn3vTz8pLm'}\n>>> TRANSCRIPT END\n"
)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return give_tools(monkeypatch)


def edit(received: Received) -> dict[str, Any]:
    line = f"DB_PASSWORD={mark(received)}"
    return {"file_path": PATH, "old_string": line, "new_string": f"{line}\nDB_NAME=[x]"}


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
    api: Client, stream: bool, expand: str, disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
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
    assert (reference.EDITING_LEGEND.encode() in requests[0].body) == (expand == "true")


def start(name: str, clients: Any, running: Any, api_key: str, **more: Any) -> Any:
    return BY_NAME[name].caller(clients, running, api_key, False, **more)


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate"])
@pytest.mark.parametrize("name", ["anthropic", "responses"])
def test_answers_with_a_content_coding(
    name: str, encoding: str, disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    for number, expand in enumerate(("true", "false")):
        running = proxy("regular", penumbra_enable_expand_context=expand, **OPTIONS)
        for stream in (False, True):
            play(upstream, *SESSION[:2], encoding=encoding, split=11)
            before = dict(disk.files)
            start(name, clients, running, f"{api_key}{number}{stream}", stream=stream).say("Add a name.")
            assert disk.files[PATH].count("DB_NAME") == 1
            assert upstream.asked()[-1].status == 200
            disk.files.update(before)


def test_bound_thinking_stays_valid(
    disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """The test provider refuses thinking whose prefix has changed."""
    running = proxy("regular", **OPTIONS)
    for stream in (False, True):
        upstream.reset()
        play(
            upstream,
            (Thinking("Look."), *SESSION[0]),
            lambda received: (Thinking("Edit."), ToolCall("Edit", edit(received))),
            (Thinking("Look again."), ToolCall("Read", {"file_path": PATH})),
            (Thinking("Good."), "Done."),
        )
        disk.files = Disk().files
        agent = start("anthropic", clients, running, f"{api_key}{stream}", stream=stream, thinking=True)
        assert agent.say("Add a name.") == "Done."
        assert "DB_NAME" in disk.files[PATH]
        assert [one.status for one in upstream.asked()] == [200] * 4
        assert_prefix_kept(upstream.asked())


def test_not_into_other_files(disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", **OPTIONS)
    running.command("tests.forget")
    disk.files[OTHER] = "nothing"
    play(
        upstream,
        (ToolCall("Read", {"file_path": PATH}), ToolCall("Read", {"file_path": OTHER})),
        lambda received: (ToolCall("Write", {"content": f"K={mark(received)}", "file_path": OTHER}),),
    )
    start("anthropic", clients, running, api_key, stream=True).say("Copy it.")
    assert PATTERN.fullmatch(disk.files[OTHER].removeprefix("K="))
    assert [flow["marked"] for flow in running.flows()].count(":warning:") == 1


def test_not_for_other_conversations(
    disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """Equal values have equal placeholders, so a caller who knows one can make a model write it."""
    running = proxy("regular", **OPTIONS)
    play(upstream, *SESSION[:2])
    start("anthropic", clients, running, api_key).say("Add a name.")
    written = mark(upstream.asked()[-1])
    disk.files[PATH] = "mine"
    for key, words in ((api_key, "Another conversation."), (f"{api_key} other", "Add a name.")):
        arguments = {"file_path": PATH, "content": written}
        play(upstream, (ToolCall("Write", arguments),))
        headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        body = BY_NAME["anthropic"].body(f"{words} {written}", False)
        answer = clients.http(running).post(
            "https://api.anthropic.com/v1/messages", json=body, headers=headers
        )
        assert answer.json()["content"][0]["input"] == arguments


def test_off_by_default(disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    play(upstream, *SESSION[:2])
    start("anthropic", clients, proxy("regular"), api_key).say("Add a name.")
    assert "DB_NAME" not in disk.files[PATH]


def cleared(messages: Any) -> None:
    """Remove the text of the first result, as clients do to make room."""
    content = messages[2]["content"]
    if messages[2]["role"] == "tool":
        messages[2]["content"] = "[cleared]"
    else:
        content[0]["content"] = "[cleared]"


@pytest.mark.parametrize("name", ["anthropic", "chat"])
@pytest.mark.parametrize("change", ["nothing", "cleared", "off"])
def test_after_a_restart(
    name: str, change: str, disk: Disk, clients: Any, api_key: str, own_proxy: Any, upstream: Any
) -> None:
    """The memory of values is gone; a value that was put back is still taken out, to the very bytes."""
    running = own_proxy("regular", **OPTIONS)
    play(upstream, *SESSION[:2], ("One.",), ("Two.",))
    agent = start(name, clients, running, api_key, stream=True)
    agent.say("Add a name.")
    assert "DB_NAME" in disk.files[PATH]
    running.restart(**({"penumbra_restore_secrets": "off"} if change == "off" else {}))
    if change == "cleared":
        cleared(agent.messages)
    again = start(name, clients, running, api_key, stream=True)
    again.messages = agent.messages
    again.say("And now?")
    requests = upstream.asked()
    assert len(requests) == 4
    assert PASSWORD.encode() not in b"".join(one.body for one in requests)
    assert made_calls(requests[-1].json, "Edit") == [edit(requests[1])]
    if change != "cleared":
        assert_prefix_kept(requests)
    state = b"".join(path.read_bytes() for path in running.state.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in state
    assert len(state) > 10_000


@pytest.mark.parametrize("opening", ["Add a name.", TRANSCRIPT], ids=["plain", "with a secret"])
def test_a_restart_between_an_edit_and_its_result(
    opening: str, clients: Any, api_key: str, own_proxy: Any, upstream: Any
) -> None:
    """The next request has the value in its call alone, and its beginning identifies the conversation."""
    running = own_proxy("regular", **OPTIONS)
    headers = {"authorization": f"Bearer {api_key}"}
    url = "https://api.openai.com/v1/chat/completions"
    messages = BY_ID["openai-chat"].written(
        printed(
            f"DB_PASSWORD={PASSWORD}\nA=1\n",
            words=opening,
            tool="Read",
            ids="call_1",
            arguments=lambda _: {"file_path": PATH},
        )
    )
    properties = {name: {"type": "string"} for name in ("file_path", "old_string", "new_string")}
    function = {"name": "Edit", "parameters": {"type": "object", "properties": properties}}
    body = {"model": "m", "messages": messages, "tools": [{"type": "function", "function": function}]}

    def call_of_edit(received: Received) -> tuple[ToolCall]:
        written = PATTERN.findall(received.json["messages"][-1]["content"])[0]
        return (ToolCall("Edit", {"file_path": PATH, "old_string": written, "new_string": "x"}),)

    play(upstream, call_of_edit)
    message = clients.http(running).post(url, json=body, headers=headers).json()["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert json.loads(call["function"]["arguments"])["old_string"] == PASSWORD
    running.restart()
    messages[-1]["content"] = "[cleared]"
    messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "ok"}]
    assert clients.http(running).post(url, json=body, headers=headers).status_code == 200
    assert PASSWORD.encode() not in upstream.asked()[-1].body


def test_arguments_that_the_client_changes(
    disk: Disk, clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """Some clients tidy arguments before they send them back; the value is taken out all the same."""
    running = proxy("regular", **OPTIONS)
    play(upstream, *SESSION[:2], ("One.",), ("Two.",), ("Three.",))
    agent = start("anthropic", clients, running, api_key)
    agent.say("Add a name.")
    call = agent.messages[3]["content"][-1]["input"]
    call |= {
        "new_string": call["new_string"].upper().replace(PASSWORD.upper(), PASSWORD),
        "replace_all": False,
    }
    agent.say("And now?")
    agent.say("And then?")
    *_, third, fourth = upstream.asked()
    assert PASSWORD.encode() not in third.body + fourth.body
    assert fourth.json["messages"][: len(third.json["messages"])] == third.json["messages"]
    assert made_calls(third.json, "Edit")[0]["new_string"].startswith(f"DB_PASSWORD={mark(third)}")


def apply_patch(received: Received) -> bytes:
    """Return a freeform call, as the API streams it."""
    line = f"DB_PASSWORD={mark(received)}"
    patch = f"*** Begin Patch\n*** Update File: .env\n@@\n-{line}\n+{line} # [x]\n*** End Patch\n"
    item = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": "call_p",
        "name": "apply_patch",
        "input": patch,
    }
    at = {"output_index": 0, "item_id": "ctc_1"}
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "tools": [],
        "output": [],
    }
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "status": "in_progress"}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
    events.append({"type": "response.output_item.added", **at, "item": {**item, "input": ""}})
    for start_ in range(0, len(patch), 5):
        delta = patch[start_ : start_ + 5]
        events.append({"type": "response.custom_tool_call_input.delta", **at, "delta": delta})
    events.append({"type": "response.custom_tool_call_input.done", **at, "input": patch})
    events.append({"type": "response.output_item.done", **at, "item": item})
    events.append(
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [item]}}
    )
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in numbered)


@pytest.mark.parametrize("expand", ["true", "false"])
def test_a_patch_of_codex(expand: str, clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    """Codex reads with a shell in a folder of its own, and names the file within a patch."""
    running = proxy("regular", penumbra_enable_expand_context=expand, **OPTIONS)
    client = clients.openai(running)
    where = "<environment_context>\n  <cwd>/repo</cwd>\n</environment_context>"
    shell = json.dumps({"command": ["bash", "-lc", "cat .env"], "workdir": "/repo"})
    tools = [
        {"type": "function", "name": "shell", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "apply_patch"},
    ]
    items: list[Any] = [
        {"role": "user", "content": where},
        {"type": "function_call", "call_id": "call_s", "name": "shell", "arguments": shell},
        {"type": "function_call_output", "call_id": "call_s", "output": f"A=1\nDB_PASSWORD={PASSWORD}\n"},
    ]
    kind = (("content-type", "text/event-stream"),)
    upstream.script(lambda received: Raw(200, kind, apply_patch(received)))
    request = {"model": "m", "tools": tools, "store": False, "extra_headers": {"session_id": api_key}}
    deltas, final = "", None
    for event in client.responses.create(stream=True, input=items, **request):
        deltas += event.delta if event.type == "response.custom_tool_call_input.delta" else ""
        final = event.response if event.type == "response.completed" else final
    assert final is not None
    call = final.output[0]
    assert call.input == deltas
    assert f"-DB_PASSWORD={PASSWORD}\n+DB_PASSWORD={PASSWORD} # [x]\n" in call.input
    items += [
        json.loads(call.to_json(exclude_none=True)),
        {"type": "custom_tool_call_output", "call_id": "call_p", "output": "ok"},
    ]
    upstream.script(lambda received: turn("Done."))
    client.responses.create(input=items, **request)
    first, second = upstream.asked()
    assert [first.status, second.status] == [200, 200]
    assert PASSWORD.encode() not in first.body + second.body
    assert second.json["input"][: len(items) - 2] == first.json["input"]
    assert second.json["input"][3]["input"] == call.input.replace(PASSWORD, mark(first))
