"""Any function raises in a hook: nothing that must be searched is sent unsearched, every client gets an
answer, and other traffic passes."""

import sys
from typing import Any

import pytest

from support import examples
from support.faults.broken_steps import GOOD, KINDS, Breaker

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 12), reason="sys.monitoring is what makes functions raise"
)

WHOLE = "flow/request.py:RequestWay.request"
STEPS = ("addon.py", "errors.py", "flow/", "apis/recognise.py", "wire/", "config/per_request.py")
"""The modules of hooks. `scripts/fail_closed` tries every function that a request passes."""
TESTED = [kind for kind in KINDS if kind.name not in ("stream", "call without TLS", "line in pieces")]
WHOSE = ("destination.py", "recognise.py", "request_path.py", "listening.py", "mitm.py", "_is_at_ours")
"""Functions that find out whether a request is one of a provider's."""
NOT_WHOSE = (
    "_providers", "Other", "SocketKind", "others", "sockets", "by_path", "socket_by_path", "error_body",
)  # fmt: skip
"""Functions among those that treat requests of other kinds."""
CONNECTION = ("splice.py", "next_layer")
"""Functions whose failure ends the connection."""


@pytest.fixture
def breaker(own_proxy: Any, upstream: Any) -> Breaker:
    return Breaker(own_proxy("regular"), upstream)


@pytest.mark.parametrize("kind", TESTED, ids=[kind.name for kind in TESTED])
def test_each_step_raises(kind: Any, breaker: Breaker) -> None:
    steps = [step for step in breaker.steps(kind) if step.startswith(STEPS)]
    if kind is not TESTED[0]:
        known = set(breaker.steps(TESTED[0])) - {"addon.py:Penumbra.next_layer", WHOLE}
        again = examples.some([step for step in steps if step in known])
        steps = [step for step in steps if step not in known or step in again]
    assert "addon.py:Penumbra.next_layer" in steps
    outcomes = {step: breaker.outcome(kind, step) for step in steps}
    assert {step: outcome for step, outcome in outcomes.items() if outcome not in GOOD} == {}
    if kind.searched:
        assert outcomes[WHOLE] in ("refused", "closed")
    else:
        lost = [step for step, outcome in outcomes.items() if outcome != "passed"]
        excused = [step for step in lost if any(one in step for one in (*WHOSE, *CONNECTION))]
        others = [f"apis/recognise.py:{name}" for name in NOT_WHOSE]
        assert [step for step in lost if step not in excused or step.startswith(tuple(others))] == []
    assert breaker.outcome(kind, "none") == ("clean" if kind.searched else "passed")


@pytest.mark.parametrize("error", ["CancelledError", "RecursionError", "MemoryError", "BaseException"])
def test_every_exception_has_an_allowed_outcome(error: str, breaker: Breaker) -> None:
    for kind in KINDS:
        if kind.searched:
            for step in (WHOLE, "flow/bodies.py:decoded"):
                assert breaker.outcome(kind, step, error) in GOOD
