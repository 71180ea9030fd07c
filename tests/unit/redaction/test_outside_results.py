"""What is said outside of tool results: what is searched there, once, and in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penumbra.apis import recognise
from penumbra.compress.result import Redacted
from penumbra.redaction.outside_results import OutsideResults
from penumbra.redaction.placeholder import PATTERN
from penumbra.redaction.redactor import Redactor
from penumbra.wire.document import Document
from support.bodies_with_secrets import BODIES, BODIES_HERE, SAYS, TEXT_INPUT, bodies
from support.examples import examples
from support.planted import PASSWORD, anthropic


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor(b"k")


def wire(name: str) -> Any:
    return next(api.wire for api in recognise.apis() if api.id == name)


def cleaned(
    name: str, body: Any, redact: Callable[[str, str], Redacted], texts: OutsideResults | None = None
) -> bytes:
    document = Document(json.dumps(body).encode())
    (texts or OutsideResults()).redact(document, wire(name).outside_results(document), redact)
    return document.render()


@pytest.mark.parametrize("name", BODIES)
def test_what_is_said_is_redacted_and_nothing_else(name: str, redactor: Redactor) -> None:
    out = cleaned(name, BODIES[name], redactor.redact)
    found = json.loads(PATTERN.sub("@", out.decode()))
    assert found == BODIES_HERE[name]
    assert cleaned(name, BODIES[name], redactor.redact) == out


def test_results_are_left_out() -> None:
    """They are redacted where they are shortened."""
    document = Document(json.dumps(anthropic(SAYS)).encode())
    values = [document.source(value) for value in wire("anthropic-messages").outside_results(document)]
    assert values == [b'"hi"', b'{"command": "cat x"}']


def test_each_text_is_searched_once(redactor: Redactor) -> None:
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return redactor.redact(text, hint)

    texts = OutsideResults()
    first = cleaned("openai-chat", BODIES["openai-chat"], redact, texts)
    assert sorted(seen) == sorted([SAYS, TEXT_INPUT])
    assert cleaned("openai-chat", BODIES["openai-chat"], redact, texts) == first
    assert len(seen) == 2


def test_memory_is_bounded(redactor: Redactor) -> None:
    texts = OutsideResults(memory=1000)
    seen: list[str] = []

    def redact(text: str, hint: str) -> Redacted:
        seen.append(text)
        return Redacted(text)

    for _ in range(2):
        for number in range(20):
            cleaned("openai-chat", {"messages": [{"role": "user", "content": f"t{number}"}]}, redact, texts)
    assert len(seen) == 40


@settings(max_examples=examples(60), deadline=None)
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
