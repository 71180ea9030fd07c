"""Hidden requests that don't fit or fail for good: the model gets less with exact numbers, and the client
gets no sign."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.agents.agent import PRINTS, bash
from support.agents.apis import BY_NAME, CLIENTS, Client, both_ways, every_api
from support.agents.model import Model, expand, log, refs, seen
from support.agents.requests import PHANTOM, assert_prefix_kept, hidden_results
from support.mitm import eventually
from support.upstream import Fault, Received, Text, Thinking, turn


def _anthropic(events: list[Any]) -> list[Any]:
    blocks: dict[int, dict[str, Any]] = {}
    closed: set[int] = set()
    for event in events:
        index = event.get("index", -1)
        if event["type"] == "content_block_start":
            blocks[index] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            for key, value in event["delta"].items():
                if key in ("text", "thinking", "signature"):
                    blocks[index][key] = blocks[index].get(key, "") + value
                elif key == "partial_json":
                    blocks[index]["json"] = blocks[index].get("json", "") + value
        elif event["type"] == "content_block_stop":
            closed.add(index)
    kept = [block for index, block in blocks.items() if block["type"] == "text" or index in closed]
    for block in kept:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("json", "") or "{}")
    return _message("assistant", "content", [block for block in kept if block.get("text") != ""])


def _converse(events: list[Any]) -> list[Any]:
    blocks: dict[int, dict[str, Any]] = {}
    for event in events:
        delta, index = event.get("delta") or {}, event.get("contentBlockIndex", -1)
        if "text" in delta:
            block = blocks.setdefault(index, {"text": ""})
            block["text"] += delta["text"]
        for key, value in (delta.get("reasoningContent") or {}).items():
            block = blocks.setdefault(index, {"reasoningContent": {"reasoningText": {"text": ""}}})
            said = block["reasoningContent"]["reasoningText"]
            said[key] = said.get(key, "") + value
    kept = [
        block
        for block in blocks.values()
        if "reasoningContent" not in block or "signature" in block["reasoningContent"]["reasoningText"]
    ]
    return _message("assistant", "content", kept)


def _gemini(values: list[Any]) -> list[Any]:
    contents = (
        candidate.get("content") or {} for value in values for candidate in value.get("candidates", ())
    )
    parts = [part for content in contents for part in content.get("parts", ()) if part != {"text": ""}]
    return _message("model", "parts", [part for part in parts if "functionCall" not in part])


def _responses(events: list[Any]) -> list[Any]:
    """Return the items that were done, without their ids, as Codex keeps them."""
    items = [event["item"] for event in events if event.get("type") == "response.output_item.done"]
    return [
        {key: value for key, value in item.items() if key != "id" or item["type"] == "reasoning"}
        for item in items
    ]


def _message(role: str, key: str, content: Any) -> list[Any]:
    return [{"role": role, key: content}] if content else []


def kept(api: Client, content: bytes) -> list[Any]:
    """Return the messages that a client would send again."""
    values = api.events(content)
    special: dict[str, Callable[[list[Any]], list[Any]]] = {
        "anthropic": _anthropic,
        "converse": _converse,
        "responses": _responses,
        "gemini": _gemini,
        "gemini-array": _gemini,
    }
    if (read := special.get(api.name)) is not None:
        return read(values)
    return _message("assistant", "content", "".join(map(api.says, values)))


LOG = log("big", 380)
HEAD = re.compile(r"\[Lines 1-(\d+) of 380\]\n")


@pytest.fixture(autouse=True)
def big_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that is larger than the context, and smaller than a page."""
    monkeypatch.setitem(PRINTS, "cat big.log", LOG)


def exact(text: str) -> int:
    """Return the number of lines in a portion, and assert that these are exactly the lines in its heading."""
    found = HEAD.match(text)
    assert found, text[:80]
    body, _, rest = text[found.end() :].rpartition(
        "[Little room is left in this conversation: ask for `lines`"
    )
    assert body == "".join(LOG.splitlines(keepends=True)[: int(found[1])])
    assert f'lines="{int(found[1]) + 1}-380"' in rest
    return int(found[1])


def tokens(received: Received) -> int:
    return len(json.dumps(received.json, ensure_ascii=False)) // 4


def asks(upstream: Any, space: int) -> Any:
    """Return a step that asks for the first reference, after which so many more tokens fit."""

    def step(received: Received) -> Any:
        upstream.window = tokens(received) + space
        return turn("See.", expand(refs(received)[0]))

    return step


@both_ways
@every_api
def test_an_original_is_cut_to_what_fits(api: Client, stream: bool, start: Any, upstream: Any) -> None:
    upstream.script(Model(turn(bash("cat big.log")), asks(upstream, 1_500), turn("Done.")))
    caller = start(api, stream=stream)
    assert caller.say("What is in the log?").endswith("Done.")
    assert [request.status for request in upstream.asked()[:3]] == [200, 200, 400]
    assert 4 <= len(upstream.asked()) <= 5
    sizes = [len(request.body) for request in upstream.asked()[2:]]
    assert sizes == sorted(set(sizes), reverse=True)
    (text,) = hidden_results(upstream.asked()[-1])
    assert 20 < exact(text) < 380
    assert PHANTOM not in seen(caller.messages)
    assert_prefix_kept([request for request in upstream.asked() if request.status == 200])
    upstream.window = 0
    upstream.script(Model(turn(bash("ls")), turn("So.")))
    assert caller.say("Go on.") == "So."
    assert hidden_results(upstream.asked()[-1]) == [text]


