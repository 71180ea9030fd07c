"""Turns become one answer: when to ask, to go on, to refuse and to end."""

import json
from dataclasses import replace

import pytest

from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.expand.loop import ROUNDS, Ask, Broken, Continue, Done, ToolLoop
from support.cuts import places
from support.streams.anthropic_streams import FIRST, MIXED, PHANTOM, SECOND, call, end, event, start, text

REQUEST = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
WIRE: ApiFormat = FORMATS["anthropic"]


def exchange() -> ToolLoop:
    return ToolLoop(WIRE, WIRE.stream(PHANTOM), REQUEST)


def continued(text: str = "text") -> ToolLoop:
    """Return a loop whose first turn has asked for one original and got this text."""
    one = exchange()
    one.feed(FIRST)
    one.end_turn()
    one.answered([text])
    return one


def test_a_hidden_turn() -> None:
    one = exchange()
    shown = one.feed(FIRST)
    ask = one.end_turn()
    assert isinstance(ask, Ask)
    assert [each.id for each in ask.calls] == ["toolu_p0"]
    assert not ask.refused
    step = one.answered(["THE ORIGINAL"])
    assert isinstance(step, Continue)
    assert step.out == b""
    assert step.request.startswith(REQUEST[:-2])
    messages = json.loads(step.request)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_p0", "content": "THE ORIGINAL"}
    ]
    shown += one.feed(SECOND)
    done = one.end_turn()
    assert isinstance(done, Done)
    assert done.sound
    assert (done.calls, done.text) == (("toolu_r1",), "Let me see all of it.It fails in é.")
    assert done.hidden is not None
    assert [json.loads(message) for message in done.hidden.before] == messages[1:]
    assert done.hidden.last == one.turns[-1].message
    assert (done.signature, done.signed_late) == ("sig-1", True)
    assert PHANTOM.encode() not in shown + done.out


def test_beside_real_calls() -> None:
    one = exchange()
    one.feed(MIXED)
    assert isinstance(one.end_turn(), Ask)
    done = one.answered(["THE ORIGINAL"])
    assert isinstance(done, Done)
    assert done.hidden is not None
    assert done.hidden.before == ()
    assert json.loads(done.hidden.results[0])["content"] == "THE ORIGINAL"
    assert PHANTOM.encode() in (done.hidden.last or b"")
    assert done.calls == ("toolu_r0",)
    assert one.request == REQUEST


def test_an_ordinary_answer() -> None:
    one = exchange()
    assert one.feed(SECOND) == SECOND
    assert not one.is_delayed
    done = one.end_turn()
    assert isinstance(done, Done)
    assert [call.id for call in done.made] == ["toolu_r1"]
    assert replace(done, made=()) == Done(
        b"", ("toolu_r1",), "It fails in é.", None, signature="sig-1", signed_late=False, ids=("msg_1",)
    )


ONLY = start() + call(0, PHANTOM, "toolu_p", "{}") + end("tool_use", 1)


def test_the_limit() -> None:
    one = exchange()
    for number in range(ROUNDS + 2):
        one.feed(ONLY)
        ask = one.end_turn()
        assert isinstance(ask, Ask)
        assert ask.refused == (number >= ROUNDS)
        step = one.answered(["text"])
        assert isinstance(step, Continue)
        none = json.loads(step.request).get("tool_choice") == {"type": "none"}
        assert none == (number == ROUNDS + 1)
    one.feed(ONLY)
    assert isinstance(one.end_turn(), Ask)
    done = one.answered(["text"])
    assert isinstance(done, Done)
    assert not done.sound
    assert (done.out, done.broken) == (b"", "the model asked for shortened results only, again and again")


def test_words_beside_the_last_call_are_an_answer() -> None:
    one = exchange()
    for _ in range(ROUNDS + 2):
        one.feed(ONLY)
        one.end_turn()
        one.answered(["text"])
    one.feed(start() + text(0, "Words.") + call(1, PHANTOM, "toolu_p", "{}") + end("tool_use", 1))
    one.end_turn()
    done = one.answered(["text"])
    assert isinstance(done, Done)
    assert done.sound
    assert b'"stop_reason": "end_turn"' in done.out or b'"stop_reason":"end_turn"' in done.out
    assert done.hidden is not None
    assert done.hidden.last is None
    assert json.loads(done.hidden.before[-1])["content"][0]["type"] == "tool_result"


