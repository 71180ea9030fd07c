"""A model that asks for originals, and the logs that it asks for."""

import json
import re
from collections.abc import Callable
from typing import Any

from support.agents.agent import PRINTS
from support.agents.requests import PHANTOM
from support.upstream import Received, Response, ToolCall, turn

CAP = "3584"
"""Size in bytes above which results are shortened in these tests, as the option's value."""


def log(name: str = "worker", lines: int = 150) -> str:
    """Return a log of about 70 bytes a line, no two of which say the same."""
    rows = [
        f"{n * 7919 % 10007:05} {name} took job {n * 31 % 997} of queue {n * n % 89}" for n in range(lines)
    ]
    rows[90] = f"{name} NEEDLE-90 is only said here"
    return "\n".join(rows) + "\n"


COMMANDS = {f"cat {name}.log": log(name) for name in ("worker", "db", "web")}
PRINTS.update(COMMANDS)
_SHADOW = re.compile(r"<<<SHADOW:(shadow_[0-9a-f]{18,32})>>>")

Step = Response | Callable[[Received], Response]


def refs(received: Received) -> list[str]:
    """Return the references that a request shows, in order."""
    return _SHADOW.findall((received.body or b"").decode())


def expand(ref: str, **more: Any) -> ToolCall:
    """Return a call of the injected tool."""
    return ToolCall(PHANTOM, {"id": ref, **more})


def ask(*blocks: Any, which: int = -1, delivery: dict[str, Any] | None = None, **more: Any) -> Step:
    """Return a step: a turn that asks for the original of one of the references in the request."""
    return lambda received: turn(*blocks, expand(refs(received)[which], **more), **(delivery or {}))


class Model:
    """A `Model` answers each request with its next step. The test provider does not count refused
    requests."""

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)

    def __call__(self, received: Received) -> Response:
        step = self._steps.pop(0) if self._steps else turn("Understood.")
        return step(received) if callable(step) else step


def seen(messages: Any) -> str:
    """Return all messages of the client as text."""
    return json.dumps(messages, default=repr)
