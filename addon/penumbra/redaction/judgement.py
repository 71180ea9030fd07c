"""This module judges whether a value is a secret. The name of the value already suggests a secret.

The first tests exclude references such as `$TOKEN`, placeholders, and code. Entropy decides only doubtful
cases, because UUIDs, hashes and lock files are as random as any key. Passwords that people choose are not
random. After the name of a password, a value is therefore a secret unless it looks like something else.
"""

from __future__ import annotations

import re
import unicodedata

from penumbra import rules
from penumbra.linear import Linear
from penumbra.redaction.names import Strength, is_program_name, is_program_word, is_type_name
from penumbra.redaction.values import (
    Style,
    ends_as_word,
    entropy,
    has_digit,
    has_letter,
    has_shape,
    is_address,
    is_code,
    is_opaque,
    is_placeholder,
    is_reference,
    is_slug,
    is_wordy,
    is_written,
    kinds,
)
from penumbra.short_texts import remembered

_SPEC = rules.load("secrets/words/values.yaml")
_RULES = frozenset(_SPEC["validation_rules"].split())
_COMMON = frozenset(_SPEC["common_passwords"].split())
_VERDICTS = re.compile("|".join(_SPEC["verdicts"].split()))
_STEMS = tuple(_SPEC["stems"].split())
_BASES = frozenset(_SPEC["password_bases"].split())
_FIELDS = tuple(_SPEC["field_words"].split())
"""Words for secrets in labels of fields, in other languages."""
_UNLEET = str.maketrans("01345789@$!", "oieastbgasi")
_SIGNS = re.compile(r"[!@#$%^&*+?~]")
_SPOILS = re.compile(r"[\d!@#$%^&*]")
_TAIL = re.compile(r"[\d!@#$%^&*+=?~._-]+$")
_COMPOUND = Linear(rb"[a-z]{1,14}\d{0,4}(?:[-_./:][a-z]{0,14}\d{0,4}[a-z]{0,5}\d{0,2}){2,}$")
_HYPHENED = Linear(rb"[A-Za-z]+\d{0,4}(?:-[A-Za-z]+\d{0,4}|-\d{1,4})+$")
"""Words with hyphens between them."""
_FIGURES = re.compile(r"\d{2}$")
"""Digits at the end of a password."""
_CONSTRAINT = re.compile(r" ?([A-Za-z][A-Za-z_]{1,29}(?:v[46])?)(?:[:=,(\[]([^|\[\]()]{0,80})[)\]]?)? ?$")
"""A rule of a form's validation: `min:8`, `max_length[72]`, `between:20,40`."""
_BETWEEN_CONSTRAINTS = re.compile(r"[|;]|,(?=[A-Za-z])")
_TAKEN = re.compile(r"\d*|\w{1,4}|[^\W\d]+(?:[.-][^\W\d]+)*")
"""The arguments of such a rule: numbers, words of at most four characters, and longer names without
digits."""
_JOINTS = re.compile(r"[-_.]")
_CALLED = frozenset(_SPEC["stop"].split()) | {"my", "the", "a"}
_APART = re.compile(r"[ '’‘-]")
_PART = re.compile(r"[^A-Za-z0-9@$!]+")
_RANDOM = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_ASKING = frozenset(_SPEC["asking_words"].split())
_JOINING = frozenset(_SPEC["joining_words"].split())
_FRAMING = "-<>[{($%#/*="
"""The first characters of a condition, a template or an option."""
_LOOK = 256
_OF_CODE = (Style.CODE, Style.APART, Style.SPACED)
"""Values in these styles may be expressions of code."""


@remembered(4_096)
def is_unmistakable(value: str, strength: Strength) -> bool:
    """Return whether a value is a secret in any surroundings."""
    value = value[:_LOOK]
    if is_opaque(value, 16):
        return has_digit(value)
    if strength is not Strength.PASSWORD or len(value) < 8 or is_wordy(value):
        return False
    return kinds(value) == 3


