"""Amazon Bedrock: real clients through a real mitmdump, with and without expansions, signed and not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EventStreamError
from urllib3.exceptions import ProtocolError

from support.agents.agent import PRINTS, SESSION, AnthropicAgent, bash
from support.agents.bedrock_callers import ConverseAgent, InvokeAgent, anthropic_bedrock, boto
from support.agents.model import CAP, COMMANDS, Model, ask, expand, refs
from support.agents.requests import PHANTOM, assert_prefix_kept, hidden_results, results
from support.upstream import Fault, RedactedThinking, Text, Thinking, turn

LOG = COMMANDS["cat worker.log"]
Start = Callable[..., Any]
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
some_ways = pytest.mark.parametrize(("api", "stream"), [("invoke", True), ("anthropic", False)])
every_way = pytest.mark.parametrize("api", ["invoke", "anthropic"])


@pytest.fixture
def start(clients: Any, api_key: str, proxy: Any) -> Start:
    """An agent with an API key, or, with `signs`, one that signs its requests."""

    def start(api: str, running: Any = None, signs: bool = False, **more: Any) -> Any:
        running = running or proxy("regular", penumbra_max_output_bytes=CAP)
        token = "" if signs else api_key
        if api == "anthropic":
            return AnthropicAgent(anthropic_bedrock(clients, running, token), **more)
        kind = ConverseAgent if api == "converse" else InvokeAgent
        return kind(boto(running, token=token), token=token, **more)

    return start


def statuses(upstream: Any) -> set[int]:
    return {request.status for request in upstream.asked()}


@some_ways
def test_same_conversation_in_fewer_bytes(
    api: str, stream: bool, start: Start, upstream: Any, proxy: Any
) -> None:
    upstream.answers(*SESSION)
    plain = start(api, proxy("regular", addon=False), stream=stream)
    plain.say("Why does the total test fail?")
    sent = upstream.asked()[-1]
    upstream.reset()
    upstream.answers(*SESSION)
    ours = start(api, stream=stream)
    ours.say("Why does the total test fail?")
    assert statuses(upstream) == {200}
    assert ours.messages == plain.messages
    assert_prefix_kept(upstream.asked())
    before, after = (sum(len(text) for _, text in results(one.json)) for one in (sent, upstream.asked()[-1]))
    assert after < 0.7 * before


@both_ways
@every_way
def test_once(api: str, stream: bool, start: Start, upstream: Any) -> None:
    upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
    agent = start(api, stream=stream)
    assert agent.say("What is in the log?").endswith("NEEDLE-90 it is.")
    assert PHANTOM not in str(agent.messages)
    first, shortened, continued = upstream.asked()
    assert statuses(upstream) == {200}
    declared = "toolConfig" if api == "converse" else "tools"
    assert PHANTOM in str(first.json[declared])
    assert first.json[declared] == shortened.json[declared] == continued.json[declared]
    assert hidden_results(continued) == [LOG]
    upstream.script(Model(turn(bash("ls")), turn("Done.")))
    assert agent.say("Go on.") == "Done."
    assert statuses(upstream) == {200}
    assert hidden_results(upstream.asked()[-1]) == [LOG]
    assert_prefix_kept(upstream.asked())


def test_after_a_restart(start: Start, upstream: Any, own_proxy: Any) -> None:
    running = own_proxy("regular", penumbra_max_output_bytes=CAP)
    histories = {}
    for api in ("converse", "invoke"):
        upstream.script(Model(turn(bash("cat worker.log")), ask(Thinking("Hm."), "Let me see."), turn("So.")))
        agent = start(api, running, stream=api == "converse")
        agent.say("What is in the log?")
        histories[api] = agent.messages, len(upstream.asked())
    running.restart()
    for api, (messages, count) in histories.items():
        upstream.script(Model(turn("Done.")))
        assert start(api, running, messages=messages).say("Go on.") == "Done."
        assert hidden_results(upstream.asked()[-1]) == [LOG]
        assert_prefix_kept([upstream.asked()[count - 1], upstream.asked()[-1]])
    assert statuses(upstream) == {200}


@both_ways
@pytest.mark.parametrize("api", ["converse", "anthropic"])
def test_a_long_conversation_keeps_its_prefix(api: str, stream: bool, start: Start, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(Thinking("First."), bash("cat worker.log")),
            ask(Thinking("Too short."), "Let me see."),
            turn(Thinking("I see."), bash("cat db.log"), bash("ls")),
            turn(RedactedThinking(), bash("cat web.log")),
            ask(Thinking("Hm."), which=0, pattern="NEEDLE"),
            ask(RedactedThinking(), which=1, lines="91"),
            turn(Thinking("That's all."), "Now I know."),
        )
    )
    agent = start(api, stream=stream, cache=True)
    assert "Now I know." in agent.say("What is in the logs?")
    for number in range(3):
        upstream.script(Model(turn(Thinking("So."), bash("ls")), turn(Thinking("Then."), f"{number}.")))
        assert agent.say(f"And {number}?") == f"{number}."
    assert [request.problem for request in upstream.asked() if request.problem] == []
    whole, matches, part = hidden_results(upstream.asked()[-1])
    assert whole == LOG
    assert matches.startswith("[1 matching line in 150 lines]\n")
    assert part.startswith("[Lines 91-91 of 150]\n")


@both_ways
@every_way
def test_beside_real_calls_nothing_is_asked_upstream(
    api: str, stream: bool, start: Start, upstream: Any
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
    agent = start(api, stream=stream)
    assert agent.say("What is in the log?") == "NEEDLE-90."
    assert len(upstream.asked()) == 3
    assert statuses(upstream) == {200}
    assert PHANTOM not in str(agent.messages)
    original, unknown = hidden_results(upstream.asked()[-1])
    assert original == LOG
    assert "not available any more" in unknown
    upstream.script(Model(turn("Done.")))
    agent.say("Go on.")
    assert statuses(upstream) == {200}
    assert_prefix_kept(upstream.asked())


@some_ways
def test_two_originals_in_one_turn(api: str, stream: bool, start: Start, upstream: Any) -> None:
    upstream.script(
        Model(
            turn(bash("cat worker.log"), bash("cat db.log")),
            lambda received: turn(*(expand(ref) for ref in refs(received))),
            turn("Both read."),
        )
    )
    agent = start(api, stream=stream)
    assert agent.say("What is in the logs?") == "Both read."
    assert statuses(upstream) == {200}
    assert hidden_results(upstream.asked()[-1]) == [LOG, COMMANDS["cat db.log"]]


@both_ways
def test_figures_are_of_all_turns(stream: bool, start: Start, upstream: Any) -> None:
    for api, usage in (
        ("converse", {"inputTokens": 5, "outputTokens": 3, "totalTokens": 8}),
        ("invoke", {"input_tokens": 5, "output_tokens": 3}),
    ):
        said = partial(_with_usage, ask("One moment."), usage), partial(_with_usage, turn("It is."), usage)
        upstream.script(Model(turn(bash("cat worker.log")), *said))
        agent = start(api, stream=stream)
        agent.say("What is in the log?")
        if api == "converse":
            found = {key: agent.usage[key] for key in usage}
            assert found == {"inputTokens": 5, "outputTokens": 6, "totalTokens": 11}
        else:
            assert (agent.metrics["inputTokenCount"], agent.metrics["outputTokenCount"]) == (5, 6)


def _with_usage(step: Any, usage: dict[str, int], received: Any) -> Any:
    answer = step(received) if callable(step) else step
    return turn(*answer.blocks, usage=usage)


@some_ways
def test_streams_cut_anywhere(api: str, stream: bool, start: Start, upstream: Any) -> None:
    split = {"split": 7, "delta": 3}
    steps = (ask("Wait: é.", delivery=split), turn("Süß.", bash("ls"), **split), turn("Ja."))
    upstream.script(Model(turn(bash("cat worker.log"), **split), *steps))
    agent = start(api, stream=stream)
    assert agent.say("What is in the log?") == "Ja."
    assert "Süß." in json.dumps(agent.messages, ensure_ascii=False)
    assert statuses(upstream) == {200}


def test_words_arrive_before_the_next_ones_are_made(start: Start, upstream: Any) -> None:
    """The third word is let go by the test only when the second has reached the client."""
    gate = threading.Event()
    second = turn(Text("Two. Three.", deltas=("Two.", " Three.")), hold={3: gate})
    upstream.script(Model(turn("One.", expand("shadow_999999999999999999")), second))
    agent = start("invoke", stream=True)
    agent.messages.append(agent.prompt("Count."))
    got = ""
    for event in agent.events():
        got += event.get("delta", {}).get("text", "")
        if "Two." in got:
            assert gate.is_set() == ("Three." in got)
            gate.set()
    assert got == "One.Two. Three."


@both_ways
@pytest.mark.parametrize("api", ["converse", "invoke"])
def test_a_failing_continuation(api: str, stream: bool, start: Start, upstream: Any) -> None:
    upstream.script(Model(turn(bash("cat worker.log")), ask("One moment."), Fault(400, "Too many cats.")))
    agent = start(api, stream=stream)
    if stream:
        with pytest.raises(ProtocolError, match="ended prematurely"):
            agent.say("What is in the log?")
        return
    # The client's own request was right: a status that is tried again.
    with pytest.raises(ClientError, match="status 400") as caught:
        agent.say("What is in the log?")
    assert caught.value.response["Error"]["Code"] == "InternalServerException"


@pytest.mark.parametrize("api", ["converse", "invoke"])
def test_an_error_in_the_middle_of_a_stream(api: str, start: Start, upstream: Any) -> None:
    """The client gets the provider's own error; after a hidden turn too."""
    for step in (ask("One moment.", delivery={"error_after": 2}), ask("Well.")):
        failing = turn("abc", delta=1, error_after=4)
        upstream.script(Model(turn(bash("cat worker.log")), step, failing))
        with pytest.raises(EventStreamError) as caught:
            start(api, stream=True).say("What is in the log?")
        assert caught.value.response["Error"]["Code"] == "throttlingException"
    upstream.script(Model(turn(bash("cat worker.log")), ask("Well."), turn("a" * 99, cut_after=2)))
    with pytest.raises(ProtocolError):
        start(api, stream=True).say("What is in the log?")


