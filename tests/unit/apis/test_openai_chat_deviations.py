"""Where compatible APIs differ: every example of the rule file, read as the answer that it is."""

from __future__ import annotations

from typing import Any

from penumbra import rules
from penumbra.apis.formats import FORMATS
from support.cases import each

KNOWN = rules.load("providers.yaml")["deviations"]


@each("example", KNOWN, ids=lambda example: f"{example['provider']}: {example['what']}")
def test_every_deviation(example: dict[str, Any]) -> None:
    answer = FORMATS["openai_chat"].body("expand_context")
    data = example["answer"].encode()
    answer.feed(data)
    turn = answer.end_turn()
    expected = example["is"]
    assert turn.text == expected["text"]
    assert list(turn.real_calls) == expected["calls"]
    assert (turn.finished, turn.continuable) == (expected["finished"], expected["continuable"])
    for name in expected["returned"]:
        assert f'"{name}"'.encode() in (turn.message or b"")
    assert answer.finish() == data
