"""Changes that clients make to their histories, and the place of the injected tool."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.agents.agent import AnthropicAgent, bash
from support.agents.apis import SDKS, Client, every_api
from support.agents.model import CAP, COMMANDS, Model, ask, expand, refs
from support.agents.requests import PHANTOM, assert_prefix_kept, hidden_results, results, tool_names
from support.upstream import Thinking, turn

LOG = COMMANDS["cat worker.log"]


def begun(api: Client, start: Any, upstream: Any, *last: Any, **more: Any) -> Any:
    """Return an agent whose conversation has one hidden exchange, and `last` after it."""
    thought = [Thinking("Hm.")] if more.get("thinking") else []
    upstream.script(
        Model(
            turn(*thought, bash("cat worker.log")),
            ask(*thought, "Let me see."),
            *(last or (turn(*thought, "NEEDLE-90 it is."),)),
        )
    )
    caller = start(api, **more)
    caller.say("What is in the log?")
    return caller


def test_a_restart_in_between(clients: Any, api_key: str, own_proxy: Any, upstream: Any) -> None:
    running = own_proxy("reverse", penumbra_max_output_bytes=CAP)

    def start(api: Client, **more: Any) -> Any:
        key = f"{api_key}-{api.name}"
        return api.caller(clients.of(key), running, key, False, stream=True, thinking=True, **more)

    thought = [Thinking("So.")]
    begun = []
    for api in SDKS:
        for mixed in (False, True):
            count = len(upstream.asked())
            upstream.script(
                Model(
                    turn(*thought, bash("cat worker.log")),
                    lambda received, mixed=mixed: turn(
                        *thought, expand(refs(received)[0]), *([bash("ls")] if mixed else [])
                    ),
                    turn(*thought, "NEEDLE-90 it is."),
                )
            )
            caller = start(api)
            caller.say(f"What is in the log? {mixed}")
            begun.append((api, caller.messages, upstream.asked()[count:]))
    running.restart()
    for api, messages, earlier in begun:
        again = start(api, messages=messages)
        upstream.script(Model(turn(*thought, bash("ls")), turn(*thought, "Done.")))
        count = len(upstream.asked())
        assert again.say("Go on.") == "Done."
        requests = [*earlier, *upstream.asked()[count:]]
        assert hidden_results(requests[-1]) == [LOG], api.name
        assert {request.status for request in requests} == {200}
        assert_prefix_kept(requests)


def texts(message: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the places of the visible texts of a message: an object and its member."""
    if isinstance(message.get("content"), str):
        yield message, "content"
    for block in [*(message.get("content") or ()), *(message.get("parts") or ())]:
        if isinstance(block, dict) and isinstance(block.get("text"), str) and not block.get("thought"):
            yield block, "text"


def is_converse(messages: list[Any]) -> bool:
    """Return whether the messages are Bedrock's, whose blocks have no type."""
    content = messages[0].get("content")
    return isinstance(content, list) and "type" not in content[0]


def edited(messages: list[Any]) -> None:
    """Edit the model's last message, as a user may."""
    for place, member in texts(messages[-1]):
        place[member] = "Something else."


def branched(messages: list[Any]) -> None:
    """Go back to the point before the response, as a user may."""
    while messages[-1].get("role") in ("assistant", "model") or messages[-1].get("type") == "reasoning":
        del messages[-1]
    if messages[-1].get("role") == "user" and "content" in messages[-1]:
        kind = {} if is_converse(messages) else {"type": "text"}
        messages[-1]["content"] = [*messages[-1]["content"], {**kind, "text": "Wait."}]


def compacted(messages: list[Any]) -> None:
    """Replace the history by a summary."""
    summary = "You have read a log: NEEDLE-90."
    content: dict[str, Any] = {"content": summary}
    if "parts" in messages[0] or is_converse(messages):
        content = {"parts" if "parts" in messages[0] else "content": [{"text": summary}]}
    messages[:] = [{"role": "user", **content}]


def trimmed(messages: list[Any]) -> None:
    """Remove blanks at both ends and empty lines."""
    for place, member in texts(messages[-1]):
        place[member] = " ".join(place[member].split())


@pytest.mark.parametrize(
    ("change", "found"), [(edited, False), (branched, False), (compacted, False), (trimmed, True)]
)
@pytest.mark.parametrize("thinking", [False, True], ids=["plain", "thinking"])
@every_api
def test_changed_histories_stay_valid(
    api: Client, change: Any, found: bool, thinking: bool, start: Any, upstream: Any
) -> None:
    caller = begun(api, start, upstream, thinking=thinking)
    change(caller.messages)
    if thinking and change is edited and api.name == "anthropic":
        # Claude Code sends this beta, with which the API may be asked to drop blocks that no longer fit.
        beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
        caller.extra = {"extra_headers": beta}
    count = len(upstream.asked())
    upstream.script(Model(turn("Done.")))
    assert caller.say("And?") == "Done."
    (last,) = upstream.asked()[count:]
    assert last.status == 200
    assert hidden_results(last) == ([LOG] if found else [])
    assert PHANTOM in tool_names(last)