def test_a_continuation_that_ends_early() -> None:
    """Without anything for the client it may be had again; else the client's response ends as early."""
    one = continued()
    one.feed(SECOND[:200])
    broken = one.end_turn()
    assert isinstance(broken, Broken)
    assert "ended its response early" in one.failed(broken.failure).broken
    one.again()
    assert one.feed(SECOND[:-40])
    done = one.end_turn()
    assert isinstance(done, Done)
    assert (done.sound, done.broken) == (False, "")
    assert b"error" not in done.out


def test_a_document_that_is_cut_within_a_hidden_call_becomes_an_error() -> None:
    one = ToolLoop(WIRE, WIRE.body(PHANTOM), REQUEST)
    one.feed(
        b'{"type":"message","role":"assistant","content":[{"type":"tool_use","name":"%b"' % PHANTOM.encode()
    )
    broken = one.end_turn()
    assert isinstance(broken, Broken)
    done = one.failed(broken.failure)
    assert (json.loads(done.out)["type"], done.status, done.sound) == ("error", 502, False)


def test_an_error_that_the_provider_reports_is_one_for_the_client() -> None:
    one = continued()
    one.feed(start(1) + text(0, "half"))
    one.feed(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    broken = one.end_turn()
    assert isinstance(broken, Broken)
    done = one.failed(broken.failure)
    assert (done.sound, done.broken) == (False, "")
    assert b"overloaded_error" in done.out


def test_a_continuation_that_fails_and_one_that_is_tried_again() -> None:
    one = continued()
    one.feed(start(1))
    one.again()
    shown = one.feed(SECOND)
    done = one.end_turn()
    assert isinstance(done, Done)
    assert done.sound
    assert b"message_start" not in shown
    failed = continued().failed(Failure(529, b'{"error":{"type":"overloaded_error","message":"Busy"}}', "x"))
    assert (failed.status, failed.out, failed.broken) == (529, b"", "x")


def test_a_client_that_leaves() -> None:
    one = exchange()
    one.feed(FIRST[: FIRST.index(b"all of it")])
    done = one.interrupted()
    assert not done.sound
    assert done.text == "Let me see "
    # A response that breaks off before a hidden call is the client's own.
    assert done.hidden is None


def test_the_visible_part_of_a_response_can_be_sent_again() -> None:
    """A broken continuation keeps the hidden turns, and the received parts that the API accepts."""
    for at in places(SECOND[:-1]):
        one = continued("THE ORIGINAL")
        one.feed(SECOND[:at])
        for done in (one.failed(Failure(503, b"", "x")), one.interrupted()):
            assert not done.sound
            assert done.hidden is not None
            assert done.hidden.broken
            assert json.loads(done.hidden.before[1])["content"][0]["content"] == "THE ORIGINAL"
            last = json.loads(done.hidden.last or b'{"content":[]}')["content"]
            assert not last or last[-1]["type"] != "thinking"
            assert [block["id"] for block in last if block["type"] == "tool_use"] == list(done.calls)
        assert done.text.startswith("Let me see all of it.")


def test_a_response_that_cannot_be_read_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(data: bytes) -> bytes:
        raise ValueError("secret")

    response = WIRE.stream(PHANTOM)
    monkeypatch.setattr(response, "feed", broken)
    one = ToolLoop(WIRE, response, REQUEST)
    assert one.feed(b"abc") == b"abc"
    assert one.feed(b"def") == b"def"
    assert one.end_turn() == Done(b"", sound=False)
    assert one.keep_alive == b""


def test_reasoning_before_the_hidden_turn_is_not_late() -> None:
    one = continued()
    one.feed(start(1) + text(0, "Done.") + end("end_turn", 1))
    done = one.end_turn()
    assert isinstance(done, Done)
    assert (done.signature, done.signed_late) == ("sig-0", False)
    assert done.hidden is not None
    assert done.hidden.signed
