"""The parts of requests to every API but Responses: results, their calls, and the model's last message."""

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


def use(call_id, name, arguments=None):
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments or {}}


def result(call_id, content, **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}


def test_anthropic_results_as_string_blocks_and_beside_images():
    conversation, texts = read(
        REQUESTS["anthropic"],
        {
            "model": "claude",
            "system": "s",
            "tools": [{"name": "Bash"}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "go"}, {"type": "text", "text": "on"}]},
                {"role": "assistant", "content": [use("t1", "Bash"), use("t2", "Read"), use("t3", "Look")]},
                {
                    "role": "user",
                    "content": [
                        result("t1", "one"),
                        result(
                            "t2",
                            [
                                {"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}},
                                IMAGE,
                                {"type": "text", "text": "three"},
                            ],
                        ),
                        result("t3", [IMAGE, {"type": "novel", "text": "not ours"}], is_error=True),
                        {"type": "text", "text": "a remark"},
                    ],
                },
            ],
        },
    )
    assert texts == [("one", "t1", "Bash", 2), ("two", "t2", "Read", 2), ("three", "t2", "Read", 2)]
    assert (conversation.model, conversation.opening, conversation.last_response) == ("claude", "go\non", 1)
    assert conversation.last_thinking == -1


def test_anthropic_thinking_errors_and_prefilled_answers():
    conversation, texts = read(
        REQUESTS["anthropic"],
        {
            "messages": [
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "t", "signature": "s"}, use("t1", "Bash")],
                },
                {"role": "user", "content": [result("t1", "failed", is_error=True), result("t9", "whose?")]},
                {"role": "assistant", "content": "{"},
            ]
        },
    )
    assert texts == [("failed", "t1", "Bash", 2), ("whose?", "t9", None, 2)]
    assert [item.is_error for item in conversation.results] == [True, False]
    assert (conversation.last_response, conversation.last_thinking) == (1, 1)


def test_anthropic_server_tools_are_not_read():
    server_result = {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": [{"type": "text", "text": "x"}],
    }
    assistant = [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, server_result]
    _, texts = read(
        REQUESTS["anthropic"],
        {"messages": [{"role": "assistant", "content": assistant}, {"role": "user", "content": "?"}]},
    )
    assert texts == []


def call(call_id, name, arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_chat_results_by_id_as_strings_and_parts():
    custom = {"id": "c3", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    conversation, texts = read(
        REQUESTS["openai_chat"],
        {
            "model": "gpt",
            "messages": [
                {"role": "developer", "content": "d"},
                {"role": "user", "content": "go"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [call("c1", "shell"), call("c2", "read_file"), custom],
                },
                {"role": "tool", "tool_call_id": "c2", "content": "two"},
                {
                    "role": "tool",
                    "tool_call_id": "c1",
                    "content": [
                        {"type": "text", "text": "one"},
                        {"type": "image_url", "image_url": {"url": "data:"}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c3", "content": "three"},
                {"role": "assistant", "content": "done"},
                {"role": "user", "content": "more"},
            ],
        },
    )
    assert texts == [("two", "c2", "read_file", 3), ("one", "c1", "shell", 4), ("three", "c3", "patch", 5)]
    assert (conversation.last_response, conversation.opening, conversation.model) == (6, "go", "gpt")


def test_chat_results_without_ids_answer_the_calls_in_order():
    _, texts = read(
        REQUESTS["openai_chat"],
        {
            "messages": [
                {
                    "role": "assistant",
                    "tool_calls": [{"function": {"name": "a"}}, {"function": {"name": "b"}}],
                },
                {"role": "tool", "content": "first"},
                {"role": "tool", "content": "second"},
                {"role": "tool", "content": "one too many"},
                {"role": "assistant", "function_call": {"name": "legacy", "arguments": "{}"}},
                {"role": "function", "name": "legacy", "content": "old"},
                {"role": "tool", "tool_call_id": "x", "name": "named", "content": "by name"},
            ]
        },
    )
    assert [(text, name) for text, _, name, _ in texts] == [
        ("first", "a"),
        ("second", "b"),
        ("one too many", None),
        ("old", "legacy"),
        ("by name", "named"),
    ]


def test_ids_that_occur_twice_name_the_latest_call():
    _, texts = read(
        REQUESTS["openai_chat"],
        {
            "messages": [
                {"role": "assistant", "tool_calls": [call("c", "a")]},
                {"role": "tool", "tool_call_id": "c", "content": "1"},
                {"role": "assistant", "tool_calls": [call("c", "b")]},
                {"role": "tool", "tool_call_id": "c", "content": "2"},
            ]
        },
    )
    assert [name for _, _, name, _ in texts] == ["a", "b"]


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
