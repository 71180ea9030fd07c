"""Thinking whose prefix has changed: the request is sent again without it, which is remembered."""

from typing import Any

import pytest

from support.agents.agent import THINKING_SESSION, agent, bash
from support.upstream import Raw, Thinking, turn

BETA = "thinking-binding-controls-2026-08-01"
MORE = (turn(Thinking("Once more."), bash("npm install")), turn(Thinking("So be it."), "Done."))


@pytest.fixture
def begun(clients: Any, proxy: Any, upstream: Any) -> Any:
    """`begin(kind)` returns an agent whose thinking followed results that Penumbra had not seen."""

    def begin(kind: str = "enabled") -> Any:
        more = {"thinking": {"type": "adaptive"}} if kind == "adaptive" else {}
        upstream.answers(*THINKING_SESSION)
        caller = agent("anthropic", clients, proxy("regular", addon=False), thinking=True, extra=more)
        caller.say("Why does the total test fail?")
        upstream.requests.clear()
        return caller

    return begin


def statuses(upstream: Any) -> list[int]:
    return [request.status for request in upstream.asked()]


def wishes(upstream: Any) -> list[bool]:
    return ["block_binding" in request.json["thinking"] for request in upstream.asked()]


@pytest.mark.parametrize(
    ("stream", "kind", "beta"),
    [(False, "enabled", ""), (True, "adaptive", "interleaved-thinking-2025-05-14"), (True, "enabled", BETA)],
)
def test_the_failing_blocks_are_dropped_and_later_turns_know(
    stream: bool, kind: str, beta: str, begun: Any, clients: Any, own_proxy: Any, proxy: Any, upstream: Any
) -> None:
    old = begun(kind)
    restarts = kind == "adaptive"
    running = (own_proxy if restarts else proxy)(penumbra_adopt="compress")
    upstream.answers(*MORE)
    more = {**old.extra, **({"extra_headers": {"anthropic-beta": beta}} if beta else {})}
    caller = agent(
        "anthropic", clients, running, messages=old.messages, thinking=True, stream=stream, extra=more
    )
    assert caller.say("And now?") == "Done."
    # The first request is refused and then taken; the second turn is taken at once.
    assert statuses(upstream) == [400, 200, 200]
    assert wishes(upstream) == [False, True, True]
    for request in upstream.asked()[1:]:
        sent = request.header("anthropic-beta") or ""
        assert sent.split(",") == [*filter(None, [beta.replace(BETA, "")]), BETA]
    assert upstream.anthropic.dropped
    if restarts:
        running.restart(penumbra_adopt="compress")
    upstream.answers(turn("Still here."))
    again = agent(
        "anthropic", clients, running, messages=caller.messages, thinking=True, stream=stream, extra=more
    )
    assert again.say("And then?") == "Still here."
    assert statuses(upstream)[3:] == [200]


def test_a_client_that_asks_for_the_error_gets_it(
    begun: Any, clients: Any, proxy: Any, upstream: Any
) -> None:
    old = begun()
    wish = {"type": "enabled", "budget_tokens": 2048, "block_binding": {"prefix_mismatch_behavior": "error"}}
    more = {"extra_body": {"thinking": wish}, "extra_headers": {"anthropic-beta": BETA}}
    caller = agent(
        "anthropic",
        clients,
        proxy(penumbra_adopt="compress"),
        messages=old.messages,
        thinking=True,
        extra=more,
    )
    with pytest.raises(Exception, match="bound to a different conversation"):
        caller.say("And now?")
    assert statuses(upstream) == [400]


def test_a_second_refusal_shows_the_first(begun: Any, clients: Any, proxy: Any, upstream: Any) -> None:
    old = begun()
    refusal = b'{"error":{"type":"invalid_request_error","message":"messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. One."}}'
    upstream.anthropic.enforce_binding = False
    upstream.script(lambda received: Raw(400, body=refusal.replace(b"One", b"%d" % received.number)))
    caller = agent("anthropic", clients, proxy(), messages=old.messages, thinking=True)
    with pytest.raises(Exception, match=r"conversation\. 0\."):
        caller.say("And now?")
    assert wishes(upstream) == [False, True]


def test_a_request_that_is_then_too_large_keeps_asking(
    begun: Any, clients: Any, proxy: Any, upstream: Any
) -> None:
    old = begun()
    too_long = b'{"error":{"type":"invalid_request_error","message":"prompt is too long: 30000 tokens > 20000 maximum"}}'
    upstream.answers(Raw(400, body=too_long), turn("Done."))
    caller = agent(
        "anthropic", clients, proxy(penumbra_adopt="compress"), messages=old.messages, thinking=True
    )
    assert caller.say("And now?") == "Done."
    assert statuses(upstream) == [400, 400, 200]
    assert wishes(upstream) == [False, True, True]
    sizes = [len(request.body) for request in upstream.asked()]
    assert sizes[2] < sizes[1]


def test_results_that_were_shortened_to_fit_may_stand_before_thinking(
    clients: Any, proxy: Any, upstream: Any
) -> None:
    """The smaller request is refused for its thinking, and then taken without it."""
    upstream.answers(*THINKING_SESSION)
    caller = agent("anthropic", clients, proxy(), thinking=True)
    caller.say("Why does the total test fail?")
    upstream.requests.clear()
    too_long = b'{"error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}'
    upstream.answers(Raw(400, body=too_long), turn(Thinking("Well."), "Done."), turn("Next."))
    assert caller.say("And now?") == "Done."
    assert statuses(upstream) == [400, 400, 200]
    assert wishes(upstream) == [False, False, True]
    assert caller.say("And then?") == "Next."
    assert statuses(upstream)[3:] == [200]
