"""The parts of requests to every API, from test_parts.yaml: results, their calls, and the model's last message."""

import json
from typing import Any

from penumbra.apis.formats import REQUESTS
from penumbra.apis.parts import argument_strings
from penumbra.wire.document import Document
from support.filled import load

CASES: dict[str, Any] = load(__file__)


def parts(name: str, body: Any) -> dict[str, Any]:
    """Return the parts of a request that are not empty."""
    document = Document(json.dumps(body).encode())
    read = REQUESTS[name].read(document)
    found = {
        "results": [
            [document.string(one.value), one.call_id, one.call.name if one.call else None, one.turn]
            for one in read.results
        ],
        "errors": [number for number, one in enumerate(read.results) if one.is_error],
        "model": read.model,
        "opening": read.opening,
        "last_response": read.last_response,
        "last_thinking": read.last_thinking,
    }
    return {part: value for part, value in found.items() if value not in ("", -1, [], None)}


def test_the_parts_of_requests_are_read() -> None:
    found = {name: parts(case["api"], case["body"]) for name, case in CASES.items()}
    assert found == {name: case["reads"] for name, case in CASES.items()}


def test_strings_of_arguments_are_in_order_at_any_depth() -> None:
    deep: Any = "d"
    for _ in range(5_000):
        deep = [deep]
    assert [*argument_strings({"a": ["b", {"x": "c"}, deep], "n": 1, "e": "e"})] == ["b", "c", "d", "e"]
