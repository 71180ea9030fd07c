"""What programs call their things: `ComponentFactoryResolver2`, `getpwnam_r_v2`, `ed25519.PrivateKey`.

Such a name may be as long, and have as many kinds of characters, as a password has. What tells them apart is
of which words it is made: those that programmers use, and numbers as versions and widths are.
"""

from __future__ import annotations

import re

from penumbra import rules
from penumbra.short_texts import remembered

_WORDS = frozenset(rules.load("secrets/words/values.yaml")["program_words"].split())
_OF_TYPES = frozenset(rules.load("secrets/words/values.yaml")["type_words"].split())
_ENCODING = re.compile(r"k?(?:base|utf|sha|md|aes|rsa|x|pkcs|ed)[0-9]{1,5}[A-Z]", re.IGNORECASE)
_OF_C = re.compile(r"[a-z]{2,16}(?:_[a-z]{2,16}){0,3}_[rst](?:_v[0-9])?$")
"""`size_t`, `getpwnam_r`: a type, or a function that may run several times at once."""
_FIGURE = re.compile(r"[0-9]")
_IDENTIFIER = re.compile(r"[&*$]{0,2}[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)*(?:\[\])?$")
_SCREAMED = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$")
_JOINT = re.compile(r"[_.:>-]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_FIGURES = re.compile(r"[0-9]{2,}$")
_WIDTHS = frozenset(("16", "32", "64", "128", "256", "512", "1024", "2048"))
"""What ends the name of a type, or of a size: a person ends a password with other figures."""
_LEAST_WORD = 4
_SHARE = 0.3
"""How many of the letters of a name are of words that programs use, at least."""
_LEAST_KNOWN = 0.5
"""The same of a word in one case that is long, or has figures within."""
_LEAST_MEAN = 3
"""Letters of a word, on average: random capitals and small letters make shorter ones."""
_VERSION = re.compile(r"v?[0-9]{1,2}$")
_LONGEST = 64
"""Characters of a name: tokens with words in front are as long, and longer."""
_PLAIN = re.compile(r"(?:[a-z]{1,12}|[A-Z]{1,14})[0-9]{0,4}$|[0-9]{1,4}$")
"""A word in one case as programs write it: short, its figures behind it."""
_LONGEST_PART = 12
_ALGORITHM = re.compile(r"(?:ed|x|secp|curve|p)[0-9]{2,5}[a-z]?[0-9]?$", re.IGNORECASE)
_OF_MACRO = re.compile(r"[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{1,40},[0-9]{1,6}U?L$")
_INDEXED = re.compile(r"[A-Za-z_]\w*,[0-9]{1,6}[uUlL]{0,3}$")
"""A member of a list that a macro begins: `OBJ_X509,35L`."""


@remembered(2_048)
def is_program_name(value: str) -> bool:
    """Whether it is an identifier with words of programs in it, or one with a part such as no word has.

    One word alone is none, it may be anything; but one of programs' own with a figure is: `oauth2`.
    """
    value = value.rstrip(";")
    if value[-1:] in ("!", "?"):
        if _FIGURE.search(value):
            return False  # Behind figures, such a sign is of a password.
        value = value.rstrip("!?")
    if len(value) > _LONGEST:
        return False
    if _INDEXED.match(value) and "_" in value:
        return True
    if not _IDENTIFIER.match(value) or _ends_as_chosen(value):
        return False
    parts = [part for part in _JOINT.split(value.strip("&*[]_$")) if part]
    if not all(map(_is_word, parts)):
        return False
    if _SCREAMED.match(value):
        return sum(part.isalpha() and len(part) > 2 for part in parts) > 1 and any(
            part.lower() in _WORDS for part in parts
        )
    humps = [hump.lower() for part in parts for hump in _HUMP.findall(part)]
    words = [hump for hump in humps if hump.isalpha()]
    if len(humps) < 2 or not words:
        return False
    if _is_versioned(parts):
        return True
    if len(words) < 2:
        return is_program_word(words[0]) and len(humps) == 2 and humps[1].isdigit() and len(humps[1]) == 1
    if sum(map(len, words)) < _LEAST_MEAN * len(words) or _has_random_figures(humps):
        return False
    known = sum(len(word) for word in words if len(word) >= _LEAST_WORD and is_program_word(word))
    return known >= _SHARE * sum(map(len, words))


def is_type_name(value: str) -> bool:
    """Whether it can be nothing but the name of a type or of a function, where a password may stand as well:
    long words of programs, the last of which types are called by, or what C ends its names with."""
    if _OF_C.match(value) or _OF_MACRO.match(value):
        return True
    humps = [hump.lower() for part in _JOINT.split(value) for hump in _HUMP.findall(part)]
    words = [hump for hump in humps if hump.isalpha()]
    if not words or words[-1] not in _OF_TYPES or not is_program_name(value):
        return False
    return len(words) > 2 or _ENCODING.match(value) is not None


def _is_word(part: str) -> bool:
    """Whether what stands between two joints can be of a name: no part of one is made by a machine."""
    if _PLAIN.match(part) or _ALGORITHM.match(part):
        return True
    humps = [hump.lower() for hump in _HUMP.findall(part)]
    known = sum(len(hump) for hump in humps if len(hump) >= _LEAST_WORD and is_program_word(hump))
    if part.lower() == part or part.upper() == part:
        # Figures within letters, or a long run of them: only of words that are known.
        return known >= _LEAST_KNOWN * len(part)
    return len(part) <= _LONGEST_PART or known >= _SHARE * len(part)


def _ends_as_chosen(value: str) -> bool:
    figures = _FIGURES.search(value)
    return figures is not None and figures[0] not in _WIDTHS


def _has_random_figures(humps: list[str]) -> bool:
    """Whether several numbers stand in it that are no widths: names have one."""
    return sum(hump.isdigit() and len(hump) > 1 and hump not in _WIDTHS for hump in humps) > 1


def _is_versioned(parts: list[str]) -> bool:
    """`getpwnam_r`, `size_t`, `create_user_v2`: words in small letters, a single letter or a version between
    joints behind them."""
    if len(parts) < 2 or not (parts[0].isalpha() and parts[0].islower() and len(parts[0]) > 2):
        return False
    short = [part for part in parts[1:] if len(part) == 1 or (part[0] == "v" and _VERSION.match(part))]
    rest = [part for part in parts[1:] if part not in short and not part.isdigit()]
    return any(part.isalnum() and not part.isdigit() for part in short) and all(map(str.islower, rest))


def is_program_word(word: str) -> bool:
    """Whether programs call things by it, alone or in the plural."""
    return word in _WORDS or (word[-1] == "s" and word[:-1] in _WORDS)
