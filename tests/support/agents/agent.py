"""Small agents on the official SDKs, the tools that they run, and the texts that the tools print. A test
scripts the model's part at the test provider."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from support.apis import BY_ID, TOOLS, Api, Tools
from support.upstream import Response, Text, Thinking, ToolCall, turn

GREEN, RED, RESET = "\x1b[32m", "\x1b[31m", "\x1b[0m"


def pytest_log() -> str:
    """Return the output of a coloured test run with one failure."""
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
    """Return the indented JSON of an API."""
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
    """Return a log in which one line is repeated."""
    same = "worker-3 waiting for the queue to drain, 0 of 5 jobs done"
    return (
        "\n".join(["worker-3 started", *[same] * 120, "worker-3 ERROR queue closed: timeout after 30 s"])
        + "\n"
    )


def source_file() -> str:
    """Return a file as a reading tool shows it, with line numbers."""
    lines = [
        f"def order_{n}(items):\n    return sum(item.price * item.count for item in items)\n"
        for n in range(30)
    ]
    numbered = "\n".join(lines).split("\n")
    return "\n".join(f"{n:6}\t{line}" for n, line in enumerate(numbered, 1))


def npm_install() -> str:
    """Return the output of an installation whose progress bar redraws its line."""
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
    """Return the output of a tool, which is always the same."""
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
class Agent:
    """An `Agent` prompts the model and runs its tool calls, until the model calls none."""

    client: Any
    stream: bool = False
    thinking: bool = False
    cache: bool = False
    """True if the newest message has a cache breakpoint, as in requests of coding agents."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members or arguments of each request."""
    messages: list[Any] = field(default_factory=list)
    """The conversation so far, as the API spells it."""
    last_id: str = ""
    """The id of the last response."""

    API: ClassVar[Api]
    TOOLS: ClassVar[Tools] = TOOLS
    run_tool: ClassVar[Callable[[str, Mapping[str, Any]], str]] = staticmethod(run_tool)

    @property
    def declared(self) -> dict[str, Any]:
        """The members of a request that declare the tools."""
        return self.API.declares(self.TOOLS)

    def prompt(self, words: str) -> dict[str, Any]:
        return self.API.write(("user", words))

    def begin(self, words: str) -> None:
        """Add a prompt to the conversation."""
        self.messages.append(self.prompt(words))

    def say(self, words: str) -> str:
        """Send a prompt and the results of all calls that follow; return the model's last words."""
        self.begin(words)
        while True:
            answer = self.ask()
            self.keep(answer)
            calls = self.calls(answer)
            if not calls:
                return self.words(answer)
            self.messages += self.results(calls)

    def ask(self) -> Any:
        """Return the model's answer to the messages as they are."""
        raise NotImplementedError

    def keep(self, answer: Any) -> None:
        """Add an answer to the conversation."""
        self.messages.append(answer)

    def calls(self, answer: Any) -> list[Any]:
        raise NotImplementedError

    def words(self, answer: Any) -> str:
        raise NotImplementedError

    def result(self, call: Any) -> dict[str, Any]:
        """Run a call's tool; return the result as the API spells it."""
        raise NotImplementedError

    def results(self, calls: list[Any]) -> list[dict[str, Any]]:
        """Return the messages that answer some calls."""
        return [self.result(call) for call in calls]


class AnthropicAgent(Agent):
    """An `AnthropicAgent` uses the `anthropic` SDK."""

    API = BY_ID["anthropic-messages"]

    def ask(self) -> list[dict[str, Any]]:
        request = {
            "model": "claude-opus-5-5",
            "max_tokens": 4096,
            "system": "You are a careful engineer.",
            **self.declared,
            "messages": self.sent(),
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

    def sent(self) -> list[dict[str, Any]]:
        """Return the messages of the next request."""
        if not self.cache:
            return self.messages
        *rest, last = self.messages
        content = last["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
        blocks[-1] = {**blocks[-1], "cache_control": {"type": "ephemeral"}}
        return [*rest, {**last, "content": blocks}]

    def keep(self, answer: Any) -> None:
        self.messages.append({"role": "assistant", "content": answer})

    def calls(self, answer: Any) -> list[Any]:
        return [block for block in answer if block["type"] == "tool_use"]

    def words(self, answer: Any) -> str:
        return "".join(block.get("text", "") for block in answer)

    def result(self, call: Any) -> dict[str, Any]:
        text = self.run_tool(call["name"], call["input"])
        content = [{"type": "text", "text": text}] if call["name"] == "Read" else text
        return {"type": "tool_result", "tool_use_id": call["id"], "content": content}

    def results(self, calls: list[Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": super().results(calls)}]


class OpenAIAgent(Agent):
    """An `OpenAIAgent` calls Chat Completions with the `openai` SDK."""

    API = BY_ID["openai-chat"]

    def ask(self) -> dict[str, Any]:
        request = {"model": "gpt-5", "messages": self.messages, **self.declared, **self.extra}
        if self.stream:
            return _joined(self.client.chat.completions.create(stream=True, **request))
        message = self.client.chat.completions.create(**request).choices[0].message
        return dict(message.model_dump(exclude_none=True))

    def calls(self, answer: Any) -> list[Any]:
        return answer.get("tool_calls") or []

    def words(self, answer: Any) -> str:
        return str(answer["content"])

    def result(self, call: Any) -> dict[str, Any]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        return self.API.write(("result", call["id"], self.run_tool(name, json.loads(arguments))))


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
    """Return an agent of `anthropic` or `openai` that talks through a proxy."""
    if api == "anthropic":
        return AnthropicAgent(clients.anthropic(proxy, http2=http2), **more)
    return OpenAIAgent(clients.openai(proxy, http2=http2), **more)
