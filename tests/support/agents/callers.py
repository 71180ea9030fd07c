"""Small agents on the official SDKs of further APIs, with the tools of `agent.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from support.agents.agent import AnthropicAgent, OpenAIAgent, run_tool
from support.apis import TOOLS, schema


@dataclass
class ThreadAgent(AnthropicAgent):
    """Leaves its history at Anthropic: only new messages are sent. Sends it all if it is lost there."""

    _known: int = 0
    """How many messages the provider has."""

    def ask(self) -> list[dict[str, Any]]:
        from anthropic import NotFoundError

        beta = {"anthropic-beta": "message-threads-2026-08-12"}
        thread: dict[str, Any] = {"type": "create"}
        if self.last_id:
            thread = {"type": "continue", "previous_message_id": self.last_id}
        self.extra = {"extra_headers": beta, "extra_body": {"thread": thread}}
        try:
            content = super().ask()
        except NotFoundError:
            self.last_id, self._known = "", 0
            return self.ask()
        self._known = len(self.messages) + 1
        return content

    def _sent(self) -> list[dict[str, Any]]:
        return self.messages[self._known :]


@dataclass
class ResponsesAgent:
    """Talks with the `openai` SDK, Responses; keeps its own history, or leaves it at the provider."""

    client: Any
    stream: bool = False
    held: bool = False
    """The history is at the provider: only new items are sent."""
    thinking: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)

    last_id: str = ""
    known: int = 0

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "content": words}

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        self.messages.append(self.prompt(words))
        while True:
            items = self.ask()
            self.messages += items
            self.known = len(self.messages)
            calls = [item for item in items if item["type"] == "function_call"]
            if not calls:
                texts = (item["content"][0]["text"] for item in items if item["type"] == "message")
                return "".join(texts)
            self.messages += [self.result(call) for call in calls]

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        tools = [{"type": "function", "name": n, "parameters": schema(k), "strict": False} for n, k in TOOLS]
        request: dict[str, Any] = {"model": "gpt-5", "instructions": "Be careful.", "tools": tools}
        if self.held and self.last_id:
            request |= {"previous_response_id": self.last_id, "input": self.messages[self.known :]}
        else:
            request["input"] = self.messages
        if not self.held:
            request |= {"store": False, "include": ["reasoning.encrypted_content"]}
        request |= self.extra
        if self.stream:
            with self.client.responses.stream(**request) as stream:
                response = stream.get_final_response()
        else:
            response = self.client.responses.create(**request)
        self.last_id = response.id
        return [json.loads(item.to_json(exclude_none=True)) for item in response.output]

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        text = run_tool(call["name"], json.loads(call["arguments"]))
        return {"type": "function_call_output", "call_id": call["call_id"], "output": text}


@dataclass
class GeminiAgent:
    """Talks with the `google-genai` SDK."""

    client: Any
    stream: bool = False
    ids: bool = True
    """Ids of calls are kept; some clients drop them."""
    thinking: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)

    CALL, RESULT = "function_call", "function_response"

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": words}]}

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        self.messages.append(self.prompt(words))
        while True:
            parts = self.ask()
            for part in parts if not self.ids else ():
                part.get(self.CALL, {}).pop("id", None)
            self.messages.append({"role": "model", "parts": parts})
            calls = [part[self.CALL] for part in parts if self.CALL in part]
            if not calls:
                return "".join(part.get("text", "") for part in parts if not part.get("thought"))
            self.messages.append({"role": "user", "parts": [self.result(call) for call in calls]})

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        functions = [{"name": name, "description": name, "parameters": schema(key)} for name, key in TOOLS]
        config = {
            "tools": [{"function_declarations": functions}],
            "system_instruction": "Be careful.",
            "automatic_function_calling": {"disable": True},
        }
        request = {"model": "gemini-2.5-pro", "contents": self.messages, "config": config}
        if self.stream:
            answers = list(self.client.models.generate_content_stream(**request))
        else:
            answers = [self.client.models.generate_content(**request)]
        parts = [part for answer in answers for part in answer.candidates[0].content.parts or ()]
        return [part.model_dump(exclude_none=True) for part in parts]

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        text = run_tool(call["name"], call["args"])
        named = {key: call[key] for key in ("id", "name") if key in call}
        return {self.RESULT: {**named, "response": {"output": text}}}


@dataclass
class GeminiArrayAgent(GeminiAgent):
    """Talks without an SDK, for none asks for a stream as one JSON array. `client` is an HTTP client."""

    base: str = ""
    key: str = ""

    CALL, RESULT = "functionCall", "functionResponse"

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        functions = [{"name": name, "description": name, "parameters": schema(key)} for name, key in TOOLS]
        body = {"contents": self.messages, "tools": [{"functionDeclarations": functions}]}
        way = "streamGenerateContent" if self.stream else "generateContent"
        url = f"{self.base}/v1beta/models/gemini-2.5-pro:{way}"
        answer = self.client.post(url, json=body, params={"key": self.key})
        pieces = answer.json() if self.stream else [answer.json()]
        if answer.status_code != 200 or any("error" in piece for piece in pieces):
            raise RuntimeError(answer.text)
        return [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]


@dataclass
class OllamaAgent(OpenAIAgent):
    """Talks with the `ollama` SDK."""

    def ask(self) -> dict[str, Any]:
        """The answer to the messages as they are."""
        tools = [
            {"type": "function", "function": {"name": n, "description": n, "parameters": schema(k)}}
            for n, k in TOOLS
        ]
        request = {"model": "qwen3", "messages": self.messages, "tools": tools}
        if not self.stream:
            return dict(self.client.chat(**request).message.model_dump(exclude_none=True))
        answers = [one.message for one in self.client.chat(stream=True, **request)]
        text = "".join(one.content or "" for one in answers)
        calls = [call.model_dump() for one in answers for call in one.tool_calls or ()]
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        function = call["function"]
        text = run_tool(function["name"], function["arguments"])
        return {"role": "tool", "content": text, "tool_name": function["name"]}
