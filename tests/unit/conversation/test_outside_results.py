"""Texts outside of tool results are searched for secrets, once."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.config.settings import Settings
from penumbra.conversation import outside_results, read
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redact_calls import Redact
from penumbra.redaction.redactor import Redactor
from penumbra.store.decisions import Decision
from penumbra.wire.document import Document
from support.apis import APIS
from support.bodies_with_secrets import BODIES, BODIES_HERE, SAYS, TEXT_INPUT, bodies
from support.engines import Callers
from support.examples import examples
from support.planted import PASSWORD, anthropic


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(b"k")


def searched(
    name: str, body: Any, redact: Redact, past: Mapping[bytes, Decision], **settings: Any
) -> tuple[bytes, Mapping[bytes, Decision]]:
    """Return the request as it is sent, and the new decisions."""
    api = next(api for api in recognise.apis() if api.id == name)
    chosen = Settings(**{"redact_scope": "all", **settings})
    request = read.read(Document(json.dumps(body).encode()), api, chosen, b"scope", knows_caller=True)
    assert request is not None
    _, done = outside_results.search(request, past, redact, lambda text, hint: Redacted(text))
    return request.document.render(), done.decisions


def cleaned(name: str, body: Any, redact: Redact) -> bytes:
    return searched(name, body, redact, {})[0]


@pytest.mark.parametrize("name", BODIES)
def test_only_secrets_in_texts_and_arguments_are_replaced(name: str, redactor: Redactor) -> None:
    out = cleaned(name, BODIES[name], redactor.redact)
    found = json.loads(PATTERN.sub("@", out.decode()))
    assert found == BODIES_HERE[name]
    assert cleaned(name, BODIES[name], redactor.redact) == out


def test_results_are_left_out() -> None:
    """Other code redacts results, when they are shortened."""
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return Redacted(text)

    searched("anthropic-messages", {**anthropic(SAYS), "system": "say something"}, redact, {})
    assert seen == ["say something", '{"command": "run 0"}']


def test_each_text_is_searched_once(redactor: Redactor) -> None:
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return redactor.redact(text, hint)

    first, decisions = searched("openai-chat", BODIES["openai-chat"], redact, {})
    assert sorted(seen) == sorted([SAYS, TEXT_INPUT])
    assert searched("openai-chat", BODIES["openai-chat"], redact, decisions) == (first, {})
    assert len(seen) == 2


@settings(max_examples=examples(60))
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=20)
        | st.sampled_from([SAYS, f"password={PASSWORD}", "\ud800 " + SAYS, TEXT_INPUT]),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["password", "a"]), inner)
        ),
        max_leaves=8,
    )
)
def test_json_stays_json(redactor: Redactor, value: Any) -> None:
    body = bodies(SAYS, value, json.dumps(value))
    for name in ("anthropic-messages", "openai-chat"):
        found = json.loads(cleaned(name, body[name], redactor.redact))
        if name == "openai-chat":
            json.loads(found["messages"][2]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_a_secret_is_counted_in_the_first_request_alone(start: Callable[..., Callers], api: Any) -> None:
    """Later requests take its decision from the ledger, which gives them the same bytes."""
    callers, body = start(redact_scope="all"), api.body([("user", f"log in with password={PASSWORD}")])
    first, second = (callers.send(api, body, api.credential("key")) for _ in range(2))
    assert sum(first.hidden.values()) == 1
    assert set(first.decided) == set(first.rewritten.decisions) != set()
    assert not second.hidden
    assert not second.rewritten.decisions
    assert first.rewritten.body == second.rewritten.body != body
