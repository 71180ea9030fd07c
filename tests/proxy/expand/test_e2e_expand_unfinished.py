"""An answer whose hidden turn fails for good leaves nothing that the provider refuses ever after."""

from __future__ import annotations

from typing import Any

import pytest

from support.agents.agent import bash
from support.agents.apis import CLIENTS, Client, both_ways, every_api
from support.agents.model import Model, expand
from support.agents.requests import PHANTOM
from support.agents.unfinished import kept, user
from support.mitm import eventually
from support.upstream import Fault, Text, Thinking, turn

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
def test_the_client_goes_on_from_what_it_has(
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
        # What has fewer events than the cut waits for comes to its end.
        assert broke is (name != "error" and api.ends not in content)
        assert PHANTOM.encode() not in content
        # The same question again, what came of it behind it, and a new one.
        key = next(key for key in ("messages", "input", "contents") if key in body)
        left = kept(api, content)
        if api.name in ("responses", "gemini", "gemini-array"):
            upstream.script(Model(turn("Again.")))
            again = client.post(json={**body, key: [*body[key], *left]}, **post)
            assert again.status_code == 200, (name, again.content)
            later = [*body[key], *left, *kept(api, again.content), *user(api, "And now?")]
            upstream.script(Model(turn("Now.")))
            assert client.post(json={**body, key: later}, **post).status_code == 200, name
        upstream.script(Model(turn("Done.")))
        went_on = client.post(json={**body, key: [*body[key], *left, *user(api, "Go on.")]}, **post)
        assert went_on.status_code == 200, (name, went_on.content, left)
        assert api.text(went_on.content) == "Done."
        if name == "refused" and left:
            # What the model asked for is still before it.
            assert PHANTOM in str(upstream.asked()[-1].json[key]), name


@both_ways
def test_prompts_are_compared_with_that_of_the_last_turn(
    stream: bool, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """A client that wants to know why its prompt was not in the cache names the answer that it got."""
    api, client = CLIENTS[0], clients.http(running)
    body = {**api.body("What is there?", stream), "diagnostics": {"previous_message_id": None}}
    post = {"url": api.host + api.path(stream), "headers": api.headers(api_key)}
    upstream.script(Model(turn(Text("One moment."), expand("shadow_1")), turn("Done.")))
    first = api.values(client.post(json=body, **post).content, stream)[0]
    told = first["message"]["id"] if stream else first["id"]
    upstream.script(Model(turn("Good.")))
    body["messages"] += [{"role": "assistant", "content": "One moment.Done."}, *user(api, "And now?")]
    body["diagnostics"] = {"previous_message_id": told}
    assert client.post(json=body, **post).status_code == 200
    named = upstream.asked()[-1].json["diagnostics"]["previous_message_id"]
    # Of a stream the client knows the id of the first turn.
    assert (named != told) is stream
    assert named >= told
    # A hidden exchange that is put back is no other prefix.
    assert eventually(lambda: "broken by Penumbra 0 times in" in running.command("penumbra.stats"))
