"""Requests for a summary are recognised, and cut if they would not fit."""

import json
import re
from typing import Any

import pytest
from msgspec import structs

from penumbra.apis.prompt import Kind
from penumbra.compress import token_estimate
from penumbra.compress.result import Mode, Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import read, rewrite, summary_requests
from penumbra.conversation.decide import Inputs
from penumbra.conversation.line_index import LineIndexes
from penumbra.conversation.summary_requests import matches, recognise, table
from penumbra.store.conversations import ConversationState, LearnedLimits
from penumbra.wire.document import Document
from support.apis import APIS, Api, Turn
from support.engines import api_of
from support.refused import prose

EXAMPLES = {
    f"{rule['id']}-{number}": (rule, example)
    for rule in table()["requests"]
    for number, example in enumerate(rule.get("examples", ()))
}
CLAUDE = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."
GENERIC = "Summarize the conversation so far."
SUMMARISER = "You are a helpful AI assistant tasked with summarizing conversations."
NOTE = "[Compact input budget applied]"
TOOLS = [{"name": "read_notes", "input_schema": {"type": "object"}}]
LONG = "\n".join(f"line {n} of a long result" for n in range(2000))
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def said(content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content}


def use(name: str, tool: str = "read_notes", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, content: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": content}


@pytest.mark.parametrize(("rule", "example"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_rule_file(rule: Any, example: Any) -> None:
    assert matches(example["text"], rule) is example["is"]


def claude(*last: Any, system: str = "You are Claude Code.") -> dict[str, Any]:
    return {"system": system, "messages": [user("hi"), said("yes"), *last]}


def codex(*items: Any, **more: Any) -> dict[str, Any]:
    first = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    return {"input": [first, *items], **more}


TRIGGER = {"type": "compaction_trigger"}
LOCAL = user([{"type": "input_text", "text": "You are performing a CONTEXT CHECKPOINT COMPACTION. Go."}])
IN_BOTH = user([result("t", "x"), {"type": "text", "text": CLAUDE}])
QUOTED = f"This session is being continued from a previous conversation.\n{CLAUDE}"
SAYS, TURN = (json.dumps({"request_kind": kind}) for kind in ("compaction", "turn"))
METADATA = "x-codex-turn-metadata"
SNAPSHOT = "First, reason in your scratchpad. Then, generate the updated <state_snapshot>."
DISTILLER = "\nYou are a specialized system component responsible for distilling chat history into a structured XML <state_snapshot>."
CONTENTS = [{"role": "user", "parts": [{"text": SNAPSHOT}]}]
HELPER = "x-stainless-helper"


@pytest.mark.parametrize(
    ("format_name", "body", "headers", "path", "expected"),
    [
        ("anthropic", claude(IN_BOTH), {}, "", "claude-code shares"),
        ("anthropic", claude(IN_BOTH, system=SUMMARISER), {}, "", "claude-code"),
        ("anthropic", claude(user(QUOTED)), {}, "", None),
        ("anthropic", claude(user([result("t", CLAUDE)])), {}, "", None),
        ("anthropic", claude(user(CLAUDE), said("..."), user("go on")), {}, "", None),
        ("anthropic", claude(), {HELPER: "BetaToolRunner, compaction"}, "", "anthropic-sdk shares"),
        ("anthropic", claude(), {HELPER: "BetaToolRunner"}, "", None),
        ("openai_responses", codex(TRIGGER), {}, "", "codex-trigger shares"),
        ("openai_responses", codex(TRIGGER, user("x")), {}, "", None),
        ("openai_responses", codex(), {}, "/backend-api/codex/responses/compact?x=1", "codex-endpoint"),
        ("openai_responses", codex(), {}, "/v1/responses", None),
        ("openai_responses", codex(LOCAL), {}, "", "codex-local shares"),
        ("openai_responses", codex(), {METADATA: SAYS}, "", "codex-metadata shares"),
        ("openai_responses", codex(client_metadata={METADATA: SAYS}), {}, "", "codex-metadata shares"),
        ("openai_responses", codex(), {METADATA: TURN}, "", None),
        ("openai_responses", codex(), {"x-openai-subagent": "compact"}, "", "codex-subagent shares"),
        ("openai_responses", codex(), {"x-openai-subagent": "review"}, "", None),
        ("openai_chat", claude(), {METADATA: SAYS}, "", "codex-metadata shares"),
        ("gemini", {"contents": CONTENTS, "systemInstruction": {"parts": [{"text": DISTILLER}]}}, {}, "", "gemini-cli"),
        ("gemini", {"request": {"contents": CONTENTS}}, {}, "", "gemini-cli shares"),
        ("openai_chat", {"messages": [user("x"), said("y"), user(GENERIC)]}, {}, "", "generic shares"),
    ],
)  # fmt: skip
def test_kinds_of_requests(
    format_name: str, body: Any, headers: dict[str, str], path: str, expected: str | None
) -> None:
    found = recognise(Document(json.dumps(body).encode()), format_name, path, headers)
    assert (f"{found.id}{' shares' * found.shares_cache}" if found else None) == expected


# When a request is bounded


def session(count: int, **more: Any) -> dict[str, Any]:
    messages = [user("look at all of it")]
    for n in range(count):
        name = f"toolu_own{n:021}"
        messages += [said([use(name, part=n)]), user([result(name, prose(n + 3))])]
    messages += [said("That was all."), user(CLAUDE)]
    return {"model": "claude-x", "max_tokens": 99, "tools": TOOLS, "messages": messages, **more}


def sent(
    body: dict[str, Any],
    limits: LearnedLimits | None = None,
    name: str = "anthropic-messages",
    path: str = "/v1/messages",
    **settings: Any,
) -> dict[str, Any]:
    """Return the sent body."""
    api = api_of(name)
    made = Settings(Mode.SAFE, redact_secrets=False, dedup=False, adopt="raw", **settings)
    request = read.read(Document(json.dumps(body).encode()), api, made, b"s" * 32)
    assert request is not None
    state = ConversationState(None, limits or LearnedLimits())
    inputs = Inputs(
        structs.replace(request, path=path), {}, lambda text, hint: Redacted(text), None, state=state
    )
    value: dict[str, Any] = json.loads(rewrite.compose(inputs, None, LineIndexes())[0].body)
    return value


def is_bounded(body: dict[str, Any], key: str = "messages") -> bool:
    return any(NOTE in json.dumps(message) for message in body[key])


def test_a_summary_request_with_a_cached_prefix_is_cut_only_to_fit() -> None:
    body = session(70)
    assert sent(body) == body
    made = sent(body, LearnedLimits(window=30_000))
    assert is_bounded(made)
    assert token_estimate.estimate(json.dumps(made)) <= 30_000 * 0.9
    assert made["messages"][-1] == body["messages"][-1]
    assert sent(body, LearnedLimits(window=300_000)) == body


def test_a_window_that_is_known_for_sure_is_kept_to() -> None:
    body = session(400, model="claude-3-5-haiku-latest")
    assert token_estimate.estimate(json.dumps(body)) > 200_000
    made = sent(body)
    assert is_bounded(made)
    assert token_estimate.estimate(json.dumps(made)) < 200_000
    unknown = session(400, model="claude-x")
    assert sent(unknown) == unknown


OWN = {"system": SUMMARISER}


@pytest.mark.parametrize("shape", [OWN, {"tools": []}])
def test_a_summary_request_without_a_cached_prefix_has_a_budget(shape: dict[str, Any]) -> None:
    body = session(70, model="something-new", **shape)
    made = sent(body)
    assert is_bounded(made)
    assert (
        summary_requests.BUDGET * 0.7
        < sum(len(json.dumps(one)) for one in made["messages"])
        <= summary_requests.BUDGET
    )
    small = session(20, model="something-new", **shape)
    assert sent(small) == small
    # The request has half of the window that is assumed for such a model.
    assert sent({**body, "model": "claude-x"}) == {**body, "model": "claude-x"}


@pytest.mark.parametrize(
    ("settings", "last"),
    [({"recover": "off"}, CLAUDE), ({"lossy": "off"}, CLAUDE), ({}, "And what now?")],
    ids=["no recovery", "nothing may be left out", "no request for a summary"],
)
def test_other_requests_are_not_bounded(settings: dict[str, Any], last: str) -> None:
    body = session(70, model="something-new", **OWN)
    body["messages"][-1]["content"] = last
    assert sent(body, **settings) == body


def items(count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "input_text", "text": "go"}]}]
    for n in range(count):
        found += [
            {"type": "reasoning", "id": f"rs_{n}", "summary": [], "encrypted_content": "r" * 200},
            {"type": "function_call", "call_id": f"c{n}", "name": "read", "arguments": "{}"},
            {
                "type": "function_call_output",
                "call_id": f"c{n}",
                "output": prose(n + 3, 6_000 if n == count - 1 else 60),
            },
        ]
    return found


