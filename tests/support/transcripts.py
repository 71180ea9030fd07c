"""Requests in which agents send earlier results as plain text, in the formats of their published sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from support.apis import APIS, Api
from support.planted import GITHUB

MESSAGES, CHAT, RESPONSES, GEMINI = (
    next(api for api in APIS if api.id == name)
    for name in ("anthropic-messages", "openai-chat", "openai-responses", "gemini")
)
URL_PASSWORD = "Xk9vTq2L" + "m7wPz4R"
LINES = {
    "token": f"GITHUB_TOKEN={GITHUB}",
    "url": f"DATABASE_URL=postgres://app:{URL_PASSWORD}@db.internal:5432/app",
}
"""A tool's output, by kind of secret."""
SECRETS = {"token": GITHUB, "url": URL_PASSWORD}


@dataclass(frozen=True)
class Shape:
    """A `Shape` is one way to write results into a request."""

    name: str
    api: Api
    write: Callable[[str], dict[str, Any]]
    """(output of a tool) -> the members of a request."""
    tools: bool = False
    """True if the request declares tools."""

    def body(self, output: str, **more: Any) -> bytes:
        made = {**self.api.rest, **self.write(output), **more}
        if not self.tools:
            made.pop("tools", None)
        return json.dumps(made).encode()


def _messages(*texts: str, system: str = "") -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    made: dict[str, Any] = {"messages": [{"role": "user", "content": content}]}
    return {**made, "system": system} if system else made


def _chat(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": text} for role, text in messages]}


def _parts(*texts: str) -> dict[str, Any]:
    content = [{"type": "input_text", "text": text} for text in texts]
    return {"input": [{"type": "message", "role": "user", "content": content}]}


def _gemini(text: str) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": text}]}]}


def _guardian(output: str) -> dict[str, Any]:
    return _parts(
        "The following is the Codex agent history whose request action you are assessing.\n",
        ">>> TRANSCRIPT START\n",
        "[1] user: deploy it\n",
        '\n[2] tool exec_command call: {"cmd":"cat .env"}\n',
        f"\n[3] tool exec_command result: Process exited with code 0\nOutput:\n{output}\n",
        ">>> TRANSCRIPT END\n",
        "The Codex agent has requested the following action:\n>>> APPROVAL REQUEST START\n",
        '{"command":["git","push"]}\n',
        ">>> APPROVAL REQUEST END\n",
    )


def _rollout(output: str) -> dict[str, Any]:
    items = [
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"cat .env"}', "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": f"Exit code: 0\n{output}\n"},
    ]
    return _parts(
        "Analyze this rollout and produce JSON with `raw_memory`, `rollout_summary`, and `rollout_slug`.\n\n"
        f"rendered conversation:\n{json.dumps(items)}\n"
    )


def _langchain(output: str) -> dict[str, Any]:
    text = f"Human: deploy it\nAI: \nTool: {output}\nAI: done"
    return _chat(("user", f"Extract the most important context.\n\n<messages>\n{text}\n</messages>"))


def _crew(output: str) -> dict[str, Any]:
    return _chat(
        ("system", "You are Deployer. Use the following format: Thought, Action, Action Input, Observation"),
        ("user", "Current Task: deploy it"),
        ("assistant", f"Thought: look\nAction: shell\nAction Input: cat .env\nObservation: {output}"),
        ("user", "Go on."),
    )


def _roo(output: str) -> dict[str, Any]:
    return {
        "system": "You are a helpful AI assistant tasked with summarizing conversations.",
        "messages": [
            {"role": "user", "content": "deploy it"},
            {"role": "assistant", "content": "[Tool Use: execute_command]\ncommand: cat .env"},
            {"role": "user", "content": f"[Tool Result]\n{output}"},
            {"role": "assistant", "content": "It is set."},
            {"role": "user", "content": "Summarize the conversation so far, as described above."},
        ],
    }


def _letta(output: str) -> dict[str, Any]:
    said = [{"role": "user", "content": "deploy it"}, {"role": "tool", "name": "run_code", "content": output}]
    lines = "\n".join(map(json.dumps, said))
    return _chat(("system", "Your job is to summarize a history of messages."), ("user", lines))


SHAPES = (
    Shape("Codex: review of an approval", RESPONSES, _guardian, tools=True),
    Shape("Codex: memories, stage one", RESPONSES, _rollout),
    Shape(
        "pi: compaction",
        MESSAGES,
        lambda output: _messages(
            f"<conversation>\n[User]: deploy it\n\n[Tool result]: {output}\n</conversation>\n\nSummarize it."
        ),
    ),
    Shape("OpenCode: compaction", CHAT, lambda output: _chat(("user", f"Summarize:\n\n[User]: deploy it\n\n[Shell]: cat .env\n{output}"))),
    Shape("Roo, Kilo: condensing", MESSAGES, _roo),
    Shape("OpenHands: condenser", CHAT, lambda output: _chat(("user", f"You maintain a summary.\n\n<EVENT id=3>\n{output}\n</EVENT>\n"))),
    Shape("LangChain: SummarizationMiddleware", CHAT, _langchain),
    Shape(
        "goose: compaction",
        CHAT,
        lambda output: _chat(
            ("system", f"## Conversation History\n[user]: deploy it\ntool_response: {output}\n"),
            ("user", "Please summarize the conversation history provided in the system prompt."),
        ),
    ),
    Shape(
        "Gemini CLI: summarizeToolOutput",
        GEMINI,
        lambda output: _gemini(
            f"Summarize the following tool output to be a maximum of 2000 tokens.\n\nTool output:\n{output}"
        ),
    ),
    Shape("Claude Code: WebFetch", MESSAGES, lambda output: _messages(f"\nWeb page content:\n---\n{output}\n---\n\nWhat does it say?\n")),
    Shape(
        "Claude Code: paths in an output",
        MESSAGES,
        lambda output: _messages(
            f"Command: cat .env\nOutput: {output}\n\n", system="Extract any file paths."
        ),
    ),
    Shape(
        "Claude Code: auto mode",
        MESSAGES,
        lambda output: _messages(
            f"<transcript>\nUser: deploy it\nBash {json.dumps({'command': f'export {output}; make'})}\n"
            "</transcript>\n",
            system="You are a security monitor for autonomous AI coding agents.",
        ),
    ),
    Shape(
        "aider: summary of the history",
        CHAT,
        lambda output: _chat(
            ("system", "*Briefly* summarize this partial conversation about programming."),
            ("user", f"# USER\nI ran `cat .env`:\n{output}\n# ASSISTANT\nIt is set.\n"),
        ),
    ),
    Shape(
        "LangChain: ConversationSummaryMemory",
        CHAT,
        lambda output: _chat(
            (
                "user",
                f"Current summary:\n\nNew lines of conversation:\nHuman: {output}\nAI: ok\n\nNew summary:",
            )
        ),
    ),
    Shape("CrewAI: ReAct in the model's words", CHAT, _crew),
    Shape("Letta: summary of messages as JSON", CHAT, _letta),
    Shape(
        "Claude Code: title of a session",
        MESSAGES,
        lambda output: _messages(f"<session>\nwhy does this fail?\n{output}\n</session>", system="Name it."),
    ),
)  # fmt: skip
WITH_TOOLS = tuple(replace(shape, tools=True) for shape in SHAPES if shape.write is not _crew)
"""The shapes in requests that declare tools. Words of the model are left out, since they are not searched
there."""