@remembered(4_096)
def is_secret(value: str, strength: Strength, style: Style) -> bool:
    """Return whether a value is a secret after a name of this strength."""
    # Only the beginning is read, because hostile texts have very long values.
    value = value[:_LOOK]
    if len(value) < 4:
        return False
    if strength is Strength.PASSWORD and style not in (Style.CODE, Style.APART) and is_favourite(value):
        return True
    if _is_validation(value) or _is_label(value):
        return False
    if is_placeholder(value) or is_reference(value, quoted=style in (Style.QUOTED, Style.ARGUMENT)):
        return False
    if style in _OF_CODE and is_code(value):
        return False
    if " " in value or "\t" in value:
        return strength is Strength.PASSWORD and style is Style.QUOTED and _is_mixed_phrase(value)
    if is_address(value) or (not _is_password_slot(strength, style) and has_shape(value, "standard")):
        return False
    if _is_called_so(value, strength, style):
        return False
    if style is Style.ARGUMENT:
        style = Style.QUOTED
    if style is Style.LISTED:
        if not has_digit(value) and not (_is_hyphened(value) and value.count("-") > 1):
            return False
        if is_program_word(value.lower().rstrip("0123456789") or value):
            return False  # `["password", "buffer2", "key"]`
        style = Style.QUOTED
    if style is Style.SPACED:
        # `the token "transparent"` means a word.
        if strength is not Strength.PASSWORD and not has_digit(value):
            return False
        style = Style.QUOTED
    if has_shape(value, "sealed") or (not value.isascii() and is_written(value)):
        return False
    if style is not Style.QUOTED and has_shape(value, "machine_type"):
        return False
    if strength is Strength.PASSWORD:
        return _is_password(value, style)
    if ends_as_word(value) and (is_wordy(value) or (has_shape(value, "identifier") and "." in value)):
        return False  # `ed25519.Ed25519PrivateKey`, `GooglePrivacyV2CryptoKey`
    if strength is Strength.STRONG:
        return _is_machine_made(value, style)
    if _is_compound(value) and not has_shape(value, "uuid"):
        return False
    if strength is Strength.HINT:
        return style in (Style.QUOTED, Style.ENV) and _is_nothing_else(value)
    return style not in (Style.CODE, Style.APART, Style.PROSE) and _is_certain(value)


def _is_password_slot(strength: Strength, style: Style) -> bool:
    """Return whether a value of this style, after a name of this strength, is a password."""
    return strength is Strength.PASSWORD and style in (Style.QUOTED, Style.ENV, Style.CONFIG)


def _is_called_so(value: str, strength: Strength, style: Style) -> bool:
    """Return whether a value is a name in a program. In quotes, or after `=`, a secret may look like a
    name."""
    if style in (Style.QUOTED, Style.ARGUMENT):
        return False
    if _is_password_slot(strength, style) or (strength is Strength.PASSWORD and style is Style.PROSE):
        return is_type_name(value)
    return style is not Style.ENV and is_program_name(value)


def is_favourite(value: str) -> bool:
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


def _is_compound(value: str) -> bool:
    # Most values have characters other than small letters.
    if not value.islower() or not value.isascii():
        return False
    return _COMPOUND.match(value.encode()) is not None


def _is_hyphened(value: str) -> bool:
    return "-" in value and value.isascii() and _HYPHENED.match(value.encode()) is not None


def _is_password(value: str, style: Style) -> bool:
    low = value.lower()
    if has_shape(value, "variable"):
        return False
    letters = has_shape(value, "letters")
    in_code = style in (Style.CODE, Style.APART)
    if any(stem in low for stem in _STEMS) and (letters or in_code or not _is_spoilt(value)):
        return False
    if _VERDICTS.search(low) and not has_digit(value):
        return False
    if style is Style.PROSE:
        return _is_password_in_prose(value)
    if in_code:
        return _is_password_in_code(value, style)
    if letters:
        return _is_letter_password(value, style)
    if has_shape(value, "number"):
        return len(value) >= (6 if style in (Style.ENV, Style.QUOTED) else 8)
    if _is_hyphened(value):
        return len(value) >= 8
    if _is_compound(value):
        if style is Style.CONFIG:
            return "_" in value and (bool(_FIGURES.search(value)) or _is_free_phrase(value))
        return not any(sign in value for sign in "./:")
    if style is Style.CONFIG and has_shape(value, "identifier") and not has_digit(value):
        return any(len(part) > 6 and not is_wordy(part) for part in value.split("."))
    if has_digit(value):
        return len(value) >= 6
    separators = sum(not char.isalnum() for char in value)
    if set(value) <= set("abcdefghijklmnopqrstuvwxyz_-.") and style is not Style.ENV:
        return style is Style.QUOTED and "_" in value and "." not in value and len(value) >= 10
    return separators < 0.6 * len(value) and len(value) >= 6


