"""Several turns of a provider become one response, in every API, in a stream and in a document.

The test providers write the turns, and the client's response is read back by a reader that hides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from penumbra.apis.base import Failure, Turn
from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from support.cuts import places
from support.streams.drive import byte_by_byte, chunks, drive, every_cut
from support.upstream import script
from support.upstream.anthropic import Anthropic
from support.upstream.api import Api, Received
from support.upstream.bedrock import Bedrock
from support.upstream.gemini import Gemini
from support.upstream.ollama import Ollama
from support.upstream.openai_chat import OpenAIChat
from support.upstream.openai_responses import OpenAIResponses
from support.upstream.script import ToolCall
from support.upstream.server import write_end, write_piece

PHANTOM = "expand_context"
ASKED, RUN = (
    ToolCall(PHANTOM, {"id": "shadow_0"}, "toolu_hidden_0"),
    ToolCall("run", {"n": 1}, "toolu_real_1"),
)
ASKING, ANSWERING = script.turn("Let me see é.", ASKED), script.turn("It fails.", RUN)
BODY = {"model": "m", "messages": [], "input": [], "contents": [], "stream_options": {"include_usage": True}}
PROVIDERS: dict[str, tuple[str, Callable[[], Api], str, str]] = {
    "anthropic": ("anthropic", Anthropic, "/v1/messages", ""),
    "bedrock": ("bedrock", Bedrock, "/model/m/converse", "-stream"),
    "bedrock_invoke": ("bedrock_invoke", Bedrock, "/model/m/invoke", "-with-response-stream"),
    "gemini": ("gemini", Gemini, "/v1beta/models/m:streamGenerateContent", "?alt=sse"),
    "gemini, an array": ("gemini", Gemini, "/v1beta/models/m:streamGenerateContent", ""),
    "ollama": ("ollama", Ollama, "/api/chat", ""),
    "openai_chat": ("openai_chat", OpenAIChat, "/v1/chat/completions", ""),
    "openai_responses": ("openai_responses", OpenAIResponses, "/v1/responses", ""),
}


class Case:
    """A provider that sends streams, or documents."""

    def __init__(self, name: str, is_stream: bool) -> None:
        self.name = f"{name}, {'stream' if is_stream else 'document'}"
        self.format, self._make, path, streamed = PROVIDERS[name]
        self.is_stream = is_stream
        self._received = Received(0, "1.1", "POST", path + streamed * is_stream, [], b"")
        self._api = self._make()

    def begin(self) -> Case:
        """Return the case with a provider that has written no turn."""
        self._api = self._make()
        return self

    def written(self, turn: script.Turn, *, error: bool = False) -> bytes:
        """Return a turn as the provider writes it. With `error`, an error event replaces the second half."""
        made = self._api.render(self._received, {**BODY, "stream": self.is_stream}, turn)
        if not self.is_stream:
            return json.dumps(made.document, ensure_ascii=False, indent=1).encode()
        events = [*made.events[: len(made.events) // 2], made.error_event] if error else made.events
        pieces = [write_piece(made.framing, number, event) for number, event in enumerate(events)]
        return b"".join(pieces) + write_end(made.framing)

    def reader(self, hidden: str = PHANTOM) -> Response:
        api = FORMATS[self.format]
        return api.stream(hidden) if self.is_stream else api.body(hidden)

    def read(self, data: bytes) -> Turn:
        """Return the turn that the client gets."""
        response = self.reader("")
        response.feed(data)
        return response.end_turn()


STREAMS = [Case(name, True) for name in PROVIDERS]
CASES = [*STREAMS, *(Case(name, False) for name in PROVIDERS if "array" not in name)]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_stream = pytest.mark.parametrize("case", STREAMS, ids=lambda case: case.name)


@every_case
def test_a_response_without_a_call_of_the_tool_is_not_touched(case: Case) -> None:
    words = script.turn(f"I could call {PHANTOM}, é.", ToolCall("run", {"command": PHANTOM}, "toolu_real_1"))
    data = case.begin().written(words)
    out, (turn,) = every_cut(case.reader, [data])
    assert out == data
    assert (turn.injected, len(turn.real_calls), turn.finished) == ((), 1, True)
    assert turn.text == f"I could call {PHANTOM}, é."


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"error":{"message":"no"}}'])
@every_case
def test_bytes_that_are_no_response_are_not_touched(case: Case, data: bytes) -> None:
    if not (case.is_stream and case.format == "gemini" and data == b"[]"):
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
    table = FORMATS[case.format].responses.turns.usage
    for name, count in got.usage.items():
        summed = name.startswith(table.outputs) * first.usage.get(name, 0)
        assert name == table.total or count == summed + second.usage[name], name


@every_case
def test_real_calls_beside_the_hidden_one_reach_the_client(case: Case) -> None:
    out, (turn,) = byte_by_byte(case.reader, [case.begin().written(script.turn("Both.", ASKED, RUN))])
    got = case.read(out)
    assert PHANTOM.encode() not in out
    assert (got.text, got.real_calls, got.tokens) == ("Both.", turn.real_calls, turn.tokens)
    assert (len(turn.real_calls), len(turn.injected)) == (1, 1)
    assert got.ending.reasons == turn.ending.reasons


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
