"""Messages that declare tools within a conversation: their places, and the tools after them."""

import json
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.formats import FORMATS
from penumbra.conversation.late_declaration import is_documented
from penumbra.expand.reference import tool
from penumbra.wire.document import Document

WIRE = FORMATS["anthropic"]
READ = {"name": "Read", "input_schema": {"type": "object"}}
USER, ASSISTANT = {"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes."}


def change(kind: str, **tool: Any) -> dict[str, Any]:
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}


def document(*messages: Any, tools: Any = (READ,)) -> Document:
    return Document(json.dumps({"tools": tools, "messages": messages}).encode())


@pytest.mark.parametrize(
    ("host", "model", "betas", "so"), rules.load("inline_tools.yaml")["examples"], ids=str
)
def test_the_rules_say_where(host: str, model: str, betas: str, so: bool) -> None:
    assert is_documented("anthropic", host, model, betas) is so
    assert not is_documented("openai_chat", host, model, betas)


@pytest.mark.parametrize(
    ("messages", "names", "own"),
    [
        ([USER], ["Read"], 1),
        ([USER, change("tool_addition", type="tool_definition", definition={"name": "Late"})], ["Read", "Late"], 2),
        ([USER, change("tool_removal", type="tool_reference", name="Read")], ["Read"], 0),
        ([USER, change("tool_removal", type="tool_reference", name="Read"), ASSISTANT, USER,
          change("tool_addition", type="tool_reference", name="Read")], ["Read"], 1),
        ([{"role": "user", "content": [{"type": "tool_addition", "tool": {"name": "No"}}]}], ["Read"], 1),
    ],
    ids=["none", "defined", "removed", "back", "said by a user"],
)  # fmt: skip
def test_changes_of_clients_count(messages: list[Any], names: list[str], own: int) -> None:
    found = WIRE.tools(document(*messages))
    assert (list(found.names), found.own) == (names, own)


@pytest.mark.parametrize(
    ("messages", "count", "stands"),
    [
        ([USER], 1, True),
        ([USER, ASSISTANT, USER], 1, True),
        ([USER, ASSISTANT], 2, False),
        ([USER, USER], 1, False),
        ([USER, change("tool_addition", type="tool_reference", name="Read")], 2, False),
        ([USER, change("tool_addition", type="tool_reference", name="Read")], 1, False),
        ([USER], 2, False),
        ([USER], 0, False),
    ],
    ids=["last", "before a response", "after a response", "before a user", "after a change", "before a change",
         "beyond", "nowhere"],
)  # fmt: skip
def test_a_declaration_goes_between_a_user_and_a_response(
    messages: list[Any], count: int, stands: bool
) -> None:
    read = document(*messages)
    assert WIRE.declare_after(read, tool("expand_context"), count) is stands
    made = json.loads(read.render())["messages"]
    assert (len(made) == len(messages) + 1) is stands
    if stands:
        assert made.pop(count)["role"] == "system"
    assert made == messages


@pytest.mark.parametrize(
    ("tools", "may"),
    [((READ,), True), (({**READ, "defer_loading": True},), False), ((), False)],
    ids=["loaded", "all load later", "none"],
)
def test_no_tool_is_declared_late_where_none_is_loaded(tools: Any, may: bool) -> None:
    assert WIRE.may_declare_after(document(USER, tools=tools)) is may