@pytest.mark.parametrize("path", ["/v1/responses/compact", "/openai/v1/responses/compact/?api-version=1"])
def test_codex_endpoint_has_no_prompt_and_its_last_result_may_be_shortened(path: str) -> None:
    body = {"model": "something-new", "input": items(120)}
    made = sent(body, name="openai-responses-compact", path=path)
    assert is_bounded(made, "input")
    assert sum(len(json.dumps(one)) for one in made["input"]) <= summary_requests.BUDGET
    last = made["input"][-1]
    assert last["call_id"] == "c119"
    assert len(last["output"]) <= 2_900
    note = made["input"][0]["content"][0]["text"].split("\n")
    gone = len(body["input"]) - (len(made["input"]) - 1)
    # Reasoning in the remaining messages is also left out and counted.
    assert f"Original messages: {len(body['input'])}. Omitted messages: {gone}." in note
    assert not [one for one in made["input"] if one.get("type") == "reasoning"]


def test_a_history_at_the_provider_can_not_be_bounded() -> None:
    body = {
        "model": "gpt-4o",
        "previous_response_id": "resp_1",
        "input": [*items(400), {"type": "compaction_trigger"}],
    }
    made = sent(body, name="openai-responses", path="/v1/responses")
    assert len(made["input"]) == len(body["input"])
    assert not is_bounded(made, "input")


