"""This module answers the questions of `rules/secrets/words/judgement.yaml`: whether a value is a secret, and
what it looks like.

The first rows of a question exclude references such as `$TOKEN`, placeholders, and code. Entropy decides
only doubtful cases, because UUIDs, hashes and lock files are as random as any key. Passwords that people
choose are not random. After the name of a password, a value is therefore a secret unless it looks like
something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import ahocorasick_rs

from penumbra import rules
from penumbra.redaction import values
from penumbra.redaction.names import PROGRAM_WORDS, Strength, is_program_word
from penumbra.redaction.values import HUMPS, SHAPES, Style, has_shape, is_opaque, is_wordy
from penumbra.short_texts import remembered

_QUESTIONS = rules.load("secrets/words/judgement.yaml")
_SPEC = rules.load("secrets/words/values.yaml")
_RULES = frozenset(_SPEC["validation_rules"].split())
_COMMON = frozenset(_SPEC["common_passwords"].split())
_BASES = frozenset(_SPEC["password_bases"].split())
_FIELDS = tuple(_SPEC["field_words"].split())
"""Words for secrets in labels of fields, in other languages."""
_STOP = frozenset(word.rstrip("?") for word in _SPEC["stop"].split())
_CALLED = frozenset(_SPEC["stop"].split()) | {"my", "the", "a"}
_FRAME = "*_`\"'()[]<>"
"""Characters that may surround a word, such as quotes and brackets."""
_PARTS = ahocorasick_rs.AhoCorasick(_SPEC["placeholder_parts"].split())
_ENDINGS = tuple(_SPEC["word_endings"].split())
_OF_TYPES = frozenset(_SPEC["type_words"].split())
_WIDTHS = frozenset(("16", "32", "64", "128", "256", "512", "1024", "2048"))
_PLAIN = re.compile(r"(?:[a-z]{1,12}|[A-Z]{1,14})[0-9]{0,4}$|[0-9]{1,4}$")
"""A short word that has only one case, and digits only at its end."""
_ALGORITHM = re.compile(r"(?:ed|x|secp|curve|p)[0-9]{2,5}[a-z]?[0-9]?$", re.IGNORECASE)
_VERSION = re.compile(r"v?[0-9]{1,2}$")
_ASKING = frozenset(_SPEC["asking_words"].split())
_JOINING = frozenset(_SPEC["joining_words"].split())
_UNLEET = str.maketrans("01345789@$!", "oieastbgasi")
_SPOILS = re.compile(r"[\d!@#$%^&*]")
_TAIL = re.compile(r"[\d!@#$%^&*+=?~._-]+$")
_CONSTRAINT = re.compile(r" ?([A-Za-z][A-Za-z_]{1,29}(?:v[46])?)(?:[:=,(\[]([^|\[\]()]{0,80})[)\]]?)? ?$")
"""A rule of a form's validation: `min:8`, `max_length[72]`, `between:20,40`."""
_BETWEEN_CONSTRAINTS = re.compile(r"[|;]|,(?=[A-Za-z])")
_TAKEN = re.compile(r"\d*|\w{1,4}|[^\W\d]+(?:[.-][^\W\d]+)*")
"""The arguments of a rule of validation: numbers, words of at most four characters, and longer names without
digits."""
_JOINTS = re.compile(r"[-_.]")
_APART = re.compile(r"[ '’‘-]")
_PART = re.compile(r"[^A-Za-z0-9@$!]+")
_LOOK = 256
"""The number of characters read at the beginning of a value, because hostile texts have very long values."""
_WHOLE = ("given", "lone", "lone_word", "placeholder")
"""The questions that are answered for whole values, because a long secret may begin harmlessly."""
_SIGNS = re.compile(r"(?:\d\.\d|[\w() ]|[<>=]=?)+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*")
_Answer = Callable[..., Any]


def is_secret(value: str, strength: Strength, style: Style) -> bool:
    """Return whether a value is a secret after a name of this strength."""
    return judge("secret", value, strength, style)


@remembered(16_384)
def judge(question: str, value: str, strength: Strength = Strength.NONE, style: Style = Style.CODE) -> bool:
    """Return the answer to a question of `judgement.yaml` about a value."""
    look = None if question in _WHOLE else _LOOK
    answer: bool = _answers()[question](value[:look], strength, style)
    return answer


