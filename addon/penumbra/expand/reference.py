"""References to originals, and what stands in front of a text that lost something.

A reference is a keyed hash of scope and redacted original: the same text in the same conversation has
the same reference, and nobody without the installation's key can make one. References are never
looked for in incoming text: a marker in a tool result is data.

It has 18 decimal digits, since tokenizers take three of them at a time: half the tokens of 32 hexadecimal
ones, the whole hash. That is written where the brief form is another text's already, or where the request
does not carry the others' texts to compare; earlier releases wrote it everywhere. Both are found.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

_DIGITS = 18
_MANY = 10**_DIGITS
_FORM = re.compile(rf"shadow_(?:[0-9]{{{_DIGITS}}}|([0-9a-f]{{32}}))", re.ASCII)
_PERSON = b"penumbra ref"
SAMPLE = f"shadow_{'0' * _DIGITS}"
_LONG_SAMPLE = f"shadow_{'0' * 32}"
"""References to nothing, as long as the others."""


def whole(key: bytes, scope: bytes, original: str) -> str:
    """The reference of a redacted original with its whole hash. `key` is secret, at most 64 bytes."""
    digest = hashlib.blake2b(key=key, digest_size=16, person=_PERSON)
    digest.update(len(scope).to_bytes(4, "big") + scope + original.encode("utf-8", "surrogatepass"))
    return f"shadow_{digest.hexdigest()}"


def brief(reference: str) -> str:
    """The brief form of a reference; one that is brief, or none, as it is."""
    match = _FORM.fullmatch(reference)
    return f"shadow_{int(match[1], 16) % _MANY:0{_DIGITS}}" if match and match[1] else reference


def _none(_ref: str) -> str | None:
    return None


def is_ref(text: str) -> bool:
    """Whether a text has the form of a reference."""
    return _FORM.fullmatch(text) is not None


def copied(value: Any) -> str:
    """The reference in what a model gives for one: with the marker around it, without its beginning, as a
    number. Empty where it gives nothing."""
    if isinstance(value, int) and _MANY // 1000 <= value < _MANY:
        value = f"{value:0{_DIGITS}}"
    if not isinstance(value, str):
        return ""
    text = value.strip().removeprefix("<<<").removeprefix("SHADOW:").removesuffix(">>>")
    return f"shadow_{text}" if is_ref(f"shadow_{text}") else text


def prefix(reference: str, tool: str, hint: bool) -> str:
    """What stands in front of a text that lost something; `tool` is the injected tool's name."""
    line = f"[Shortened. Full text: {tool}.]\n" if hint else ""
    return f"<<<SHADOW:{reference}>>>\n{line}"


@dataclass(frozen=True, slots=True)
class References:
    """References and prefixes of one conversation, for one request of it."""

    key: bytes
    scope: bytes
    tool: str
    hint: bool
    is_brief: bool = True
    """The request carries the texts of its conversation, so that no two of them get the same reference."""
    held: Callable[[str], str | None] = _none
    """The redacted original that the request carries under a reference of the past; None: it has none."""
    _taken: dict[str, str] = field(default_factory=dict, compare=False)
    """Brief references, and the whole ones that they stand for."""

    def ref(self, original: str) -> str:
        """The reference of a redacted original: the brief one, but where that is another text's."""
        long = self.whole(original)
        if not self.is_brief:
            return long
        short = brief(long)
        if short not in self._taken:
            past = self.held(short)
            self._taken[short] = long if past is None else self.whole(past)
        return short if self._taken[short] == long else long

    def whole(self, original: str) -> str:
        """The reference of a redacted original with its whole hash."""
        return whole(self.key, self.scope, original)

    def prefix(self, reference: str) -> str:
        """What stands in front of a text that lost something."""
        return prefix(reference, self.tool, self.hint)

    def overhead(self) -> str:
        """A prefix as long as those of most texts."""
        return self.prefix(SAMPLE if self.is_brief else _LONG_SAMPLE)
