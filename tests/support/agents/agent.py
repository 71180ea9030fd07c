"""A small agent on the official SDKs, the tools that it runs, and what they print.

The model's part is scripted at the stand-in; the agent runs the tools that the model calls, sends
their results back and goes on until the model has nothing more to call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.apis import BY_ID
from support.upstream import Response, Text, Thinking, ToolCall, turn

GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def pytest_log() -> str:
    """A coloured test run with one failure in it."""
    passed = [
        f"tests/test_orders.py::test_order_{n:03} {GREEN}PASSED{RESET}   [{n:3}%]   " for n in range(60)
    ]
    failure = [
        f"tests/test_orders.py::test_total {RED}FAILED{RESET}   [100%]",
        "=================================== FAILURES ===================================",
        "    def test_total():",
        ">       assert total([Item(2, 350)]) == 700",
        f"{RED}E       assert 702 == 700{RESET}",
        "tests/test_orders.py:88: AssertionError",
        f"{RED}FAILED{RESET} tests/test_orders.py::test_total - assert 702 == 700",
        f"{RED}1 failed{RESET}, {GREEN}60 passed{RESET} in 3.41s",
    ]
    return "\n".join([*passed, *failure]) + "\n"


def users_json() -> str:
    """An API's answer, indented."""
    users = [
        {
            "id": 9007199254740993 + n,
            "name": f"Anna-Lena Müller {n}",
            "rate": 1.10,
            "tags": ["a", "b"],
            "active": n % 2 == 0,
        }
        for n in range(40)
    ]
    return json.dumps({"users": users, "next": None}, indent=4, ensure_ascii=False).replace("1.1,", "1.10,")


def worker_log() -> str:
    """A log in which one line comes again and again."""
    same = "worker-3 waiting for the queue to drain, 0 of 5 jobs done"
    return (
        "\n".join(["worker-3 started", *[same] * 120, "worker-3 ERROR queue closed: timeout after 30 s"])
        + "\n"
    )


def source_file() -> str:
    """A file as a reading tool shows it, with line numbers."""
    lines = [
        f"def order_{n}(items):\n    return sum(item.price * item.count for item in items)\n"
        for n in range(30)
    ]
    numbered = "\n".join(lines).split("\n")
    return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(numbered, 1))


def npm_install() -> str:
    """An installation with a progress bar that redraws its line."""
    bar = "".join(f"\r[{'#' * n}{'.' * (40 - n)}] {n}/40 fetching packages" for n in range(41))
    return bar + "\n\nadded 212 packages, and audited 213 packages in 7s\nfound 0 vulnerabilities\n"


PRINTS = {
    "pytest -v": pytest_log(),
    "curl -s localhost:8000/users": users_json(),
    "docker compose logs worker": worker_log(),
    "npm install": npm_install(),
    "ls": "README.md\nsrc\ntests\n",
}
SOURCE = source_file()


def run_tool(name: str, arguments: Mapping[str, Any]) -> str:
    """What a tool prints: always the same."""
    return SOURCE if name == "Read" else PRINTS[arguments["command"]]


def bash(command: str, **more: Any) -> ToolCall:
    return ToolCall("Bash", {"command": command}, **more)


def read(path: str = "src/orders.py", **more: Any) -> ToolCall:
    return ToolCall("Read", {"file_path": path}, **more)


SESSION: tuple[Response, ...] = (
    turn("I will look around.", bash("ls"), bash("pytest -v")),
    turn(read()),
    turn(
        "What does the service say?", bash("curl -s localhost:8000/users"), bash("docker compose logs worker")
    ),
    turn(bash("npm install"), bash("pytest -v")),
    turn("`total` adds 2 for every order: tests/test_orders.py:88."),
)
"""A conversation of five requests, with parallel calls and one repeated result."""

THINKING_SESSION: tuple[Response, ...] = (
    turn(Thinking("First the tests."), bash("pytest -v")),
    turn(Thinking("Now the users."), Text("Users next."), bash("curl -s localhost:8000/users")),
    turn(Thinking("That is all."), "Done."),
)


@dataclass
class AnthropicAgent:
    """Talks with the `anthropic` SDK."""

    client: Any
    stream: bool = False
    thinking: bool = False
    cache: bool = False
    """Mark the newest message for the prompt cache, as coding agents do."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    last_id: str = ""
    """Of the last answer."""

    TOOLS = BY_ID["anthropic-messages"].rest["tools"]

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "content": words}

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        self.messages.append(self.prompt(words))
        while True:
            content = self.ask()
            self.messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return "".join(block.get("text", "") for block in content)
            self.messages.append({"role": "user", "content": [self.result(call) for call in calls]})

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        request = {
            "model": "claude-opus-5-5",
            "max_tokens": 4096,
            "system": "You are a careful engineer.",
            "tools": list(self.TOOLS),
            "messages": self._sent(),
            **({"thinking": {"type": "enabled", "budget_tokens": 2048}} if self.thinking else {}),
            **self.extra,
        }
        if not self.stream:
            message = self.client.messages.create(**request)
        else:
            with self.client.messages.stream(**request) as stream:
                message = stream.get_final_message()
        self.last_id = message.id
        return [block.model_dump(exclude_none=True) for block in message.content]

    def _sent(self) -> list[dict[str, Any]]:
        if not self.cache:
            return self.messages
        *rest, last = self.messages
        content = last["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        return [
            *rest,
            {**last, "content": [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]},
        ]

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        text = run_tool(call["name"], call["input"])
        content = [{"type": "text", "text": text}] if call["name"] == "Read" else text
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content}


@dataclass
class OpenAIAgent:
    """Talks with the `openai` SDK, Chat Completions."""

    client: Any
    stream: bool = False
    thinking: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    TOOLS = BY_ID["openai-chat"].rest["tools"]

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "content": words}

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        self.messages.append(self.prompt(words))
        while True:
            message = self.ask()
            self.messages.append(message)
            if not message.get("tool_calls"):
                return str(message["content"])
            self.messages.extend(self.result(call) for call in message["tool_calls"])

    def ask(self) -> dict[str, Any]:
        """The answer to the messages as they are."""
        request = {"model": "gpt-5", "messages": self.messages, "tools": list(self.TOOLS), **self.extra}
        if self.stream:
            return _joined(self.client.chat.completions.create(stream=True, **request))
        message = self.client.chat.completions.create(**request).choices[0].message
        return dict(message.model_dump(exclude_none=True))

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        text = run_tool(function["name"], json.loads(function["arguments"]))
        return {"role": "tool", "tool_call_id": call["id"], "content": text}


def _joined(chunks: Iterable[Any]) -> dict[str, Any]:
    content, calls = "", {}
    for delta in (chunk.choices[0].delta for chunk in chunks):
        content += delta.content or ""
        for part in delta.tool_calls or ():
            call = calls.setdefault(
                part.index,
                {
                    "id": part.id,
                    "type": "function",
                    "function": {"name": part.function.name, "arguments": ""},
                },
            )
            call["function"]["arguments"] += part.function.arguments or ""
    message: dict[str, Any] = {"role": "assistant", "content": content or None}
    return {**message, "tool_calls": list(calls.values())} if calls else message


def agent(api: str, clients: Any, proxy: Any, *, http2: bool = False, **more: Any) -> Any:
    """An agent for an API's name, talking through a proxy."""
    if api == "anthropic":
        return AnthropicAgent(clients.anthropic(proxy, http2=http2), **more)
    return OpenAIAgent(clients.openai(proxy, http2=http2), **more)
