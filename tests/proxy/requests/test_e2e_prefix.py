"""A request that was sent once is sent again with the same bytes after any change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.agents.agent import SESSION, THINKING_SESSION, AnthropicAgent, agent, bash
from support.agents.requests import assert_bytes_kept, result_texts
from support.apis import BY_ID, printed
from support.mitm import eventually
from support.upstream import Thinking, turn


@pytest.mark.parametrize("api", ["anthropic", "openai"])
@pytest.mark.parametrize("mode", ["safe", "aggressive"])
def test_a_growing_conversation_keeps_its_prefix(
    api: str, mode: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    upstream.answers(*SESSION, *SESSION)
    caller = agent(api, clients, proxy("regular", penumbra_mode=mode))
    caller.say("Why does the total test fail?")
    caller.say("Look again.")
    assert len(upstream.asked()) == 2 * len(SESSION)
    assert_bytes_kept(upstream.asked())


@pytest.mark.parametrize("change", ["running", "restart"])
def test_decisions_are_final(change: str, clients: Any, own_proxy: Any, upstream: Any) -> None:
    """The mode changes between two turns: earlier results keep their bytes, new ones follow the new mode."""
    proxy = own_proxy("reverse", penumbra_mode="standard")
    upstream.answers(*THINKING_SESSION)
    caller = agent("anthropic", clients, proxy, thinking=True)
    caller.say("Why does the total test fail?")
    if change == "running":
        proxy.set("penumbra_mode", "disabled")
    else:
        proxy.restart(penumbra_mode="disabled")
    upstream.answers(
        turn(Thinking("Hm."), bash("docker compose logs worker")), turn(Thinking("Oh."), "Done.")
    )
    again = agent("anthropic", clients, proxy, messages=caller.messages, thinking=True)
    again.say("And the worker?")
    last = upstream.asked()[-1]
    assert [request.status for request in upstream.asked()] == [200] * 5
    assert_bytes_kept(upstream.asked())
    ours = list(result_texts(last.json))
    theirs = list(result_texts({"messages": again.messages}))
    assert len(ours[1]) < 0.7 * len(theirs[1])
    assert ours[2] == theirs[2]


def test_the_mode_of_one_request_applies_to_later_ones(clients: Any, proxy: Any, upstream: Any) -> None:
    upstream.answers(*SESSION)
    caller = agent("anthropic", clients, proxy("reverse"))
    caller.extra = {"extra_body": {"_forge": {"tool_output_compression": "safe"}}}
    caller.say("Why does the total test fail?")
    caller.extra = {}
    upstream.answers(turn(bash("curl -s localhost:8000/users")), turn("Done."))
    caller.say("Once more.")
    assert_bytes_kept(upstream.asked())


def test_shape_may_change_while_the_text_stays(clients: Any, proxy: Any, upstream: Any) -> None:
    """Some clients send a result as a string in one turn and as a block in the next."""
    upstream.answers(*SESSION)
    caller = agent("anthropic", clients, proxy("reverse"))
    caller.say("Why does the total test fail?")
    before = list(result_texts(upstream.asked()[-1].json))
    for message in caller.messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_result" and isinstance(block["content"], str):
                block["content"] = [{"type": "text", "text": block["content"]}]
    caller.say("More?")
    assert list(result_texts(upstream.asked()[-1].json)) == before


def test_two_callers_with_the_same_conversation(
    clients: Any, api_key: str, proxy: Any, upstream: Any
) -> None:
    """Decisions are kept by credential: one caller's mode is not another's."""
    running = proxy("reverse")
    upstream.answers(*THINKING_SESSION)
    first = agent("anthropic", clients, running)
    first.extra = {"extra_body": {"_forge": {"tool_output_compression": "off"}}}
    first.say("Why does the total test fail?")
    other = AnthropicAgent(
        clients.anthropic(running, api_key=f"{api_key}-other"), messages=first.messages[:3]
    )
    upstream.answers(turn("Done."))
    other.ask()
    raw, shortened = (next(result_texts(upstream.asked()[i].json)) for i in (1, -1))
    assert len(shortened) < len(raw)
    assert "assert 702 == 700" in shortened


MORE = (turn(bash("npm install"), bash("docker compose logs worker")), turn("Done."))
MORE_THINKING = (turn(Thinking("Once more."), *MORE[0].blocks), turn(Thinking("So be it."), "Done."))


def begun(api: str, clients: Any, proxy: Any, upstream: Any, script: Any, **more: Any) -> Any:
    """Return the messages of a conversation that began without Penumbra."""
    upstream.answers(*script)
    caller = agent(api, clients, proxy("regular", addon=False), **more)
    caller.say("Why does the total test fail?")
    return caller.messages


def compare(messages: Any, upstream: Any, known: int) -> tuple[list[bool], list[bool]]:
    """Return which results arrived unchanged: of those that the provider knew, and of the later ones."""
    last = result_texts(upstream.asked()[-1].json)
    same = [ours == theirs for ours, theirs in zip(last, result_texts({"messages": messages}), strict=True)]
    return same[:known], same[known:]


@pytest.mark.parametrize("adopt", ["auto", "raw", "compress"])
def test_bound_thinking(adopt: str, clients: Any, proxy: Any, upstream: Any) -> None:
    """The test provider refuses a thinking block whose prefix has changed."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    upstream.answers(*MORE_THINKING)
    running = proxy("regular", penumbra_adopt=adopt, penumbra_recover="off")
    caller = agent("anthropic", clients, running, messages=old, thinking=True, cache=True)
    if adopt == "compress":
        with pytest.raises(Exception, match="bound to a different conversation"):
            caller.say("And now?")
        return
    caller.say("And now?")
    known, new = compare(caller.messages, upstream, 2)
    assert known == [True, True]
    assert new == [False, False]
    assert {request.status for request in upstream.asked()} == {200}


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_a_warm_cache(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    more = {"cache": True} if api == "anthropic" else {}
    old = begun(api, clients, proxy, upstream, SESSION, **more)
    upstream.answers(*MORE)
    caller = agent(api, clients, proxy("regular"), messages=old, **more)
    caller.say("And now?")
    known, new = compare(caller.messages, upstream, 7)
    assert known == [True] * 7
    assert new == [False, False]


def test_adoption_is_final(clients: Any, own_proxy: Any, proxy: Any, upstream: Any) -> None:
    """Results that stayed raw at first stay raw, after a restart and with another setting, too."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    running = own_proxy("reverse")
    upstream.answers(*MORE_THINKING)
    caller = agent("anthropic", clients, running, messages=old, thinking=True)
    caller.say("And now?")
    running.restart(penumbra_adopt="compress")
    upstream.answers(turn(Thinking("Again."), "Done."))
    again = agent("anthropic", clients, running, messages=caller.messages, thinking=True)
    again.say("And then?")
    known, new = compare(again.messages, upstream, 2)
    assert known == [True, True]
    assert new == [False, False]


def test_results_that_wait_for_an_answer_are_new(clients: Any, proxy: Any, upstream: Any) -> None:
    """If Penumbra is switched on between a call and its results, the results are new, since no response has
    followed them."""
    old = begun("anthropic", clients, proxy, upstream, THINKING_SESSION, thinking=True)
    upstream.answers(turn("Done."))
    caller = agent("anthropic", clients, proxy("regular"), messages=old[:3], thinking=True)
    caller.ask()
    _, new = compare(caller.messages, upstream, 0)
    assert new == [False]
    assert upstream.asked()[-1].status == 200


def test_no_cache_and_no_thinking_means_that_all_may_shrink(clients: Any, proxy: Any, upstream: Any) -> None:
    """Without breakpoints, Anthropic caches no prefix."""
    old = begun("anthropic", clients, proxy, upstream, SESSION)
    upstream.answers(turn("Done."))
    caller = agent("anthropic", clients, proxy("regular"), messages=old)
    caller.say("And now?")
    known, _ = compare(caller.messages, upstream, 7)
    assert known.count(False) >= 5


def test_a_lost_ledger_is_an_adoption(clients: Any, own_proxy: Any, upstream: Any) -> None:
    """With its memory lost, Penumbra leaves answered results raw rather than guess how they were sent."""
    running = own_proxy("reverse", penumbra_database="memory")
    upstream.answers(*SESSION)
    caller = agent("openai", clients, running)
    caller.say("Why does the total test fail?")
    running.restart(penumbra_mode="safe")
    upstream.answers(*MORE)
    again = agent("openai", clients, running, messages=caller.messages)
    again.say("And now?")
    known, _ = compare(again.messages, upstream, 7)
    assert known == [True] * 7
    assert {request.status for request in upstream.asked()} == {200}


COMPACTION = json.dumps({"compactArguments": True, "toolIdentifierFields": {"write_file": ["path"]}})
TOOL = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}


def content(seed: int) -> str:
    return "\n".join(f"value_{n} = {n * seed * 7919 % 10007}" for n in range(60))


def claude(writes: list[tuple[str, str]]) -> tuple[str, dict[str, Any]]:
    turns = printed(
        *["ok"] * len(writes),
        tool="write_file",
        arguments=lambda n: {"path": writes[n][0], "content": writes[n][1]},
    )
    messages = BY_ID["anthropic-messages"].written(turns)
    tools = [{"name": "write_file", "description": "Write.", "input_schema": TOOL}]
    return "https://api.anthropic.com/v1/messages", {
        "model": "claude-x",
        "max_tokens": 99,
        "tools": tools,
        "messages": messages,
    }


def first_arguments(request: Any) -> dict[str, Any]:
    found: dict[str, Any] = request.json["messages"][1]["content"][0]["input"]
    return found


def test_once_omitted_always_omitted_also_after_a_restart(
    own_proxy: Any, clients: Any, upstream: Any, api_key: str
) -> None:
    options = {"penumbra_tool_compaction": COMPACTION, "penumbra_supersede": "priced"}
    proxy = own_proxy(**options)
    headers = {"x-api-key": api_key, "authorization": f"Bearer {api_key}", "anthropic-version": "2023-06-01"}
    writes = [("a.py", content(3)), ("a.py", content(4)), ("b.py", content(5)), ("c.py", content(6))]

    def send(count: int) -> Any:
        url, value = claude(writes[:count])
        upstream.answers(turn("Done."))
        answer = clients.http(proxy).post(url, json=value, headers=headers)
        assert answer.status_code == 200, answer.text
        return upstream.asked()[-1]

    assert first_arguments(send(1)) == {"path": "a.py", "content": content(3)}
    send(2)
    third = send(3)
    omitted = first_arguments(third)
    assert (omitted["path"], omitted["content"]) == ("a.py", "[omitted]")
    assert omitted["_tool_compaction"]["omittedFields"]["content"]["bytes"] == len(content(3))
    assert first_arguments(send(4)) == omitted
    # The provider's cached form stays after a restart without the option.
    proxy.restart()
    fourth = send(4)
    assert first_arguments(fourth) == omitted
    assert third.body[: third.body.rindex(b"b.py")] == fourth.body[: third.body.rindex(b"b.py")]


class Diagnosing(AnthropicAgent):
    """An agent that asks the provider to compare each prompt with the one before it."""

    def ask(self) -> Any:
        self.extra = {"extra_body": {"diagnostics": {"previous_message_id": self.last_id or None}}}
        return super().ask()


def said(proxy: Any, line: str) -> Any:
    return eventually(lambda: line in proxy.command("penumbra.stats") or None)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "json"])
def test_a_prefix_that_holds_is_counted_as_compared(
    stream: bool, clients: Any, own_proxy: Any, upstream: Any
) -> None:
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    made = agent("anthropic", clients, proxy)
    Diagnosing(made.client, stream=stream).say("Why does the total test fail?")
    assert said(proxy, "broken by Penumbra 0 times in 4 comparisons")


def test_a_prefix_that_is_broken_on_purpose_is_counted(clients: Any, own_proxy: Any, upstream: Any) -> None:
    """After the store is emptied, results stay raw, so a result that was sent shortened changes."""
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    caller = Diagnosing(agent("anthropic", clients, proxy).client)
    caller.say("Why does the total test fail?")
    proxy.set("penumbra_adopt", "raw")
    proxy.command("penumbra.forget")
    upstream.answers(turn("Nothing."))
    caller.say("And now?")
    assert said(proxy, "broken by Penumbra 1 times in 5 comparisons")
    assert "prefix broken by Penumbra" in proxy.command("penumbra.stats")


def test_a_history_that_the_client_changes_is_its_own_change(
    clients: Any, own_proxy: Any, upstream: Any
) -> None:
    proxy = own_proxy("regular")
    upstream.answers(*SESSION)
    caller = Diagnosing(agent("anthropic", clients, proxy).client)
    caller.say("Why does the total test fail?")
    caller.messages[0] = {"role": "user", "content": "Something else."}
    upstream.answers(turn("Nothing."))
    caller.say("And now?")
    assert said(proxy, "broken by Penumbra 0 times in 5 comparisons")
    assert "messages changed 1" in proxy.command("penumbra.stats")
