"""What the call that produced a text says about the secrets in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from penumbra import rules
from penumbra.linear import Linear, utf8
from penumbra.redaction.finders.places import file_in
from penumbra.redaction.finders.printed import Printed, printed
from penumbra.short_texts import LONGEST, remembered


@dataclass(frozen=True, slots=True)
class Hint:
    """How to read a text."""

    loud: bool = False
    """It is where secrets are kept: weak names count as strong ones, lone random lines go."""
    quiet: bool = False
    """It is full of hashes: only strong names and known forms count."""
    printed: Printed | None = None
    """A command printed it that prints a secret and nothing that says so."""
    users: bytes = b""
    """The name of a file of users and passwords, one pair a line."""


class _Plain(dict[int, str]):
    """For each character one of ASCII that is of the same kind (blank, digit, part of a word, none of these)
    and that a pattern finds where it finds the character. Four are letters to what disregards case."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if char.isascii() and not char.isspace():
            kind = char
        else:
            kind = "\f" if char.isspace() else "0" if char.isdecimal() else "_" if char.isalnum() else "\x7f"
        if len(self) < _MOST:
            self[code] = kind
        return kind


_PLAIN = _Plain(
    {ord(char): char for char in " \t\n\r"} | dict(zip(map(ord, "ſ\u212aıİ"), "skii", strict=True))
)
_ALIKE = re.compile(r"[\t\n\f\r -~]*[ -~]")
"""Texts in which RE2 finds what `re` finds: it differs in other letters and blanks than those of ASCII, and
where a line ends at the end."""


class _Words:
    """Some of the patterns of `hints.yaml`."""

    def __init__(self, patterns: list[str]) -> None:
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)
        self._linear = Linear(utf8(f"(?i){self._pattern.pattern}"))
        # What a class leaves out may be what another character is taken for.
        self._can_say_no = "[^" not in self._pattern.pattern

    def stand_in(self, text: str) -> bool:
        """Whether one of them matches in a text. RE2 says in a hundredth of the time that none does."""
        if _ALIKE.fullmatch(text):
            return self._linear.search(utf8(text)) is not None
        if self._can_say_no:
            plain = utf8(text.translate(_PLAIN))
            if not (self._linear.search(plain) or self._linear.search(plain.removesuffix(b"\n"))):
                return False
        return self._pattern.search(text) is not None


_SPEC = rules.load("secrets/words/hints.yaml")
_LOUD, _QUIET = _Words(_SPEC["loud"]), _Words(_SPEC["quiet"])
_LONGEST = 4096
_MOST = 1_024
_long: dict[bytes, Hint] = {}
"""Hints of long command lines, by their hashes: each is asked for several times, none is to stay."""


def read_hint(text: str) -> Hint:
    """The hint in a path or command line, of which the first 4,096 characters count."""
    text = text[:_LONGEST]
    if len(text) <= LONGEST:
        return _remembered(text)
    key = blake2b(utf8(text), digest_size=16).digest()
    hint = _long.get(key)
    if hint is None:
        if len(_long) >= _MOST:
            _long.clear()
        hint = _long[key] = _read(text)
    return hint


def _read(text: str) -> Hint:
    """Return the hint in a text; none where it can't be read: what it is a hint for must be searched."""
    try:
        loud = _LOUD.stand_in(text)
        secret = printed(text) if text else None
        return Hint(loud, not loud and secret is None and _QUIET.stand_in(text), secret, file_in(text))
    except Exception:
        return Hint()


_remembered = remembered(_MOST)(_read)
