"""What is read out of requests to Gemini, Ollama and Bedrock."""

import json

import pytest

from penumbra.apis.formats import REQUESTS
from penumbra.wire.document import Document


def read(wire, body):
    document = Document(json.dumps(body).encode())
    conversation = wire.read(document)
    texts = [
        (document.string(one.value), one.call_id, one.call.name if one.call else None, one.turn)
        for one in conversation.results
    ]
    return conversation, texts


# Gemini


def called(name, call_id=None, **more):
    return {"functionCall": {"name": name, "args": {"a": 1}, **({"id": call_id} if call_id else {})}, **more}


def answered(name, response, call_id=None, **more):
    inner = {"name": name, "response": response, **({"id": call_id} if call_id else {}), **more}
    return {"functionResponse": inner}


def gemini_body(*contents):
    return {"contents": [{"role": role, "parts": parts} for role, parts in contents], "tools": []}


def test_gemini_responses_of_any_shape_with_and_without_ids():
    body = gemini_body(
        ("user", [{"text": "go"}, {"text": "on"}]),
        (
            "model",
            [
                {"text": "hm", "thought": True},
                called("run", thoughtSignature="S"),
                called("read"),
                called("run"),
            ],
        ),
        (
            "user",
            [
                answered("run", {"output": "first"}),
                answered("run", {"result": {"lines": ["a", {"b": "c"}], "n": 3}}),
                answered("read", {"error": "no such file"}),
            ],
        ),
        ("model", [called("run", "id-9")]),
        ("user", [answered("run", {"output": "by id"}, "id-9"), {"text": "a remark"}]),
    )
    conversation, texts = read(REQUESTS["gemini"], body)
    assert texts == [
        ("first", "", "run", 2),
        ("a", "", "run", 2),
        ("c", "", "run", 2),
        ("no such file", "", "read", 2),
        ("by id", "id-9", "run", 4),
    ]
    assert [one.is_error for one in conversation.results] == [False, False, False, True, False]
    assert (conversation.last_response, conversation.opening) == (3, "go\non")
    assert conversation.results[0].call.arguments is not None


def test_gemini_files_within_responses_are_left_alone():
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    body = gemini_body(
        ("user", [{"text": "go"}]),
        ("model", [called("look")]),
        ("user", [answered("look", {"output": "seen", "image": image}, parts=[image])]),
    )
    assert read(REQUESTS["gemini"], body)[1] == [("seen", "", "look", 2)]


@pytest.mark.parametrize("wrapper", ["request", "generateContentRequest"])
def test_gemini_requests_in_a_wrapper(wrapper):
    inner = gemini_body(
        ("user", [{"text": "go"}]), ("model", [called("run")]), ("user", [answered("run", {"output": "x"})])
    )
    conversation, texts = read(REQUESTS["gemini"], {"model": "gemini-3", wrapper: inner})
    assert texts == [("x", "", "run", 2)]
    assert (conversation.model, conversation.opening) == ("gemini-3", "go")


def test_gemini_in_snake_case():
    body = {
        "contents": [
            {"role": "model", "parts": [{"function_call": {"name": "run", "args": {}}}]},
            {"role": "user", "parts": [{"function_response": {"name": "run", "response": {"output": "x"}}}]},
        ]
    }
    assert read(REQUESTS["gemini"], body)[1] == [("x", "", "run", 1)]


@pytest.mark.parametrize(
    "contents", [None, 3, {}, [], [None], [{"role": "user"}], [{"parts": [None, {}, 3]}]]
)
def test_odd_gemini_contents_read_as_nothing(contents):
    assert read(REQUESTS["gemini"], {"contents": contents})[1] == []


# Ollama


