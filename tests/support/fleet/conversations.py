"""Conversations whose turns land on any proxy, and the check that the provider gets the same prefixes. The
model needs no memory: its answer follows from the request. If a conversation's name begins with ASKS, the
model asks in every third turn for the original of the result that was shortened last."""

import http.client
import itertools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from support.agents.model import log
from support.agents.requests import PHANTOM, raw_members
from support.upstream import Received, Response, ToolCall, turn

_TOOL = {
    "name": "Bash",
    "description": "Run a command.",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
    # Coding agents set a cache breakpoint, too; here it never moves.
    "cache_control": {"type": "ephemeral"},
}
ASKS = "asks"
_TRIES = 40
_PAUSE = 0.1


def model(received: Received) -> Response:
    """Return the model's answer to a request."""
    body = received.json
    last = body["messages"][-1]
    name, number = _turn(received)[:2]
    results = [block for block in last["content"] if isinstance(block, dict)]
    hidden = any(str(block.get("tool_use_id", "")).startswith("toolu_asked") for block in results)
    shown = _refs(last)
    if name.startswith(ASKS) and number % 3 == 2 and shown and not hidden:
        return turn("Let me see.", ToolCall(PHANTOM, {"id": shown[-1]}, id=f"toolu_asked_{received.number}"))
    call = ToolCall("Bash", {"command": f"cat {name}-{number}.log"}, id=f"toolu_{name}_{received.number}")
    return turn(f"Turn {number}.", call)


def _refs(message: Any) -> list[str]:
    found = json.dumps(message).split("<<<SHADOW:")[1:]
    return [text.partition(">>>")[0] for text in found]


def _turn(received: Received) -> tuple[str, int, int]:
    """Return conversation, turn and attempt, as the client has numbered them."""
    name, number, attempt = (received.header("x-turn") or "").split("/")
    return name, int(number), int(attempt)


@dataclass
class Conversation:
    """A `Conversation` is one client."""

    name: str
    port: int
    messages: list[Any] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    """The successful attempt, by turn."""
    failed: int = 0
    waits: list[tuple[float, float]] = field(default_factory=list)
    """The start of each turn and the time until its response, in seconds."""

    def say(self, number: int) -> None:
        """Send the next turn."""
        if not self.messages:
            self.messages.append({"role": "user", "content": f"{self.name}: what is in the logs?"})
        for attempt in range(_TRIES):
            started = time.perf_counter()
            content = self._asked(number, attempt)
            if content is not None:
                self.waits.append((started, time.perf_counter() - started))
                self.attempts.append(attempt)
                break
            self.failed += 1
            time.sleep(_PAUSE)
        else:
            raise AssertionError(f"{self.name}: turn {number} was never answered")
        self.messages.append({"role": "assistant", "content": content})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": block["id"],
                # The text is too long for its patterns alone, so that an excerpt is made.
                "content": log(f"{self.name}-{number}", 300 + 20 * (number % 3)),
            }
            for block in content
            if block["type"] == "tool_use"
        ]
        self.messages.append({"role": "user", "content": results})

    def _asked(self, number: int, attempt: int) -> Any:
        body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "tools": [_TOOL], "messages": self.messages}
        headers = {
            "content-type": "application/json",
            "x-api-key": f"key-{self.name}",
            "anthropic-version": "2023-06-01",
            "x-turn": f"{self.name}/{number}/{attempt}",
        }
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            data = json.dumps(body, separators=(",", ":"))
            connection.request("POST", "/v1/messages", data, headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        if response.status >= 500:
            return None
        assert response.status == 200, data
        return json.loads(data)["content"]


@dataclass(frozen=True)
class Outcome:
    """An `Outcome` counts what the provider got in a run."""

    conversations: int
    turns: int
    retried: int
    """Requests that clients sent again."""
    requests: int
    """Requests that reached the provider."""
    expansions: int
    wrong: int
    """Expansions with an original of another client."""
    broken: int
    """Requests that did not begin with the bytes of the turn before."""
    where: tuple[str, ...] = ()
    """Conversation and turn of the broken requests."""
    waits: tuple[tuple[float, float], ...] = ()
    """The start of each turn and the time until its response, in seconds."""


def run(
    conversations: Sequence[Conversation],
    turns: int,
    threads: int = 4,
    *,
    pause: float = 0.0,
    over: threading.Event | None = None,
) -> None:
    """Send so many further turns of each conversation, several conversations at once. `pause`: seconds after
    each turn; `over`: the turns go on until this is set."""
    waiting = iter(conversations)
    lock = threading.Lock()
    errors: list[BaseException] = []

    def work() -> None:
        while not errors:
            with lock:
                one = next(waiting, None)
            if one is None:
                return
            try:
                limit = len(one.attempts) + turns
                while len(one.attempts) < limit or (over is not None and not over.is_set()):
                    one.say(len(one.attempts))
                    time.sleep(pause)
            except BaseException as error:
                errors.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise errors[0]


def outcome(conversations: Sequence[Conversation], requests: Sequence[Received]) -> Outcome:
    """Compare the requests that reached the provider."""
    by_turn: dict[tuple[str, int, int], list[Received]] = defaultdict(list)
    for received in requests:
        by_turn[_turn(received)].append(received)
    broken: list[str] = []
    expansions = wrong = 0
    for one in conversations:
        chain = [
            received
            for number, attempt in enumerate(one.attempts)
            for received in by_turn[one.name, number, attempt]
        ]
        members = [raw_members(received) for received in chain]
        for (earlier, later), received in zip(itertools.pairwise(members), chain[1:], strict=True):
            if not _extends(earlier, later):
                broken.append("/".join(map(str, _turn(received))))
        originals = {
            block["content"]
            for message in one.messages
            if message["role"] == "user" and isinstance(message["content"], list)
            for block in message["content"]
        }
        hidden = [text for received in chain[-1:] for text in _hidden(received)]
        expansions += len(hidden)
        wrong += sum(text not in originals for text in hidden)
    return Outcome(
        len(conversations),
        sum(len(one.attempts) for one in conversations),
        sum(one.failed for one in conversations),
        len(requests),
        expansions,
        wrong,
        len(broken),
        tuple(broken),
        tuple(wait for one in conversations for wait in one.waits),
    )


def _extends(earlier: dict[str, bytes], later: dict[str, bytes]) -> bool:
    same = all(later.get(name) == earlier[name] for name in earlier.keys() - {"messages"})
    return same and later["messages"].startswith(earlier["messages"].removesuffix(b"]") + b",")


def _hidden(received: Received) -> list[str]:
    """Return the expanded originals in the last request."""
    return [
        block["content"] if isinstance(block["content"], str) else block["content"][0]["text"]
        for message in received.json["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if str(block.get("tool_use_id", "")).startswith("toolu_asked")
    ]
