"""What clients do to their histories, and where the phantom belongs."""

from __future__ import annotations

import contextlib
import copy
import json
from typing import Any

import pytest

from e2e.agent import PRINTS, agent, bash
from e2e.test_e2e_prefix import assert_prefix_kept
from e2e_expand.model import CAP, COMMANDS, PHANTOM, Model, ask, expand, hidden_results, refs
from upstream import Thinking, turn

APIS = ["anthropic", "openai"]
LOG = COMMANDS["cat worker.log"]
SECOND = "penumbra_expand_context"


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, printed in COMMANDS.items():
        monkeypatch.setitem(PRINTS, command, printed)


def begun(api: str, clients: Any, running: Any, upstream: Any, *last: Any, **more: Any) -> Any:
    """A conversation with one hidden exchange, and `last` behind it."""
    thought = [Thinking("Hm.")] if more.get("thinking") else []
    upstream.script(
        Model(
            turn(*thought, bash("cat worker.log")),
            ask(*thought, "Let me see."),
            *(last or (turn(*thought, "NEEDLE-90 it is."),)),
        )
    )
    caller = agent(api, clients, running, **more)
    caller.say("What is in the log?")
    return caller


@pytest.mark.parametrize("mixed", [False, True], ids=["hidden", "mixed"])
@pytest.mark.parametrize("api", APIS)
def test_a_restart_in_between(api: str, mixed: bool, clients: Any, own_proxy: Any, upstream: Any) -> None:
    running = own_proxy("reverse", penumbra_max_output_bytes=CAP)
    more = {"thinking": True} if api == "anthropic" else {}
    thought = [Thinking("So.")] if more else []
    upstream.script(
        Model(
            turn(*thought, bash("cat worker.log")),
            lambda received: turn(*thought, expand(refs(received)[0]), *([bash("ls")] if mixed else [])),
            turn(*thought, "NEEDLE-90 it is."),
        )
    )
    caller = agent(api, clients, running, stream=True, **more)
    caller.say("What is in the log?")
    running.restart()
    again = agent(api, clients, running, messages=caller.messages, stream=True, **more)
    upstream.script(Model(turn(*thought, bash("ls")), turn(*thought, "Done.")))
    assert again.say("Go on.") == "Done."
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert {request.status for request in upstream.asked()} == {200}
    assert_prefix_kept(upstream.asked())


def edited(messages: list[Any]) -> None:
    """The user has rewritten what the model said last."""
    last = messages[-1]
    if isinstance(last["content"], str):
        last["content"] = "Something else."
    else:
        last["content"] = [*last["content"][:-1], {"type": "text", "text": "Something else."}]


def branched(messages: list[Any]) -> None:
    """The user went back to where the answer had not been given."""
    del messages[-1]
    if messages[-1]["role"] == "user":
        messages[-1]["content"] = [*messages[-1]["content"], {"type": "text", "text": "Wait."}]


def compacted(messages: list[Any]) -> None:
    """All that the client still has is a summary."""
    messages[:] = [{"role": "user", "content": "You have read a log: NEEDLE-90."}]


def trimmed(messages: list[Any]) -> None:
    """White space at the ends is gone, and an empty line too."""
    last = messages[-1]
    if isinstance(last["content"], str):
        last["content"] = " ".join(last["content"].split())


