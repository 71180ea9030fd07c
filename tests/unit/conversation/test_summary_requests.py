"""Compaction requests: recognised by their last user message, and bounded."""

from __future__ import annotations

import json
import re

import pytest

from penumbra.conversation.summary_requests import bound, matches, recognise, table
from penumbra.wire.document import Document

EXAMPLES = {
    f"{rule['id']}-{number}": (rule, example)
    for rule in table()["requests"]
    for number, example in enumerate(rule.get("examples", ()))
}
CLAUDE = "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a detailed summary of the conversation so far."
LONG = "\n".join(f"line {n} of a long result" for n in range(2000))


@pytest.mark.parametrize(("rule", "example"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_rule_file(rule, example):
    assert matches(example["text"], rule) is example["is"]


def document(value):
    return Document(json.dumps(value).encode())


def anthropic(last, system="You are Claude Code."):
    return document(
        {
            "model": "m",
            "system": system,
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}, last],
        }
    )


def test_claude_code_in_both_shapes():
    last = {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "x"},
            {"type": "text", "text": CLAUDE},
        ],
    }
    fork = recognise(anthropic(last), "anthropic")
    own = recognise(
        anthropic(last, "You are a helpful AI assistant tasked with summarizing conversations."), "anthropic"
    )
    assert (fork.id, fork.shares_cache) == ("claude-code", True)
    assert (own.id, own.shares_cache) == ("claude-code", False)


def test_what_is_quoted_is_no_request():
    quoted = {
        "role": "user",
        "content": f"This session is being continued from a previous conversation.\n{CLAUDE}",
    }
    assert recognise(anthropic(quoted), "anthropic") is None
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": CLAUDE}]}
    assert recognise(anthropic(result), "anthropic") is None
    earlier = document(
        {
            "messages": [
                {"role": "user", "content": CLAUDE},
                {"role": "assistant", "content": "..."},
                {"role": "user", "content": "go on"},
            ]
        }
    )
    assert recognise(earlier, "anthropic") is None


def codex(*items, **more):
    return document(
        {
            "model": "m",
            "input": [
                {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
                *items,
            ],
            **more,
        }
    )


LOCAL = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "You are performing a CONTEXT CHECKPOINT COMPACTION. Go."}],
}
SAYS = json.dumps({"request_kind": "compaction"})


def test_codex_in_its_variants():
    assert recognise(codex({"type": "compaction_trigger"}), "openai_responses").id == "codex-trigger"
    assert (
        recognise(codex({"type": "compaction_trigger"}, {"role": "user", "content": "x"}), "openai_responses")
        is None
    )
    assert (
        recognise(codex(), "openai_responses", "/backend-api/codex/responses/compact?x=1").id
        == "codex-endpoint"
    )
    assert recognise(codex(), "openai_responses", "/v1/responses") is None
    assert recognise(codex(LOCAL), "openai_responses").id == "codex-local"
    assert recognise(codex(), "openai_responses", "", {"x-codex-turn-metadata": SAYS}).id == "codex-metadata"
    assert (
        recognise(codex(client_metadata={"x-codex-turn-metadata": SAYS}), "openai_responses").id
        == "codex-metadata"
    )
    turn = json.dumps({"request_kind": "turn"})
    assert recognise(codex(), "openai_responses", "", {"x-codex-turn-metadata": turn}) is None


def test_gemini_cli():
    text = "First, reason in your scratchpad. Then, generate the updated <state_snapshot>."
    system = "\nYou are a specialized system component responsible for distilling chat history into a structured XML <state_snapshot>."
    body = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "systemInstruction": {"parts": [{"text": system}]},
    }
    found = recognise(document(body), "gemini")
    assert (found.id, found.shares_cache) == ("gemini-cli", False)
    assert recognise(document({"request": {"contents": body["contents"]}}), "gemini").shares_cache


def test_generic_phrases_in_chat():
    body = {
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": "y"},
            {"role": "user", "content": "Summarize the conversation so far."},
        ]
    }
    assert recognise(document(body), "openai_chat").id == "generic"


# The budget


def chat(turns, last="Summarize the conversation so far."):
    messages = [{"role": "system", "content": "be good"}]
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