@every_way
def test_a_model_that_never_stops_is_made_to_speak(api: str, start: Start, upstream: Any) -> None:
    def stubborn(received: Any) -> Any:
        body = received.json
        if PHANTOM not in str(body.get("toolConfig") or body.get("tools")) or "none" in str(
            body.get("tool_choice")
        ):
            return turn("All right.")
        return turn(expand(refs(received)[0])) if refs(received) else turn(bash("cat worker.log"))

    upstream.script(stubborn)
    agent = start(api, stream=True)
    assert agent.say("What is in the log?") == "All right."
    assert statuses(upstream) == {200}


def test_secrets_do_not_leave(start: Start, upstream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "AKIAQ3EGRZ7XJ5TKLWNB"
    monkeypatch.setitem(PRINTS, "env", f"HOME=/root\nAWS_ACCESS_KEY_ID={secret}\n")
    for api in ("converse", "invoke"):
        for stream in (False, True):
            upstream.answers(turn(bash("env")), turn("Done."))
            agent = start(api, stream=stream)
            agent.say("What is set?")
            sent = upstream.asked()[-1]
            assert secret.encode() not in sent.raw_body
            assert "[REDACTED:" in dict(results(sent.json))["Bash"]
            assert secret in str(agent.messages)


# -- signed requests


def test_signed_requests_are_signed_anew(start: Start, upstream: Any, signing_proxy: Any) -> None:
    for api in ("converse", "invoke", "anthropic"):
        for stream in (False, True):
            upstream.requests.clear()
            upstream.script(Model(turn(bash("cat worker.log")), ask("Let me see."), turn("NEEDLE-90 it is.")))
            agent = start(api, signing_proxy, signs=True, stream=stream)
            assert agent.say("What is in the log?").endswith("NEEDLE-90 it is.")
            upstream.script(Model(turn("Done.")))
            assert agent.say("Go on.") == "Done."
            assert [request.problem for request in upstream.asked() if request.problem] == []
            assert all(
                "SignedHeaders" in str(request.header("authorization")) for request in upstream.asked()
            )
            assert hidden_results(upstream.asked()[-1]) == [LOG]
            assert len(upstream.asked()) == 4
            assert_prefix_kept(upstream.asked())


def test_signed_requests_pass_untouched_with_one_line(start: Start, upstream: Any, own_proxy: Any) -> None:
    running = own_proxy("regular", penumbra_max_output_bytes=CAP)
    for api in ("converse", "invoke", "anthropic"):
        upstream.script(Model(turn(bash("cat worker.log")), turn("So it is.")))
        agent = start(api, running, signs=True, stream=True)
        assert agent.say("What is in the log?") == "So it is."
        assert statuses(upstream) == {200}
        assert dict(results(upstream.asked()[-1].json))["Bash"] == LOG
        assert PHANTOM not in str(upstream.asked()[-1].json)
    assert running.log().count("they are signed") == 1


def test_without_botocore_the_model_cannot_ask(
    start: Start, upstream: Any, own_proxy: Any, tmp_path: Path
) -> None:
    script = tmp_path / "without.py"
    script.write_text(
        "import sys\nsys.modules['botocore'] = None\nfrom penumbra.addon import Penumbra\naddons = [Penumbra()]\n"
    )
    running = own_proxy("regular", script=script, forked=False, penumbra_max_output_bytes=CAP)
    upstream.answers(turn(bash("cat worker.log")), turn("Done."))
    agent = start("converse", running, stream=True)
    assert agent.say("What is in the log?") == "Done."
    assert all(PHANTOM not in str(request.json) for request in upstream.asked())
    assert len(dict(results(upstream.asked()[-1].json))["Bash"]) < len(LOG)
    assert running.log().count("penumbra-proxy[bedrock]") == 1
