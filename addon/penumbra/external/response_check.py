"""What is done to somebody else's response before it may stand for a text.

It must not claim to be ours, nor lead a terminal or a reader astray: a response with markers or control
characters that the text did not have is refused. It must not lose what counts: critical lines that are
missing are put back at its end, letter by letter.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any

from penumbra.compress.critical_lines import is_critical, normal
from penumbra.external.external_provider import table
from penumbra.external.strategy import Failure
from penumbra.linear import LinearText

_LINE_LIMIT = 2_000
"""Characters; a longer line is data, not a message."""
_SEARCHES = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal obeys, and what turns the order of letters around."""
PUT_BACK = "[Lines of the original that must not be missing:]"


@cache
def _wholes() -> Any:
    return LinearText("|".join(f"(?:{entry['whole']})" for entry in table()["markers"]))


@cache
def _starts() -> Any:
    return LinearText("|".join(f"(?:{entry['start']})" for entry in table()["markers"]))


def check(response: str, text: str) -> None:
    """Raises Failure where a response has markers or control characters that the text does not have."""
    if not set(_CONTROL.findall(response)) <= set(text):
        raise Failure("control characters")
    if not _starts().search(response):
        return
    own = frozenset(match.group() for match in _wholes().finditer(text))
    at = 0
    for match in _wholes().finditer(response):
        if match.group() not in own or _starts().search(response[at : match.start()]):
            raise Failure("forged markers")
        at = match.end()
    if _starts().search(response[at:]):
        raise Failure("forged markers")


def with_critical(response: str, text: str) -> str:
    """The response, and behind it those critical lines of the text that it does not have."""
    in_response = Counter(map(normal, response.split("\n")))
    joined = normal(response)
    missing: list[str] = []
    searches = 0
    for line in text.split("\n"):
        key = normal(line)
        if in_response[key] > 0:
            in_response[key] -= 1
            continue
        if not key or len(line) > _LINE_LIMIT or not is_critical(line):
            continue
        searches += 1
        if searches > _SEARCHES or key not in joined:
            missing.append(line)
    return "\n".join([response.rstrip("\n"), PUT_BACK, *dict.fromkeys(missing)]) if missing else response
