"""Signed compactions and reasoning are forwarded byte for byte, and the text around them keeps its form."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from penumbra.apis.formats import FORMATS
from penumbra.apis.responses import Response
from penumbra.expand.reference import NAMES, tool
from support.apis import APIS
from support.engines import Callers
from support.planted import GITHUB, PASSWORD
from support.streams import anthropic_streams as streams
from support.streams.anthropic_streams import PHANTOM, block, call, end
from support.streams.drive import every_cut

API = APIS[0]
Start = Callable[..., Callers]
LOG = "".join(f"{number:05} worker {number * 7919 % 10007} is idle\n" for number in range(300))
SECRET = f"DB_PASSWORD={PASSWORD}\nGITHUB_TOKEN={GITHUB}\n"
SPELT = json.dumps(SECRET)[1:-1]
COMPACTION = (
    '{ "content":"They read .env:\\u000a' + SPELT + ' \\/ caf\\u00e9 é", "type" : "compaction",'
    '"encrypted_content":"E1==","signature":"EqQBCkYIBxgCKkD/+8=","tool_changes":[ {"type":"tool_addition","tool":{'
    '"type":"tool_definition","definition":{"name":"n","description":"' + SPELT + '","input_schema":{'
    '"properties":{"stdout":{"description":"' + SPELT + '"}}}}}} ],"n":1.50E1}'
)
"""A compaction in a spelling that no JSON library writes."""
SILENT = '{"signature":"EuYBCkQ=", "thinking":"","type":"thinking"}'
SPOKEN = '{"type":"thinking" ,"thinking":"Now I read .env:\\n' + SPELT + '\\u0041","signature":"EvQD+/=="}'
REDACTED = '{"type":"redacted_thinking","data":"EmwKAhgBEgy3va3\\/"}'


def use(number: int, command: str) -> str:
    given = json.dumps({"command": command})
    return f'{{"type":"tool_use","id":"{call_id(number)}","name":"Bash","input":{given}}}'


def call_id(number: int) -> str:
    return f"toolu_01AbCdEfGhIjKlMnOpQrS{number:03}"


def said(*blocks: str) -> str:
    return '{"role":"assistant", "content":[' + " , ".join(blocks) + "]}"


def results(*texts: tuple[int, str]) -> str:
    blocks = [
        {"type": "tool_result", "tool_use_id": call_id(number), "content": text} for number, text in texts
    ]
    return json.dumps({"role": "user", "content": blocks})


def user(text: str) -> str:
    return json.dumps({"role": "user", "content": text})


def body(*messages: str, more: str = "", tools: bool = True) -> bytes:
    declared = '"tools":[{"name":"Bash","input_schema":{}}],' if tools else ""
    head = f'{{"model":"claude-opus-5-5","max_tokens":9,{declared}{more}"messages":['
    return (head + ",".join(messages) + "]}").encode()


def listed(sent: bytes) -> bytes:
    """Return the JSON of the messages in a sent body, without the brackets."""
    return sent[sent.index(b'"messages":[') + len(b'"messages":[') : sent.rindex(b"]}")]


def send(callers: Callers, data: bytes) -> bytes:
    betas = {"anthropic-beta": "compact-2026-09-04,thinking-display-updates-2026-08-18"}
    return callers.send(API, data, {**API.credential("k"), **betas}).rewritten.body


COMPACTED = said(COMPACTION)
SPEAKING = said(SILENT, use(1, "cat .env"), SPOKEN, use(2, "docker logs w"), REDACTED)


@pytest.mark.parametrize("scope", ["results", "all"])
@pytest.mark.parametrize("tools", [True, False], ids=["tools", "no tools"])
@pytest.mark.parametrize(
    ("messages", "signed"),
    [
        ((COMPACTED, user("Go on.")), (COMPACTION,)),
        ((user("Go."), SPEAKING, results((1, "a"), (2, "b"))), (SILENT, SPOKEN, REDACTED)),
        ((COMPACTED, user("Go."), SPEAKING, results((1, SECRET), (2, LOG))), (COMPACTION, SPOKEN, REDACTED)),
    ],
    ids=["compaction", "spoken reasoning", "both, with results"],
)
def test_signed_block_keeps_its_bytes(
    start: Start, messages: tuple[str, ...], signed: tuple[str, ...], tools: bool, scope: str
) -> None:
    callers = start(redact_scope=scope)
    # The values are also known secrets of the caller.
    send(callers, body(user("Go."), said(use(0, "cat .env")), results((0, SECRET))))
    sent = send(callers, body(*messages, tools=tools)).decode()
    for one in signed:
        assert sent.count(one) == 1
    if "[REDACTED:" in sent:
        assert SPELT not in sent.replace(COMPACTION, "").replace(SPOKEN, "")


def test_all_bytes_around_a_compaction_stay(callers: Callers) -> None:
    data = body(COMPACTED, user("Go."), said(SPOKEN, use(1, "ls")), results((1, "a")))
    callers.settings = callers.settings.__class__(database="memory", enable_expand_context=False)
    assert send(callers, data) == data


def test_prefix_holds_over_turns_and_a_restart(callers: Callers) -> None:
    turns = [COMPACTED, user("Why?")]
    before = listed(send(callers, body(*turns)))
    for number, (more, text) in enumerate([((SILENT,), LOG), ((SPOKEN,), SECRET), ((REDACTED, SPOKEN), LOG)]):
        turns += [said(*more, use(number, f"docker logs {number}")), results((number, text))]
        sent = listed(send(callers, body(*turns)))
        assert sent.startswith(before + b",")
        before = sent
        callers.restart()
    assert len(before) < len(listed(body(*turns))) / 2
    assert before.count(b"[REDACTED:") == 2


def test_request_for_a_compaction_has_the_prefix_of_its_conversation(callers: Callers) -> None:
    turns = [user("Why?"), said(SILENT, use(0, "docker logs w"), SPOKEN), results((0, LOG)), said(SPOKEN)]
    for count in (1, 3):
        send(callers, body(*turns[:count]))
    talked = send(callers, body(*turns, user("And?")))
    asked = send(callers, body(*turns, more='"compaction":{"type":"summarize"},'))
    assert b'"compaction":{"type":"summarize"}' in asked
    assert listed(talked).startswith(listed(asked) + b",")


def test_turns_after_a_compaction_keep_their_form(callers: Callers) -> None:
    old = [user("Why?"), said(SILENT, use(0, "docker logs a")), results((0, LOG)), said(SPOKEN)]
    kept = [
        user("And the other?"),
        said(SPOKEN, use(1, "docker logs b"), REDACTED, use(2, "cat .env")),
        results((1, LOG.replace("idle", "busy")), (2, SECRET)),
        said(SILENT, SPOKEN),
    ]
    for turns in (old[:1], old[:3], (*old, *kept[:3])):
        send(callers, body(*turns))
    whole = listed(send(callers, body(*old, *kept, user("So?"))))
    cut = listed(send(callers, body(COMPACTED, *kept, user("So?"))))
    tail = whole[whole.index(kept[0].encode()) :]
    assert b"<<<SHADOW:" in tail
    assert cut == COMPACTED.encode() + b"," + tail
    again = listed(send(callers, body(COMPACTED, *kept, user("So?"), said(SPOKEN), user("Good."))))
    assert again.startswith(cut + b",")


INLINE = replace(API, host="api.anthropic.com:443")
INLINE_BETAS = "mid-conversation-tool-changes-2026-07-01,inline-tools-2026-09-15,compact-2026-09-04"


def brought(name: str, description: str) -> str:
    """Return a compaction that the provider writes after a message has declared a tool."""
    schema = json.loads(tool(NAMES[0]).parameters)
    definition = {"name": name, "description": description, "input_schema": schema, "type": "custom"}
    added = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    block = {"type": "compaction", "content": "So far.", "signature": "Eq==", "tool_changes": [added]}
    return said(json.dumps(block))


@pytest.mark.parametrize(
    ("name", "description", "is_ours"),
    [
        (NAMES[0], tool(NAMES[0]).description, True),
        (NAMES[1], tool(NAMES[1]).description, True),
        (NAMES[0], "Of the client's own.", False),
    ],
    ids=["ours", "under its other name", "a client's"],
)
def test_tool_that_a_compaction_declares_is_answered_and_not_declared_again(
    callers: Callers, name: str, description: str, is_ours: bool
) -> None:
    headers = {**API.credential("k"), "anthropic-beta": INLINE_BETAS}
    turns = [brought(name, description), user("Why?")]
    for more in ((), (said(SILENT, use(1, "docker logs w")), results((1, LOG)))):
        turns += more
        accepted = callers.send(INLINE, body(*turns), headers)
        assert (accepted.prepared is not None and accepted.prepared.tool == name) is (is_ours or bool(more))
        sent = accepted.rewritten.body
        assert sent.startswith(body(*turns[:2])[:-2])
        assert sent.count(b"Full text behind") == (is_ours or bool(more))
        assert (b"<<<SHADOW:shadow_" in sent) is bool(more)


def stream() -> Response:
    return FORMATS["anthropic"].stream(PHANTOM)


SUMMARY = block(
    0,
    {"type": "compaction", "content": None, "encrypted_content": None, "signature": ""},
    {"type": "compaction_delta", "content": f"They read {PHANTOM} ", "encrypted_content": "E0"},
    {"type": "compaction_delta", "content": "and é.", "encrypted_content": "E1=="},
    {"type": "signature_delta", "signature": "EqQBCkYIBxgCKkD/+8="},
)
NOTES = (
    block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "signature_delta", "signature": "s0"},
    )
    + call(1, "Bash", "toolu_1", '{"command":"ls"}')
    + block(
        2,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": f"Now I call {PHANTOM}."},
        {"type": "signature_delta", "signature": "s1+/=="},
    )
    + call(3, "Bash", "toolu_2", '{"command":"pwd"}')
)


@pytest.mark.parametrize(
    "data",
    [streams.start() + SUMMARY + end("compaction", 7), streams.start() + NOTES + end("tool_use", 7)],
    ids=["compaction", "spoken reasoning"],
)
def test_signed_block_of_a_response_reaches_the_client_as_it_came(data: bytes) -> None:
    out, (turn,) = every_cut(stream, [data])
    assert out == data
    assert turn.injected == ()
    assert turn.finished


def test_spoken_reasoning_before_a_hidden_call_is_kept_for_the_next_request() -> None:
    hidden = NOTES + call(4, PHANTOM, "toolu_p0", '{"id":"shadow_0"}')
    out, (turn,) = every_cut(stream, [streams.start() + hidden + end("tool_use", 7)])
    assert NOTES in out
    assert b"toolu_p0" not in out
    assert turn.message is not None
    content = json.loads(turn.message)["content"]
    assert content[2] == {"type": "thinking", "thinking": f"Now I call {PHANTOM}.", "signature": "s1+/=="}
    assert [one["type"] for one in content] == ["thinking", "tool_use", "thinking", "tool_use", "tool_use"]
    assert turn.signatures == ("s0", "s1+/==")


def test_a_summary_before_a_hidden_call_is_rebuilt_whole() -> None:
    hidden = SUMMARY + call(1, PHANTOM, "toolu_p0", '{"id":"shadow_0"}')
    _, (turn,) = every_cut(stream, [streams.start() + hidden + end("tool_use", 7)])
    assert turn.message is not None
    assert json.loads(turn.message)["content"][0] == {
        "type": "compaction",
        "content": f"They read {PHANTOM} and é.",
        "encrypted_content": "E1==",
        "signature": "EqQBCkYIBxgCKkD/+8=",
    }
