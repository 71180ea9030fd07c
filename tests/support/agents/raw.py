"""A client of Anthropic's API that writes its requests itself."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from support.upstream import ToolCall, turn

BASH = {"name": "Bash", "description": "Runs.", "input_schema": {"type": "object"}}


class Conversation:
    """A `Conversation` grows by tool results and by what the model and the user say."""

    def __init__(
        self,
        client: Any,
        key: str,
        tools: Sequence[Mapping[str, Any]] = (BASH,),
        *,
        base: str = "https://api.anthropic.com",
        first_call: int = 1,
        words: str = "Which job is slow?",
        upstream: Any = None,
    ) -> None:
        """`upstream` is the test provider for the methods that script it or read from it."""
        self.upstream = upstream
        self.client = client
        self.url = f"{base}/v1/messages"
        self.key = key
        self.headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
        self.body: dict[str, Any] = {"model": "claude-opus-5-5", "max_tokens": 99, "tools": list(tools)}
        """The members of each request beside its messages."""
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": words}]
        self._ids = itertools.count(first_call)

    def prints(self, *texts: str, tool: str = "Bash", command: str = "", after: Sequence[Any] = ()) -> None:
        """Add calls of a tool, one for each text, and the texts as their results; `after` are further content
        blocks."""
        ids = [f"toolu_own{next(self._ids):021}" for _ in texts]
        calls = [
            {"type": "tool_use", "id": id, "name": tool, "input": {"command": command or f"./run {id[-4:]}"}}
            for id in ids
        ]
        self.messages.append({"role": "assistant", "content": calls})
        self.printed(*zip(ids, texts, strict=True), after=after)

    def printed(self, *results: tuple[str, str], after: Sequence[Any] = ()) -> None:
        """Add results of calls, each as id and text."""
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
        self.messages.append({"role": "user", "content": [*blocks, *after]})

    def said(self, text: str = "Understood.") -> None:
        """Add a turn of the model and one of the user."""
        self.messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "Go on."}]

    def post(self, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Send the next request; return the answer."""
        body = {**self.body, "messages": self.messages, **more}
        return self.client.post(self.url, json=body, headers={**self.headers, **(headers or {})})

    def send(self, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
        """Send the next request; return the answer, which must have status 200."""
        answer = self.post(headers, **more)
        assert answer.status_code == 200, answer.text
        return answer

    def sent(self, headers: Mapping[str, str] | None = None, **more: Any) -> tuple[Any, bytes]:
        """Send the next request; return it as the provider got it, and the bytes that the client sent."""
        response = self.send(headers, **more)
        return self.upstream.asked()[-1], response.request.content

    def calls(self, text: str, headers: Mapping[str, str] | None = None) -> None:
        """Let the model call a tool through the proxy, and add the tool's output."""
        self.upstream.answers(turn(ToolCall("Bash", {"command": "docker logs worker"})))
        content = self.send(headers).json()["content"]
        self.messages.append({"role": "assistant", "content": content})
        self.printed((next(block["id"] for block in content if block["type"] == "tool_use"), text))

    def count(self) -> None:
        """Have the provider count the conversation's tokens."""
        body = {name: value for name, value in self.body.items() if name != "max_tokens"}
        answer = self.client.post(
            f"{self.url}/count_tokens", json={**body, "messages": self.messages}, headers=self.headers
        )
        assert answer.status_code == 200, answer.text
