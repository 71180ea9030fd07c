"""The injected tool and hidden exchanges in the requests of each API."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from penumbra.apis.base import Hidden, InjectedCall, Turn
from penumbra.apis.formats import FORMATS, ApiFormat
from penumbra.wire.document import Document

ANTHROPIC, CHAT = FORMATS["anthropic"], FORMATS["openai_chat"]
CONVERSE, INVOKE = FORMATS["bedrock"], FORMATS["bedrock_invoke"]


def document(value: Any) -> Document:
    return Document(json.dumps(value, indent=1).encode())


def body(found: Document) -> Any:
    return json.loads(found.render())


def test_the_tools_of_a_request_are_read() -> None:
    own = {"name": "a"}
    search = {"type": "web_search_20250305", "name": "web_search"}
    shell = {"type": "bash_20250124", "name": "bash"}
    tools = ANTHROPIC.tools(document({"tools": [own, search, shell, {"type": "custom", "name": "b"}]}))
    assert (tools.names, tools.own) == (("a", "web_search", "bash", "b"), 3)
    assert (tools.forced, tools.continuable) == (False, True)
    assert ANTHROPIC.tools(document({"tool_choice": {"type": "any"}})).forced
    assert not ANTHROPIC.tools(document({"tool_choice": {"type": "auto"}})).forced
    assert ANTHROPIC.tools(document({"tools": [own], "thread": {"type": "create"}})).threaded
    function = {"type": "function", "function": {"name": "a"}}
    custom = {"type": "custom", "custom": {"name": "b"}}
    tools = CHAT.tools(document({"tools": [function, custom], "n": 2}))
    assert (tools.names, tools.own, tools.continuable) == (("a", "b"), 2, False)
    for choice, forced in (("required", True), ("auto", False), (function, True), (None, False)):
        assert CHAT.tools(document({"tool_choice": choice})).forced is forced
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}
    assert not CHAT.tools(document({"tool_choice": allowed})).forced


@pytest.mark.parametrize(
    ("wire", "none"), [(ANTHROPIC, {"type": "none"}), (CHAT, "none")], ids=["anthropic", "chat"]
)
def test_no_calls(wire: Any, none: Any) -> None:
    for before in ({"a": 1}, {"a": 1, "tool_choice": {"type": "any"}}):
        assert json.loads(wire.without_calls(json.dumps(before).encode())) == {"a": 1, "tool_choice": none}


def use(call_id: str, name: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": {}}


def told(call_id: str, text: str = "out") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def say(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def think(signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


@dataclass(frozen=True)
class Blocks:
    """`Blocks` are the content blocks of one API with content blocks."""

    wire: ApiFormat
    use: Callable[..., Any]
    told: Callable[..., Any]
    say: Callable[[str], Any]
    think: Callable[[str], Any]
    marked: Callable[[Any], list[Any]]
    """(block) -> the block with a cache breakpoint after it."""

    @property
    def hidden(self) -> Hidden:
        """A hidden exchange with thinking, before a last turn with thinking."""
        asked = assistant(self.think("s0"), self.say("one"), self.use("p", "expand_context"))
        before = encoded(asked), encoded(user(self.told("p", "ALL")))
        return Hidden(before, encoded(assistant(self.think("s1"), self.say("two"))), signed=True)

    @property
    def mixed(self) -> Hidden:
        """A hidden call beside a call of the client's."""
        calls = assistant(self.use("p", "expand_context"), self.use("r"))
        return Hidden((), encoded(calls), (encoded(self.told("p", "ALL")),))

    def put_back(self, hidden: Hidden, *messages: Any) -> list[Any] | None:
        """Return the messages with a hidden exchange at the first response; None if it was not put back."""
        found = document({"messages": messages})
        if not self.wire.put_back(found, self.wire.visible(found)[0], hidden):
            assert found.edits == []
            return None
        return list(body(found)["messages"])


