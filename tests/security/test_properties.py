"""The fuzzer's properties, with as few inputs as a test run can afford."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.examples import examples
from support.properties import TARGETS

_EXAMPLES = {"redaction": 15, "bodies": 25, "answers": 40, "codings": 60, "rules": 200}


@pytest.mark.parametrize("name", TARGETS)
def test_what_holds_for_every_input(name):
    @settings(
        max_examples=examples(_EXAMPLES.get(name, 100)),
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=300))
    def holds(data: bytes) -> None:
        TARGETS[name](data)

    holds()