def test_codex_trigger_is_bounded_where_the_window_is_known() -> None:
    tools = [{"type": "function", "name": "read", "parameters": {}}]
    body = {"model": "gpt-4o", "tools": tools, "input": [*items(400), {"type": "compaction_trigger"}]}
    assert token_estimate.estimate(json.dumps(body)) > 128_000
    made = sent(body, name="openai-responses", path="/v1/responses")
    assert is_bounded(made, "input")
    assert made["input"][-1] == {"type": "compaction_trigger"}
    assert made["tools"] == tools
    calls = [one["call_id"] for one in made["input"] if one.get("type") == "function_call"]
    assert calls == [one["call_id"] for one in made["input"] if one.get("type") == "function_call_output"]


# Rules of the budget


def bound(body: dict[str, Any], format_name: str, budget: int) -> dict[str, Any]:
    made = summary_requests.bound(json.dumps(body).encode(), format_name, budget)
    assert made is not None
    value: dict[str, Any] = json.loads(made)
    return value


def test_a_message_of_many_texts_has_one_limit_in_bytes() -> None:
    blocks = [{"type": "text", "text": "\n".join(f"行{n}的文字" for n in range(150))} for _ in range(12)]
    body = session(9)
    body["messages"][1:1] = [said([use("t1")]), user([result("t1", blocks)])]
    made = bound(body, "anthropic", 35_000)
    texts = [one["text"] for one in made["messages"][2]["content"][0]["content"]]
    assert len(texts) == 12
    assert sum(len(text.encode()) for text in texts) < 6_000


