"""Small agents on the SDKs of further APIs, with the tools of `agent.py`."""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from support.agents.agent import Agent, AnthropicAgent, OpenAIAgent
from support.apis import BY_ID
from support.upstream import amazon

REGION = "us-east-1"
HOST = f"bedrock-runtime.{REGION}.amazonaws.com"
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SIGNING = {"AWS_ACCESS_KEY_ID": amazon.KEY_ID, "AWS_SECRET_ACCESS_KEY": amazon.SECRET}
"""The environment of a proxy that may sign requests."""
CACHE = {"cachePoint": {"type": "default"}}


@dataclass
class ThreadAgent(AnthropicAgent):
    """A `ThreadAgent` uses message threads, whose history Anthropic keeps. The agent sends only new messages,
    or all messages if Anthropic has lost the history."""

    known: int = 0
    """The number of messages that the provider has."""

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
            self.last_id, self.known = "", 0
            return self.ask()
        self.known = len(self.messages) + 1
        return content

    def sent(self) -> list[dict[str, Any]]:
        return self.messages[self.known :]


@dataclass
class ResponsesAgent(Agent):
    """A `ResponsesAgent` calls Responses with the `openai` SDK. The agent or the provider keeps the
    history."""

    at_provider: bool = False
    """True if the provider has the history, so that only new items are sent."""
    known: int = 0
    """The number of items that the provider has."""

    API = BY_ID["openai-responses"]

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "content": words}

    def keep(self, answer: Any) -> None:
        self.messages += answer
        self.known = len(self.messages)

    def ask(self) -> list[dict[str, Any]]:
        request: dict[str, Any] = {"model": "gpt-5", "instructions": "Be careful.", **self.declared}
        if self.at_provider and self.last_id:
            request |= {"previous_response_id": self.last_id, "input": self.messages[self.known :]}
        else:
            request["input"] = self.messages
        if not self.at_provider:
            request |= {"store": False, "include": ["reasoning.encrypted_content"]}
        request |= self.extra
        if self.stream:
            with self.client.responses.stream(**request) as stream:
                response = stream.get_final_response()
        else:
            response = self.client.responses.create(**request)
        self.last_id = response.id
        return [json.loads(item.to_json(exclude_none=True)) for item in response.output]

    def calls(self, answer: Any) -> list[Any]:
        return [item for item in answer if item["type"] == "function_call"]

    def words(self, answer: Any) -> str:
        return "".join(item["content"][0]["text"] for item in answer if item["type"] == "message")

    def result(self, call: Any) -> dict[str, Any]:
        text = self.run_tool(call["name"], json.loads(call["arguments"]))
        return self.API.write(("result", call["call_id"], text))


