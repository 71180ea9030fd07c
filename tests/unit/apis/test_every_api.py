"""The parts that each API needs. A test names each missing part."""

import json
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis import recognise
from penumbra.apis.api_format import ApiFormat
from penumbra.apis.base import InjectedCall, Tool, Turn
from penumbra.apis.formats import FORMATS, REQUESTS
from penumbra.apis.prompt import Kind
from penumbra.wire.document import Document
from support.filled import load

TOOL = Tool("expand_context", "Gives it back.", b'{"type":"object","properties":{"id":{}}}')
ARGUMENTS = {"path": "/a"}
ID = "toolu_01ABCDEFGHIJKLMNOPQRSTUV"
BODIES: dict[str, dict[str, Any]] = load(__file__)


def opened(name: str) -> tuple[ApiFormat, Document]:
    return REQUESTS[name], Document(json.dumps(BODIES[name]).encode())


def test_the_tests_know_every_api() -> None:
    assert set(BODIES) == set(REQUESTS)


@pytest.mark.parametrize("name", REQUESTS)
def test_the_rules_have_a_path_a_cache_and_an_example(name: str) -> None:
    ids = [api.id for api in recognise.apis() if api.format == name]
    assert ids, "no entry of rules/providers.yaml, apis"
    found = rules.load("providers.yaml")
    assert name in found["caches"], "rules/providers.yaml, caches"
    assert {one["is"] for one in found["examples"]} & set(ids), "rules/providers.yaml, examples"
    generic = next(rule for rule in rules.load("compaction.yaml")["requests"] if rule["id"] == "generic")
    assert name in generic["formats"], "rules/compaction.yaml, generic"


@pytest.mark.parametrize("name", REQUESTS)
def test_responses_are_read_and_arguments_in_them_edited(name: str) -> None:
    assert name in FORMATS
    responses = FORMATS[name].responses
    filters = [responses.arguments(lambda tool, freeform=False: None), responses.scaled_usage(abs)]
    passed = responses.passed(filters, stream=False)
    assert passed.feed(b'{"a": 1}') + passed.close() == b'{"a": 1}'
    assert responses.turns.usage.inputs, "the figures that count what went in"
    for response in (FORMATS[name].stream("expand_context"), FORMATS[name].body("expand_context")):
        assert response.feed(b"") == b""
        assert not response.is_delayed


@pytest.mark.parametrize("name", REQUESTS)
def test_the_parts_of_a_conversation(name: str) -> None:
    api, document = opened(name)
    conversation = api.read(document)
    assert [document.string(one.value) for one in conversation.results] == ["what stands there"]
    result = conversation.results[0]
    assert result.call is not None
    assert result.call.name == "Read"
    assert "go" in conversation.opening
    assert conversation.last_response == len(document.items(conversation.messages)) - 2
    outside = [document.plain(value) for value in api.outside_results(document)]
    assert {"be short", "go", "done", "and now"} <= {one for one in outside if isinstance(one, str)}
    assert [one for one in outside if one == ARGUMENTS or one == json.dumps(ARGUMENTS)]
    assert "what stands there" not in outside
    assert [one.name for one in api.past_calls(document)] == ["Read"]
    assert [(len(one.calls), one.text) for one in api.visible(document)] == [(1, ""), (0, "done")]


@pytest.mark.parametrize("name", REQUESTS)
def test_calls_and_results_have_something_in_common(name: str) -> None:
    api, document = opened(name)
    parts = [part for message in api.prompt(document).messages for part in message.parts]
    calls, results = (
        [api.pair(part) for part in parts if part.kind is kind] for kind in (Kind.CALL, Kind.RESULT)
    )
    assert len(calls) == 1
    assert calls == results


@pytest.mark.parametrize("name", REQUESTS)
def test_a_tool_is_declared_beside_the_others(name: str) -> None:
    api, document = opened(name)
    assert (api.tools(document).names, api.tools(document).own) == (("Read",), 1)
    api.declare(document, TOOL)
    (edit,) = document.edits
    declared = Document(document.render())
    assert declared.data.replace(edit.data, b"") == document.data
    assert api.tools(declared).names == ("Read", TOOL.name)
    assert len(list(api.schema_arrays(declared))) == 1
    forbidden = Document(api.without_calls(declared.data))
    assert forbidden.data != declared.data
    assert len(api.prompt(forbidden).messages) == len(api.prompt(document).messages)


