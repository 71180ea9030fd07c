"""What the call that produced a text says about the secrets in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from penumbra import rules
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


_SPEC = rules.load("secrets/words/hints.yaml")
_LOUD = re.compile("|".join(_SPEC["loud"]), re.IGNORECASE)
_QUIET = re.compile("|".join(_SPEC["quiet"]), re.IGNORECASE)
_LONGEST = 4096
_MOST = 1_024
_long: dict[bytes, Hint] = {}
"""Hints of long command lines, by their hashes: each is asked for several times, none is to stay."""


def read_hint(text: str) -> Hint:
    """The hint in a path or command line, of which the first 4,096 characters count."""
    text = text[:_LONGEST]
    if len(text) <= LONGEST:
        return _remembered(text)
    key = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    hint = _long.get(key)
    if hint is None:
        if len(_long) >= _MOST:
            _long.clear()
        hint = _long[key] = _read(text)
    return hint


def _read(text: str) -> Hint:
    loud = bool(_LOUD.search(text))
    secret = printed(text) if text else None
    return Hint(loud, not loud and secret is None and bool(_QUIET.search(text)), secret)


_remembered = remembered(_MOST)(_read)