def test_within_the_budget_nothing_happens():
    body = json.dumps(chat(2)).encode()
    assert bound(body, "openai_chat", len(body)) is None


def test_the_newest_stay_and_the_note_counts_the_rest():
    whole = chat(30)
    raw = json.dumps(whole).encode()
    made = bound(raw, "openai_chat", 30_000)
    body = json.loads(made)
    assert len(made) < 31_000
    system, note, *kept, last = body["messages"]
    assert system == whole["messages"][0]
    assert made.endswith(json.dumps(whole["messages"][-1]).encode() + b"]}")
    assert last == whole["messages"][-1]
    texts = note["content"].split("\n")
    assert texts[0] == "[Compact input budget applied]"
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


def test_the_note_and_the_last_message_are_left_when_nothing_else_fits():
    whole = chat(3, last="Summarize the conversation so far. " + "z" * 9000)
    body = json.loads(bound(json.dumps(whole).encode(), "openai_chat", 1000))
    assert [message["role"] for message in body["messages"]] == ["system", "user", "user"]
    assert body["messages"][-1] == whole["messages"][-1]


def claude_session(turns):
    messages = [
        {
            "role": "user",
            "content": "This session is being continued from a previous conversation.\n" + "s" * 9000,
        }
    ]
    for n in range(turns):
        content = [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"file_path": f"f{n}"}},
        ]
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": [{"type": "text", "text": LONG}]}
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    messages[-1]["content"].append({"type": "text", "text": CLAUDE})
    return {"model": "m", "max_tokens": 9, "messages": messages}


def test_results_beside_the_prompt_keep_their_call_and_reasoning_goes():
    whole = claude_session(6)
    raw = json.dumps(whole).encode()
    body = json.loads(bound(raw, "anthropic", 120_000))
    assert body["messages"][-1] == whole["messages"][-1]
    assert body["messages"][-2]["content"] == whole["messages"][-2]["content"][1:]
    for message in body["messages"][:-2]:
        blocks = message["content"] if isinstance(message["content"], list) else []
        assert all(block["type"] != "thinking" for block in blocks)
    ids = re.findall(r'"(?:id|tool_use_id)": ?"(t\d)"', json.dumps(body))
    assert ids == [name for n in range(6) for name in (f"t{n}", f"t{n}")]
    assert body["messages"][0] == whole["messages"][0]


def test_summaries_are_never_shortened_and_items_of_responses_stay_paired():
    items = [{"type": "compaction", "encrypted_content": "e" * 9000}]
    for n in range(8):
        items += [
            {"type": "reasoning", "encrypted_content": "r" * 500, "summary": []},
            {"type": "function_call", "call_id": f"a{n}", "name": "x", "arguments": "{}"},
            {"type": "function_call", "call_id": f"b{n}", "name": "x", "arguments": "{}"},
            {"type": "function_call_output", "call_id": f"a{n}", "output": LONG},
            {"type": "function_call_output", "call_id": f"b{n}", "output": LONG},
        ]
    whole = {"model": "m", "input": [*items, {"type": "compaction_trigger"}]}
    body = json.loads(bound(json.dumps(whole).encode(), "openai_responses", 24_000))
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
    roomy = json.loads(bound(json.dumps(whole).encode(), "openai_responses", 90_000))
    assert roomy["input"][0] == items[0]


def test_gemini_contents():
    contents = [{"role": "user", "parts": [{"text": "hello"}]}]
    for n in range(6):
        contents += [
            {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"n": n}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": LONG}}}]},
        ]
    contents.append(
        {"role": "user", "parts": [{"text": "Critically evaluate the <state_snapshot> you just generated."}]}
    )
    body = json.loads(bound(json.dumps({"request": {"contents": contents}}).encode(), "gemini", 15_000))
    kept = body["request"]["contents"]
    assert kept[0]["parts"][0]["text"].startswith("[Compact input budget applied]")
    assert kept[-1] == contents[-1]
    assert [next(iter(content["parts"][0])) for content in kept[1:-1]] == [
        "functionCall",
        "functionResponse",
    ] * ((len(kept) - 2) // 2)
    assert len(kept) > 2
