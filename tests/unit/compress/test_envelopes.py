"""Exit codes and wall times around an output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penumbra.compress.calls.envelope import split_envelope, tells_failure
from penumbra.compress.calls.tools import tool_rules
from penumbra.rule_schemas.tools import EnvelopeExample


@pytest.mark.parametrize(
    "example", tool_rules().envelopes.examples, ids=lambda example: repr(example.text)[:40]
)
def test_examples(example: EnvelopeExample) -> None:
    head, body, tail = split_envelope(example.text)
    assert body == example.body
    assert head + body + tail == example.text
    assert tells_failure(head, tail) == example.failed


@given(
    st.lists(
        st.sampled_from(["Output:\n", "Exit code: 1\n", "a", "\n", "</stdout>", "Signal: x", "é"]),
        max_size=12,
    )
)
def test_nothing_gets_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(split_envelope(text)) == text