def _is_spoilt(value: str) -> bool:
    """Return whether a word has signs, digits or changed letters (`s3cret`) that no name has."""
    if _SIGNS.search(value[1:]) or not (is_wordy(value) or has_shape(value, "words_with_underscores")):
        return True
    return any(stem in value.lower().translate(_UNLEET) and stem not in value.lower() for stem in _STEMS)


def _is_password_in_prose(value: str) -> bool:
    if has_shape(value, "phrase"):
        return not any(map(is_program_word, value.split("-")))
    if not has_digit(value) or _is_name_like(value) or has_shape(value, "host") or has_shape(value, "port"):
        return False
    if "-" in value and any(has_shape(part, "numbered") for part in _JOINTS.split(value.lower())):
        return False  # `base64-encoded`
    if kinds(value) == 3 and len(value) >= 8:
        return True
    if has_shape(value, "identifier") and "." in value:
        return False
    if any(char in "!@#$%&*_" for char in value) or not is_wordy(value) or has_shape(value, "word_and_year"):
        return True
    return len(value) >= 10 and sum(map(str.isdigit, value)) >= 2


def _is_free_phrase(value: str) -> bool:
    """Return whether a value is three or more joined words, none of them a word of programs."""
    if not has_shape(value, "free_phrase"):
        return False
    return not any(is_program_word(word.lower()) for word in _WORD.findall(value))


def _is_mixed_phrase(value: str) -> bool:
    """Return whether a value is a chosen phrase: words with digits or a sign (`Velvet Otter 42!`), or at
    least four words (`copper falcon meadow lake`)."""
    words = value.split(" ")
    if "\t" in value or not 2 <= len(words) <= 8 or not all(words) or value[0] in _FRAMING:
        return False
    low = value.lower()
    if is_reference(value) or any(stem in low for stem in _STEMS) or _VERDICTS.search(low):
        return False
    plain = [word.strip(".,:;!?()'$#") for word in low.split(" ")]
    if not all(plain) or any(word in _ASKING for word in plain):
        return False
    if has_digit(value) or _SIGNS.search(value):
        are_phrased = all(has_shape(word, "phrased") for word in words)
        return are_phrased and 3 * sum(map(is_program_word, plain)) <= len(plain)
    # A phrase has no joining words and few words of programs.
    if any(word in _JOINING for word in plain) or 4 * sum(map(is_program_word, plain)) > len(plain):
        return False
    return len(words) > 3 and value.islower() and all(map(str.isalpha, words))


def _is_letter_password(value: str, style: Style) -> bool:
    if _is_free_phrase(value):
        return True
    if ends_as_word(value) or len(value) < 8:
        return False
    if len(value) >= 12 and len(_WORD.findall(value)) > len(value) / 3:
        return True  # Random capitals divide a value into short words. The words of names are longer.
    if style is Style.QUOTED:
        return value.islower() or not is_wordy(value)
    if style is Style.ENV:
        return True
    return len(value) >= 10 and (value.islower() or not is_wordy(value))


def _is_password_in_code(value: str, style: Style) -> bool:
    if _is_assignment(value) or has_shape(value, "exponent"):
        return False
    if style is Style.CODE and (
        has_shape(value, "phrase") or (has_shape(value, "word_and_year") and not _is_name_like(value))
    ):
        return True
    is_identifier = has_shape(value, "identifier")
    if is_identifier and (is_wordy(value) or "." in value or "->" in value or "::" in value):
        return False
    if not has_digit(value) or not has_letter(value):
        return False
    if style is Style.APART and not is_opaque(value, 8):
        return not value.isalnum() and len(value) >= 8 and not is_identifier
    return len(value) >= 6


