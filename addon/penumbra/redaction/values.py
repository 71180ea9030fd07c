"""This module classifies values by their characters: reference, placeholder, address, word or random."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache

from penumbra import rules
from penumbra.short_texts import remembered


class Style(Enum):
    """A `Style` is the way in which a value is written."""

    QUOTED = "quoted"
    """The value is between quotes, or between tags."""
    ENV = "env"
    """The value has no quotes and follows `NAME=` without a space."""
    CONFIG = "config"
    """The value follows `name:` or `name =` and extends to the end of the line."""
    CODE = "code"
    """The value has no quotes, and other text follows on its line. The value is probably an expression."""
    PROSE = "prose"
    """The value is part of a sentence, such as `the password is value`."""
    APART = "apart"
    """The value is the cell, the argument or the word after its name."""
    SPACED = "spaced"
    """The value is between quotes, and a space separates it from its name."""
    ARGUMENT = "argument"
    """The value is in quotes and follows its quoted name as the next argument."""
    LISTED = "listed"
    """The value is between quotes, after its name in a list with further items."""


_Test = Callable[[str], object]


def _shape(like: list[str], *, anywhere: bool = False, lower: bool = False, **_: object) -> _Test:
    """Return the function that finds a shape in a value."""
    pattern = re.compile("|".join(like))
    find = pattern.search if anywhere else pattern.match
    return (lambda value: find(value.lower())) if lower else find


SHAPES: Mapping[str, _Test] = {
    name: _shape(**shape) for name, shape in rules.load("secrets/words/shapes.yaml").items()
}
"""The tests for the shapes of `rules/secrets/words/shapes.yaml`."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}$")
HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}", re.IGNORECASE)
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
"""This pattern matches two letters of a script without spaces between words, such as Thai or Chinese."""
_DIGIT = re.compile(r"\d")
_JOINT = re.compile(r"[-./:]")
_SHORT = 256


def has_shape(value: str, shape: str) -> bool:
    """Return whether a value has a shape of `rules/secrets/words/shapes.yaml`."""
    return SHAPES[shape](value) is not None


def has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def kinds(value: str) -> int:
    """Return the number of kinds of characters in a value: digits, capitals and small letters."""
    return has_digit(value) + (value.lower() != value) + (value.upper() != value)


@remembered(2_048)
def entropy(value: str) -> float:
    """Return the Shannon entropy of a value in bits per character."""
    total = len(value)
    if total > _SHORT:
        return -sum([count / total * math.log2(count / total) for count in Counter(value).values()])
    # For a short text, `str.count` is faster than a `Counter`.
    bits = _bits_by_count(total)
    return -sum([bits[value.count(char)] for char in dict.fromkeys(value)])


@lru_cache(maxsize=_SHORT + 1)
def _bits_by_count(total: int) -> tuple[float, ...]:
    """Return p * log2(p) for each number of times that a character can occur in a value of this length."""
    return (0.0, *(count / total * math.log2(count / total) for count in range(1, total + 1)))


def is_plain_url(value: str) -> bool:
    """Return whether a value is a URL without a user, a query or a part that could be a token."""
    scheme, sign, rest = value.partition("://")
    if not sign or not _SCHEME.match(scheme) or "@" in rest or "?" in rest:
        return False
    return not any(is_opaque(part, 16) and has_digit(part) for part in rest.split("/"))


@remembered(2_048)
def is_wordy(value: str) -> bool:
    """Return whether a value has few digits and pronounceable words, in camel case or with separators."""
    humps = HUMPS.findall(value)
    words = [hump for hump in humps if not hump.isdigit()]
    if not words:
        return False
    digits = sum(len(hump) for hump in humps if hump.isdigit())
    if digits > 4 or len(humps) - len(words) > 2:
        return False
    if len(value) >= 16 and value.isalnum() and 3 * sum(len(word) < 3 for word in words) > len(words):
        return False
    if sum(map(len, words)) / len(words) < 2.8 or any(_CONSONANTS.search(word) for word in words):
        return False
    vowels = sum(value.lower().count(vowel) for vowel in "aeiouy")
    return vowels >= 0.2 * sum(map(len, words))


def is_opaque(value: str, least: int = 8) -> bool:
    """Return whether a value looks random and has at least `least` characters."""
    if len(value) < least or is_wordy(value):
        return False
    if has_shape(value, "hex"):
        return len(value) >= max(least, 16) and len(set(value.lower())) >= 6
    if kinds(value) < 2:
        return len(value) >= 20 and entropy(value) >= 3.2
    return entropy(value) >= 2.5


def is_written(value: str) -> bool:
    """Return whether most letters of a value are outside of ASCII, as in the label of a field. A value with
    digits must be in a script without spaces."""
    if value.isascii():
        return False
    letters = [char for char in value if char.isalpha()]
    foreign = sum(not char.isascii() for char in letters)
    if 2 * foreign <= len(letters):
        return False
    # In a script without spaces, one value can be a whole sentence with digits.
    return not has_digit(value) or _UNSPACED.search(value) is not None


def is_slug(value: str) -> bool:
    """Return whether a value has at least two words, separated by `-`, `.`, `/` or `:`, as in
    `cache-linux-x64-2951-cc2b503e`."""
    words = [part for part in _JOINT.split(value) if len(part) > 2 and part.isalpha() and is_wordy(part)]
    return len(words) >= 2