@every_api
def test_nothing_fits(api: Client, start: Any, upstream: Any) -> None:
    """The model gets a text about it and continues."""
    upstream.script(Model(turn(bash("cat big.log")), asks(upstream, 180), turn("Then without.")))
    caller = start(api, stream=True)
    assert caller.say("What is in the log?").endswith("Then without.")
    assert len(upstream.asked()) <= 6
    (text,) = hidden_results(upstream.asked()[-1])
    assert text.startswith("Not given: this does not fit")
    assert "`pattern`" in text


def test_a_refusal_in_a_stream_that_has_begun(start: Any, upstream: Any) -> None:
    upstream.refuses_late = True
    upstream.script(Model(turn(bash("cat big.log")), asks(upstream, 1_500), turn("Done.")))
    caller = start(BY_NAME["responses"], stream=True)
    assert caller.say("What is in the log?").endswith("Done.")
    assert [bool(request.problem) for request in upstream.asked()] == [False, False, True, True, False]
    (text,) = hidden_results(upstream.asked()[-1])
    assert exact(text)


SHOWN = {
    "words": (Thinking("Hm, let me see."), Text("One moment.")),
    "thinking": (Thinking("Hm, let me see."),),
}
FAULTS = {
    "refused": Fault(500, "broken"),
    **{
        f"cut-{at}": turn(
            Thinking("So it is."), Text("Half", deltas=("Ha", "lf")), bash("ls"), delta=5, cut_after=at
        )
        for at in (3, 7, 9, 12, 15)
    },
    "error": turn(Thinking("So it is."), Text("Half", deltas=("Ha", "lf")), error_after=9, delta=5),
}


@pytest.mark.parametrize("shown", SHOWN)
@every_api
def test_the_client_continues_from_a_response_that_broke_off(
    api: Client, shown: str, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    client = clients.http(running)
    for number, (name, fault) in enumerate(FAULTS.items()):
        body = api.body(f"What is there, {number}?", True)
        if api.name == "responses":
            body["include"] = ["reasoning.encrypted_content"]
        if api.name == "anthropic":
            body["thinking"] = {"type": "adaptive"}
        post = {"url": api.host + api.path(True), "headers": api.headers(api_key)}
        upstream.script(Model(turn(*SHOWN[shown], expand("shadow_1")), fault, fault, fault))
        content, broke = api.arrived(client, api_key, **body)
        # A stream with fewer events than the cut waits for ends normally.
        assert broke is (name != "error" and api.ends not in content)
        assert PHANTOM.encode() not in content
        # The client sends the same request again, then the failed answer with it, and a new prompt.
        key, left = api.api.member, kept(api, content)
        if api.name in ("responses", "gemini", "gemini-array"):
            upstream.script(Model(turn("Again.")))
            again = client.post(json={**body, key: [*body[key], *left]}, **post)
            assert again.status_code == 200, (name, again.content)
            later = [*body[key], *left, *kept(api, again.content), api.api.write(("user", "And now?"))]
            upstream.script(Model(turn("Now.")))
            assert client.post(json={**body, key: later}, **post).status_code == 200, name
        upstream.script(Model(turn("Done.")))
        went_on = client.post(
            json={**body, key: [*body[key], *left, api.api.write(("user", "Go on."))]}, **post
        )
        assert went_on.status_code == 200, (name, went_on.content, left)
        assert api.text(went_on.content) == "Done."
        if name == "refused" and left:
            # The result of the original is still in the history.
            assert PHANTOM in str(upstream.asked()[-1].json[key]), name


@both_ways
def test_prompts_are_compared_with_that_of_the_last_turn(
    stream: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """A client that asks why its prompt was not in the cache names the response that it got."""
    api, client = CLIENTS[0], clients.http(running)
    body = {**api.body("What is there?", stream), "diagnostics": {"previous_message_id": None}}
    post = {"url": api.host + api.path(stream), "headers": api.headers(api_key)}
    upstream.script(Model(turn(Text("One moment."), expand("shadow_1")), turn("Done.")))
    first = api.values(client.post(json=body, **post).content, stream)[0]
    found = first["message"]["id"] if stream else first["id"]
    upstream.script(Model(turn("Good.")))
    body["messages"] += [
        {"role": "assistant", "content": "One moment.Done."},
        api.api.write(("user", "And now?")),
    ]
    body["diagnostics"] = {"previous_message_id": found}
    assert client.post(json=body, **post).status_code == 200
    named = upstream.asked()[-1].json["diagnostics"]["previous_message_id"]
    # The client knows the id of a stream's first turn.
    assert (named != found) is stream
    assert named >= found
    # A hidden exchange that is put back does not change the prefix.
    assert eventually(lambda: "broken by Penumbra 0 times in" in running.command("penumbra.stats"))
