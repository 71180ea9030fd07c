"""Exit codes and wall times around an output."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penumbra.compress.calls.envelope import split_envelope, tells_failure, without_needless
from penumbra.compress.calls.tools import tool_rules
from penumbra.rule_schemas.tools import EnvelopeExample, TrimExample
from support.cases import each


@each("example", tool_rules().envelopes.examples, ids=lambda example: repr(example.text)[:40])
def test_examples(example: EnvelopeExample) -> None:
    head, body, tail = split_envelope(example.text)
    assert body == example.body
    assert head + body + tail == example.text
    assert tells_failure(head, tail) == example.failed


@each("example", tool_rules().envelopes.trim_examples, ids=lambda example: repr(example.text)[:40])
def test_what_nobody_acts_on_goes(example: TrimExample) -> None:
    assert without_needless(example.text) == example.gives
    assert without_needless(example.gives) == example.gives


@given(
    st.lists(
        st.sampled_from(["Output:\n", "Exit code: 1\n", "a", "\n", "</stdout>", "Signal: x", "é"]),
        max_size=12,
    )
)
def test_nothing_gets_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert "".join(split_envelope(text)) == text