def test_thinking_that_the_call_under_way_needs_stays() -> None:
    body = session(9, thinking={"type": "enabled", "budget_tokens": 50})
    del body["messages"][-2]
    last = body["messages"].pop()
    body["messages"][-2]["content"].insert(0, THOUGHT)
    body["messages"][-1]["content"].append({"type": "text", "text": last["content"]})
    made = bound(body, "anthropic", 12_000)
    assert made["messages"][-2:] == body["messages"][-2:]
    body["thinking"] = {"type": "adaptive"}
    assert THOUGHT not in bound(body, "anthropic", 12_000)["messages"][-2]["content"]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_calls_stay_with_their_results_in_every_api(api: Api) -> None:
    turns: list[Turn] = [("user", "Please do it all.")]
    for n in range(20):
        command = f"run {n} {'a' * (4_000 if n == 19 else 4)}"
        turns += [("call", f"call_{n:030}", command), ("result", f"call_{n:030}", LONG)]
    body = json.loads(api.body([*turns, ("user", GENERIC)]))
    wire = api_of(api.id)
    assert recognise(Document(json.dumps(body).encode()), wire.format) == summary_requests.Compaction(
        "generic", shares_cache=True, prompted=True
    )
    made = bound(body, wire.format, 30_000)
    assert NOTE in json.dumps(made[api.member][0])
    assert made[api.member][-1] == body[api.member][-1]
    document = Document(json.dumps(made).encode())
    messages = wire.wire.prompt(document).messages
    calls, results = (
        [part for one in messages for part in one.of(kind)] for kind in (Kind.CALL, Kind.RESULT)
    )
    assert [wire.wire.pair(call) for call in calls] == [wire.wire.pair(result) for result in results]
    assert len(calls) > 3
    assert "_compacted_arguments" in json.dumps(made[api.member][-3])
    assert all(len(document.string(text) or "") <= 2_900 for part in results for text in part.texts)


def test_converse_says_its_system_prompt_and_its_thinking_in_its_own_way() -> None:
    thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}}
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"text": prose(1, 400)}]}] * 3
    use = {"toolUse": {"toolUseId": "t", "name": "x", "input": {}}}
    answer = {"toolResult": {"toolUseId": "t", "content": [{"text": "y"}]}}
    asks = {"text": "Your task is to create a detailed summary of the conversation so far"}
    messages = [
        *messages,
        {"role": "assistant", "content": [thought, use]},
        {"role": "user", "content": [answer, asks]},
    ]
    body: dict[str, Any] = {"messages": messages, "toolConfig": {"tools": [{"toolSpec": {"name": "x"}}]}}
    found = recognise(Document(json.dumps(body).encode()), "bedrock")
    assert found is not None
    assert found.shares_cache
    body["system"] = [{"text": SUMMARISER}]
    found = recognise(Document(json.dumps(body).encode()), "bedrock")
    assert found is not None
    assert not found.shares_cache
    assert thought not in bound(body, "bedrock", 500)["messages"][-2]["content"]
    body["additionalModelRequestFields"] = {"thinking": {"type": "enabled", "budget_tokens": 50}}
    assert thought in bound(body, "bedrock", 500)["messages"][-2]["content"]


def test_freeform_arguments_are_shortened_too() -> None:
    whole = [
        {"role": "user", "content": "go"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "x" * 9_000},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": prose(3, 400)},
        {"type": "compaction_trigger"},
    ]
    made = bound({"input": whole}, "openai_responses", 14_000)["input"]
    assert json.loads(made[1]["input"]) == {"_compacted_arguments": "[9002 bytes of arguments left out]"}


