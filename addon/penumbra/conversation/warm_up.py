"""What the first result would wait for: rules that are read, and patterns that are compiled, when they are
needed first."""

from __future__ import annotations

import logging
from concurrent.futures import Future

from penumbra import errors
from penumbra.compress import pipeline
from penumbra.compress.result import Policy, ToolOutput
from penumbra.redaction.redactor import Redactor

_SOURCE = "".join(f"{number}\tdef name_{number}(self) -> None:\n" for number in range(1, 60))
_TESTS = "".join(f"tests/test_a.py::test_{number} PASSED [ {number}%]\n" for number in range(1, 60))
_OUTPUTS = (
    ToolOutput(_SOURCE, "Read", {"file_path": "/srv/a.py"}),
    ToolOutput(_TESTS + "error: it failed\n", "Bash", {"command": "pytest -v"}),
    ToolOutput("[" + ",".join(['{"a": 1, "b": "x"}'] * 80) + "]", "Bash", {"command": "curl localhost"}),
)
"""Of the kinds that most results are."""
_log = logging.getLogger(__name__)


def warm_up(redactor: Future[Redactor]) -> None:
    """Shorten a few results of nobody."""
    try:
        redact = redactor.result().redact
        for output in _OUTPUTS:
            pipeline.shorten(output, Policy(lossy=True, min_bytes=0), redact, lambda original: "")
    except Exception as error:
        # Whoever needs it will say so.
        _log.debug("Penumbra is not warm: %s", errors.place(error))