@cache
def _answers() -> Mapping[str, _Answer]:
    """Return the functions that answer the questions. Raises ValueError for a wrong condition."""
    known: dict[str, Any] = {**Style.__members__, **Strength.__members__, **SHAPES, **_OF_VALUES}
    known["__builtins__"] = {}
    for question, asked in _QUESTIONS.items():
        rows = " else ".join(map(row_expression, asked["rows"]))
        known[question] = eval(f"lambda value, strength, style: {rows} else False", known)
    return known


def row_expression(row: str) -> str:
    """Return a row as the beginning of a conditional expression of Python."""
    answer, _, condition = row.partition(" if ")
    # The condition has no sign with which it could do more than compare features.
    if not _SIGNS.fullmatch(condition):
        raise ValueError(f"no condition: {condition}")
    return f"{answer == 'yes'} if ({_NAME.sub(_feature, condition)})"


def _feature(name: re.Match[str]) -> str:
    """Return the expression that computes a feature."""
    feature = name[0]
    if feature in ("and", "or", "not"):
        return feature
    if feature.isupper():
        return f"({'style' if feature in Style.__members__ else 'strength'} is {feature})"
    if feature in _QUESTIONS:
        return f"{feature}(value, strength, style)"
    if feature not in SHAPES and feature not in _OF_VALUES:
        raise ValueError(f"no feature: {feature}")
    return f"{feature}(value)"


def _is_favourite(value: str) -> bool:
    """Return whether a value is a well-known password: `letmein`, `changeme123`, `P@ssw0rd`. A value like
    `password` itself is a placeholder, not a password."""
    low = value.lower()
    if low in _COMMON:
        return True
    plain = low.translate(_UNLEET)
    if plain in _COMMON or (plain in _BASES and low not in _BASES and not low.isalpha()):
        return True
    if has_shape(low, "deployed"):
        return True
    base = _TAIL.sub("", low)
    tail = low[len(base) :]
    if not _SPOILS.search(tail) or not tail.strip("*:"):
        return False  # `Password*` is a field that must be filled in.
    return base in _BASES or base.translate(_UNLEET) in _BASES


def _is_validation(value: str) -> bool:
    """Return whether a value is a list of rules for a form: `required|string|min:8`, `min=8,max=72`."""
    parts = [_CONSTRAINT.match(part) for part in _BETWEEN_CONSTRAINTS.split(value)]
    rules_ = [(part[1].lower(), part[2] or "") for part in parts if part is not None]
    taken = [piece for _, what in rules_ for piece in what.split(",")]
    if len(rules_) < len(parts) or not all(map(_TAKEN.fullmatch, taken)):
        return False
    known = sum(name in _RULES for name, _ in rules_)
    if len(rules_) == 1:
        return known == 1 and all(map(str.isdigit, taken))
    return len(rules_) <= (2 * known if "|" in value else known)


def _is_label(value: str) -> bool:
    """Return whether a value is the label of a field for secrets. A label has no digits or signs, and one of
    its words means a secret in some language."""
    plain = unicodedata.normalize("NFC", value).lower().strip(" *:.…?!")
    words = _APART.split(plain)
    return all(map(str.isalpha, words)) and any(
        word.startswith(_FIELDS) or word.endswith(_FIELDS) for word in words
    )


def _has_changed_stem(value: str) -> bool:
    """Return whether changed letters hide a word about secrets: `s3cretWord`."""
    low, plain = value.lower(), value.lower().translate(_UNLEET)
    return any(stem in plain and stem not in low for stem in _STEMS)


def _is_called_secret(value: str) -> bool:
    """Return whether a value is joined words about secrets. Letters may be changed: `s3cr3t-token`."""
    words = _JOINTS.split(value.lower().translate(_UNLEET))
    return len(words) > 1 and all(word in _CALLED for word in words)


def _parts(value: str) -> list[str]:
    """Return the texts between the joints of a name."""
    return [part for part in re.split(r"[\W_]+", value) if part]


@remembered(1_024)
def _words(value: str) -> list[str]:
    return [hump.lower() for hump in HUMPS.findall(value) if not hump.isdigit()]


def _known(value: str) -> int:
    """Return the number of letters that belong to words of programs of at least four letters."""
    return sum(len(word) for word in _words(value) if len(word) > 3 and is_program_word(word))