CONVERSE_BLOCKS = Blocks(
    CONVERSE,
    lambda call_id, name="Bash", **more: {
        "toolUse": {"toolUseId": call_id, "name": name, "input": {}, **more}
    },
    lambda call_id, text="out": {"toolResult": {"toolUseId": call_id, "content": [{"text": text}]}},
    lambda text: {"text": text},
    lambda signature: {"reasoningContent": {"reasoningText": {"text": "hm", "signature": signature}}},
    lambda block: [block, {"cachePoint": {"type": "default"}}],
)
EPHEMERAL = {"cache_control": {"type": "ephemeral"}}
BLOCKS = [Blocks(ANTHROPIC, use, told, say, think, lambda block: [{**block, **EPHEMERAL}]), CONVERSE_BLOCKS]
both_apis = pytest.mark.parametrize("api", BLOCKS, ids=["anthropic", "converse"])
MIXED = BLOCKS[0].mixed


@both_apis
def test_hidden_turns_are_put_back_before_the_response(api: Blocks) -> None:
    one, two, end = api.say("one"), api.marked(api.say("two")), user(api.say("y"))
    shown = assistant(api.think("s0"), one, api.think("s1"), *two)
    before = [json.loads(message) for message in api.hidden.before]
    # The client's cache breakpoint stays where the client put it.
    last = assistant(api.think("s1"), *two)
    begin = user(api.say("x"))
    assert api.put_back(api.hidden, begin, shown, end) == [begin, *before, last, end]


@both_apis
def test_thinking_that_the_client_took_out_stays_out(api: Blocks) -> None:
    messages = api.put_back(api.hidden, assistant(api.say("one"), api.say("two")))
    asked, given = assistant(api.say("one"), api.use("p", "expand_context")), user(api.told("p", "ALL"))
    assert messages == [asked, given, assistant(api.say("two"))]


@both_apis
def test_an_empty_last_turn(api: Blocks) -> None:
    messages = api.put_back(Hidden(api.hidden.before, None), assistant(api.say("one")), user(api.say("y")))
    # Roles of Converse have to alternate.
    users = 1 if api is CONVERSE_BLOCKS else 2
    assert [message["role"] for message in messages or ()] == ["assistant", *["user"] * users]


@both_apis
def test_results_beside_real_ones(api: Blocks) -> None:
    rest = api.marked(api.say("also"))
    messages = api.put_back(api.mixed, assistant(api.use("r")), user(api.told("r"), *rest))
    calls = assistant(api.use("p", "expand_context"), api.use("r"))
    assert messages == [calls, user(api.told("p", "ALL"), api.told("r"), *rest)]


@pytest.mark.parametrize(
    "after", [[], [{"role": "user", "content": "stop"}], [user()], [assistant(say("x"))]]
)
@both_apis
def test_without_real_results_nothing_is_put_back(api: Blocks, after: list[Any]) -> None:
    assert api.put_back(api.mixed, assistant(api.use("r")), *after) is None


def test_answers_of_an_anthropic_request() -> None:
    messages = [
        user(say("hi")),
        assistant(say("a"), use("c1"), use("c2")),
        user(told("c1"), told("c2")),
        {"role": "assistant", "content": "text"},
        {"role": "system", "content": "note"},
        assistant({"type": "redacted_thinking", "data": "D"}, say("b")),
    ]
    found = ANTHROPIC.visible(document({"messages": messages}))
    assert [(one.index, one.calls, one.text) for one in found] == [
        (1, ("c1", "c2"), "a"),
        (3, (), "text"),
        (5, (), "b"),
    ]
    assert [(one.last_call, one.since) for one in found] == [("", 0), ("c2", 0), ("c2", 1)]
    assert [(one.signed, one.signature) for one in found] == [(False, ""), (False, ""), (True, "D")]


def test_an_edited_message_is_left_alone() -> None:
    for wire, message in (
        (ANTHROPIC, assistant(say("one"))),
        (CHAT, {"role": "assistant", "content": "one"}),
    ):
        found = document({"messages": [message]})
        items = found.items(found.members(found.root)["messages"])
        found.replace(found.members(items[0])["role"], "other")
        assert not wire.put_back(found, wire.visible(found)[0], Hidden((b"{}",), b"{}"))
        assert len(found.edits) == 1


