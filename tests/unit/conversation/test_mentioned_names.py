"""The names that were used before a result, in the conversations of every API."""

from collections.abc import Mapping, Sequence

import pytest

from penumbra.apis import recognise
from penumbra.conversation import model
from penumbra.wire.document import Document
from support.apis import APIS, Api, Turn

LONG = "irrelevant " * 20
TURNS: list[Turn] = [
    ("user", "mend parse_config\nfirst"),
    ("call", "a", "cat src\noldest.py"),
    ("result", "a", LONG),
    ("said", "latest_one"),
    ("call", "b", "cat x"),
    ("result", "b", LONG),
    ("user", "after_it"),
]


def mentioned(turns: Sequence[Turn], api: Api = APIS[0]) -> list[Mapping[str, float]]:
    """Return the names that were used before each result."""
    known = next(one for one in recognise.apis() if one.id == api.id)
    document = Document(api.body(turns, **({"system": "system_prompt"} if api is APIS[0] else {})))
    conversation = known.wire.read(document)
    return [
        model.Mentions().before(document, known.wire, conversation, result) for result in conversation.results
    ]


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.id)
def test_only_texts_and_calls_before_a_result_are_read(api: Api) -> None:
    first, second = mentioned(TURNS, api)
    assert {"mend", "parse_config", "first", "oldest"} <= set(first)
    assert set(second) == set(first) | {"latest_one"}
    assert "irrelevant" not in second
    assert first["oldest"] == 1 > first["parse_config"]
    assert second["oldest"] < 1
    assert min(second.values()) >= 0.3


def test_the_latest_part_of_a_long_conversation_is_read() -> None:
    filler: list[Turn] = []
    for n in range(10):
        filler += [("said", f"assistant_{n} " + "word " * 2_000), ("user", f"user_{n} " + "word " * 2_000)]
    names = mentioned([("user", "long_ago"), *filler, *TURNS[1:]])[0]
    assert "oldest" in names
    assert "assistant_9" in names
    assert "long_ago" not in names


def test_later_messages_change_no_names() -> None:
    assert mentioned(TURNS[:3])[0] == mentioned(TURNS)[0]