def _is_odd_part(part: str) -> bool:
    """Return whether a text between two joints is no part of a name, but machine-made. A long part, or a part
    with digits, belongs to a name only if it has known words."""
    if _PLAIN.match(part) or _ALGORITHM.match(part):
        return False
    if part.lower() == part or part.upper() == part:
        return _known(part) < 0.5 * len(part)
    return len(part) > 12 and _known(part) < 0.3 * len(part)


def _is_versioned(value: str) -> bool:
    """Return whether a name has words in small letters, followed by a single letter or a version:
    `getpwnam_r`, `size_t`, `create_user_v2`."""
    first, *others = _parts(value)
    if not (first.isalpha() and first.islower() and len(first) > 2):
        return False
    short = [part for part in others if len(part) == 1 or (part[0] == "v" and _VERSION.match(part))]
    rest = [part for part in others if part not in short and not part.isdigit()]
    return not all(map(str.isdigit, short)) and all(map(str.islower, rest))


def _plain_words(value: str) -> list[str]:
    """Return the words of a phrase in small letters, without signs at their ends."""
    return [word.strip(".,:;!?()'$#") for word in value.lower().split(" ")]


def _program_share(value: str) -> float:
    words = _plain_words(value)
    return sum(map(is_program_word, words)) / len(words)


_STEMS = rules.load("secrets/words/shapes.yaml")["stem"]["like"]
_OF_VALUES: Mapping[str, Callable[[str], Any]] = {
    # Figures.
    "length": len,
    "digits": lambda value: sum(map(str.isdigit, value)),
    "kinds": values.kinds,
    "entropy": values.entropy,
    "distinct": lambda value: len(set(value.lower())),
    "humps": lambda value: len(HUMPS.findall(value)),
    "words": lambda value: len(_words(value)),
    "mean_word": lambda value: sum(map(len, _words(value))) / len(_words(value)),
    "numbers": lambda value: sum(
        hump.isdigit() and len(hump) > 1 and hump not in _WIDTHS for hump in HUMPS.findall(value)
    ),
    "long_parts": lambda value: sum(part.isalpha() and len(part) > 2 for part in _parts(value)),
    "known_share": lambda value: _known(value) / sum(map(len, _words(value))),
    "program_words": lambda value: sum(map(is_program_word, _words(value))),
    "program_share": _program_share,
    "joined_words": lambda value: sum(map(str.isalpha, _JOINTS.split(value))),
    "sign_share": lambda value: sum(not char.isalnum() for char in value) / len(value),
    # Tests.
    "lower": str.islower,
    "alnum": str.isalnum,
    "favourite": _is_favourite,
    "validation": _is_validation,
    "label": _is_label,
    "stop_word": lambda value: value.lower() in _STOP or value.lower().strip(_FRAME) in _STOP,
    "placeholder_part": lambda value: bool(_PARTS.find_matches_as_indexes(value.lower())),
    "odd_part": lambda value: any(map(_is_odd_part, _parts(value))),
    "known_part": lambda value: any(part.lower() in PROGRAM_WORDS for part in _parts(value)),
    "versioned": _is_versioned,
    "program_word": lambda value: is_program_word(value.lower().rstrip("0123456789") or value),
    "type_word": lambda value: _words(value)[-1:] != [] and _words(value)[-1] in _OF_TYPES,
    "written": values.is_written,
    "word_ending": lambda value: value.lower().endswith(_ENDINGS),
    "wordy": is_wordy,
    "opaque": is_opaque,
    "opaque_after_sign": lambda value: is_opaque(value[1:]),
    "slug": values.is_slug,
    "called_secret": _is_called_secret,
    "changed_stem": _has_changed_stem,
    "argument_word": lambda value: is_wordy(value.partition("=")[0]),
    "numbered_part": lambda value: any(has_shape(part, "numbered") for part in _JOINTS.split(value)),
    "strange_part": lambda value: any(len(part) > 6 and not is_wordy(part) for part in value.split(".")),
    "common_part": lambda value: any(
        part.translate(_UNLEET) in _COMMON for part in _PART.split(value.lower())
    ),
    "asking": lambda value: any(not word or word in _ASKING for word in _plain_words(value)),
    "joining": lambda value: any(word in _JOINING for word in _plain_words(value)),
}
