"""What is read out of requests: results, their calls, and where the model's last answer stands."""

import json

import pytest

from penumbra.apis.formats import REQUESTS
from penumbra.wire.document import Document


def read(wire, body):
    document = Document(json.dumps(body).encode())
    conversation = wire.read(document)
    texts = [
        (
            document.string(result.value),
            result.call_id,
            result.call.name if result.call else None,
            result.turn,
        )
        for result in conversation.results
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


@pytest.mark.parametrize(
    "messages",
    [
        None,
        3,
        "x",
        {},
        [],
        [None],
        [3, "x", []],
        [{"role": "user"}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": [None, 3, {"type": "tool_result"}]}],
    ],
)
@pytest.mark.parametrize("wire", [REQUESTS["anthropic"], REQUESTS["openai_chat"]])
def test_odd_shapes_read_as_nothing(wire, messages):
    conversation, texts = read(wire, {"messages": messages})
    assert texts == []
    assert conversation.results == ()


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


def test_errors_have_the_shape_of_their_api():
    assert json.loads(REQUESTS["anthropic"].error(400, "no")) == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "no"},
    }
    assert json.loads(REQUESTS["anthropic"].error(500, "no"))["error"]["type"] == "api_error"
    assert json.loads(REQUESTS["openai_chat"].error(400, "no")) == {
        "error": {"message": "no", "type": "invalid_request_error", "param": None, "code": None}
    }
    assert json.loads(REQUESTS["openai_chat"].error(500, "no"))["error"]["type"] == "server_error"
