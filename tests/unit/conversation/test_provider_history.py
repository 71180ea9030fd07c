"""Results that only the provider stores, by a response's id: their duplicates in later requests, and requests
with a session."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from penumbra.conversation import provider_history
from penumbra.conversation.call_names import call_name
from penumbra.conversation.incoming import Accepted, Refused
from support.apis import APIS
from support.engines import Callers, arriving, shown
from support.tenants import LOG

API = APIS[2]
KEY = API.credential("one key")
ASK = ("user", "What is in the log?")
FIRST = "\n".join(f"part {number} of the first version, {number * 7919 % 1009}" for number in range(40))
SECOND = FIRST.replace("first", "second")


@pytest.fixture
def callers(start: Callable[..., Callers]) -> Callers:
    return start(adopt="compress")


class Chain:
    """A conversation in which each request has only new items."""

    def __init__(self, callers: Callers, **more: Any) -> None:
        self.callers, self.more, self.number = callers, more, 0
        self.headers = KEY

    @property
    def before(self) -> str:
        return f"resp_{self.number:030d}"

    def request(self, *turns: tuple[str, ...], **more: Any) -> bytes:
        named = {"previous_response_id": self.before} if self.number else {}
        return API.body(turns, store=True, **named, **self.more, **more)

    def send(self, *turns: tuple[str, ...], **more: Any) -> Accepted:
        return self.callers.send(API, self.request(*turns, **more), self.headers)

    def goes(self, turn: tuple[str, ...], *turns: tuple[str, ...], **more: Any) -> Accepted:
        """Send a request, answer the request, and return the accepted request."""
        sent = self.send(*turns, **more)
        self.number += 1
        self.callers.answer(sent, API, turn, shows=True, ids=(self.before,))
        return sent

    def outputs(self, command: str, *texts: str, **more: Any) -> list[str]:
        """Return the sent outputs of one command that is run again and again."""
        self.goes(call(self.number, command), ASK)
        found = []
        for text in texts:
            result = ("result", call(self.number - 1, "")[1], text)
            found.append(output(self.goes(call(self.number, command), result, **more)))
        return found


def call(number: int, command: str) -> tuple[str, ...]:
    return ("call", f"call_{number:030d}", command)


def output(sent: Accepted) -> str:
    text: str = json.loads(sent.rewritten.body)["input"][-1]["output"]
    return text.partition(">>>\n")[2].partition("\n")[2] if text.startswith("<<<SHADOW") else text


def refusal(callers: Callers, body: bytes) -> str:
    found = asyncio.run(callers.engine.process(arriving(API, body, KEY), callers.settings))
    return found.reason if isinstance(found, Refused) else ""


def test_a_duplicate_names_the_right_one_of_several_versions(callers: Callers) -> None:
    """The provider stores each version. A reader takes a bare name for the last call of that name."""
    said = Chain(callers).outputs("cat parts", FIRST, SECOND, FIRST, FIRST, SECOND)
    assert said[:2] == [FIRST, SECOND]
    named = [f"[Duplicate of Bash cat parts{which}; see earlier result]" for which in (
        " (the 1st)", " (the 1st)", " (the 2nd)")]  # fmt: skip
    assert said[2:] == named


def test_calls_of_the_same_request_count_too(callers: Callers) -> None:
    chain = Chain(callers)
    chain.outputs("cat parts", FIRST)
    second, third = ("call_" + 30 * digit for digit in "xy")
    made = [("call", second, "cat parts"), ("result", second, SECOND), ("call", third, "cat parts")]
    assert output(chain.send(*made, ("result", third, FIRST))) == (
        "[Duplicate of Bash cat parts (the 1st); see earlier result]"
    )


TOKEN = "sk-proj-Zq3vT8nW1xR7yL5kB2mD9cF4gH6jP0sA1eU8iO5tY3wQ7"


def test_names_of_remembered_results_have_no_secrets(callers: Callers) -> None:
    """A name that is cut within a secret also shows no part of the secret."""
    for padding in ("", "-s -o /dev/null "):
        command = f"curl {padding}-H 'Authorization: Bearer {TOKEN}' https://api.example.com/v1/parts"
        chain, first, second = Chain(callers), call(1, command), call(2, command)
        chain.goes(second, ASK, first, ("result", first[1], FIRST))
        said = output(chain.send(("result", second[1], FIRST)))
        assert said.startswith("[Duplicate of Bash curl ")
        assert TOKEN[:12] not in said


def test_the_name_of_a_tool_is_searched_too(callers: Callers) -> None:
    chain, first, second = Chain(callers), call(1, "ls"), call(2, "ls")
    body = json.loads(
        chain.request(ASK, first, ("result", first[1], FIRST), second, ("result", second[1], FIRST))
    )
    for number in (1, 3):
        body["input"][number]["name"] = TOKEN
    said = output(callers.send(API, json.dumps(body).encode(), KEY))
    assert said.startswith("[Duplicate of [REDACTED:")
    assert TOKEN[:12] not in said


def test_the_latest_results_are_remembered_with_short_names(callers: Callers) -> None:
    turns = [ASK]
    for number in range(200):
        turns += [call(number, f"cat part {number}"), ("result", call(number, "")[1], f"{number} {FIRST}")]
    sent = Chain(callers).send(*turns)
    assert sent.prepared is not None
    held = sent.prepared.provider_results
    assert [result.name for result in held] == [f"Bash cat part {number}" for number in range(72, 200)]
    long = json.loads(API.body([ASK, call(1, "ls"), ("result", call(1, "")[1], FIRST)], store=True))
    long["input"][1]["name"] = "b" * 100_000
    sent = callers.send(API, json.dumps(long).encode(), KEY)
    assert sent.prepared is not None
    [result] = sent.prepared.provider_results
    assert not result.digest
    assert len(result.name) + len(result.tool) < 1_000


def test_results_of_a_bounded_request_are_not_remembered(callers: Callers) -> None:
    sent = callers.send(
        API, API.body([ASK, call(1, "ls"), ("result", call(1, "")[1], FIRST)], store=True), KEY
    )
    for is_cut in (False, True):
        rewritten = structs.replace(sent.rewritten, is_cut=is_cut)
        [result] = provider_history.results_after(sent.request, rewritten, (), call_name)
        assert bool(result.digest) is not is_cut


@pytest.mark.parametrize(
    "extra",
    [
        {"truncation": "auto"},
        {"context_management": [{"type": "compaction", "compact_threshold": 9_000}]},
        {"transforms": ["middle-out"]},
        {"plugins": [{"id": "context-compression"}]},
    ],
)
def test_results_that_the_provider_may_drop_have_no_duplicates(
    extra: dict[str, Any], callers: Callers
) -> None:
    assert Chain(callers).outputs("cat parts", FIRST, FIRST, **extra) == [FIRST, FIRST]


def test_no_result_is_remembered_across_a_compaction(callers: Callers) -> None:
    for place in (1, 3):
        turns = [ASK, call(1, "cat parts"), ("result", call(1, "")[1], FIRST)]
        body = json.loads(API.body(turns, store=True))
        body["input"].insert(place, {"type": "compaction", "encrypted_content": "opaque"})
        sent = callers.send(API, json.dumps(body).encode(), KEY)
        assert sent.prepared is not None
        assert not any(result.digest for result in sent.prepared.provider_results)


def test_calls_are_not_counted_from_one_that_may_not_be_the_first(callers: Callers) -> None:
    """The provider has an unknown call before the known calls."""
    chain = Chain(callers)
    assert chain.outputs("cat parts", SECOND.replace("second", "zeroth"), truncation="auto")
    first, second, third = (
        ("result", call(number, "")[1], text) for number, text in ((1, FIRST), (2, SECOND), (3, FIRST))
    )
    for result in (first, second):
        assert output(chain.goes(call(chain.number, "cat parts"), result)) == result[2]
    assert output(chain.send(third)) == FIRST


SESSION = {"_forge": {"tool_output_compression": {"session_id": "s"}}}


def test_a_session_is_refused_for_a_reason_that_is_true(callers: Callers) -> None:
    chain = Chain(callers)
    chain.goes(call(1, "cat parts"), ASK)
    result = ("result", call(1, "")[1], FIRST)
    assert refusal(callers, chain.request(result, **SESSION)) == ""
    # The request has no result that could be a duplicate.
    assert refusal(callers, chain.request(("user", "So?"), truncation="auto", **SESSION)) == ""
    assert "may drop parts" in refusal(callers, chain.request(result, truncation="auto", **SESSION))
    assert "may drop parts" not in refusal(callers, chain.request(result, truncation="disabled", **SESSION))
    unseen = json.loads(chain.request(result, **SESSION))
    unseen["previous_response_id"] = "resp_" + 30 * "9"
    assert "with this credential and with the tool" in refusal(callers, json.dumps(unseen).encode())
    callers.settings = replace(callers.settings, enable_expand_context=False)
    assert "with this credential and with the tool" in refusal(callers, json.dumps(unseen).encode())


def test_a_session_does_not_change_the_conversation(callers: Callers) -> None:
    """Learned limits and sent forms do not depend on the session."""
    turns = [ASK, call(1, "cat log"), ("result", call(1, "")[1], LOG)]
    plain = callers.send(API, API.body(turns), KEY)
    joined = callers.send(API, API.body(turns, **SESSION), KEY)
    assert joined.conversation == plain.conversation
    assert joined.rewritten.body == plain.rewritten.body


def test_originals_of_a_session_are_found_in_all_of_its_conversations(callers: Callers) -> None:
    turns = [ASK, call(1, "cat log"), ("result", call(1, "")[1], LOG)]
    [ref] = shown(callers.send(API, API.body(turns, **SESSION), KEY))
    other = [("user", "Something else.")]
    assert callers.stored(callers.send(API, API.body(other, **SESSION), KEY), ref) == LOG
    for extra in ({}, {"_forge": {"tool_output_compression": {"session_id": "t"}}}):
        assert callers.stored(callers.send(API, API.body(other, **extra), KEY), ref) is None


def test_an_earlier_part_of_the_conversation_joins_its_session_later(callers: Callers) -> None:
    """A reference from before the session is known to the session after a request that contains it."""
    turns = [ASK, call(1, "cat log"), ("result", call(1, "")[1], LOG)]
    [ref] = shown(callers.send(API, API.body(turns), KEY))
    other = callers.send(API, API.body([("user", "Something else.")], **SESSION), KEY)
    again = callers.send(API, API.body(turns, **SESSION), KEY)
    assert callers.stored(other, ref) is None
    callers.answer(again, API, ("said", "It is."), shows=True)
    assert callers.stored(other, ref) == LOG


def test_a_whole_history_that_moves_to_the_provider_brings_its_originals(callers: Callers) -> None:
    turns = [ASK, call(1, "cat log"), ("result", call(1, "")[1], LOG), ("said", "So."), ("user", "And?")]
    first = callers.send(API, API.body(turns[:3]), KEY)
    [ref] = shown(first)
    callers.answer(first, API, ("said", "So."), shows=True)
    chain = Chain(callers)
    turned = chain.goes(("said", "Well."), *turns)
    assert list(shown(turned)) == [ref]
    assert turned.prepared is not None
    assert first.prepared is not None
    assert turned.prepared.references.scope != first.prepared.references.scope
    assert callers.stored(chain.send(("user", "Tell me.")), ref) == LOG


@pytest.mark.parametrize(("command", "before"), [("sed -n '118,900p' src/a.py", 117), ("cat src/a.py", 0)])
def test_a_stored_original_keeps_the_number_of_its_first_line(
    command: str, before: int, callers: Callers
) -> None:
    async def nothing(ref: str) -> None:
        return None

    chain = Chain(callers)
    code = "\n".join(f"    value_{n * 7919 % 10007} = compute_{n}(other={n * n})" for n in range(3_000))
    chain.goes(call(1, command), ASK)
    [ref] = shown(chain.goes(("said", "So."), ("result", call(1, "")[1], code)))
    later = chain.send(("user", "Tell me."))
    assert later.prepared is not None
    found = asyncio.run(callers.engine.expansions.original(later.prepared, nothing, ref))
    assert found is not None
    assert (found.text, found.before) == (code, before)


def test_an_original_that_a_request_carries_is_stored_again(callers: Callers) -> None:
    """The store has dropped the original before the client sends the result again."""
    turns = [ASK, call(1, "cat log"), ("result", call(1, "")[1], LOG), ("said", "So."), ("user", "And?")]
    first = callers.send(API, API.body(turns[:3]), KEY)
    [ref] = shown(first)
    callers.answer(first, API, ("said", "So."), shows=True)
    database = callers.engine.database
    for table in ("originals", "carried_originals"):
        asyncio.run(database.run(lambda found, table=table: found.execute(f"DELETE FROM {table}")))
    assert callers.stored(first, ref) is None
    callers.answer(callers.send(API, API.body(turns), KEY), API, ("said", "Well."), shows=True)
    assert callers.stored(first, ref) == LOG