def _is_assignment(value: str) -> bool:
    """Return whether a value is an argument with its name: `n=1`."""
    name = value.partition("=")[0]
    return has_shape(value, "argument") and (len(name) < 4 or is_wordy(name))


def _is_machine_made(value: str, style: Style) -> bool:
    if len(value) < 8:
        return False
    if _is_compound(value) and not has_shape(value, "uuid"):
        return _is_slogan(value, style)
    if has_shape(value, "named"):
        return False
    if has_shape(value, "number"):
        return value.isdigit() and len(value) >= 12 and style in (Style.QUOTED, Style.ENV)
    if style in (Style.CODE, Style.APART, Style.PROSE):
        return has_digit(value) and is_opaque(value, 12)
    if has_digit(value):
        return not _is_name_like(value) and not _is_called_secret(value)
    if is_opaque(value, 12):
        return True
    return _is_chosen(value, style)


def _is_slogan(value: str, style: Style) -> bool:
    """Return whether a value is three joined words, or two words and digits: `winter-river-42`."""
    if style in (Style.CODE, Style.APART, Style.PROSE):
        return False
    if style is Style.CONFIG and not _FIGURES.search(value):
        return False
    if any(sign in value for sign in "./:") or _is_called_secret(value):
        return False
    low = value.lower()
    if any(stem in low for stem in _STEMS) or _VERDICTS.search(low) or ends_as_word(value):
        return False
    words = [word for word in _JOINTS.split(value) if word.isalpha()]
    return all(len(word) > 3 for word in words if word != "my") and (
        len(words) > 2 or bool(_FIGURES.search(value))
    )


def _is_called_secret(value: str) -> bool:
    """Return whether a value is joined words about secrets. Letters may be changed: `s3cr3t-token`."""
    words = _JOINTS.split(value.lower().translate(_UNLEET))
    return len(words) > 1 and all(word in _CALLED for word in words)


def _is_name_like(value: str) -> bool:
    """Return whether a value consists of words and a number: `oauth2`, `token_v2`, `projects/1/secrets`."""
    low = value.lower()
    if any(stem in low for stem in _STEMS) and is_wordy(value):
        return not _SIGNS.search(value[1:])
    return (
        has_shape(low, "numbered")
        or has_shape(value, "counted")
        or (has_shape(value, "sized_type") and is_wordy(value))
    )


def _is_chosen(value: str, style: Style) -> bool:
    """Return whether a person probably chose this value of letters and signs."""
    low = value.lower()
    if ends_as_word(value) or any(stem in low for stem in _STEMS):
        return False
    if has_shape(value, "letters"):
        return len(value) >= 11 and value.islower()
    if has_shape(value, "words_with_joints"):
        parts = [part.translate(_UNLEET) for part in _PART.split(low)]
        return any(part in _COMMON for part in parts) or (style is Style.ENV and len(value) >= 10)
    signs = any(char in "!@#$%^&*+=?~" for char in value)
    return signs and len(value) >= 8 and value[0].isalnum() and style is not Style.CONFIG


def _is_certain(value: str) -> bool:
    """Return whether a value is random enough to be a secret after a weak name."""
    if len(value) < 16 or has_shape(value, "uuid") or not is_opaque(value, 16) or is_slug(value):
        return False
    if not has_digit(value) or not has_letter(value):
        return False
    if has_shape(value, "hex"):
        return len(value) in (32, 40, 48, 56, 64, 96, 128)
    return entropy(value) >= 3.5 and not any(char in value for char in ",;:()[]{}<>|\\ ")


def _is_nothing_else(value: str) -> bool:
    """Return whether a value is a secret after any name: long, random, and with capitals, small letters and
    digits."""
    if not _RANDOM.fullmatch(value) or kinds(value) < 3 or has_shape(value, "hex") or is_slug(value):
        return False
    return sum(map(str.isdigit, value)) >= 2 and entropy(value) >= 4.0 and is_opaque(value, 24)