@pytest.mark.parametrize(
    ("change", "found"), [(edited, False), (branched, False), (compacted, False), (trimmed, True)]
)
@pytest.mark.parametrize(("api", "thinking"), [("anthropic", False), ("anthropic", True), ("openai", False)])
def test_changed_histories_stay_valid(
    api: str, change: Any, found: bool, thinking: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    more = {"thinking": True} if thinking else {}
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    caller = begun(api, clients, running, upstream, **more)
    change(caller.messages)
    if more and change is edited:
        # What Claude Code sends with its beta: the API may be asked to drop what no longer fits.
        beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
        caller.extra = {"extra_headers": beta}
    count = len(upstream.asked())
    upstream.script(Model(turn("Done.")))
    assert caller.say("And?") == "Done."
    (last,) = upstream.asked()[count:]
    assert last.status == 200
    assert hidden_results(last) == ([LOG] if found else [])
    assert PHANTOM in json.dumps(last.json["tools"])


def test_an_answer_whose_text_the_client_left_out(clients: Any, proxy: Any, upstream: Any) -> None:
    """Some clients send calls without the words beside them: the exchange is found by the call's id."""
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    caller = begun("openai", clients, running, upstream, turn("I see.", bash("ls")), turn("Done."))
    caller.messages[3]["content"] = None
    upstream.script(Model(turn("Good.")))
    assert caller.say("Go on.") == "Good."
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


def test_equal_answers_are_told_apart_by_their_place(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    caller = agent("anthropic", clients, running)
    upstream.script(Model(turn("OK."), turn(bash("cat worker.log")), ask(), turn("OK."), turn("OK.")))
    for words in ("First.", "Second.", "Third."):
        assert caller.say(words) == "OK."
    upstream.script(Model(turn("Done.")))
    caller.say("Fourth.")
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


def test_a_client_that_stopped_an_answer_keeps_the_phantom(clients: Any, proxy: Any, upstream: Any) -> None:
    """The words so far stay in the history; the conversation is known by them all the same."""
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    client = clients.anthropic(running)
    caller = agent("anthropic", clients, running, thinking=True)
    messages = [{"role": "user", "content": "Tell me a story."}]
    request = {"model": "m", "max_tokens": 4096, "tools": list(caller.TOOLS)}
    upstream.script(Model(turn("Once upon a time there was", cut_after=5)))
    got = ""
    with contextlib.suppress(clients.httpx.HTTPError):
        with client.messages.stream(**request, messages=messages) as answer:
            for piece in answer.text_stream:
                got += piece
        pytest.fail("the answer was complete")
    assert got
    messages += [{"role": "assistant", "content": got}, {"role": "user", "content": "Go on. " * 2000}]
    messages[-1]["content"] = [
        {"type": "text", "text": messages[-1]["content"], "cache_control": {"type": "ephemeral"}}
    ]
    upstream.script(Model(turn("Done.")))
    client.messages.create(**request, messages=messages)
    assert PHANTOM in [tool["name"] for tool in upstream.asked()[-1].json["tools"]]


def names(received: Any) -> list[str]:
    return [tool.get("name") or tool["function"]["name"] for tool in received.json.get("tools") or []]


@pytest.mark.parametrize("api", APIS)
def test_where_the_phantom_belongs(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    caller = agent(api, clients, running)
    tools = list(caller.TOOLS)
    named = copy.deepcopy(tools[0])
    (named if api == "anthropic" else named["function"])["name"] = PHANTOM
    forced: Any = {"type": "tool", "name": "Bash"}
    any_tool: Any = {"type": "any"}
    if api == "openai":
        forced = {"type": "function", "function": {"name": "Bash"}}
        any_tool = "required"
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"tools": tools}, ["Bash", "Read", PHANTOM]),
        ({}, []),
        ({"tools": [named]}, [PHANTOM, SECOND]),
        ({"tools": tools[:1], "tool_choice": forced}, ["Bash"]),
        ({"tools": tools[:1], "tool_choice": any_tool}, ["Bash"]),
        ({"tools": tools, "tool_choice": any_tool}, ["Bash", "Read", PHANTOM]),
    ]
    if api == "openai":
        cases.append(({"tools": tools, "n": 2}, ["Bash", "Read"]))
    else:
        search = {"type": "web_search_20250305", "name": "web_search"}
        cases += [({"tools": [search]}, ["web_search"]), ({"tools": []}, [])]
    for more, expected in cases:
        request = {"model": "m", "messages": [{"role": "user", "content": "x"}], **more}
        upstream.script(Model(turn("Yes.")))
        if api == "anthropic":
            caller.client.messages.create(max_tokens=99, **request)
        else:
            caller.client.chat.completions.create(**request)
        assert names(upstream.asked()[-1]) == expected, more


def test_the_second_name_works_like_the_first(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP)
    caller = agent("anthropic", clients, running)
    caller.TOOLS = (*caller.TOOLS, {"name": PHANTOM, "input_schema": {"type": "object"}})
    second = expand("shadow_1")
    second = type(second)(SECOND, second.arguments)
    upstream.script(Model(turn(bash("cat worker.log")), turn(second), turn("Done.")))
    assert caller.say("What is in the log?") == "Done."
    assert f'{SECOND}(id="shadow_' in json.dumps(upstream.asked()[1].json).replace('\\"', '"')
    assert len(upstream.asked()) == 3


def test_off_means_off(clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_enable_expand_context="false")
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    caller = agent("anthropic", clients, running)
    caller.say("What is in the log?")
    for request in upstream.asked():
        assert names(request) == ["Bash", "Read"]
        assert "SHADOW" not in (request.body or b"").decode()


@pytest.mark.parametrize(("hint", "shown"), [("true", True), ("false", False)])
def test_the_hint_can_be_left_out(hint: str, shown: bool, clients: Any, proxy: Any, upstream: Any) -> None:
    running = proxy("regular", penumbra_max_output_bytes=CAP, penumbra_include_expand_hint=hint)
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    agent("anthropic", clients, running).say("What is in the log?")
    (block,) = upstream.asked()[-1].json["messages"][2]["content"]
    first, second, *_ = block["content"].split("\n")
    assert first == f"<<<SHADOW:{refs(upstream.asked()[-1])[0]}>>>"
    assert (PHANTOM in second) is shown
