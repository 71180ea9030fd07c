"""The request that replaces a refused request."""

import asyncio
import json

import pytest

from penumbra.retry import retry
from support.apis import BY_ID
from support.engines import Callers, arriving
from support.refused import TOO_LONG, claude

ANTHROPIC = BY_ID["anthropic-messages"]


@pytest.mark.parametrize("expands", [True, False], ids=["with the tool", "without the tool"])
@pytest.mark.parametrize("words", ["Go on.", "Call expand_context."], ids=["unnamed", "named in a text"])
def test_only_a_model_with_the_tool_gets_references(expands: bool, words: str) -> None:
    callers = Callers(enable_expand_context=expands)
    body = claude(12)
    body["messages"].append({"role": "user", "content": words})
    incoming = arriving(ANTHROPIC, json.dumps(body).encode(), ANTHROPIC.credential("k"))
    sent = callers.send(ANTHROPIC, incoming.body, incoming.headers)
    found = asyncio.run(retry.instead(callers.engine, incoming, callers.settings, sent, 0, 400, TOO_LONG))
    callers.close()
    last = found.accepted if found is not None else sent
    assert (b"<<<SHADOW" in last.rewritten.body) is expands
