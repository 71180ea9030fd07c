"""The model asks for an original, and the client never notices: real SDKs through a real mitmdump."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from e2e.agent import PRINTS, agent, bash
from e2e.test_e2e_prefix import assert_prefix_kept
from e2e_expand.model import CAP, COMMANDS, PHANTOM, Model, ask, expand, hidden_results, refs, seen
from upstream import Text, Thinking, ToolCall, turn

WAYS = [("regular", False), ("regular", True), ("reverse", False), ("reverse-tls", True)]
APIS = ["anthropic", "openai"]
LOG = COMMANDS["cat worker.log"]


@pytest.fixture(autouse=True)
def commands(monkeypatch: pytest.MonkeyPatch) -> None:
    for command, printed in COMMANDS.items():
        monkeypatch.setitem(PRINTS, command, printed)


def start(mode: str, proxy: Any) -> Any:
    return proxy(mode, penumbra_max_output_bytes=CAP)


def statuses(upstream: Any) -> set[int]:
    return {request.status for request in upstream.asked()}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize(("mode", "http2"), WAYS)
@pytest.mark.parametrize("api", APIS)
def test_once(
    api: str, mode: str, http2: bool, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
    caller = agent(api, clients, start(mode, proxy), http2=http2, stream=stream)
    said = caller.say("What is in the log?")
    assert said in ("Let me see.NEEDLE-90 it is.", "Let me see.\n\nNEEDLE-90 it is.")
    assert PHANTOM not in seen(caller.messages)
    first, shortened, continued = upstream.asked()
    assert statuses(upstream) == {200}
    assert first.json["tools"] == shortened.json["tools"] == continued.json["tools"]
    assert hidden_results(continued) == [LOG]
    upstream.script(Model(turn(bash("ls")), turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert statuses(upstream) == {200}
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("api", APIS)
def test_ten_turns_with_three_expansions_keep_their_prefix(
    api: str, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    def thought(words: str) -> list[Any]:
        return [Thinking(words)] if api == "anthropic" else []

    upstream.script(
        Model(
            turn(*thought("First."), bash("cat worker.log")),
            ask(*thought("Too short."), "Let me see."),
            turn(*thought("I see."), bash("cat db.log"), bash("ls")),
            turn(*thought("Next."), bash("cat web.log")),
            ask(*thought("Hm."), which=0, pattern="NEEDLE"),
            ask(*thought("Hm again."), which=1, lines="91"),
            turn(*thought("That's all."), "Now I know."),
        )
    )
    thinking = {"thinking": True} if api == "anthropic" else {}
    caller = agent(api, clients, start("regular", proxy), stream=stream, **thinking)
    assert "Now I know." in caller.say("What is in the logs?")
    for number in range(5):
        upstream.script(
            Model(turn(*thought(f"Turn {number}."), bash("ls")), turn(*thought("So."), f"{number}."))
        )
        assert caller.say(f"And {number}?") == f"{number}."
    assert statuses(upstream) == {200}
    assert_prefix_kept(upstream.asked())
    assert hidden_results(upstream.asked()[-1]) == [
        LOG,
        "[1 matching line in 150 lines]\n"
        + "\n".join(
            f"{n}{':' if n == 91 else '-'}{line}" for n, line in enumerate(LOG.split("\n")[88:93], 89)
        ),
        f"[Lines 91-91 of 150]\n{COMMANDS['cat db.log'].split(chr(10))[90]}\n",
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("api", APIS)
def test_beside_real_calls_nothing_is_asked_upstream(
    api: str, stream: bool, clients: Any, proxy: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(bash("cat worker.log")),
            lambda received: turn("Both.", expand(refs(received)[0]), bash("ls"), expand("shadow_no")),
            turn("NEEDLE-90."),
        )
    )
    caller = agent(api, clients, start("regular", proxy), stream=stream)
    assert caller.say("What is in the log?") == "NEEDLE-90."
    assert len(upstream.asked()) == 3
    assert statuses(upstream) == {200}
    assert PHANTOM not in seen(caller.messages)
    original, unknown = hidden_results(upstream.asked()[-1])
    assert original == LOG
    assert "not available any more" in unknown
    upstream.script(Model(turn("Done.")))
    caller.say("Go on.")
    assert statuses(upstream) == {200}
    assert_prefix_kept(upstream.asked())


@pytest.mark.parametrize("api", APIS)
def test_several_calls_in_one_turn_and_the_same_one_twice(
    api: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    def again(received: Any) -> Any:
        one, other = refs(received)
        return turn(expand(one), expand(other, pattern="needle", ignore_case=True, context=0), expand(one))

    upstream.script(
        Model(
            turn(bash("cat worker.log"), bash("cat db.log")),
            again,
            ask(which=0),
            turn("Done."),
        )
    )
    caller = agent(api, clients, start("regular", proxy), stream=True)
    assert caller.say("What is in the logs?") == "Done."
    answers = hidden_results(upstream.asked()[-1])
    assert answers[0] == LOG
    assert answers[1] == "[1 matching line in 150 lines]\n91:db NEEDLE-90 is only said here"
    assert "already been provided" in answers[2]
    assert "already been provided" in answers[3]
    assert len(upstream.asked()) == 4


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize("api", APIS)
def test_the_limit(api: str, stream: bool, clients: Any, proxy: Any, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(bash("cat worker.log")),
            *(ask(lines=str(n)) for n in range(1, 7)),
            turn("Then without."),
        )
    )
    caller = agent(api, clients, start("regular", proxy), stream=stream)
    assert caller.say("What is in the log?") == "Then without."
    answers = hidden_results(upstream.asked()[-1])
    assert [text.startswith("[Lines") for text in answers] == [True] * 5 + [False]
    assert "No more originals" in answers[5]
    upstream.script(Model(turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert_prefix_kept(upstream.asked())


@pytest.mark.parametrize("api", APIS)
def test_a_model_that_never_stops_is_made_to_speak(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    def stubborn(received: Any) -> Any:
        if received.json.get("tool_choice") in ("none", {"type": "none"}):
            return turn("All right.")
        if not refs(received):
            return turn(bash("cat worker.log"))
        return turn(expand(refs(received)[0]))

    upstream.script(stubborn)
    caller = agent(api, clients, start("regular", proxy), stream=True)
    assert caller.say("What is in the log?") == "All right."
    assert len(upstream.asked()) == 9
    assert statuses(upstream) == {200}


@pytest.mark.parametrize("api", APIS)
def test_what_cannot_be_found_is_said_politely(api: str, clients: Any, proxy: Any, upstream: Any) -> None:
    foreign = "shadow_" + "0" * 32
    upstream.script(
        Model(
            turn(bash("ls")),
            turn(expand(foreign)),
            turn(ToolCall(PHANTOM, {"ref": 7})),
            turn("Then not."),
        )
    )
    caller = agent(api, clients, start("regular", proxy))
    assert caller.say("Look around.") == "Then not."
    unknown, malformed = hidden_results(upstream.asked()[-1])
    assert unknown.startswith(f"The full text of {foreign} is not available any more.")
    assert malformed.startswith('The argument "id" is missing.')


def test_ids_of_another_caller_resolve_to_nothing(clients: Any, proxy: Any, upstream: Any) -> None:
    running = start("regular", proxy)
    upstream.script(Model(turn(bash("cat worker.log")), turn("Done.")))
    one = agent("anthropic", clients, running)
    one.say("What is in the log?")
    (ref,) = refs(upstream.asked()[-1])
    for key, opening in (("another caller", "What is in the log?"), (None, "Another conversation")):
        settings = {"api_key": key} if key else {}
        client = clients.anthropic(running, **settings)
        other = agent("anthropic", clients, running)
        other.client = client
        upstream.script(Model(turn(bash("ls")), turn(expand(ref)), turn("No.")))
        other.say(opening)
        (text,) = hidden_results(upstream.asked()[-1])
        assert "not available any more" in text


def test_a_marker_in_a_file_is_data(
    clients: Any, proxy: Any, upstream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start("regular", proxy)
    ref = "shadow_" + "a" * 32
    marked = f"<<<SHADOW:{ref}>>>\nsmall\n"
    monkeypatch.setitem(PRINTS, "ls", marked)
    upstream.script(Model(turn(bash("ls")), ask(), turn("No.")))
    caller = agent("anthropic", clients, running)
    caller.say("Look.")
    (text,) = hidden_results(upstream.asked()[-1])
    assert "not available any more" in text
    assert marked in [block["content"] for block in upstream.asked()[-1].json["messages"][2]["content"]]


@pytest.mark.parametrize("api", APIS)
def test_usage_is_output_of_all_calls_and_input_of_the_last(
    api: str, clients: Any, proxy: Any, upstream: Any
) -> None:
    names = (
        ("input_tokens", "output_tokens") if api == "anthropic" else ("prompt_tokens", "completion_tokens")
    )
    running = start("regular", proxy)
    caller = agent(api, clients, running)
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    body["tools"] = list(caller.TOOLS)
    made = [dict(zip(names, figures, strict=True)) for figures in ((10, 3), (50, 4))]
    for stream in (False, True):
        upstream.script(Model(turn(expand("shadow_1"), usage=made[0]), turn("No.", usage=made[1])))
        if api == "openai" and stream:
            more = {"stream": True, "stream_options": {"include_usage": True}}
            usage = list(caller.client.chat.completions.create(**body, **more))[-1].usage
        elif api == "openai":
            usage = caller.client.chat.completions.create(**body).usage
        elif stream:
            with caller.client.messages.stream(**body, max_tokens=99) as answer:
                usage = answer.get_final_message().usage
        else:
            usage = caller.client.messages.create(**body, max_tokens=99).usage
        assert [getattr(usage, name) for name in names] == [50, 7]


def test_async_clients(clients: Any, api_key: str, proxy: Any, upstream: Any) -> None:
    import anthropic

    running = start("regular", proxy)
    upstream.script(Model(turn(bash("cat worker.log"))))
    caller = agent("anthropic", clients, running)
    caller.messages.append({"role": "user", "content": "What is in the log?"})
    content = caller.ask()
    results = [caller._result(call) for call in content]
    messages = [
        *caller.messages,
        {"role": "assistant", "content": content},
        {"role": "user", "content": results},
    ]
    upstream.script(Model(ask("See."), turn(Text("NEEDLE-90 it is.", deltas=("NEEDLE", "-90 it is.")))))

    async def stream() -> list[str]:
        transport = clients.httpx.AsyncClient(proxy=running.url, verify=running.trust(), trust_env=False)
        async with anthropic.AsyncAnthropic(api_key=api_key, http_client=transport) as client:
            request = {"model": "claude-opus-5-5", "max_tokens": 99, "system": "You are a careful engineer."}
            async with client.messages.stream(
                **request, tools=list(caller.TOOLS), messages=messages
            ) as answer:
                return [text async for text in answer.text_stream]

    assert "".join(asyncio.run(stream())) == "See.NEEDLE-90 it is."


def test_figures_and_events(clients: Any, own_proxy: Any, upstream: Any, tmp_path: Any) -> None:
    path = tmp_path / "events.jsonl"
    running = own_proxy("regular", penumbra_max_output_bytes=CAP, penumbra_events=str(path))
    assert running.command("penumbra.expansions").startswith("Penumbra: the model has not asked")
    upstream.script(Model(turn(bash("cat worker.log")), ask(), turn(expand("shadow_0")), turn("Done.")))
    caller = agent("anthropic", clients, running)
    caller.say("What is in the log?")
    told = running.command("penumbra.expansions")
    assert "2 asked in 1 answers, 1 found, 1 missed" in told
    assert "2 extra calls" in told
    assert "Bash 1" in told
    running.stop()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    (event,) = [event for event in events if event["event"] == "expansion"]
    assert [one["found"] for one in event["asked"]] == [True, False]
    assert event["asked"][0]["bytes"] == len(LOG)
    assert event["extra_calls"] == 2
    assert LOG[:40] not in path.read_text()


def test_hidden_calls_are_flows_of_their_own(clients: Any, own_proxy: Any, upstream: Any) -> None:
    running = own_proxy("regular", penumbra_max_output_bytes=CAP)
    upstream.script(Model(turn(bash("cat worker.log")), ask(), turn("Done.")))
    agent("anthropic", clients, running, stream=True).say("What is in the log?")
    first, parent, hidden = running.flows()
    assert "continues" not in json.dumps(first["metadata"])
    assert hidden["metadata"]["penumbra"]["continues"]
    assert len(parent["metadata"]["penumbra_continuations"]) == 1
    assert parent["comment"].endswith("1 originals asked for, 1 hidden calls")
    assert hidden["comment"].startswith("Penumbra: continues ")
