"""Several turns of a provider become one response, in every API, in a stream and in a document.

The test providers write the turns, and the client's response is read back by a reader that hides nothing.
"""

import json

import pytest

from penumbra.apis.anthropic import AnthropicTurns
from penumbra.apis.base import Failure
from penumbra.apis.formats import FORMATS
from penumbra.apis.openai_chat import ChatTurns
from support.cuts import places
from support.streams.drive import byte_by_byte, chunks, drive, every_cut
from support.streams.provider_turns import CASES, PHANTOM, Case, every_case, every_stream
from support.upstream import script
from support.upstream.script import ToolCall

ASKED, RUN = (
    ToolCall(PHANTOM, {"id": "shadow_0"}, "toolu_hidden_0"),
    ToolCall("run", {"n": 1}, "toolu_real_1"),
)
ASKING, ANSWERING = script.turn("Let me see é.", ASKED), script.turn("It fails.", RUN)


@every_case
def test_a_response_without_a_call_of_the_tool_is_not_touched(case: Case) -> None:
    words = script.turn(f"I could call {PHANTOM}, é.", ToolCall("run", {"command": PHANTOM}, "toolu_real_1"))
    data = case.begin().written(words)
    out, (turn,) = every_cut(case.reader, [data])
    assert out == data
    assert (turn.injected, len(turn.real_calls), turn.finished) == ((), 1, True)
    assert turn.text == f"I could call {PHANTOM}, é."


@every_case
def test_a_reader_without_a_tool_hides_nothing(case: Case) -> None:
    data = case.begin().written(ANSWERING)
    answer = case.reader("")
    out, turn = answer.feed(data), answer.end_turn()
    assert (out + answer.finish(), turn.injected, len(turn.real_calls)) == (data, (), 1)


@every_stream
def test_a_stream_with_other_bytes_is_not_touched(case: Case) -> None:
    data = case.begin().written(ANSWERING)
    for stream in (data + b"no event", data[:-1], b"data: no json\n\n" + data):
        assert byte_by_byte(case.reader, [stream])[0] == stream


@every_stream
def test_events_that_only_add_text_have_the_effect_of_all_of_them(case: Case, monkeypatch) -> None:
    deltas = b"".join(
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%b"}}\n\n' % text
        for text in (b"a", rb"\"b\n", "é😀".encode(), b"\xe2\x80", b"\\ud83d", b"\\ude00", b" c", b"}")
    )
    data = (
        case.begin()
        .written(ANSWERING)
        .replace(b"event: content_block_stop", deltas + b"event: content_block_stop", 1)
    )
    together = byte_by_byte(case.reader, [data])
    for turns in (AnthropicTurns, ChatTurns):
        monkeypatch.setattr(turns, "grows", None)
    assert byte_by_byte(case.reader, [data]) == together
    assert together[0] == data


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"error":{"message":"no"}}'])
@every_case
def test_bytes_that_are_no_response_are_not_touched(case: Case, data: bytes) -> None:
    if not (case.is_stream and case.format == "gemini" and data == b"[]"):
        assert byte_by_byte(case.reader, [data])[0] == data


@pytest.mark.parametrize("case", [case for case in CASES if not case.is_stream], ids=lambda case: case.name)
def test_a_stream_that_is_called_a_document_is_not_touched(case: Case) -> None:
    """Clients can read such a body, whose text may name the tool."""
    data = b'event: text\ndata: {"text":"I could call %b."}\n\n' % PHANTOM.encode()
    assert byte_by_byte(case.reader, [data])[0] == data


@every_case
def test_two_turns_are_one_response(case: Case) -> None:
    turns = [case.begin().written(ASKING), case.written(ANSWERING)]
    out, (first, second) = every_cut(case.reader, turns)
    got = case.read(out)
    assert PHANTOM.encode() not in out
    assert got.text.replace("\n", "") == "Let me see é.It fails."
    assert (got.real_calls, got.finished) == (second.real_calls, True)
    assert [json.loads(call.arguments) for call in first.injected] == [{"id": "shadow_0"}]
    assert (first.real_calls, first.continuable, first.text) == ((), True, "Let me see é.")
    assert PHANTOM.encode() in (first.message or b"")
    assert got.ending.reasons == second.ending.reasons


@every_case
def test_the_usage_of_a_response_has_the_outputs_of_all_its_turns(case: Case) -> None:
    turns = [case.begin().written(ASKING), case.written(ASKING), case.written(ANSWERING)]
    out, (*hidden, last) = byte_by_byte(case.reader, turns)
    table = FORMATS[case.format].responses.turns.usage
    for name, count in case.read(out).usage.items():
        summed = name.startswith(table.outputs) * sum(turn.usage.get(name, 0) for turn in hidden)
        assert name == table.total or count == summed + last.usage[name], name


