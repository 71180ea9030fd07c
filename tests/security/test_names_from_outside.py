"""Names from clients and upstreams are bounded in logs and figures, and take one line."""

import json
from typing import Any

from penumbra.apis.formats import FORMATS
from penumbra.apis.usage import added, flat
from penumbra.conversation.incoming import Incoming
from penumbra.expand.hidden_exchanges import Answered
from penumbra.flow.report import sent_request
from penumbra.metrics.events import Summary
from penumbra.metrics.journal import Journal
from penumbra.redaction.redact_calls import shown_names
from penumbra.redaction.redactor import Redactor
from support.apis import APIS
from support.by_hand import tunnelled
from support.engines import Callers

ODD = "api.openai.com\x1b]0;title\x07\u2028[00:00:00.000] Penumbra: all is well"


def test_a_host_header_in_the_log(proxy: Any, upstream: Any) -> None:
    """A terminal obeys some characters, and takes others for the end of a line."""
    running = proxy("regular")
    tunnelled(running, "api.openai.com", "api.openai.com", ODD, b'{"messages": x')
    said = [line for line in running.log().split("\n") if "Penumbra" in line and "title" in line]
    assert said
    assert all(line.isprintable() for line in said)


def test_names_of_tools_in_figures() -> None:
    journal = Journal(lambda: None)
    for number in range(3_000):
        tool = f"tool {number}\x1b[2J" + "x" * 10_000
        journal.asked(None, [Answered("shadow_0", True, 1, tool, "")])
    tools = dict(journal.tools.items())
    assert sum(sums.asked for sums in tools.values()) == 3_000
    assert len(tools) <= 1_001
    assert all(len(name) < 500 and name.isprintable() for name in tools)


def test_usage_within_usage() -> None:
    """An upstream may nest its usage deeper than Python's recursion goes."""
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    assert len(flat(deep)) <= 1
    assert added(deep, {}) == deep
    event = b"data: " + json.dumps({"type": "message_start", "message": {"id": "m", "usage": deep}}).encode()
    assert FORMATS["anthropic"].stream("expand_context").feed(event + b"\n\n") == event + b"\n\n"


def test_names_are_shown_without_secrets_and_cut() -> None:
    key = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    show = shown_names(Redactor(b"k" * 32).redact)
    assert key not in show(f"tool {key}")
    assert "[REDACTED:" in show(f"tool {key}")
    assert show("a\nb" + "x" * 500) == "a\\nb" + "x" * 96 + "…"
    assert show("x" * 900 + key) == "x" * 100 + "…"
    assert show("x" * 5_000) == "(a name of 5000 characters)"
    for name in (
        "Bash",
        "mcp__github__search_issues",
        "claude-opus-4-1-20250805",
        "toolu_01A09q90qw90lq917835lq9x",
    ):
        assert show(name) == name


def test_a_request_shows_its_names_so() -> None:
    key = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    call = {"type": "tool_use", "id": f"toolu_{key}", "name": f"run {key}", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{key}", "content": "fine"}
    turns = [("assistant", [call]), ("user", [result])]
    messages = [{"role": role, "content": content} for role, content in turns]
    callers = Callers()
    tools = [{"name": f"run {key}", "input_schema": {"type": "object"}}]
    body = json.dumps({"model": f"m {key}", "tools": tools, "messages": messages}).encode()
    accepted = callers.send(APIS[0], body, {"x-api-key": "k"})
    callers.close()
    [shown] = accepted.rewritten.shown
    incoming = Incoming(accepted.request.api, body, {}, {}, "")
    sent = sent_request("api.anthropic.com", incoming, accepted, Summary(), (), changed=True)
    assert [tool.name for tool in sent.tools] == list(sent.called)
    for name in (shown.tool, shown.call_id, accepted.model, *sent.called):
        assert "[REDACTED:" in name
        assert key not in name
