"""Where compatible APIs differ: every example of the rule file, read as the response that it is."""

from __future__ import annotations

from typing import Any

import pytest

from penumbra import rules
from penumbra.apis.formats import FORMATS

DEVIATIONS = rules.load("providers.yaml")["deviations"]


@pytest.mark.parametrize(
    "example", DEVIATIONS, ids=lambda example: f"{example['provider']}: {example['what']}"
)
def test_every_deviation(example: dict[str, Any]) -> None:
    response = FORMATS["openai_chat"].body("expand_context")
    data = example["response"].encode()
    response.feed(data)
    turn = response.end_turn()
    expected = example["is"]
    assert turn.text == expected["text"]
    assert list(turn.real_calls) == expected["calls"]
    assert (turn.finished, turn.continuable) == (expected["finished"], expected["continuable"])
    for name in expected["returned"]:
        assert f'"{name}"'.encode() in (turn.message or b"")
    assert response.finish() == data