def test_ollama_results_by_order_and_by_name():
    calls = [{"function": {"name": name, "arguments": {"n": 1}}} for name in ("a", "b", "a")]
    conversation, texts = read(
        REQUESTS["ollama"],
        {
            "model": "qwen3",
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": "", "tool_calls": calls},
                {"role": "tool", "content": "one", "tool_name": "b"},
                {"role": "tool", "content": "two"},
                {"role": "tool", "content": "three"},
                {"role": "tool", "content": "four", "tool_name": "c"},
                {"role": "tool", "content": "five"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "call_1", **calls[0]}, {"id": "call_2", **calls[0]}],
                },
                {"role": "tool", "tool_call_id": "call_2", "content": "six"},
                {"role": "tool", "content": ["no string"]},
            ],
        },
    )
    assert [(text, call_id, name) for text, call_id, name, _ in texts] == [
        ("one", "", "b"),
        ("two", "", "a"),
        ("three", "", "a"),
        ("four", "", "c"),
        ("five", "", None),
        ("six", "call_2", "a"),
    ]
    assert (conversation.model, conversation.opening, conversation.last_response) == ("qwen3", "go", 8)


# Bedrock


def test_converse_results_as_text_and_json_beside_images():
    use = {"toolUse": {"toolUseId": "t1", "name": "run", "input": {"command": "ls"}}}
    content = [
        {"text": "one"},
        {"json": {"stdout": "two", "code": 0, "rows": ["three"]}},
        {"image": {"format": "png", "source": {"bytes": "iVBORw0KGgo="}}},
        {"document": {"name": "d", "format": "txt", "source": {"text": "not ours"}}},
        {"searchResult": {"source": "s", "title": "t", "content": [{"text": "cited"}]}},
    ]
    conversation, texts = read(
        REQUESTS["bedrock"],
        {
            "messages": [
                {"role": "user", "content": [{"text": "go"}]},
                {
                    "role": "assistant",
                    "content": [{"reasoningContent": {"reasoningText": {"text": "hm"}}}, use],
                },
                {
                    "role": "user",
                    "content": [{"toolResult": {"toolUseId": "t1", "content": content, "status": "error"}}],
                },
            ],
            "toolConfig": {"tools": [{"toolSpec": {"name": "run", "inputSchema": {"json": {}}}}]},
        },
    )
    assert texts == [("one", "t1", "run", 2), ("two", "t1", "run", 2), ("three", "t1", "run", 2)]
    assert all(one.is_error for one in conversation.results)
    assert (conversation.last_response, conversation.last_thinking, conversation.opening) == (1, 1, "go")


def test_converse_server_results_are_not_read():
    result = {"toolResult": {"toolUseId": "s", "type": "x", "content": [{"text": "from the server"}]}}
    body = {
        "messages": [{"role": "assistant", "content": [result]}, {"role": "user", "content": [{"text": "?"}]}]
    }
    assert read(REQUESTS["bedrock"], body)[1] == []


def test_invoke_reads_as_anthropic_does():
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    body = {"anthropic_version": "b", "messages": [{"role": "user", "content": [result]}]}
    assert read(REQUESTS["bedrock_invoke"], body)[1] == [("x", "t", None, 0)]


@pytest.mark.parametrize(
    "messages", [None, [None, 3], [{"role": "user"}], [{"role": "user", "content": [None, {}]}]]
)
@pytest.mark.parametrize("wire", [REQUESTS["bedrock"], REQUESTS["ollama"]])
def test_odd_messages_read_as_nothing(wire, messages):
    assert read(wire, {"messages": messages})[1] == []


def test_errors_have_the_shape_of_their_api():
    assert json.loads(REQUESTS["gemini"].error(400, "no")) == {
        "error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}
    }
    assert json.loads(REQUESTS["gemini"].error(500, "no"))["error"]["status"] == "INTERNAL"
    assert json.loads(REQUESTS["ollama"].error(400, "no")) == {"error": "no"}
    for wire in (REQUESTS["bedrock"], REQUESTS["bedrock_invoke"]):
        assert json.loads(wire.error(400, "no")) == {"__type": "ValidationException", "message": "no"}
    assert json.loads(REQUESTS["bedrock"].error(500, "no"))["__type"] == "InternalServerException"
