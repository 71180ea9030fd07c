"""The model asks for an original, and the client never notices: real SDKs through a real mitmdump."""

import json
from typing import Any

import pytest

from support.agents.agent import bash
from support.agents.apis import CLIENTS, Client, both_ways, every_sdk
from support.agents.model import CAP, COMMANDS, Model, ask, expand, refs, seen
from support.agents.requests import PHANTOM, assert_prefix_kept, declared, hidden_results
from support.mitm import eventually
from support.upstream import Thinking, turn

WAYS = [("regular", False), ("regular", True), ("reverse", False), ("reverse-tls", True)]
LOG = COMMANDS["cat worker.log"]


@both_ways
@pytest.mark.parametrize(("mode", "http2"), WAYS)
@every_sdk
def test_once(
    api: Client, mode: str, http2: bool, stream: bool, start: Any, proxy: Any, upstream: Any
) -> None:
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
    running = proxy(mode, penumbra_max_output_bytes=CAP)
    caller = start(api, running, http2=http2, stream=stream)
    assert caller.say("What is in the log?") == f"Let me see.{api.gap}NEEDLE-90 it is."
    assert PHANTOM not in seen(caller.messages)
    first, shortened, continued = upstream.asked()
    assert upstream.statuses() == {200}
    assert declared(first) == declared(shortened) == declared(continued)
    assert hidden_results(continued) == [LOG]
    upstream.script(Model(turn(bash("ls")), turn("Done.")))
    assert caller.say("Go on.") == "Done."
    assert upstream.statuses() == {200}
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())
    assert running.flows()
    # mitmproxy may keep flows, but parsed requests are dropped.
    assert eventually(lambda: running.command("tests.read") == "0")


@both_ways
@every_sdk
def test_ten_turns_with_three_expansions_keep_their_prefix(
    api: Client, stream: bool, start: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Too short."), "Let me see."),
            turn(Thinking("I see."), bash("cat db.log"), bash("ls")),
            turn(Thinking("Next."), bash("cat web.log")),
            ask(Thinking("Hm."), which=0, pattern="NEEDLE"),
            ask(Thinking("Hm again."), which=1, lines="91"),
            turn(Thinking("That's all."), "Now I know."),
        )
    )
    caller = start(api, stream=stream, thinking=True)
    assert "Now I know." in caller.say("What is in the logs?")
    for number in range(5):
        upstream.script(
            Model(turn(Thinking(f"Turn {number}."), bash("ls")), turn(Thinking("So."), f"{number}."))
        )
        assert caller.say(f"And {number}?") == f"{number}."
    assert upstream.statuses() == {200}
    assert_prefix_kept(upstream.asked())
    assert hidden_results(upstream.asked()[-1]) == [
        LOG,
        "[1 matching line in 150 lines]\n"
        + "\n".join(
            f"{n}{':' if n == 91 else '-'}{line}" for n, line in enumerate(LOG.split("\n")[88:93], 89)
        ),
        f"[Lines 91-91 of 150]\n{COMMANDS['cat db.log'].split(chr(10))[90]}\n",
    ]


@both_ways
@every_sdk
def test_no_hidden_request_is_sent_beside_real_calls(
    api: Client, stream: bool, start: Any, upstream: Any
) -> None:
    upstream.script(
        Model(
            turn(bash("cat worker.log")),
            lambda received: turn(
                "Both.", expand(refs(received)[0]), bash("ls"), expand("shadow_999999999999999999")
            ),
            turn("NEEDLE-90."),
        )
    )
    caller = start(api, stream=stream)
    assert caller.say("What is in the log?") == "NEEDLE-90."
    assert len(upstream.asked()) == 3
    assert upstream.statuses() == {200}
    assert PHANTOM not in seen(caller.messages)
    original, unknown = hidden_results(upstream.asked()[-1])
    assert original == LOG
    assert "not available any more" in unknown
    upstream.script(Model(turn("Done.")))
    caller.say("Go on.")
    assert upstream.statuses() == {200}
    assert_prefix_kept(upstream.asked())


def test_several_calls_in_one_turn_and_the_same_one_twice(start: Any, upstream: Any) -> None:
    def again(received: Any) -> Any:
        one, other = refs(received)
        return turn(expand(one), expand(other, pattern="needle", ignore_case=True, context=0), expand(one))

    upstream.script(
        Model(turn(bash("cat worker.log"), bash("cat db.log")), again, ask(which=0), turn("Done."))
    )
    caller = start(CLIENTS[0], stream=True)
    assert caller.say("What is in the logs?") == "Done."
    answers = hidden_results(upstream.asked()[-1])
    assert answers[0] == LOG
    assert answers[1] == "[1 matching line in 150 lines]\n91:db NEEDLE-90 is only said here"
    assert "already been provided" in answers[2]
    assert "already been provided" in answers[3]
    assert len(upstream.asked()) == 4


@every_sdk
def test_a_model_that_never_stops_is_made_to_speak(api: Client, start: Any, upstream: Any) -> None:
    def stubborn(received: Any) -> Any:
        if api.forbids(received.json):
            return turn("All right.")
        if not refs(received):
            return turn(bash("cat worker.log"))
        return turn(expand(refs(received)[0]))

    upstream.script(stubborn)
    caller = start(api, stream=True)
    assert caller.say("What is in the log?") == "All right."
    assert len(upstream.asked()) == 9
    assert upstream.statuses() == {200}


def test_figures_and_events(start: Any, own_proxy: Any, upstream: Any, tmp_path: Any) -> None:
    path = tmp_path / "events.jsonl"
    running = own_proxy("regular", penumbra_max_output_bytes=CAP, penumbra_events=str(path))
    assert running.command("penumbra.expansions").startswith("Penumbra: the model has not asked")
    for api in CLIENTS:
        upstream.script(Model(turn(bash("cat worker.log")), ask(), turn(expand("shadow_0")), turn("Done.")))
        start(api, running).say("What is in the log?")
    shown = running.command("penumbra.expansions")
    count = len(CLIENTS)
    assert f"{2 * count} asked in {count} responses, {count} found, {count} missed" in shown
    assert f"{2 * count} extra calls" in shown
    assert f"Bash {count}" in shown
    running.stop()
    found = [json.loads(line) for line in path.read_text().splitlines()]
    events = [event for event in found if event["event"] == "expansion"]
    assert len(events) == count
    for event in events:
        assert [one["found"] for one in event["asked"]] == [True, False]
        assert event["asked"][0]["bytes"] == len(LOG)
        assert event["extra_calls"] == 2
    assert LOG[:40] not in path.read_text()


def test_hidden_calls_are_flows_of_their_own(start: Any, own_proxy: Any, upstream: Any) -> None:
    running = own_proxy("regular", penumbra_max_output_bytes=CAP)
    for api in CLIENTS:
        upstream.script(Model(turn(bash("cat worker.log")), ask(), turn("Done.")))
        start(api, running, stream=True).say("What is in the log?")
    flows = running.flows()
    assert len(flows) == 3 * len(CLIENTS)
    for first, parent, hidden in zip(flows[::3], flows[1::3], flows[2::3], strict=True):
        assert "continues" not in json.dumps(first["metadata"])
        assert hidden["metadata"]["penumbra"]["continues"]
        assert len(parent["metadata"]["penumbra_continuations"]) == 1
        assert parent["comment"].endswith("1 original asked for, 1 hidden call")
        assert hidden["comment"].startswith("Penumbra: continues ")