@pytest.mark.parametrize("module", ["default_api.", "functions."])
@every_case
def test_a_module_before_the_name_of_the_tool_is_ignored(case: Case, module: str) -> None:
    asked = ToolCall(module + PHANTOM, {"id": "shadow_0"}, "toolu_hidden_0")
    out, (turn,) = byte_by_byte(case.reader, [case.begin().written(script.turn("See.", asked))])
    assert (len(turn.injected), turn.real_calls) == (1, ())
    assert PHANTOM.encode() not in out


@every_case
def test_real_calls_beside_the_hidden_one_reach_the_client(case: Case) -> None:
    out, (turn,) = byte_by_byte(case.reader, [case.begin().written(script.turn("Both.", ASKED, RUN))])
    got = case.read(out)
    assert PHANTOM.encode() not in out
    assert (got.text, got.real_calls, got.tokens) == ("Both.", turn.real_calls, turn.tokens)
    assert (len(turn.real_calls), len(turn.injected)) == (1, 1)
    assert got.ending.reasons == turn.ending.reasons


@every_case
def test_all_calls_of_the_tool_in_a_turn_are_hidden_and_known(case: Case) -> None:
    other = ToolCall(PHANTOM, {"id": "shadow_1"}, "toolu_hidden_1")
    out, (turn,) = byte_by_byte(case.reader, [case.begin().written(script.turn("All.", ASKED, other, RUN))])
    got = case.read(out)
    assert [json.loads(call.arguments)["id"] for call in turn.injected] == ["shadow_0", "shadow_1"]
    assert PHANTOM.encode() not in out
    assert (got.text, got.real_calls, len(got.real_calls)) == ("All.", turn.real_calls, 1)


@every_case
def test_a_turn_of_nothing_but_the_tool_ends_without_calls(case: Case) -> None:
    out, _ = byte_by_byte(case.reader, [case.begin().written(script.turn(ASKED))])
    got = case.read(out)
    assert PHANTOM.encode() not in out
    assert (got.text, got.real_calls, got.finished) == ("", (), True)
    assert got.ending.reasons == case.read(case.written(script.turn("x"))).ending.reasons


@every_case
def test_the_model_and_the_reason_of_the_end_are_read(case: Case) -> None:
    reason = "incomplete" if case.format == "openai_responses" else "max_tokens"
    turn = case.read(case.begin().written(script.turn("x", stop=reason)))
    assert turn.ending.reasons == (reason,)
    assert bool(turn.ending.model) is (case.format != "bedrock")


@every_case
def test_half_an_event_at_the_end_does_not_name_the_tool(case: Case) -> None:
    data = case.begin().written(ASKING)
    for at in places(data):
        answer = case.reader()
        assert PHANTOM.encode() not in answer.feed(data[:at]) + answer.close(), data[:at][-80:]


@every_stream
def test_text_goes_out_at_once_and_the_end_is_delayed(case: Case) -> None:
    data, response = case.begin().written(ASKING), case.reader()
    at, out = 0, b""
    while not response.is_delayed:
        out, at = out + response.feed(data[at : at + 1]), at + 1
    # A call whose name may still become the tool's is delayed, too.
    assert response.feed(data[at:]) == b""
    assert case.read(out).text == "Let me see é."
    assert response.end_turn().injected
    assert (response.go_on(), response.is_delayed) == (b"", False)


@every_stream
def test_a_stream_that_just_ends_is_not_finished(case: Case) -> None:
    data = case.begin().written(ASKING)
    _, (turn,) = drive(case.reader(), [data[: len(data) // 2]], lambda data: chunks(data, 50))
    assert not turn.finished


@every_stream
def test_an_error_of_the_first_turn_reaches_the_client_and_one_of_a_later_turn_does_not(case: Case) -> None:
    error = case.begin().written(ANSWERING, error=True)
    out, (turn,) = byte_by_byte(case.reader, [error])
    assert (turn.failed, turn.failure, case.read(out).failed) == (True, None, True)
    # Events of Responses are numbered, and the provider's error has another number.
    assert out == error or case.format == "openai_responses"
    response = case.reader()
    drive(response, [error], lambda data: chunks(data, 100))
    assert response.fail(Failure(500, b"", "again", reported=True)) == b""
    out, (_, later) = byte_by_byte(case.reader, [case.written(ASKING), error])
    assert later.failed
    assert later.failure is not None
    assert not case.read(out).failed


@every_case
def test_a_turn_that_is_requested_again_leaves_no_trace(case: Case) -> None:
    first, second = case.begin().written(ASKING), case.written(ANSWERING)
    response = case.reader()
    out = response.feed(first)
    response.end_turn()
    out += response.go_on()
    response.feed(case.written(script.turn(ASKED)))
    response.restart()
    out += response.feed(second)
    response.end_turn()
    assert out + response.finish() == byte_by_byte(case.reader, [first, second])[0]
