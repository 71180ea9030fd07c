"""Every shape that a result of a tool can have, with a secret in it."""

from __future__ import annotations

import base64
from typing import Any

from support.planted import GITHUB, PASSWORD

SECRET = f"the token {GITHUB} is in use"


NAMED = {"db": {"password": PASSWORD}}


NUMBER = {"admin_password": 8812340977}


CALL_ID = "toolu_01AbCdEfGhIjKlMnOpQrStUv"


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 3).decode()


TEXT_BLOB = base64.b64encode(f"export GITHUB_TOKEN={GITHUB}\n".encode()).decode()


def messages(*content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    call = {"type": "tool_use", "id": CALL_ID, "name": "get", "input": {"q": "x"}}
    return {
        "model": "claude-haiku-4-5",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [call]},
            {"role": role, "content": list(content)},
        ],
        **more,
    }


def tool_result(*content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": CALL_ID, "content": list(content)}


def chat(*answers: Any) -> dict[str, Any]:
    call = {"id": CALL_ID, "type": "function", "function": {"name": "get", "arguments": "{}"}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    return {"model": "m", "messages": [*said, *answers]}


def chat_tool(content: Any, role: str = "tool") -> dict[str, Any]:
    return chat({"role": role, "tool_call_id": CALL_ID, "content": content})


def responses(*items: Any) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": CALL_ID, "name": "get", "arguments": "{}"}
    return {"model": "m", "input": [{"role": "user", "content": "hi"}, call, *items]}


def output(value: Any, kind: str = "function_call_output", **more: Any) -> dict[str, Any]:
    return responses({"type": kind, "call_id": CALL_ID, "output": value, **more})


def gemini(part: Any, role: str = "user", snake: bool = False) -> dict[str, Any]:
    call = {"function_call" if snake else "functionCall": {"name": "get", "args": {}}}
    contents = [("user", [{"text": "hi"}]), ("model", [call]), (role, part)]
    return {"contents": [{"role": who, "parts": parts} for who, parts in contents]}


def response(value: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": "get", "response": value, **more}}


def converse(*content: Any) -> dict[str, Any]:
    call = {"toolUse": {"toolUseId": CALL_ID, "name": "get", "input": {}}}
    answer = {"toolResult": {"toolUseId": CALL_ID, "content": list(content)}}
    said = [("user", {"text": "hi"}), ("assistant", call), ("user", answer)]
    return {"messages": [{"role": role, "content": [block]} for role, block in said]}


def ollama(content: Any) -> dict[str, Any]:
    call = {"function": {"name": "get", "arguments": {}}}
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    return {"model": "m", "messages": [*said, {"role": "tool", "tool_name": "get", "content": content}]}


def text_document(text: str) -> dict[str, Any]:
    source = {"type": "text", "media_type": "text/plain", "data": text}
    return {"type": "document", "source": source, "title": "notes"}


CODE = {"type": "bash_code_execution_result", "stdout": SECRET, "stderr": "", "return_code": 0, "content": []}


HIT = {
    "type": "web_search_result",
    "title": SECRET,
    "url": "https://a.example",
    "encrypted_content": "EqgfCio",
}


FETCHED = {"type": "web_fetch_result", "url": "https://a.example", "content": text_document(SECRET)}


SHAPES: dict[str, tuple[str, Any]] = {
    "anthropic document": ("anthropic-messages", messages(tool_result(text_document(SECRET)))),
    "anthropic document of blocks": (
        "anthropic-messages",
        messages(
            tool_result(
                {
                    "type": "document",
                    "source": {"type": "content", "content": [{"type": "text", "text": SECRET}]},
                }
            )
        ),
    ),
    "anthropic document in base64": (
        "anthropic-messages",
        messages(
            tool_result(
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "text/plain", "data": TEXT_BLOB},
                }
            )
        ),
    ),
    "anthropic title": ("anthropic-messages", messages(tool_result({**text_document("x"), "title": SECRET}))),
    "anthropic search result": (
        "anthropic-messages",
        messages(
            tool_result(
                {
                    "type": "search_result",
                    "source": "s",
                    "title": "t",
                    "content": [{"type": "text", "text": SECRET}],
                }
            )
        ),
    ),
    "anthropic search result on its own": (
        "anthropic-messages",
        messages(
            {
                "type": "search_result",
                "source": "s",
                "title": "t",
                "content": [{"type": "text", "text": SECRET}],
            }
        ),
    ),
    "anthropic unknown block": (
        "anthropic-messages",
        messages(tool_result({"type": "table", "rows": [[SECRET]]})),
    ),
    "anthropic object": ("anthropic-messages", messages({**tool_result(), "content": NAMED})),
    "anthropic list of strings": ("anthropic-messages", messages({**tool_result(), "content": [SECRET]})),
    "anthropic web search": (
        "anthropic-messages",
        messages(
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [HIT]},
            role="assistant",
        ),
    ),
    "anthropic web fetch": (
        "anthropic-messages",
        messages(
            {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1", "content": FETCHED},
            role="assistant",
        ),
    ),
    "anthropic code": (
        "anthropic-messages",
        messages(
            {"type": "bash_code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": CODE},
            role="assistant",
        ),
    ),
    "anthropic code, older": (
        "anthropic-messages",
        messages(
            {
                "type": "code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "code_execution_result",
                    "stdout": SECRET,
                    "stderr": "",
                    "return_code": 0,
                },
            },
            role="assistant",
        ),
    ),
    "anthropic editor": (
        "anthropic-messages",
        messages(
            {
                "type": "text_editor_code_execution_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": {
                    "type": "text_editor_code_execution_view_result",
                    "file_type": "text",
                    "content": SECRET,
                },
            },
            role="assistant",
        ),
    ),
    "anthropic mcp": (
        "anthropic-messages",
        messages(
            {
                "type": "mcp_tool_result",
                "tool_use_id": "mcptoolu_1",
                "is_error": False,
                "content": [{"type": "text", "text": SECRET}],
            },
            role="assistant",
        ),
    ),
    "anthropic without a model": (
        "anthropic-messages",
        {
            key: value
            for key, value in messages(tool_result({"type": "text", "text": SECRET})).items()
            if key != "model"
        },
    ),
    "anthropic on bedrock": (
        "bedrock-invoke",
        messages(tool_result(text_document(SECRET)), anthropic_version="bedrock-2023-05-31"),
    ),
    "chat object": ("openai-chat", chat_tool(NAMED)),
    "chat number": ("openai-chat", chat_tool(NUMBER)),
    "chat list of strings": ("openai-chat", chat_tool([SECRET])),
    "chat output_text": ("openai-chat", chat_tool([{"type": "output_text", "text": SECRET}])),
    "chat file": (
        "openai-chat",
        chat_tool([{"type": "file", "file": {"filename": "a.txt", "file_data": TEXT_BLOB}}]),
    ),
    "chat ipython": ("openai-chat", chat_tool(SECRET, role="ipython")),
    "chat function": ("openai-chat", chat_tool(NAMED, role="function")),
    "chat further member": (
        "openai-chat",
        chat({"role": "tool", "tool_call_id": CALL_ID, "content": "ok", "artifact": {"out": SECRET}}),
    ),
    "chat member name": ("openai-chat", chat_tool({GITHUB: 1})),
    "responses object": ("openai-responses", output(NAMED)),
    "responses list of strings": ("openai-responses", output([SECRET])),
    "responses shell without outcome": (
        "openai-responses",
        output([{"stdout": SECRET, "stderr": ""}], "shell_call_output"),
    ),
    "responses shell, one entry": (
        "openai-responses",
        output({"stdout": SECRET, "stderr": ""}, "shell_call_output"),
    ),
    "responses unknown": ("openai-responses", output(SECRET, "telepathy_call_output")),
    "responses mcp": (
        "openai-responses",
        responses(
            {
                "type": "mcp_call",
                "id": "mcp_1",
                "server_label": "s",
                "name": "n",
                "arguments": "{}",
                "output": SECRET,
            }
        ),
    ),
    "responses mcp error": (
        "openai-responses",
        responses(
            {"type": "mcp_call", "id": "mcp_1", "name": "n", "arguments": "{}", "error": {"message": SECRET}}
        ),
    ),
    "responses code interpreter": (
        "openai-responses",
        responses(
            {
                "type": "code_interpreter_call",
                "id": "ci_1",
                "code": "1",
                "outputs": [{"type": "logs", "logs": SECRET}],
            }
        ),
    ),
    "responses file search": (
        "openai-responses",
        responses(
            {
                "type": "file_search_call",
                "id": "fs_1",
                "queries": ["q"],
                "results": [{"text": SECRET, "file_id": "f"}],
            }
        ),
    ),
    "responses computer": (
        "openai-responses",
        output(
            {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"},
            "computer_call_output",
            text=SECRET,
        ),
    ),
    "responses computer, list": (
        "openai-responses",
        output(
            [
                {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG}"},
                {"type": "input_text", "text": SECRET},
            ],
            "computer_call_output",
        ),
    ),
    "responses apply patch": ("openai-responses", output({"log": SECRET}, "apply_patch_call_output")),
    "gemini resource": (
        "gemini",
        gemini(
            [
                response(
                    {
                        "content": [
                            {
                                "type": "resource",
                                "resource": {"uri": "a:b", "mimeType": "text/plain", "text": SECRET},
                            }
                        ]
                    }
                )
            ]
        ),
    ),
    "gemini resource, password": (
        "gemini",
        gemini([response({"mimeType": "text/plain", "text": f"DB_PASSWORD={PASSWORD}"})]),
    ),
    "gemini blob": ("gemini", gemini([response({"mimeType": "text/plain", "blob": TEXT_BLOB})])),
    "gemini member name": ("gemini", gemini([response({GITHUB: True})])),
    "gemini number": ("gemini", gemini([response(NUMBER)])),
    "gemini role model": ("gemini", gemini([response({"output": SECRET})], role="model")),
    "gemini no role": ("gemini", gemini([response({"output": SECRET})], role="")),
    "gemini one part": ("gemini", gemini(response({"output": SECRET}))),
    "gemini one content": ("gemini", {"contents": {"role": "user", "parts": [response({"output": SECRET})]}}),
    "gemini string": ("gemini", gemini([response(SECRET)])),
    "gemini parts": ("gemini", gemini([response({"output": "ok"}, parts=[{"text": SECRET}])])),
    "gemini parts, data": (
        "gemini",
        gemini(
            [
                response(
                    {"output": "ok"}, parts=[{"inlineData": {"mimeType": "text/plain", "data": TEXT_BLOB}}]
                )
            ]
        ),
    ),
    "gemini snake": (
        "gemini",
        gemini([{"function_response": {"name": "get", "response": {"output": SECRET}}}], snake=True),
    ),
    "gemini code": (
        "gemini",
        gemini([{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": SECRET}}], role="model"),
    ),
    "gemini code, snake": (
        "gemini",
        gemini([{"code_execution_result": {"outcome": "OUTCOME_OK", "output": SECRET}}], role="model"),
    ),
    "gemini code assist": (
        "gemini-code-assist",
        {"model": "m", "request": gemini(response({"output": SECRET}))},
    ),
    "converse resource": ("bedrock-converse", converse({"json": {"mimeType": "text/plain", "text": SECRET}})),
    "converse number": ("bedrock-converse", converse({"json": NUMBER})),
    "converse member name": ("bedrock-converse", converse({"json": {GITHUB: 1}})),
    "converse document": (
        "bedrock-converse",
        converse({"document": {"format": "txt", "name": "n", "source": {"bytes": TEXT_BLOB}}}),
    ),
    "converse document, text": (
        "bedrock-converse",
        converse({"document": {"format": "txt", "name": "n", "source": {"text": SECRET}}}),
    ),
    "converse search result": (
        "bedrock-converse",
        converse({"searchResult": {"source": "s", "title": "t", "content": [{"text": SECRET}]}}),
    ),
    "ollama object": ("ollama-chat", ollama(NAMED)),
    "ollama list": ("ollama-chat", ollama([{"out": SECRET}])),
    "ollama without a model": ("ollama-chat", {"messages": ollama(SECRET)["messages"]}),
}