@pytest.mark.parametrize("name", REQUESTS)
def test_added_results_and_words_are_read(name: str) -> None:
    api, document = opened(name)
    call_id = json.dumps({"tool_name": "x"}) if name == "ollama" else ID
    call_id = json.dumps({"id": ID, "name": "x"}) if name == "gemini" else call_id
    added = api.continuation(Turn(), [api.result(InjectedCall(call_id, "{}"), "given back")])
    longer = Document(api.extended(document.data, [*added, api.user_message("words")]))
    kept = next(
        at for at, pair in enumerate(zip(document.data, longer.data, strict=False)) if len({*pair}) == 2
    )
    assert longer.data.endswith(document.data[kept:])
    messages = api.prompt(longer).messages
    result, words = messages[-2].of(Kind.RESULT)[-1], messages[-1].of(Kind.TEXT)[-1]
    assert [longer.string(text) for text in result.texts] == ["given back"]
    assert [longer.string(text) for text in words.texts] == ["words"]
    assert (messages[-1].role, messages[-1].by_model) == ("user", False)


def test_a_prompt_is_read_once() -> None:
    api, document = opened("anthropic")
    assert api.prompt(document) is api.prompt(document)
    assert api.prompt(document) is not REQUESTS["openai_chat"].prompt(document)


LEGACY = {"role": "assistant", "content": None, "function_call": {"name": "Read", "arguments": "{}"}}
REMOTE = {"toolUse": {"toolUseId": "srv_1", "name": "search", "input": {"q": "x"}, "type": "server_tool_use"}}
ODD = {
    "a call of the legacy form": ("openai_chat", {"messages": [LEGACY]}),
    "a call that the provider answers": (
        "bedrock",
        {"messages": [{"role": "assistant", "content": [REMOTE]}]},
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_calls_that_no_exchange_is_recognised_by(what: str) -> None:
    name, body = ODD[what]
    document = Document(json.dumps(body).encode())
    assert len(list(REQUESTS[name].past_calls(document))) == 1
    assert len(list(REQUESTS[name].outside_results(document))) == 1
    assert [one.calls for one in REQUESTS[name].visible(document)] == [()]


OPENAI = {"error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}}
AMAZON = {"__type": "ValidationException", "message": "no"}
ERRORS: dict[str, tuple[Any, str]] = {
    "anthropic": (
        {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}},
        '"type":"api_error"',
    ),
    "bedrock": (AMAZON, '"__type":"InternalServerException"'),
    "bedrock_invoke": (AMAZON, '"__type":"InternalServerException"'),
    "gemini": (
        {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}},
        '"status":"INTERNAL"',
    ),
    "ollama": ({"error": "no"}, '"error":"no"'),
    "openai_chat": (OPENAI, '"type":"server_error"'),
    "openai_responses": (OPENAI, '"type":"server_error"'),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_errors_have_the_shape_of_their_api(name: str) -> None:
    refused, failed = ERRORS[name]
    assert json.loads(REQUESTS[name].error(400, "no")) == refused
    assert failed in REQUESTS[name].error(500, "no").decode()


@pytest.mark.parametrize(("status", "word"), [(401, "UNAUTHENTICATED"), (404, "NOT_FOUND")])
def test_an_error_of_gemini_has_google_s_name_of_the_status(status: int, word: str) -> None:
    assert json.loads(REQUESTS["gemini"].error(status, "no"))["error"]["status"] == word


@pytest.mark.parametrize(
    "messages",
    [
        None,
        3,
        {},
        [],
        [None],
        [3, "x", []],
        [{}],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [None, {}, 3, {"type": "tool_result"}]}],
        [{"parts": [None, {}, 3]}],
        [{"type": "function_call_output"}],
        [{"type": "function_call_output", "call_id": "c", "output": [None, 3]}],
    ],
    ids=str,
)
@pytest.mark.parametrize("name", REQUESTS)
def test_odd_messages_have_no_results(name: str, messages: Any) -> None:
    api = REQUESTS[name]
    conversation = api.read(Document(json.dumps({api.messages: messages}).encode()))
    assert (conversation.results, conversation.last_response) == ((), -1)
