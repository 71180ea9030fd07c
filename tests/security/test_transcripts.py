"""Secrets that agents send outside of tool results: in transcripts, and values that were taken out before."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.user_text import carries_transcript
from penumbra.redaction.caller_values import CallerValues
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from support.apis import APIS, Api
from support.engines import Callers, database
from support.planted import GITHUB
from support.transcripts import LINES, MESSAGES, SECRETS, SHAPES, URL_PASSWORD, WITH_TOOLS, Shape

RULES: list[dict[str, Any]] = rules.load("user_results.yaml")["transcripts"]
EXAMPLES = [example for rule in RULES for example in rule["examples"]]
SEEN = [("user", "deploy it"), ("call", "call_1", "cat .env"), ("result", "call_1", LINES["url"])]
"""A conversation whose result has a secret."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Callers]:
    callers = Callers()
    yield callers
    callers.close()


@pytest.fixture
def callers(tmp_path: Path) -> Iterator[Callers]:
    made = Callers(database=database(tmp_path))
    yield made
    made.close()


def sent(callers: Callers, api: Api, turns: Any, key: str = "k", **more: Any) -> str:
    return callers.send(api, api.body(turns, **more), api.credential(key)).rewritten.body.decode()


def parts(body: str, member: str) -> list[str]:
    """Return the messages of a request, each as JSON."""
    return [json.dumps(one) for one in json.loads(body)[member]]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one["text"][:40])
def test_examples_of_the_rule_file(example: dict[str, Any]) -> None:
    assert carries_transcript([example["text"]]) is example["fits"]
    assert carries_transcript([f"{example['text']}\n\udce9"]) is example["fits"]


@pytest.mark.parametrize("way", ["cold", "known", "bare"])
@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_no_secret_leaves(shape: Shape, kind: str, way: str, shared: Callers) -> None:
    """`bare` is a transcript without the line that reveals the value."""
    _leaves_not(shape, kind, way, shared)


@pytest.mark.parametrize("shape", WITH_TOOLS, ids=lambda shape: shape.name)
def test_a_transcript_is_known_by_its_shape(shape: Shape, shared: Callers) -> None:
    """The request declares tools, and the value is new."""
    _leaves_not(shape, "url", "cold", shared)


def _leaves_not(shape: Shape, kind: str, way: str, callers: Callers) -> None:
    headers = shape.api.credential(f"{shape.name} {kind} {way} {shape.tools}")
    mark = ""
    if way != "cold":
        turns = [*SEEN[:2], ("result", "call_1", LINES[kind])]
        done = callers.send(shape.api, shape.api.body(turns), headers).rewritten.body.decode()
        (mark,) = (found[0] for found in PATTERN.finditer(done))
    output = SECRETS[kind] if way == "bare" else LINES[kind]
    done = callers.send(shape.api, shape.body(f"{output}\nLANG=C"), headers).rewritten.body.decode()
    assert SECRETS[kind] not in done
    assert "LANG=C" in done
    assert PATTERN.search(done)
    if way == "bare":
        assert mark in done


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_known_values_are_searched_for_in_every_message(api: Api, callers: Callers) -> None:
    sent(callers, api, SEEN)
    said = sent(callers, api, [("user", f"why is {URL_PASSWORD} refused?")])
    assert URL_PASSWORD not in said
    result = [("user", "look"), ("call", "call_9", "cat x"), ("result", "call_9", f"it is {URL_PASSWORD}\n")]
    assert URL_PASSWORD not in sent(callers, api, result)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restarts"])
def test_the_prefix_of_a_conversation_stays(api: Api, restarts: bool, callers: Callers) -> None:
    """Text that was sent raw before the value was known stays raw, and redacted text stays redacted."""
    turns: list[Any] = [("user", f"is {URL_PASSWORD} in use?"), *SEEN[1:]]
    bodies = [sent(callers, api, turns[:1]), sent(callers, api, turns)]
    assert URL_PASSWORD in bodies[0]
    turns += [("said", "Yes."), ("user", f"then put {URL_PASSWORD} elsewhere")]
    for more in ([], [("said", "Done."), ("user", "thanks")]):
        turns += more
        bodies.append(sent(callers, api, turns))
        assert bodies[-1].count(URL_PASSWORD) == 1
        if restarts:
            callers.restart()
    for before, after in pairwise(bodies):
        kept = parts(before, api.member)
        assert parts(after, api.member)[: len(kept)] == kept


def test_a_chat_without_tools_stays_after_a_restart(callers: Callers) -> None:
    turns: list[Any] = [("user", f"we use {LINES['url']}")]
    first = sent(callers, MESSAGES, turns, tools=[])
    assert URL_PASSWORD not in first
    callers.restart()
    turns += [("said", "I see."), ("user", "go on")]
    assert parts(sent(callers, MESSAGES, turns, tools=[]), "messages")[:1] == parts(first, "messages")