def chat(turns: int, last: str = GENERIC) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "be good"}]
    for n in range(turns):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {
                "name": "run",
                "arguments": json.dumps({"n": n, "text": "a" * (5000 if n == turns - 1 else 5)}),
            },
        }
        messages += [
            {"role": "user", "content": f"Please do task {n}."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": LONG},
        ]
    return {"model": "m", "messages": [*messages, {"role": "user", "content": last}]}


def test_the_newest_stay_and_the_note_counts_the_rest() -> None:
    whole = chat(30)
    raw = json.dumps(whole).encode()
    assert summary_requests.bound(raw, "openai_chat", len(raw)) is None
    made = summary_requests.bound(raw, "openai_chat", 30_000)
    assert made is not None
    body = json.loads(made)
    assert len(made) < 31_000
    system, note, *kept, last = body["messages"]
    assert system == whole["messages"][0]
    assert made.endswith(json.dumps(whole["messages"][-1]).encode() + b"]}")
    assert last == whole["messages"][-1]
    texts = note["content"].split("\n")
    assert texts[0] == NOTE
    gone = whole["messages"][1 : -1 - len(kept)]
    assert f"Original messages: {len(whole['messages'])}. Omitted messages: {len(gone)}." in texts
    total, missing = (sum(len(json.dumps(message)) for message in part) for part in (whole["messages"], gone))
    assert f"Original chat messages JSON bytes: {total}. Omitted JSON bytes: {missing}." in texts
    assert "- Please do task 0." in texts
    assert sum(line.startswith("- Please") for line in texts) == 12
    roles = [message["role"] for message in kept]
    assert roles == ["user", "assistant", "tool"] * (len(kept) // 3)
    assert kept[-1]["tool_call_id"] == "c29"
    assert all(len(message["content"]) <= 2900 for message in kept if message["role"] == "tool")
    assert json.loads(kept[-2]["tool_calls"][0]["function"]["arguments"])["_compacted_arguments"]
    assert json.loads(kept[-5]["tool_calls"][0]["function"]["arguments"])["n"] == 28


def test_the_note_and_the_last_message_are_left_when_nothing_else_fits() -> None:
    whole = chat(3, last=GENERIC + " " + "z" * 9000)
    body = bound(whole, "openai_chat", 1000)
    assert [message["role"] for message in body["messages"]] == ["system", "user", "user"]
    assert body["messages"][-1] == whole["messages"][-1]


def claude_session(turns: int) -> dict[str, Any]:
    messages = [user("This session is being continued from a previous conversation.\n" + "s" * 9000)]
    for n in range(turns):
        texts = [{"type": "text", "text": LONG}]
        messages += [said([THOUGHT, use(f"t{n}", "Read", file_path=f"f{n}")]), user([result(f"t{n}", texts)])]
    messages[-1]["content"].append({"type": "text", "text": CLAUDE})
    return {"model": "m", "max_tokens": 9, "messages": messages}


def test_results_beside_the_prompt_keep_their_call_and_reasoning_goes() -> None:
    whole = claude_session(6)
    body = bound(whole, "anthropic", 120_000)
    assert body["messages"][-1] == whole["messages"][-1]
    assert body["messages"][-2]["content"] == whole["messages"][-2]["content"][1:]
    for message in body["messages"][:-2]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        assert all(block["type"] != "thinking" for block in blocks)
    ids = re.findall(r'"(?:id|tool_use_id)": ?"(t\d)"', json.dumps(body))
    assert ids == [name for n in range(6) for name in (f"t{n}", f"t{n}")]
    assert body["messages"][0] == whole["messages"][0]


def test_summaries_are_never_shortened_and_items_of_responses_stay_paired() -> None:
    listed: list[dict[str, Any]] = [{"type": "compaction", "encrypted_content": "e" * 9000}]
    for n in range(8):
        listed += [
            {"type": "reasoning", "encrypted_content": "r" * 500, "summary": []},
            {"type": "function_call", "call_id": f"a{n}", "name": "x", "arguments": "{}"},
            {"type": "function_call", "call_id": f"b{n}", "name": "x", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"a{n}", "output": LONG},
            {"type": "function_call_output", "call_id": f"b{n}", "output": LONG},
        ]
    whole = {"model": "m", "input": [*listed, TRIGGER]}
    body = bound(whole, "openai_responses", 24_000)
    kinds = [item["type"] for item in body["input"]]
    assert kinds[0] == "message"
    assert kinds[-1] == "compaction_trigger"
    assert kinds[1:-1] == [
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ] * (len(kinds[1:-1]) // 4)
    assert len(kinds) > 2
    roomy = bound(whole, "openai_responses", 90_000)
    assert roomy["input"][0] == listed[0]
