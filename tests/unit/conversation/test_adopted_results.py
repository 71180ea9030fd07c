"""Results that the provider may have seen without us: their form stays, their secrets do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis import recognise
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite
from penumbra.conversation.back_references import LineIndexes
from penumbra.conversation.decide import Inputs
from penumbra.conversation.model import Rewritten
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.planted import GITHUB, anthropic

OLD = f"GITHUB_TOKEN={GITHUB}\n" + "the same line\n" * 400


def chat() -> dict[str, Any]:
    call = {"id": "call_01AbCdEfGhIjKlMnOpQrSt", "type": "function"}
    call["function"] = {"name": "Bash", "arguments": "{}"}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": OLD},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": "And now?"},
    ]
    return {"model": "m", "messages": messages}


def thinking() -> dict[str, Any]:
    body = anthropic(OLD)
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    body["messages"] += [
        {"role": "assistant", "content": [thought, {"type": "text", "text": "Done."}]},
        {"role": "user", "content": [{"type": "text", "text": "?", "cache_control": {"type": "ephemeral"}}]},
    ]
    return body


def sent(api: str, body: Any, adopt: str = "auto") -> tuple[str, Rewritten]:
    known = next(one for one in recognise.apis() if one.id == api)
    request = read.read(Document(json.dumps(body).encode()), known, Settings(adopt=adopt), b"scope")
    assert request is not None
    rewritten = rewrite.rewrite(Inputs(request, {}, Redactor(b"k").redact, None), LineIndexes())
    return rewritten.body.decode(), rewritten


def test_only_the_secret_goes() -> None:
    body, rewritten = sent("openai-chat", chat())
    assert PATTERN.sub(GITHUB, body) == json.dumps(chat())
    assert PATTERN.search(body)
    assert [dict(one.facts.redactions) for one in rewritten.shown] == [{"github-token": 1}]


def test_it_is_final() -> None:
    """Later requests find the decision."""
    _, rewritten = sent("openai-chat", chat())
    (decision,) = rewritten.decisions.values()
    assert decision.text is not None
    assert GITHUB not in decision.text
    assert decision.text.endswith("the same line\n" * 400)


@pytest.mark.parametrize(
    ("api", "body", "adopt"), [("openai-chat", chat(), "raw"), ("anthropic-messages", thinking(), "auto")]
)
def test_where_it_must_stay(api: str, body: Any, adopt: str) -> None:
    """The operator wants it, or thinking would be refused with another prefix."""
    assert sent(api, body, adopt)[0] == json.dumps(body)
    assert sent(api, body, "compress")[0] != json.dumps(body)


def test_thinking_in_front_binds_nothing() -> None:
    body = thinking()
    body["messages"][1]["content"].insert(0, body["messages"][3]["content"].pop(0))
    assert GITHUB not in sent("anthropic-messages", body)[0]
