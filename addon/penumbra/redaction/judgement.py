"""This module answers the questions of `rules/secrets/words/judgement.yaml`: whether a value is a secret, and
what it looks like.

The first rows of a question exclude references such as `$TOKEN`, placeholders, and code. Entropy decides
only doubtful cases, because UUIDs, hashes and lock files are as random as any key. Passwords that people
choose are not random. After the name of a password, a value is therefore a secret unless it looks like
something else.
"""

from __future__ import annotations

import ast
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from penumbra import rules
from penumbra.redaction import values
from penumbra.redaction.names import Strength, is_program_name, is_program_word, is_type_name
from penumbra.redaction.values import HUMPS, SHAPES, Style, has_shape, is_opaque, is_wordy
from penumbra.short_texts import remembered

_QUESTIONS = rules.load("secrets/words/judgement.yaml")
_SPEC = rules.load("secrets/words/values.yaml")
_RULES = frozenset(_SPEC["validation_rules"].split())
_COMMON = frozenset(_SPEC["common_passwords"].split())
_BASES = frozenset(_SPEC["password_bases"].split())
_FIELDS = tuple(_SPEC["field_words"].split())
"""Words for secrets in labels of fields, in other languages."""
_CALLED = frozenset(_SPEC["stop"].split()) | {"my", "the", "a"}
_ASKING = frozenset(_SPEC["asking_words"].split())
_JOINING = frozenset(_SPEC["joining_words"].split())
_UNLEET = str.maketrans("01345789@$!", "oieastbgasi")
_SPOILS = re.compile(r"[\d!@#$%^&*]")
_TAIL = re.compile(r"[\d!@#$%^&*+=?~._-]+$")
_CONSTRAINT = re.compile(r" ?([A-Za-z][A-Za-z_]{1,29}(?:v[46])?)(?:[:=,(\[]([^|\[\]()]{0,80})[)\]]?)? ?$")
"""A rule of a form's validation: `min:8`, `max_length[72]`, `between:20,40`."""
_BETWEEN_CONSTRAINTS = re.compile(r"[|;]|,(?=[A-Za-z])")
_TAKEN = re.compile(r"\d*|\w{1,4}|[^\W\d]+(?:[.-][^\W\d]+)*")
"""The arguments of such a rule: numbers, words of at most four characters, and longer names without
digits."""
_JOINTS = re.compile(r"[-_.]")
_APART = re.compile(r"[ '’‘-]")
_PART = re.compile(r"[^A-Za-z0-9@$!]+")
_LOOK = 256
"""Only this number of characters is read, at the beginning, because hostile texts have very long values."""


class _Case(NamedTuple):
    value: str
    strength: Strength
    style: Style


_Feature = Callable[[_Case], Any]
_FEATURES: dict[str, _Feature] = {}


def is_secret(value: str, strength: Strength, style: Style) -> bool:
    """Return whether a value is a secret after a name of this strength."""
    return judge("secret", value, strength, style)


@remembered(8_192)
def judge(question: str, value: str, strength: Strength = Strength.NONE, style: Style = Style.CODE) -> bool:
    """Return the answer to a question of `judgement.yaml` or a shape about a value."""
    answer: bool = _feature(question)(_Case(value[:_LOOK], strength, style))
    return answer


def _feature(name: str) -> _Feature:
    """Return the function that computes a feature. Raises KeyError if there is no such feature."""
    if name not in _FEATURES:
        _FEATURES[name] = _read(name)
    return _FEATURES[name]


def _read(name: str) -> _Feature:
    if name in Style.__members__:
        style = Style[name]
        return lambda case: case.style is style
    if name.isupper():
        strength = Strength[name]
        return lambda case: case.strength is strength
    if name in _QUESTIONS:
        return _question(_QUESTIONS[name]["rows"])
    of_value = SHAPES[name] if name in SHAPES else _OF_VALUES[name]
    return lambda case: of_value(case.value)


def _question(rows: Sequence[str]) -> _Feature:
    """Return the function that answers a question by the first row whose condition holds."""
    parts = (row.partition(" if ") for row in rows)
    read = [(answer == "yes", _condition(ast.parse(text, mode="eval").body)) for answer, _, text in parts]

    def answer(case: _Case) -> bool:
        for is_yes, holds in read:
            if holds(case):
                return is_yes
        return False

    return answer


_COMPARED: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
}


def _condition(node: ast.expr) -> _Feature:
    """Return the function that tests a condition. Raises ValueError for anything but features, figures and
    their joints."""
    match node:
        case ast.Name(name):
            return _feature(name)
        case ast.UnaryOp(ast.Not(), operand):
            part = _condition(operand)
            return lambda case: not part(case)
        case ast.BoolOp(joint, operands):
            return _joined([_condition(operand) for operand in operands], isinstance(joint, ast.Or))
        case ast.Compare(ast.Name(name), [sign], [ast.Constant(limit)]):
            figure, compare = _feature(name), _COMPARED[type(sign)]
            return lambda case: compare(figure(case), limit)
    raise ValueError(f"no condition: {ast.unparse(node)}")


def _joined(parts: Sequence[_Feature], deciding: bool) -> _Feature:
    """Return the function that tests joined conditions. A condition with the result `deciding` decides."""

    def test(case: _Case) -> bool:
        for part in parts:
            if bool(part(case)) is deciding:
                return deciding
        return not deciding

    return test


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


def _program_words(value: str) -> int:
    return sum(is_program_word(word.lower()) for word in HUMPS.findall(value))


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
    "program_words": _program_words,
    "program_share": _program_share,
    "joined_words": lambda value: sum(map(str.isalpha, _JOINTS.split(value))),
    "mean_word": lambda value: len(value) / len(HUMPS.findall(value)),
    "sign_share": lambda value: sum(not char.isalnum() for char in value) / len(value),
    # Tests.
    "lower": str.islower,
    "alnum": str.isalnum,
    "favourite": _is_favourite,
    "validation": _is_validation,
    "label": _is_label,
    "placeholder": values.is_placeholder,
    "program_name": is_program_name,
    "program_word": lambda value: is_program_word(value.lower().rstrip("0123456789") or value),
    "type_name": is_type_name,
    "written": values.is_written,
    "word_ending": values.ends_as_word,
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