@dataclass
class GeminiAgent(Agent):
    """A `GeminiAgent` uses the `google-genai` SDK."""

    ids: bool = True
    """True if ids of calls are kept; some clients drop them."""

    API = BY_ID["gemini"]
    CALL: ClassVar[str] = "function_call"
    RESULT: ClassVar[str] = "function_response"

    def ask(self) -> list[dict[str, Any]]:
        config = {
            **self.declared,
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

    def keep(self, answer: Any) -> None:
        for part in answer if not self.ids else ():
            part.get(self.CALL, {}).pop("id", None)
        self.messages.append({"role": "model", "parts": answer})

    def calls(self, answer: Any) -> list[Any]:
        return [part[self.CALL] for part in answer if self.CALL in part]

    def words(self, answer: Any) -> str:
        return "".join(part.get("text", "") for part in answer if not part.get("thought"))

    def result(self, call: Any) -> dict[str, Any]:
        named = {key: call[key] for key in ("id", "name") if key in call}
        output = self.run_tool(call["name"], call["args"])
        return {self.RESULT: {**named, "response": {"output": output}}}

    def results(self, calls: list[Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "parts": super().results(calls)}]


@dataclass
class GeminiArrayAgent(GeminiAgent):
    """A `GeminiArrayAgent` uses an HTTP client, since no SDK asks for a stream as one JSON array."""

    base: str = ""
    key: str = ""

    CALL = "functionCall"
    RESULT = "functionResponse"

    def ask(self) -> list[dict[str, Any]]:
        way = "streamGenerateContent" if self.stream else "generateContent"
        url = f"{self.base}/v1beta/models/gemini-2.5-pro:{way}"
        body = {"contents": self.messages, **self.declared}
        answer = self.client.post(url, json=body, params={"key": self.key})
        pieces = answer.json() if self.stream else [answer.json()]
        if answer.status_code != 200 or any("error" in piece for piece in pieces):
            raise RuntimeError(answer.text)
        return [part for piece in pieces for part in piece["candidates"][0]["content"]["parts"]]


class OllamaAgent(OpenAIAgent):
    """An `OllamaAgent` uses the `ollama` SDK."""

    API = BY_ID["ollama-chat"]

    def ask(self) -> dict[str, Any]:
        request = {"model": "qwen3", "messages": self.messages, **self.declared}
        if not self.stream:
            return dict(self.client.chat(**request).message.model_dump(exclude_none=True))
        answers = [one.message for one in self.client.chat(stream=True, **request)]
        text = "".join(one.content or "" for one in answers)
        calls = [call.model_dump() for one in answers for call in one.tool_calls or ()]
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def result(self, call: Any) -> dict[str, Any]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        return self.API.write(("result", "", self.run_tool(name, arguments), name))


@dataclass
class ConverseAgent(Agent):
    """A `ConverseAgent` calls Converse or ConverseStream with `boto3`."""

    token: str = ""
    """The API key; empty if requests are signed."""

    API = BY_ID["bedrock-converse"]

    def begin(self, words: str) -> None:
        said = self.prompt(words)
        if self.messages and self.messages[-1]["role"] == "user":
            # Roles have to alternate.
            last = self.messages.pop()
            said = {**last, "content": [*last["content"], *said["content"]]}
        self.messages.append(said)

    def ask(self) -> list[dict[str, Any]]:
        request = {
            "modelId": MODEL,
            "system": [{"text": "Be careful."}],
            "messages": self.messages,
            **self.declared,
            **self.extra,
        }
        if self.cache:
            *rest, last = self.messages
            request["messages"] = [*rest, {**last, "content": [*last["content"], CACHE]}]
            request["toolConfig"] = {"tools": [*request["toolConfig"]["tools"], CACHE]}
        with surroundings(self.token):
            answer = (self.client.converse_stream if self.stream else self.client.converse)(**request)
        if self.stream:
            return self._joined(answer["stream"])
        return list(answer["output"]["message"]["content"])

    def keep(self, answer: Any) -> None:
        self.messages.append({"role": "assistant", "content": answer})

    def calls(self, answer: Any) -> list[Any]:
        return [block["toolUse"] for block in answer if "toolUse" in block]

    def words(self, answer: Any) -> str:
        return "".join(block.get("text", "") for block in answer)

    def result(self, call: Any) -> dict[str, Any]:
        text = self.run_tool(call["name"], call["input"])
        block: dict[str, Any] = self.API.write(("result", call["toolUseId"], text))["content"][0]
        return block

    def results(self, calls: list[Any]) -> list[dict[str, Any]]:
        return [{"role": "user", "content": super().results(calls)}]

    def _joined(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the blocks of a stream, put together as Amazon's examples do it."""
        blocks: dict[int, dict[str, Any]] = {}
        ended = False
        for event in events:
            if start := event.get("contentBlockStart"):
                blocks[start["contentBlockIndex"]] = {"toolUse": {**start["start"]["toolUse"], "input": ""}}
            elif delta := event.get("contentBlockDelta"):
                _add(blocks.setdefault(delta["contentBlockIndex"], {}), delta["delta"])
            elif "messageStop" in event:
                ended = True
        assert ended
        assert list(blocks) == list(range(len(blocks)))
        for block in blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
        return list(blocks.values())


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    else:
        text = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {"text": ""})
        for key, piece in delta["reasoningContent"].items():
            text[key] = text.get(key, "") + piece


@dataclass
class InvokeAgent(AnthropicAgent):
    """An `InvokeAgent` calls InvokeModel or InvokeModelWithResponseStream with `boto3` and bodies of the
    Messages API."""

    token: str = ""
    """The API key; empty if requests are signed."""

    def ask(self) -> list[dict[str, Any]]:
        if self.stream:
            return self._joined(self.events())
        answer = self._answer(self.client.invoke_model)
        return list(json.loads(answer["body"].read())["content"])

    def events(self) -> Iterator[dict[str, Any]]:
        """Return Anthropic's events of an answer that is streamed."""
        answer = self._answer(self.client.invoke_model_with_response_stream)
        return (json.loads(event["chunk"]["bytes"]) for event in answer["body"])

    def _answer(self, ask: Any) -> Any:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 4096,
            **self.declared,
            "messages": self.sent(),
            **self.extra,
        }
        with surroundings(self.token):
            return ask(modelId=MODEL, body=json.dumps(body))

    def _joined(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        pieces: list[str] = []
        for event in events:
            if event["type"] == "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"])
                pieces = []
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                pieces.append(delta.get("partial_json", ""))
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        blocks[-1][key] = blocks[-1].get(key, "") + delta[key]
            elif event["type"] == "content_block_stop" and blocks[-1]["type"] == "tool_use":
                blocks[-1]["input"] = json.loads("".join(pieces) or "{}")
        return blocks


def boto(proxy: Any, base: str = "", token: str = "") -> Any:
    """Return a client of Amazon's SDK: with an API key (`token`) or with access keys. `base` is another
    address than Amazon's own."""
    from botocore.config import Config

    keys = {} if token else {"aws_access_key_id": amazon.KEY_ID, "aws_secret_access_key": amazon.SECRET}
    proxies = {} if proxy.is_reverse else {"https": proxy.url}
    config = Config(proxies=proxies, retries={"total_max_attempts": 1}, read_timeout=60)
    more = {"endpoint_url": base} if base else {}
    with surroundings(token):
        return _session().client("bedrock-runtime", config=config, verify=str(proxy.ca_file), **keys, **more)


@cache
def _session() -> Any:
    """Return one session for all clients, since reading its descriptions of Amazon's services is slow."""
    import boto3

    return boto3.session.Session(region_name=REGION)


def anthropic_bedrock(clients: Any, proxy: Any, token: str = "") -> Any:
    """Return Anthropic's SDK for Bedrock: with an API key (`token`) or with access keys."""
    import anthropic

    keys = {} if token else {"aws_access_key": amazon.KEY_ID, "aws_secret_key": amazon.SECRET}
    more = {"api_key": token} if token else keys
    client = clients.http(proxy)
    with surroundings():
        return anthropic.AnthropicBedrock(aws_region=REGION, http_client=client, max_retries=0, **more)


@contextmanager
def surroundings(token: str = "") -> Iterator[None]:
    """Set the environment to an API key, without this machine's own settings for Amazon. The SDK looks for
    the key in every request."""
    own = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("AWS_")}
    made = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/nonexistent")
    made |= {"AWS_EC2_METADATA_DISABLED": "true"} | ({"AWS_BEARER_TOKEN_BEDROCK": token} if token else {})
    os.environ.update(made)
    try:
        yield
    finally:
        for name in made:
            del os.environ[name]
        os.environ.update(own)
