"""The result of a call with placeholders in its arguments has a note in every turn."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from penumbra.conversation.incoming import Accepted
from penumbra.conversation.model import Plan
from penumbra.redaction.placeholder import NOTE, PATTERN, make
from penumbra.redaction.redactor import Redactor
from penumbra.store.decisions import PLACEHOLDER_NOTE, SCHEMA, Decision, Facts
from penumbra.store.keyed_values import News
from penumbra.store.stores import Stores
from support.apis import APIS, BY_ID, Api, Turn
from support.engines import Callers, arriving
from support.planted import PASSWORD

SHOWN = f"DB_PASSWORD={PASSWORD}\nDEBUG=true\n"
IDS = [f"toolu_01AbCdEfGhIjKlMnOpQrS{number:03}" for number in range(4)]
READ: list[Turn] = [("user", "Copy it."), ("call", IDS[0], "cat .env"), ("result", IDS[0], SHOWN)]
ANTHROPIC, CHAT, RESPONSES, GEMINI, CONVERSE = (
    BY_ID[name]
    for name in ("anthropic-messages", "openai-chat", "openai-responses", "gemini", "bedrock-converse")
)
Start = Callable[..., Callers]
every_api = pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)


def send(callers: Callers, turns: list[Turn], api: Api = ANTHROPIC, **more: Any) -> Accepted:
    return callers.send(api, api.body(turns, **more), api.credential("k"))


def sent(accepted: Accepted) -> str:
    return accepted.rewritten.body.decode()


def mark_in(text: str) -> str:
    found = PATTERN.search(text)
    assert found is not None
    return found[0]


def written(mark: str, number: int = 1, said: str = "ok") -> list[Turn]:
    command = f"printf 'DB_PASSWORD={mark}' > other.env"
    return [("call", IDS[number], command), ("result", IDS[number], said)]


def last_results(accepted: Accepted) -> list[str]:
    """Return the texts of the results in the last message of an Anthropic body."""
    texts: list[str] = []
    for block in json.loads(accepted.rewritten.body)["messages"][-1]["content"]:
        content = block["content"]
        texts += [content] if isinstance(content, str) else [part["text"] for part in content]
    return texts


@every_api
def test_the_note_is_added_once_and_stays_over_turns_and_a_restart(api: Api, callers: Callers) -> None:
    turns = list(READ)
    mark = mark_in(sent(send(callers, turns, api)))
    turns += written(mark)
    noted = sent(send(callers, turns, api))
    assert noted.count(json.dumps(f"ok\n{NOTE}", ensure_ascii=False)) == 1
    assert noted.count("[Note:") == 1
    assert sent(send(callers, turns, api)) == noted
    callers.restart()
    for more in ([("said", "Done."), ("user", "And?")], [("call", IDS[2], "ls"), ("result", IDS[2], "a")]):
        turns += more
        later = sent(send(callers, turns, api))
        assert later.startswith(noted[: noted.index(NOTE) + len(NOTE)])
        assert later.count("[Note:") == 1
        callers.restart()


STRANGE = make("password", b"another", b"value")


@pytest.mark.parametrize(
    "turns",
    [
        [("user", f"Write {STRANGE}."), *READ[1:], *written(STRANGE)],
        [("user", "Go."), ("call", IDS[0], "cat a"), ("result", IDS[0], f"x {STRANGE}"), *written(STRANGE)],
        [*READ[:2], ("result", IDS[0], f"{SHOWN}{STRANGE}\n"), *written(STRANGE)],
        [*READ, *written("[REDACTED:password:…]")],
        [*READ, *written(PASSWORD)],
    ],
    ids=["typed by the user", "read from a file", "read beside a secret", "no placeholder", "the value"],
)
def test_no_note_unless_a_placeholder_of_this_proxy_was_written(callers: Callers, turns: list[Turn]) -> None:
    send(callers, turns[:3])
    assert "[Note:" not in sent(send(callers, turns))


def test_a_request_without_redactions_keeps_all_bytes(callers: Callers) -> None:
    turns = [*READ[:2], ("result", IDS[0], "DEBUG=true"), *written(STRANGE)]
    body = ANTHROPIC.body(turns)
    callers.settings = replace(callers.settings, enable_expand_context=False)
    assert callers.send(ANTHROPIC, body, ANTHROPIC.credential("k")).rewritten.body == body


@pytest.mark.parametrize(
    ("tool", "given", "is_noted"),
    [
        ("Write", {"file_path": "a", "content": "x {}"}, True),
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "{}"}, True),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "{}"}]}, True),
        ("Bash", {"command": "grep -c '{}' a"}, True),
        ("Grep", {"pattern": "{}", "path": "a"}, False),
        ("Read", {"file_path": "{}"}, False),
        ("WebFetch", {"url": "https://example.com/{}", "prompt": "x"}, False),
    ],
    ids=["write", "edit", "edits in a list", "shell", "grep", "read", "web"],
)
def test_calls_that_may_write_a_file_are_meant(
    callers: Callers, tool: str, given: dict[str, Any], is_noted: bool
) -> None:
    mark = mark_in(sent(send(callers, READ)))
    body = json.loads(ANTHROPIC.body([*READ, *written(mark)]))
    call = body["messages"][3]["content"][0]
    call |= {"name": tool, "input": json.loads(json.dumps(given).replace("{}", mark))}
    accepted = callers.send(ANTHROPIC, json.dumps(body).encode(), ANTHROPIC.credential("k"))
    assert last_results(accepted) == [f"ok\n{NOTE}" if is_noted else "ok"]


def test_patch_as_free_text_is_looked_into(callers: Callers) -> None:
    mark = mark_in(sent(send(callers, READ, RESPONSES)))
    body = json.loads(RESPONSES.body(READ))
    patch = f"*** Begin Patch\n*** Add File: a\n+{mark}\n*** End Patch"
    body["input"] += [
        {"type": "custom_tool_call", "call_id": IDS[1], "name": "apply_patch", "input": patch},
        {"type": "custom_tool_call_output", "call_id": IDS[1], "output": "Success."},
    ]
    accepted = callers.send(RESPONSES, json.dumps(body).encode(), RESPONSES.credential("k"))
    assert json.loads(accepted.rewritten.body)["input"][-1]["output"] == f"Success.\n{NOTE}"


def with_content(callers: Callers, content: Any, **more: Any) -> Accepted:
    """Send a request in which the result of the call with a placeholder has this content."""
    mark = mark_in(sent(send(callers, READ)))
    body = json.loads(ANTHROPIC.body([*READ, *written(mark)]))
    body["messages"][4]["content"][0] |= {"content": content, **more}
    return callers.send(ANTHROPIC, json.dumps(body).encode(), ANTHROPIC.credential("k"))


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["one", "two"], ["one", f"two\n{NOTE}"]),
        (["one\n"], [f"one\n{NOTE}"]),
        (["one", ""], [f"one\n{NOTE}", ""]),
        ([f"It said:\n{NOTE}"], [f"It said:\n{NOTE}"]),
        ([f"{NOTE}\nthat is all"], [f"{NOTE}\nthat is all\n{NOTE}"]),
    ],
    ids=["several texts", "ends with a line break", "an empty text", "has the note", "quotes the note"],
)
def test_the_note_ends_the_last_text(callers: Callers, texts: list[str], expected: list[str]) -> None:
    content = [{"type": "text", "text": text} for text in texts]
    assert last_results(with_content(callers, content)) == expected


def test_facts_tell_the_stage_and_the_size(callers: Callers) -> None:
    entry = with_content(callers, "ok").rewritten.shown[-1]
    assert (entry.facts.how, entry.facts.stages) == ("shortened", (PLACEHOLDER_NOTE,))
    assert entry.facts.bytes_after == entry.facts.bytes_before + len(f"\n{NOTE}".encode())
    assert entry.facts.tokens_after > entry.facts.tokens_before


def test_a_shortened_result_ends_with_the_note(callers: Callers) -> None:
    listing = "".join(f"row {number * 7919 % 10007} of {number}\n" for number in range(900))
    accepted = with_content(callers, listing, is_error=True)
    (text,) = last_results(accepted)
    assert json.loads(accepted.rewritten.body)["messages"][-1]["content"][0]["is_error"] is True
    assert text.startswith("<<<SHADOW:")
    assert text.endswith(f"\n{NOTE}")


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"output": "ok"}, {"output": f"ok\n{NOTE}"}),
        ({"output": "ok", "code": 0}, {"output": f"ok\n{NOTE}", "code": 0}),
        ({"output": "ok", "path": "other.env"}, {"output": "ok", "path": "other.env"}),
    ],
    ids=["one text", "one text and a number", "two texts"],
)
@pytest.mark.parametrize("api", [GEMINI, CONVERSE], ids=lambda api: api.id)
def test_result_that_is_json_has_the_note_in_its_only_text(
    callers: Callers, api: Api, response: dict[str, Any], expected: dict[str, Any]
) -> None:
    mark = mark_in(sent(send(callers, READ, api)))
    body = json.loads(api.body([*READ, *written(mark)]))
    if api is GEMINI:
        body["contents"][-1]["parts"][0]["functionResponse"]["response"] = response
    else:
        body["messages"][-1]["content"][0]["toolResult"]["content"] = [{"json": response}]
    text = sent(callers.send(api, json.dumps(body).encode(), api.credential("k")))
    assert json.dumps(expected, ensure_ascii=False, separators=(", ", ": ")) in text


def test_result_that_a_program_reads_gets_none(callers: Callers) -> None:
    mark = mark_in(sent(send(callers, READ)))
    body = json.loads(ANTHROPIC.body([*READ, *written(mark)]))
    body["messages"][3]["content"][0]["caller"] = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    accepted = callers.send(ANTHROPIC, json.dumps(body).encode(), ANTHROPIC.credential("k"))
    assert last_results(accepted) == ["ok"]


def test_placeholder_is_known_by_the_request_alone_after_a_restart(callers: Callers) -> None:
    mark = mark_in(sent(send(callers, READ)))
    callers.restart()
    assert last_results(send(callers, [*READ, *written(mark)])) == [f"ok\n{NOTE}"]


def test_placeholder_is_known_when_its_result_is_gone(callers: Callers) -> None:
    mark = mark_in(sent(send(callers, READ)))
    compacted: list[Turn] = [("user", f"So far: the password is {mark}."), *written(mark)]
    assert last_results(send(callers, compacted)) == [f"ok\n{NOTE}"]
    other = callers.send(ANTHROPIC, ANTHROPIC.body(compacted), ANTHROPIC.credential("another caller"))
    assert last_results(other) == ["ok"]


def test_result_that_the_provider_has_seen_gets_none(callers: Callers) -> None:
    mark = mark_in(sent(send(callers, READ)))
    turns: list[Turn] = [*READ, *written(mark), ("said", "Done."), ("user", "And?")]
    assert "[Note:" not in sent(send(callers, turns))


def test_no_note_is_added_while_the_store_is_away(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = [*READ, *written(mark_in(sent(send(callers, READ))))]
    with monkeypatch.context() as patched:
        patched.setattr(Stores, "is_whole", False)
        assert "[Note:" not in sent(send(callers, turns))
    assert "[Note:" not in sent(send(callers, turns))


@pytest.mark.parametrize(
    ("content", "is_noted"), [("value", False), ("mark", True)], ids=["value put back", "placeholder"]
)
def test_value_that_was_put_back_is_no_placeholder(start: Start, content: str, is_noted: bool) -> None:
    callers = start(restore_secrets="edits", enable_expand_context=False)
    shown = f"     1\tDB_PASSWORD={PASSWORD}"
    body = json.loads(ANTHROPIC.body([*READ[:2], ("result", IDS[0], shown)]))
    read = body["messages"][1]["content"][0]
    read |= {"name": "Read", "input": {"file_path": "/repo/.env"}}
    tools = [{"name": "Read", "input_schema": {}}, {"name": "Write", "input_schema": {}}]
    first = callers.send(ANTHROPIC, json.dumps({**body, "tools": tools}).encode(), ANTHROPIC.credential("k"))
    mark = mark_in(sent(first))
    given = {"file_path": "/repo/.env", "content": f"A={mark if content == 'mark' else PASSWORD}\n"}
    call = {"type": "tool_use", "id": IDS[1], "name": "Write", "input": given}
    result = {"type": "tool_result", "tool_use_id": IDS[1], "content": "ok"}
    body["messages"] += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    accepted = callers.send(
        ANTHROPIC, json.dumps({**body, "tools": tools}).encode(), ANTHROPIC.credential("k")
    )
    assert f"A={mark}" in sent(accepted)
    assert last_results(accepted) == [f"ok\n{NOTE}" if is_noted else "ok"]


@pytest.mark.parametrize("restores", ["off", "edits"])
def test_call_that_only_the_provider_has_is_known_too(start: Start, restores: str) -> None:
    """If values are put back, the call may have got a value."""
    callers = start(adopt="compress", restore_secrets=restores)
    first = send(callers, READ, RESPONSES, store=True)
    response, made = f"resp_{1:030d}", written(mark_in(sent(first)))
    callers.answer(first, RESPONSES, made[0], shows=True, ids=(response,))
    second = sent(send(callers, made[1:], RESPONSES, store=True, previous_response_id=response))
    assert json.loads(second)["input"][-1]["output"] == (f"ok\n{NOTE}" if restores == "off" else "ok")


def test_value_that_is_redacted_in_the_arguments_is_no_placeholder(start: Start) -> None:
    callers = start(redact_scope="all")
    mark = mark_in(sent(send(callers, READ)))
    accepted = send(callers, [*READ, *written(PASSWORD)])
    assert f"DB_PASSWORD={mark}' > other.env" in sent(accepted)
    assert last_results(accepted) == ["ok"]


def retried(callers: Callers, accepted: Accepted, body: bytes, change: Callable[[Any], Plan]) -> Accepted:
    incoming = arriving(ANTHROPIC, body, ANTHROPIC.credential("k"))

    async def again() -> Accepted:
        made = await callers.engine.retry(incoming, callers.settings, accepted, change)
        assert made is not None
        await callers.engine.settle(made)
        return made

    return asyncio.run(again())


def test_smaller_form_after_a_refusal_keeps_the_note(callers: Callers) -> None:
    listing = "".join(f"row {number * 7919 % 10007} of {number}\n" for number in range(60))
    turns = [*READ, *written(mark_in(sent(send(callers, READ))), said=listing)]
    accepted = send(callers, turns)
    (first,) = last_results(accepted)
    item = accepted.request.items[-1]
    smaller = Decision("row 0 of 0", Facts("recovered"))
    made = retried(callers, accepted, ANTHROPIC.body(turns), lambda _: Plan({item.key: smaller}))
    assert first.endswith(NOTE)
    assert last_results(made) == [f"row 0 of 0\n{NOTE}"]
    later = send(callers, [*turns, ("said", "Done."), ("user", "And?")])
    assert sent(made)[: sent(made).index(NOTE)] == sent(later)[: sent(later).index(NOTE)]
    assert sent(later).count("[Note:") == 1


def test_the_fleet_learns_the_noted_form(callers: Callers) -> None:
    noted = with_content(callers, "ok").rewritten.shown[-1].facts
    assert SCHEMA.news(Decision(f"ok\n{NOTE}", noted)) is News.VALUE
    assert SCHEMA.news(Decision("x", Facts("shortened"))) is News.KEY


def test_redaction_leaves_the_note_alone() -> None:
    assert Redactor(b"k").redact(f"ok\n{NOTE}", "").text == f"ok\n{NOTE}"
    assert PATTERN.search(NOTE) is None