def test_bound_thinking_keeps_the_prefix_that_the_provider_may_have_seen(callers: Callers) -> None:
    thinking = {"type": "thinking", "thinking": "t", "signature": "s"}
    messages = [
        {"role": "user", "content": f"we use {LINES['url']}"},
        {"role": "assistant", "content": [thinking, {"type": "text", "text": "I see."}]},
        {"role": "user", "content": f"and {LINES['token']}"},
    ]
    body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}).encode()
    done = callers.send(MESSAGES, body, MESSAGES.credential("k")).rewritten.body.decode()
    assert URL_PASSWORD in done
    assert GITHUB not in done


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_values_of_other_callers_are_not_searched_for(api: Api, callers: Callers) -> None:
    sent(callers, api, SEEN, "one")
    body, one = api.body([("user", f"why is {URL_PASSWORD} refused?")]), api.credential("one")
    elsewhere = {"host": "bedrock-runtime.eu-west-1.amazonaws.com:443"}
    for headers, more in ((api.credential("another"), {}), (one, elsewhere), ({}, {})):
        assert URL_PASSWORD in callers.send(api, body, headers, **more).rewritten.body.decode()
    assert URL_PASSWORD not in callers.send(api, body, one).rewritten.body.decode()


def test_where_no_credential_tells_callers_apart_nothing_is_remembered(callers: Callers) -> None:
    body = MESSAGES.body([("user", f"why is {URL_PASSWORD} refused?")])
    callers.send(MESSAGES, MESSAGES.body(SEEN), {})
    assert URL_PASSWORD in callers.send(MESSAGES, body, {}).rewritten.body.decode()


def test_messages_without_secrets_keep_their_bytes(callers: Callers) -> None:
    sent(callers, MESSAGES, SEEN)
    body = (
        b'{"model":"m","max_tokens":9,\n "messages":[{"content":"caf\\u00e9 \\ud800 1.10", "role":"user"}]}'
    )
    assert callers.send(MESSAGES, body, MESSAGES.credential("k")).rewritten.body == body


REDACTOR = Redactor(b"k")


def knowing(*texts: str, **bounds: int) -> CallerValues:
    values = CallerValues(**bounds)
    for text in texts:
        values.learn(b"a", REDACTOR.scan(text).sure)
    return values


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("DB_PASSWORD=postgres", "postgres"),
        ("password=admin123", "admin123"),
        ("password: true", "true"),
        ("PASSWORD=20261124", "20261124"),
        ("password=aB3$x", "aB3$x"),
    ],
)
def test_a_value_that_may_be_anything_is_not_looked_for(line: str, value: str) -> None:
    text = f"the user {value} has {value}"
    assert knowing(line).without(b"a", text).text == text


@pytest.mark.parametrize(
    ("text", "goes"),
    [
        (f"x {URL_PASSWORD}.", True),
        (f"https://app:{URL_PASSWORD}@db", True),
        (json.dumps({"log": f"a\n{URL_PASSWORD}\n"}), True),
        (f"name{URL_PASSWORD}", False),
        (f"{URL_PASSWORD}0", False),
        (URL_PASSWORD[:-1], False),
    ],
)
def test_a_value_ends_where_its_word_ends(text: str, goes: bool) -> None:
    found = knowing(LINES["url"]).without(b"a", text)
    assert (found.text != text) is goes
    assert found.counts == ({"known-value": 1} if goes else {})


def test_a_value_is_found_as_json_spells_it() -> None:
    values = CallerValues()
    values.learn(b"a", {"[REDACTED:password:aaaaaa]": 'aB3"\\x\ny9Z'})
    text = 'aB3"\\x\ny9Z'
    for _ in range(3):
        assert values.without(b"a", f"is {text}").text == "is [REDACTED:password:aaaaaa]"
        text = json.dumps(text)[1:-1]


def test_the_oldest_values_and_callers_go_first() -> None:
    secrets = [f"ghp_{'k3J9xQ7vB2mN8cR5tY1wZ4aS6dF0gH3j'}{number:04}" for number in range(4)]
    count = knowing(*secrets, values=2)
    size = knowing(*secrets, size=2 * len(secrets[0]))
    for values in (count, size):
        left = values.without(b"a", " ".join(secrets)).text.split()
        assert left[:2] == secrets[:2]
        assert all(map(PATTERN.fullmatch, left[2:]))
    two = CallerValues(callers=2)
    for caller in (b"a", b"b", b"c"):
        two.learn(caller, REDACTOR.scan(secrets[0]).sure)
    assert two.without(b"a", secrets[0]).text == secrets[0]
    assert two.without(b"c", secrets[0]).text != secrets[0]
