"""Puts values back where the model wrote placeholders into the arguments of a file edit.

Only the caller knows whether the tool edits files and which file; it passes the values of that
file (`Vault.for_path`) and nothing else. Streams come in fragments of any size: a tail that may be
the beginning of a placeholder is held back until the next fragment decides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from penumbra.redaction.placeholder import MAX_LENGTH, PATTERN

_HEAD = "[REDACTED:"


def json_escaped(value: str) -> str:
    """The value as it is written inside of a JSON string, without the quotes."""
    return json.dumps(value, ensure_ascii=False)[1:-1]


def restored(text: str, values: Mapping[str, str], *, in_json: bool) -> str:
    """The text with the placeholders that `values` knows replaced.

    `in_json`: the text is JSON, and placeholders stand inside of its strings.
    """
    if not values or _HEAD not in text:
        return text
    return PATTERN.sub(lambda match: _value(match[0], values, in_json), text)


def _value(mark: str, values: Mapping[str, str], in_json: bool) -> str:
    value = values.get(mark)
    if value is None:
        return mark
    return json_escaped(value) if in_json else value


class Restorer:
    """`restored` for a stream of fragments: their results, joined, are the result of the whole.

    `values` may still be empty when the stream begins, and be set as soon as the path is known;
    until then fragments that may be needed are held back only as far as a placeholder reaches.
    """

    def __init__(self, values: Mapping[str, str], *, in_json: bool = True) -> None:
        self.values = values
        self._in_json = in_json
        self._held = ""

    def feed(self, fragment: str) -> str:
        """What can be passed on after this fragment; may be empty."""
        text = self._held + fragment
        at = _tail(text)
        self._held = text[at:]
        return restored(text[:at], self.values, in_json=self._in_json)

    def finish(self) -> str:
        """What was held back, at the end of the stream."""
        text, self._held = self._held, ""
        return restored(text, self.values, in_json=self._in_json)


def _tail(text: str) -> int:
    """Where the tail begins that may become a placeholder; the text's length if there is none."""
    at = text.rfind("[", max(0, len(text) - MAX_LENGTH))
    if at < 0 or "]" in text[at:]:
        return len(text)
    tail = text[at:]
    shortest = min(len(tail), len(_HEAD))
    return at if tail[:shortest] == _HEAD[:shortest] else len(text)