def test_unbound_thinking() -> None:
    messages = [
        user(say("x")),
        assistant(think("a"), say("1")),
        user(say("y")),
        assistant(think("b"), say("2")),
    ]

    def dropped(thinking: Any, first: int, offered: bool) -> tuple[bool, Any]:
        found = document({"messages": messages, **({"thinking": thinking} if thinking else {})})
        return ANTHROPIC.drop_unbound(found, first, offered), body(found)

    changed, after = dropped({"type": "adaptive"}, 2, True)
    assert changed
    assert after["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert after["messages"] == messages
    changed, after = dropped(
        {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}, 2, True
    )
    assert after["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    changed, after = dropped({"type": "adaptive"}, 2, False)
    assert changed
    assert after["messages"] == [*messages[:3], assistant(say("2"))]
    changed, after = dropped(None, 0, False)
    assert [len(message["content"]) for message in after["messages"]] == [1, 1, 1, 1]
    for thinking, first in (({"type": "enabled"}, 0), ({"type": "disabled"}, 0), ({"type": "adaptive"}, 4)):
        changed, after = dropped(thinking, first, False)
        assert not changed
        assert after["messages"] == messages


def test_a_history_that_the_provider_keeps() -> None:
    request = {"thread": {"type": "continue", "previous_message_id": "msg_1"}, "messages": [user(told("r"))]}
    found = document(request)
    (visible,) = ANTHROPIC.visible(found)
    assert (visible.response_id, visible.calls, visible.text) == ("msg_1", (), "")
    assert ANTHROPIC.put_back(found, visible, Hidden((), None, MIXED.results, response_id="msg_2"))
    assert body(found) == {
        "thread": {"type": "continue", "previous_message_id": "msg_2"},
        "messages": [user(told("p", "ALL"), told("r"))],
    }
    empty = document({**request, "messages": []})
    assert not ANTHROPIC.put_back(empty, visible, Hidden((), None, MIXED.results))
    for thread in ({"type": "create"}, {"type": "continue", "previous_message_id": "msg_0"}):
        turn = Turn(encoded(assistant(use("p"))), response_id="msg_1")
        messages = ANTHROPIC.continuation(turn, (encoded(told("p", "ALL")),))
        longer = ANTHROPIC.extended(
            encoded({"messages": [user()], "thread": thread}), messages, turn.response_id
        )
        assert json.loads(longer) == {
            "messages": [user(told("p", "ALL"))],
            "thread": {"type": "continue", "previous_message_id": "msg_1"},
        }
    assert ANTHROPIC.visible(document({"thread": {"type": "create"}, "messages": []})) == []


@pytest.mark.parametrize("place", [0, 1])
def test_a_hidden_turn_of_a_thread_carries_the_mark_of_the_cache(place: int) -> None:
    """The request that continues a thread has only new messages, and therefore not the client's message with the
    cache breakpoint."""
    mark = {"type": "ephemeral", "ttl": "1h"}
    asked = [user(told("r")), user(told("s"))]
    asked[place]["content"][-1]["cache_control"] = mark
    thread = {"type": "continue", "previous_message_id": "msg_0"}
    request = encoded({"messages": asked, "thread": thread})
    for answer in ("msg_1", "msg_2"):
        turn = Turn(encoded(assistant(use("p"), use("q"))), response_id=answer)
        results = [encoded(told("p", "ALL")), encoded(told("q", "ALL"))]
        request = ANTHROPIC.extended(request, ANTHROPIC.continuation(turn, results), answer)
        (message,) = json.loads(request)["messages"]
        assert [block.get("cache_control") for block in message["content"]] == [None, mark]


def chat_call(call_id: str, name: str = "bash") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def test_answers_of_a_chat_request() -> None:
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [chat_call("c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "out"},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
        },
    ]
    found = CHAT.visible(document({"messages": messages}))
    assert [(one.index, one.calls, one.text, one.last_call) for one in found] == [
        (1, ("c1",), "", ""),
        (3, (), "a", "c1"),
    ]


def test_put_back_in_a_chat_request() -> None:
    hidden = Hidden(
        (
            encoded({"role": "assistant", "tool_calls": [chat_call("p")]}),
            encoded({"role": "tool", "content": "ALL"}),
        ),
        encoded({"role": "assistant", "tool_calls": [chat_call("q"), chat_call("r")]}),
        (CHAT.result(InjectedCall("q", "{}"), "MORE"),),
    )
    message = {"role": "assistant", "tool_calls": [chat_call("r")], "cache_control": {"type": "ephemeral"}}
    found = document({"messages": [message, {"role": "tool", "tool_call_id": "r", "content": "x"}]})
    assert CHAT.put_back(found, CHAT.visible(found)[0], hidden)
    messages = body(found)["messages"]
    assert [one["role"] for one in messages] == ["assistant", "tool", "assistant", "tool", "tool"]
    assert messages[2]["cache_control"] == {"type": "ephemeral"}
    assert [one.get("tool_call_id") for one in messages[3:]] == ["q", "r"]
    assert not CHAT.drop_unbound(found, 0, True)


def test_the_tools_of_a_converse_request_are_read() -> None:
    own = {"toolSpec": {"name": "a", "inputSchema": {"json": {}}}}
    others = {"cachePoint": {"type": "default"}}, {"systemTool": {"name": "nova_grounding"}}
    tools = CONVERSE.tools(document({"toolConfig": {"tools": [own, *others]}}))
    assert (tools.names, tools.own) == (("a", "nova_grounding"), 1)
    assert (tools.continuable, tools.threaded) == (True, False)
    for choice, forced in (({"auto": {}}, False), ({"any": {}}, True), ({"tool": {"name": "a"}}, True)):
        config = {"tools": [own], "toolChoice": choice}
        assert CONVERSE.tools(document({"toolConfig": config})).forced is forced
    assert CONVERSE.tools(document({"tools": [own]})).own == 0
    assert INVOKE.tools(document({"tools": [{"name": "a"}]})).own == 1


def test_a_longer_converse_request_begins_with_the_same_bytes() -> None:
    made = CONVERSE_BLOCKS
    result = CONVERSE.result(InjectedCall("p", "{}"), "ALL")
    assert json.loads(result) == made.told("p", "ALL")
    request = b'{"messages": [ {"role":"user","content":[{"text":"x"}]} ], "z": 1.0}'
    turn = Turn(encoded(assistant(made.use("p"))))
    longer = CONVERSE.extended(request, CONVERSE.continuation(turn, (result, result)))
    assert longer.startswith(b'{"messages": [ {"role":"user","content":[{"text":"x"}]},')
    assert longer.endswith(b' ], "z": 1.0}')
    given = user(made.told("p", "ALL"), made.told("p", "ALL"))
    assert json.loads(longer)["messages"][1:] == [assistant(made.use("p")), given]


def test_answers_of_a_converse_request() -> None:
    made = CONVERSE_BLOCKS
    hidden = {"reasoningContent": {"redactedContent": "RA=="}}
    cited = {"citationsContent": {"content": [made.say("b")], "citations": []}}
    calls = made.use("c1"), made.use("s", type="server_tool_use"), *made.marked(made.use("c2"))
    messages = [
        user(made.say("hi")),
        assistant(made.say("a"), *calls),
        user(made.told("c1"), made.told("c2")),
        assistant(made.think("S"), hidden, cited),
    ]
    first, second = CONVERSE.visible(document({"messages": messages}))
    assert (first.index, first.calls, first.text) == (1, ("c1", "c2"), "a")
    assert (second.index, second.calls, second.text) == (3, (), "b")
    assert (first.last_call, first.signed, first.signature) == ("", False, "")
    assert (second.last_call, second.signed, second.signature) == ("c2", True, "RA==")


@pytest.mark.parametrize("beta", [[], ["other"], ["thinking-binding-controls-2026-08-01"]])
def test_reasoning_in_bedrock_that_is_bound_to_something_else(beta: list[str]) -> None:
    asked = bool(beta) and "binding" in beta[0]
    thinking: dict[str, Any] = {"type": "adaptive"}
    binding = {"prefix_mismatch_behavior": "drop_block"} if asked else None
    for api in (CONVERSE_BLOCKS, replace(BLOCKS[0], wire=INVOKE)):
        history = [user(api.say("x")), assistant(api.think("s"), api.say("a")), user(api.say("y"))]
        more = {"thinking": thinking, "anthropic_beta": beta}
        wrapped = {"additionalModelRequestFields": more} if api is CONVERSE_BLOCKS else more
        found = document({"messages": history, **wrapped})
        assert api.wire.drop_unbound(found, 0, False)
        value = body(found)
        assert value.get("additionalModelRequestFields", value)["thinking"].get("block_binding") == binding
        assert value["messages"][1] == (history[1] if asked else assistant(api.say("a")))
    assert not CONVERSE.drop_unbound(document({"messages": history}), 2, True)
