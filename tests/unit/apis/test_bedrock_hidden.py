"""The injected tool and hidden exchanges in requests of Bedrock's Converse and InvokeModel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis.base import Hidden, InjectedCall, Turn
from penumbra.apis.formats import FORMATS
from penumbra.wire.document import Document

CONVERSE, INVOKE = FORMATS["bedrock"], FORMATS["bedrock_invoke"]
CACHE = {"cachePoint": {"type": "default"}}
OWN = {"toolSpec": {"name": "a", "inputSchema": {"json": {}}}}
SEARCH = {"systemTool": {"name": "nova_grounding"}}


def document(value: Any) -> Document:
    return Document(json.dumps(value, indent=1).encode())


def messages(found: Document) -> Any:
    return json.loads(found.render())["messages"]


def use(call_id: str, name: str = "Bash", **more: str) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": call_id, "name": name, "input": {}, **more}}


def told(call_id: str, text: str = "out") -> dict[str, Any]:
    return {"toolResult": {"toolUseId": call_id, "content": [{"text": text}]}}


def think(signature: str) -> dict[str, Any]:
    return {"reasoningContent": {"reasoningText": {"text": "hm", "signature": signature}}}


def say(text: str) -> dict[str, Any]:
    return {"text": text}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


HIDDEN = Hidden(
    before=(
        encoded(assistant(think("s0"), say("one"), use("p", "expand_context"))),
        encoded(user(told("p", "ALL"))),
    ),
    last=encoded(assistant(think("s1"), say("two"))),
    signed=True,
)
SHOWN = assistant(think("s0"), say("one"), think("s1"), say("two"), CACHE)


def test_the_tools_of_a_request_are_read() -> None:
    tools = CONVERSE.tools(document({"toolConfig": {"tools": [OWN, CACHE, SEARCH]}}))
    assert (tools.names, tools.own, tools.continuable, tools.threaded) == (
        ("a", "nova_grounding"),
        1,
        True,
        False,
    )
    for choice, forced in (({"auto": {}}, False), ({"any": {}}, True), ({"tool": {"name": "a"}}, True)):
        assert (
            CONVERSE.tools(document({"toolConfig": {"tools": [OWN], "toolChoice": choice}})).forced is forced
        )
    assert CONVERSE.tools(document({"tools": [OWN]})).own == 0
    assert INVOKE.tools(document({"tools": [{"name": "a"}]})).own == 1


def test_results_and_longer_requests() -> None:
    result = CONVERSE.result(InjectedCall("p", "{}"), "ALL")
    assert json.loads(result) == told("p", "ALL")
    request = b'{"messages": [ {"role":"user","content":[{"text":"x"}]} ], "z": 1.0}'
    turn = Turn(encoded(assistant(use("p"))))
    longer = CONVERSE.extended(request, CONVERSE.continuation(turn, (result, result)))
    assert longer.startswith(b'{"messages": [ {"role":"user","content":[{"text":"x"}]},')
    assert longer.endswith(b' ], "z": 1.0}')
    assert json.loads(longer)["messages"][1:] == [
        assistant(use("p")),
        user(told("p", "ALL"), told("p", "ALL")),
    ]


def test_answers_of_a_request() -> None:
    hidden = {"reasoningContent": {"redactedContent": "RA=="}}
    cited = {"citationsContent": {"content": [say("b")], "citations": []}}
    found = CONVERSE.visible(
        document(
            {
                "messages": [
                    user(say("hi")),
                    assistant(say("a"), use("c1"), use("s", type="server_tool_use"), use("c2"), CACHE),
                    user(told("c1"), told("c2")),
                    assistant(think("S"), hidden, cited),
                ]
            }
        )
    )
    assert [(one.index, one.calls, one.text) for one in found] == [(1, ("c1", "c2"), "a"), (3, (), "b")]
    assert [(one.last_call, one.signed, one.signature) for one in found] == [
        ("", False, ""),
        ("c2", True, "RA=="),
    ]


def test_hidden_turns_are_put_back_before_the_response() -> None:
    found = document({"messages": [user(say("x")), SHOWN, user(say("y"))]})
    (visible,) = CONVERSE.visible(found)
    assert CONVERSE.put_back(found, visible, HIDDEN)
    before = [json.loads(message) for message in HIDDEN.before]
    # The client's cache breakpoint stays where the client put it.
    last = assistant(think("s1"), say("two"), CACHE)
    assert messages(found) == [user(say("x")), *before, last, user(say("y"))]


def test_reasoning_that_the_client_took_out_stays_out() -> None:
    found = document({"messages": [assistant(say("one"), say("two"))]})
    (visible,) = CONVERSE.visible(found)
    assert CONVERSE.put_back(found, visible, HIDDEN)
    assert "reasoning" not in str(messages(found))
    assert messages(found)[0] == assistant(say("one"), use("p", "expand_context"))


def test_results_beside_those_of_real_calls() -> None:
    hidden = Hidden((), encoded(assistant(use("p", "expand_context"), use("r"))), (encoded(told("p")),))
    found = document({"messages": [assistant(use("r")), user(told("r"), CACHE)]})
    (visible,) = CONVERSE.visible(found)
    assert CONVERSE.put_back(found, visible, hidden)
    assert messages(found)[1] == user(told("p"), told("r"), CACHE)
    found = document({"messages": [assistant(use("r"))]})
    (visible,) = CONVERSE.visible(found)
    assert not CONVERSE.put_back(found, visible, hidden)


@pytest.mark.parametrize("beta", [[], ["other"], ["thinking-binding-controls-2026-08-01"]])
def test_reasoning_that_is_bound_to_something_else(beta: list[str]) -> None:
    asked = bool(beta) and "binding" in beta[0]
    history = [user(say("x")), assistant(think("s"), say("a")), user(say("y"))]
    thinking: dict[str, Any] = {"type": "adaptive"}
    found = document(
        {"messages": history, "additionalModelRequestFields": {"thinking": thinking, "anthropic_beta": beta}}
    )
    assert CONVERSE.drop_unbound(found, 0, False)
    value = json.loads(found.render())
    behavior = {"prefix_mismatch_behavior": "drop_block"}
    binding = value["additionalModelRequestFields"]["thinking"].get("block_binding")
    assert binding == (behavior if asked else None)
    assert value["messages"][1] == (history[1] if asked else assistant(say("a")))
    assert not CONVERSE.drop_unbound(document({"messages": history}), 2, True)
    block = {"type": "thinking", "thinking": "hm", "signature": "s"}
    text = {"type": "text", "text": "a"}
    found = document({"messages": [assistant(block, text)], "thinking": thinking, "anthropic_beta": beta})
    assert INVOKE.drop_unbound(found, 0, False)
    value = json.loads(found.render())
    assert value["thinking"].get("block_binding") == (behavior if asked else None)
    assert value["messages"] == [assistant(block, text) if asked else assistant(text)]
