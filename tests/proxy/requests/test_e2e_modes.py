"""What each mode leaves alone: doing nothing means nothing, and what was begun stays whole."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from support.agents.model import refs
from support.agents.raw import BASH, Conversation
from support.agents.requests import PHANTOM, result_texts, tool_names

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
PRICED = {"penumbra_supersede": "priced", "penumbra_lossy": "on"}
"""What is superseded gets smaller in the next turn already, since so little is cached nowhere."""


def listing(name: str, lines: int = 200) -> str:
    """Some 8 KB in which nothing repeats."""
    chance = random.Random(name)
    return "\n".join(f"{name}{n:04} {chance.getrandbits(96):024x}" for n in range(lines))


class Talk(Conversation):
    def __init__(self, upstream: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.upstream = upstream

    def asks(self, mode: str = "") -> Any:
        """The request as the provider got it."""
        self.send(**({"_forge": {"tool_output_compression": mode}} if mode else {}))
        return self.upstream.asked()[-1]


@pytest.fixture
def talk(proxy: Any, clients: Any, api_key: str, upstream: Any) -> Any:
    def begin(**options: str) -> Talk:
        return Talk(upstream, clients.http(proxy("regular", **options)), api_key)

    return begin


def grown(talk: Talk, mode: str) -> list[Any]:
    """The requests of a conversation in which the first result is superseded."""
    requests = []
    for text in (listing("first"), listing("second"), listing("third") + f"\ntoken: {SECRET}"):
        talk.prints(text, command="./list")
        requests.append(talk.asks(mode))
    return requests


@pytest.mark.parametrize(
    ("mode", "options"), [("disabled", PRICED), ("", {**PRICED, "penumbra_strategy": "passthrough"})]
)
def test_where_nobody_shortens_there_is_neither_tool_nor_reference(
    mode: str, options: dict[str, str], talk: Any
) -> None:
    """Secrets are taken out all the same."""
    begun = talk(**options)
    requests = grown(begun, mode)
    sent = requests[0].json
    assert sent["tools"] == [BASH]
    assert sent["messages"] == begun.messages[:3]
    last = list(result_texts(requests[-1].json))
    assert last[:2] == [listing("first"), listing("second")]
    assert SECRET not in last[2]
    assert last[2].startswith(listing("third"))


def test_safe_leaves_what_was_sent_as_it_was(talk: Any) -> None:
    begun = talk(**PRICED)
    last = grown(begun, "safe")[-1]
    assert list(result_texts(last.json))[:2] == [listing("first"), listing("second")]
    # It may truncate, so the model may ask.
    assert PHANTOM in tool_names(last)


def test_standard_makes_a_reference_of_what_was_superseded(talk: Any) -> None:
    first = next(result_texts(grown(talk(**PRICED), "standard")[-1].json))
    assert first.startswith("<<<SHADOW:shadow_")
    assert "[tool_compaction]" in first


def test_a_reference_that_nothing_has_answered_goes_where_nobody_could_ask(talk: Any) -> None:
    begun = talk()
    begun.prints(listing("long", 900))
    assert len(refs(begun.asks())) == 1
    sent = begun.asks("disabled")
    assert sent.json["tools"] == [BASH]
    assert list(result_texts(sent.json)) == [listing("long", 900)]
    # What was sent last is its form from now on.
    begun.prints("ok")
    assert next(result_texts(begun.asks().json)) == listing("long", 900)


def test_a_reference_that_was_answered_keeps_its_tool(talk: Any) -> None:
    begun = talk()
    begun.prints(listing("long", 900))
    first = begun.asks()
    begun.prints(listing("later", 900))
    second = begun.asks("disabled")
    assert PHANTOM in tool_names(second)
    kept, later = result_texts(second.json)
    assert [kept] == list(result_texts(first.json))
    assert later == listing("later", 900)


def test_the_one_record_that_differs_survives_in_json_with_two_tables(talk: Any) -> None:
    users = [{"id": n, "name": f"user {n}", "mail": f"u{n}@example.com"} for n in range(150)]
    jobs = [{"job": f"j{n}", "state": "done", "note": "x" * 80, "seconds": n % 9} for n in range(150)]
    users[70] |= {"error": "quota exceeded"}
    begun = talk()
    begun.prints(json.dumps({"users": users, "jobs": jobs}), command="curl -s localhost/api")
    [sent] = result_texts(begun.asks().json)
    assert "quota exceeded" in sent
    assert "j149\t" in sent
    assert 3_500 < len(sent) < 15_000
