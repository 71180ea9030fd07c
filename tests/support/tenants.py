"""Conversations of several tenants."""

from __future__ import annotations

from typing import Any

import pytest

from support.apis import APIS, Api
from support.engines import Callers

LOG = "\n".join(
    f"line {number}: worker {number * 7919 % 1009} has finished its part" for number in range(300)
)


OTHER = LOG.replace("worker", "runner")


ASK = ("user", "What is in the log?")


CALL = ("call", "call_0", "cat log")


NEXT = ("call", "call_1", "ls")


DONE = ("result", "call_1", "a b c")


every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)


def result(text: str) -> tuple[str, ...]:
    return ("result", "call_0", text)


def begun(callers: Callers, api: Api, headers: dict[str, str], log: str = LOG) -> Any:
    """A conversation whose second answer has a hidden exchange; its last request."""
    callers.answer(callers.send(api, api.body([ASK]), headers), api, CALL, shows=True)
    asked = callers.send(api, api.body([ASK, CALL, result(log)]), headers)
    callers.answer(asked, api, NEXT)
    return asked
