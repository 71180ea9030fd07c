"""Small agents on Amazon's SDK, and on Anthropic's for Bedrock, with the tools of `agent.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from support.agents.agent import AnthropicAgent, run_tool
from support.apis import BY_ID
from support.upstream import amazon

REGION = "us-east-1"
HOST = f"bedrock-runtime.{REGION}.amazonaws.com"
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
SIGNING = {"AWS_ACCESS_KEY_ID": amazon.KEY_ID, "AWS_SECRET_ACCESS_KEY": amazon.SECRET}
"""The proxy's environment where it may sign."""


TOOLS = BY_ID["bedrock-converse"].rest["toolConfig"]["tools"]
CACHE = {"cachePoint": {"type": "default"}}


@dataclass
class ConverseAgent:
    """Talks with `boto3`, Converse or ConverseStream."""

    client: Any
    token: str = ""
    """The API key; empty: requests are signed."""
    stream: bool = False
    thinking: bool = False
    cache: bool = False
    """Mark the newest message for the prompt cache."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    """Of the last answer."""

    def prompt(self, words: str) -> dict[str, Any]:
        return {"role": "user", "content": [{"text": words}]}

    def say(self, words: str) -> str:
        """One prompt and all that follows from it; the model's last words."""
        said = self.prompt(words)
        if self.messages and self.messages[-1]["role"] == "user":
            # Roles have to alternate.
            last = self.messages.pop()
            said = {**last, "content": [*last["content"], *said["content"]]}
        self.messages.append(said)
        while True:
            content = self.ask()
            self.messages.append({"role": "assistant", "content": content})
            calls = [block["toolUse"] for block in content if "toolUse" in block]
            if not calls:
                return "".join(block.get("text", "") for block in content)
            self.messages.append({"role": "user", "content": [self.result(call) for call in calls]})

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        *rest, last = self.messages
        marked = {**last, "content": [*last["content"], CACHE]}
        request = {
            "modelId": MODEL,
            "system": [{"text": "Be careful."}],
            "messages": [*rest, marked] if self.cache else self.messages,
            "toolConfig": {"tools": [*TOOLS, CACHE] if self.cache else TOOLS},
            **self.extra,
        }
        with surroundings(self.token):
            answer = (self.client.converse_stream if self.stream else self.client.converse)(**request)
        if self.stream:
            return self._joined(answer["stream"])
        self.usage = answer["usage"]
        return list(answer["output"]["message"]["content"])

    def _joined(self, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Blocks put together as Amazon's examples do."""
        blocks: dict[int, dict[str, Any]] = {}
        ended = False
        for event in events:
            if start := event.get("contentBlockStart"):
                blocks[start["contentBlockIndex"]] = {"toolUse": {**start["start"]["toolUse"], "input": ""}}
            elif delta := event.get("contentBlockDelta"):
                _add(blocks.setdefault(delta["contentBlockIndex"], {}), delta["delta"])
            elif "messageStop" in event:
                ended = True
            elif metadata := event.get("metadata"):
                self.usage = metadata["usage"]
        assert ended
        assert list(blocks) == list(range(len(blocks)))
        for block in blocks.values():
            if "toolUse" in block:
                block["toolUse"]["input"] = json.loads(block["toolUse"]["input"] or "{}")
        return list(blocks.values())

    def result(self, call: dict[str, Any]) -> dict[str, Any]:
        text = run_tool(call["name"], call["input"])
        return {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": text}]}}


def _add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "redactedContent" in delta["reasoningContent"]:
        block["reasoningContent"] = delta["reasoningContent"]
    else:
        text = block.setdefault("reasoningContent", {}).setdefault("reasoningText", {"text": ""})
        for key, piece in delta["reasoningContent"].items():
            text[key] = text.get(key, "") + piece


@dataclass
class InvokeAgent(AnthropicAgent):
    """Talks with `boto3`, InvokeModel or InvokeModelWithResponseStream, in Anthropic's words."""

    token: str = ""
    """The API key; empty: requests are signed."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """Bedrock's own figures of the last answer."""

    def ask(self) -> list[dict[str, Any]]:
        """The answer to the messages as they are."""
        if self.stream:
            return self._joined(self.events())
        answer = self._answer(self.client.invoke_model)
        told = answer["ResponseMetadata"]["HTTPHeaders"]
        self.metrics = {
            f"{way}TokenCount": int(told[f"x-amzn-bedrock-{way}-token-count"]) for way in ("input", "output")
        }
        return list(json.loads(answer["body"].read())["content"])

    def events(self) -> Iterator[dict[str, Any]]:
        """The same as a stream of Anthropic's events."""
        answer = self._answer(self.client.invoke_model_with_response_stream)
        return (json.loads(event["chunk"]["bytes"]) for event in answer["body"])

    def _answer(self, ask: Any) -> Any:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 4096,
            "tools": list(self.TOOLS),
            "messages": self._sent(),
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
            elif event["type"] == "message_stop":
                self.metrics = event["amazon-bedrock-invocationMetrics"]
        return blocks


def boto(proxy: Any, base: str = "", token: str = "") -> Any:
    """A client of Amazon's SDK: with an API key (`token`) or with access keys. `base`: not Amazon's own."""
    from botocore.config import Config

    keys = {} if token else {"aws_access_key_id": amazon.KEY_ID, "aws_secret_access_key": amazon.SECRET}
    proxies = {} if proxy.is_reverse else {"https": proxy.url}
    config = Config(proxies=proxies, retries={"total_max_attempts": 1}, read_timeout=60)
    more = {"endpoint_url": base} if base else {}
    with surroundings(token):
        return _session().client("bedrock-runtime", config=config, verify=str(proxy.ca_file), **keys, **more)


@cache
def _session() -> Any:
    """One for all clients, for it keeps what it has read of Amazon's models of its services."""
    import boto3

    return boto3.session.Session(region_name=REGION)


def anthropic_bedrock(clients: Any, proxy: Any, token: str = "") -> Any:
    """Anthropic's SDK for Bedrock: with an API key (`token`) or with access keys."""
    import anthropic

    keys = {} if token else {"aws_access_key": amazon.KEY_ID, "aws_secret_key": amazon.SECRET}
    more = {"api_key": token} if token else keys
    client = clients.http(proxy)
    with surroundings():
        return anthropic.AnthropicBedrock(aws_region=REGION, http_client=client, max_retries=0, **more)


@contextmanager
def surroundings(token: str = "") -> Iterator[None]:
    """The environment with an API key, and without this machine's own settings for Amazon.

    The SDK looks for the key in every request.
    """
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
