"""Names of conversations: every example of the rule file, and the order in which ids count."""

import json

import pytest
import re2

from penumbra import rules
from penumbra.apis.prefix_hash import prompt_head
from penumbra.apis.session import identify, stable
from penumbra.wire.document import Document

KNOWN = rules.load("sessions.yaml")


def session(body, headers=None, opening="Go."):
    return identify(headers or {}, Document(json.dumps(body).encode()), opening)


@pytest.mark.parametrize("example", KNOWN["examples"], ids=lambda example: str(example["is"]))
def test_every_example_of_an_id(example):
    expected = "opening Go." if example["is"] is None else f"id {example['is']}"
    assert session(example["body"], example["headers"]) == expected


@pytest.mark.parametrize(("one", "other"), KNOWN["volatile_examples"])
def test_every_example_of_volatile_text(one, other):
    assert one != other
    assert stable(one) == stable(other)
    assert stable(one).endswith("Go.") or stable(one) == "Fix the test."


def test_every_rule_has_an_example():
    for name in KNOWN["headers"]:
        assert any(name in example["headers"] for example in KNOWN["examples"]), name
    texts = [text for pair in KNOWN["volatile_examples"] for text in pair]
    for pattern in KNOWN["volatile"]:
        assert any(re2.search(pattern, text) for text in texts), pattern


def test_other_openings_are_other_conversations():
    assert session({"messages": []}, opening="Fix a.") != session({"messages": []}, opening="Fix b.")
    assert session({"messages": []}, opening="Fix  a.\n") == session({"messages": []}, opening="Fix a.")


def test_a_history_at_the_provider_counts_as_one_session():
    stored = session({"input": "one"}, opening="one")
    assert session({"input": "two", "previous_response_id": "resp_1"}, opening="two") == stored
    assert session({"input": "one", "store": False}, opening="one") == "opening one"
    assert session({"messages": [], "thread": {"type": "create"}}) == stored
    assert session({"input": "two", "prompt_cache_key": "k"}) == "id k"


@pytest.mark.parametrize("value", ["", 3, None, ["x"], {"id": 3}, "x" * 600, "{", "[1]"])
def test_odd_ids_are_none(value):
    body = {
        "messages": [],
        "metadata": {"user_id": value},
        "client_metadata": value,
        "prompt_cache_key": value,
    }
    found = session(body, {"x-session-id": "y" * 600})
    assert found == ("opening Go." if value not in ("{", "[1]") else f"id {value}")


def test_texts_that_are_no_unicode():
    assert stable("a\ud800b") == "a?b"


def test_the_head_of_a_prompt_is_the_part_before_its_messages():
    def head(text):
        return prompt_head(Document(text.encode()))

    plain = head('{"tools":[{"name":"a"}],"system":[{"text":"You."}],"messages":[1]}')
    assert plain == head('{"messages":[2],"system":[{"text":"You."}],"tools":[{"name":"a"}]}')
    assert plain.tools != head('{"tools":[{"name":"b"}],"system":[{"text":"You."}]}').tools
    assert plain.system != head('{"tools":[{"name":"a"}],"system":[{"text":"I."}]}').system
    billing = '{"system":[{"text":"x-anthropic-billing-header: cch=%s;\\nYou."}]}'
    assert head(billing % "a1") == head(billing % "b2")
    assert (
        head('{"request":{"contents":[],"tools":[1]}}').tools
        != head('{"request":{"contents":[],"tools":[2]}}').tools
    )