@every_api
def test_an_answer_whose_text_the_client_left_out(api: Client, start: Any, upstream: Any) -> None:
    """Some clients send calls without the text beside them: the exchange is found by its calls."""
    caller = begun(api, start, upstream, turn("I see.", bash("ls")), turn("Done."))
    said = ("I see.", "Let me see.", f"Let me see.{api.gap}I see.")
    for message in list(caller.messages):
        for place, member in list(texts(message)):
            if place[member].strip() not in said:
                continue
            if message.get("type") == "message":
                caller.messages.remove(message)
            elif member == "text":
                message.get("content", message.get("parts")).remove(place)
            else:
                place[member] = None if api.name == "chat" else ""
    upstream.script(Model(turn("Good.")))
    assert caller.say("Go on.") == "Good."
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


@every_api
def test_equal_answers_are_distinguished_by_their_place(api: Client, start: Any, upstream: Any) -> None:
    caller = start(api)
    upstream.script(Model(turn("OK."), turn(bash("cat worker.log")), ask(), turn("OK."), turn("OK.")))
    for words in ("First.", "Second.", "Third."):
        assert caller.say(words) == "OK."
    upstream.script(Model(turn("Done.")))
    caller.say("Fourth.")
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


@every_api
def test_a_client_that_stopped_an_answer_keeps_the_injected_tool(
    api: Client, clients: Any, api_key: str, running: Any, upstream: Any
) -> None:
    """The text so far stays in the history, and identifies the conversation."""
    upstream.script(Model(turn("Once upon a time there was a king.", delta=5, cut_after=api.lead + 2)))
    client = clients.http(running)
    got = b""
    with contextlib.suppress(clients.httpx.HTTPError), api.opened(client, api_key) as answer:
        for chunk in answer.iter_raw():
            got += chunk
    assert api.ends not in got
    assert b"Once " in got
    body = api.body("x", False)
    key = next(name for name in ("input", "contents", "messages") if name in body)
    for role, text in (("assistant", "Once  upon"), ("user", "Go on. " * 2000)):
        message: dict[str, Any] = {"role": role, "content": text}
        if key == "contents":
            message = {"role": role.replace("assistant", "model"), "parts": [{"text": text}]}
        elif is_converse(body[key]):
            message["content"] = [{"text": text}]
        body[key].append(message)
    if api.name == "anthropic":
        body[key][-1]["content"] = [
            {"type": "text", "text": "Go on. " * 2000, "cache_control": {"type": "ephemeral"}}
        ]
    upstream.script(Model(turn("Done.")))
    client.post(api.host + api.path(False), json=body, headers=api.headers(api_key))
    assert upstream.asked()[-1].status == 200
    assert PHANTOM in tool_names(upstream.asked()[-1])


@every_api
def test_off_means_off(api: Client, start: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_enable_expand_context="false")
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    start(api, running).say("What is in the log?")
    for request in upstream.asked():
        assert tool_names(request) == ["Bash", "Read"]
        assert "SHADOW" not in (request.body or b"").decode()


@pytest.mark.parametrize(("hint", "shown"), [("true", True), ("false", False)])
@every_api
def test_the_hint_can_be_left_out(
    api: Client, hint: str, shown: bool, start: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_include_expand_hint=hint)
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    start(api, running).say("What is in the log?")
    ((_, text),) = results(upstream.asked()[-1].json)
    first, second, *_ = text.split("\n")
    assert first == f"<<<SHADOW:{refs(upstream.asked()[-1])[0]}>>>"
    assert (PHANTOM in second) is shown


OPTIONS = {"penumbra_max_output_bytes": CAP, "penumbra_originals_ttl": "1s"}


def asked_late(agent: Any, upstream: Any, change: Any) -> str:
    """Return what the model gets of a log that it asks for after the time."""
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    agent.say("What is in the log?")
    [ref] = refs(upstream.asked()[-1])
    time.sleep(2.2)
    change(agent)
    upstream.script(Model(turn(expand(ref)), turn("So it is.")))
    agent.say("And now?")
    [given] = hidden_results(upstream.asked()[-1])[-1:]
    return given


def cleared(agent: Any) -> None:
    """Clear the first result, as clients do with old results."""
    agent.messages[2]["content"][0]["content"] = "[Old tool result content cleared]"


def test_the_original_is_there_as_long_as_the_client_sends_it(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    running = proxy("regular", **OPTIONS)
    whole = AnthropicAgent(clients.anthropic(running))
    assert asked_late(whole, upstream, lambda agent: None) == LOG
    upstream.reset()
    forgetful = AnthropicAgent(clients.anthropic(running))
    assert "not available any more" in asked_late(forgetful, upstream, cleared)
