"""The parts of requests to Responses: every kind of item, and the items that never change."""

import json

import pytest

from penumbra.apis.formats import REQUESTS
from penumbra.wire.document import Document


def read(body):
    document = Document(json.dumps(body).encode())
    conversation = REQUESTS["openai_responses"].read(document)
    texts = [
        (document.string(one.value), one.call_id, one.call.name if one.call else None, one.turn)
        for one in conversation.results
    ]
    return conversation, texts


def user(text):
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def said(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def call(call_id, name="shell", arguments="{}"):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def output(call_id, content, kind="function_call_output", **more):
    return {"type": kind, "call_id": call_id, "output": content, **more}


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}


def test_results_of_every_kind_of_call():
    shell = {"type": "local_shell_call", "id": "lsh_1", "call_id": "l1", "action": {"command": ["ls"]}}
    commands = {"type": "shell_call", "call_id": "s1", "action": {"commands": ["ls", "pwd"]}}
    patch = {"type": "apply_patch_call", "call_id": "p1", "operation": {"type": "delete_file", "path": "x"}}
    custom = {"type": "custom_tool_call", "call_id": "x1", "name": "exec", "input": "text(1)"}
    ran = [
        {"stdout": "a", "stderr": "b", "outcome": {"type": "exit", "exit_code": 0}},
        {"stdout": "c", "stderr": "", "outcome": {"type": "timeout"}},
    ]
    listed = [
        {"type": "input_text", "text": "Script completed\n"},
        IMAGE,
        {"type": "input_text", "text": "d"},
    ]
    conversation, texts = read(
        {
            "model": "gpt",
            "input": [
                {"role": "developer", "content": "d"},
                user("go"),
                REASONING,
                call("c1", "read_file"),
                custom,
                shell,
                commands,
                patch,
                output("c1", "one"),
                output("x1", listed, "custom_tool_call_output"),
                {"type": "local_shell_call_output", "id": "l1", "output": '{"output":"x"}'},
                output("s1", ran, "shell_call_output"),
                output("p1", "done", "apply_patch_call_output", status="completed"),
            ],
        }
    )
    assert texts == [
        ("one", "c1", "read_file", 8),
        ("Script completed\n", "x1", "exec", 9),
        ("d", "x1", "exec", 9),
        ('{"output":"x"}', "l1", "local_shell", 10),
        ("a", "s1", "shell", 11),
        ("b", "s1", "shell", 11),
        ("c", "s1", "shell", 11),
        ("", "s1", "shell", 11),
        ("done", "p1", "apply_patch", 12),
    ]
    assert (conversation.model, conversation.opening) == ("gpt", "go")
    assert (conversation.last_response, conversation.last_thinking) == (7, 2)


def test_the_opening_is_all_that_the_user_says_before_the_first_answer():
    conversation, _ = read({"input": [user("where"), user("what"), said("ok"), user("more")]})
    assert (conversation.opening, conversation.last_response) == ("where\nwhat", 2)
    assert read({"input": "only this"})[0].opening == "only this"
    assert read({"input": [{"role": "user", "content": "bare"}]})[0].opening == "bare"


def test_what_the_provider_keeps_is_not_in_the_request():
    conversation, texts = read(
        {"previous_response_id": "resp_1", "input": [output("c9", "new", name="grep")]}
    )
    assert texts == [("new", "c9", "grep", 0)]
    assert conversation.last_response == -1


@pytest.mark.parametrize(
    "item",
    [
        {"type": "compaction", "encrypted_content": "opaque text"},
        {"type": "compaction_trigger"},
        {"type": "mcp_call", "id": "m", "name": "n", "arguments": "{}", "output": "from the server"},
        {"type": "mcp_list_tools", "tools": [{"name": "a", "description": "text"}]},
        output("c", {"type": "computer_screenshot", "image_url": "data:"}, "computer_call_output"),
        {"type": "program_output", "call_id": "p", "result": "a result", "status": "completed"},
        {"type": "tool_search_output", "call_id": "t", "tools": [{"name": "x", "description": "text"}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "web_search_call", "id": "w", "action": {"type": "search", "query": "text"}},
        {"type": "hologram", "output": "text"},
    ],
    ids=lambda item: item["type"],
)
def test_what_is_not_a_result_of_the_client_is_not_read(item):
    _, texts = read({"input": [user("go"), item, user("on")]})
    assert texts == []


def test_an_answer_that_closes_the_request_is_none():
    assert read({"input": [user("go"), said("half")]})[0].last_response == -1
