"""What is done to somebody else's answer before it may stand for a text.

It must not claim to be ours: markers that the text did not have are taken out. It must not lose what
counts: critical lines that are missing are put back at its end, letter by letter.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import re2

from penumbra.compress.critical_lines import is_critical, normal
from penumbra.external.external_provider import table
from penumbra.external.strategy import Failure

_PASSES = 8
_LINE_LIMIT = 2_000
"""Characters; a longer line is data, not a message."""
_SEARCHES = 200
PUT_BACK = "[Lines of the original that must not be missing:]"


@cache
def _wholes() -> Any:
    return re2.compile("|".join(f"(?:{entry['whole']})" for entry in table()["markers"]))


@cache
def _starts() -> Any:
    return re2.compile("|".join(f"(?:{entry['start']})" for entry in table()["markers"]))


def without_forged(answer: str, text: str) -> str:
    """The answer without markers that the text does not have. Raises Failure if it won't end."""
    own: frozenset[str] | None = None
    for _ in range(_PASSES):
        if not _starts().search(answer):
            return answer
        if own is None:
            own = frozenset(found.group() for found in _wholes().finditer(text))
        cleaned = _without(answer, own)
        if cleaned == answer:
            return answer
        answer = cleaned
    raise Failure("forged markers")


def _without(answer: str, own: frozenset[str]) -> str:
    pieces: list[str] = []
    position = 0
    for found in _wholes().finditer(answer):
        pieces.append(_starts().sub("", answer[position : found.start()]))
        if found.group() in own:
            pieces.append(found.group())
        position = found.end()
    pieces.append(_starts().sub("", answer[position:]))
    return "".join(pieces)


def with_critical(answer: str, text: str) -> str:
    """The answer, and behind it those critical lines of the text that it does not have."""
    kept = Counter(map(normal, answer.split("\n")))
    joined = normal(answer)
    missing: list[str] = []
    searches = 0
    for line in text.split("\n"):
        key = normal(line)
        if kept[key] > 0:
            kept[key] -= 1
            continue
        if not key or len(line) > _LINE_LIMIT or not is_critical(line):
            continue
        searches += 1
        if searches > _SEARCHES or key not in joined:
            missing.append(line)
    return "\n".join([answer.rstrip("\n"), PUT_BACK, *dict.fromkeys(missing)]) if missing else answer
