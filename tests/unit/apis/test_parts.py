"""The parts of requests to every API, from test_parts.yaml: results, their calls, and the model's last message."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penumbra.apis.formats import REQUESTS
from penumbra.wire.document import Document
from support.filled import load

CASES: dict[str, Any] = load(__file__)


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_a_request_are_read(case: str) -> None:
    document = Document(json.dumps(CASES[case]["body"]).encode())
    read = REQUESTS[CASES[case]["api"]].read(document)
    results = [
        [document.string(one.value), one.call_id, one.call.name if one.call else None, one.turn]
        for one in read.results
    ]
    parts = {
        "results": results,
        "errors": [number for number, one in enumerate(read.results) if one.is_error],
        "model": read.model,
        "opening": read.opening,
        "last_response": read.last_response,
        "last_thinking": read.last_thinking,
    }
    assert {name: part for name, part in parts.items() if part not in ("", -1, [], None)} == CASES[case][
        "reads"
    ]
