"""A request of every API with secrets in texts and arguments outside of its tool results."""

import json
from typing import Any

from support.filled import filled, load
from support.planted import GITHUB, PASSWORD

SAYS = f"use {GITHUB} please"
HERE = "use @ please"
INPUT = {
    "env": {"DB_PASSWORD": PASSWORD},
    "command": f"curl -H 'Authorization: Bearer {GITHUB}' x",
    "n": 1.10,
}
INPUT_HERE = {"env": {"DB_PASSWORD": "@"}, "command": "curl -H 'Authorization: Bearer @' x", "n": 1.10}
TEXT_INPUT = json.dumps(INPUT, indent=1)
KEPT = GITHUB
"""A secret in places where it must stay: ids, names, schemas, reasoning, signatures and images."""


def bodies(says: str, arguments: Any, text: str) -> dict[str, Any]:
    """Return a request of every format, by the API's id."""
    holes = {"$SAYS": says, "$ARGUMENTS": arguments, "$TEXT": text, "$KEPT": KEPT}
    made: dict[str, Any] = filled(load(__file__), holes)
    return made


BODIES = bodies(SAYS, INPUT, TEXT_INPUT)
BODIES_HERE = bodies(HERE, INPUT_HERE, json.dumps(INPUT_HERE, indent=1))
