"""This module recognises the names of variables, fields, headers and flags whose values are secrets.

A name is split into words (`dbRootPassword` -> db root password). As in English, the last word decides: a
`token_url` is a URL, and a `url_token` is a token. If the last word only qualifies the word before it, the
word before decides.

A name in a program may be as long and as varied as a password (`ComponentFactoryResolver2`). Only its words
distinguish such a name from a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from penumbra import rules
from penumbra.short_texts import remembered

_WORDS = frozenset(rules.load("secrets/words/values.yaml")["program_words"].split())
_OF_TYPES = frozenset(rules.load("secrets/words/values.yaml")["type_words"].split())
_ENCODING = re.compile(r"k?(?:base|utf|sha|md|aes|rsa|x|pkcs|ed)[0-9]{1,5}[A-Z]", re.IGNORECASE)
_OF_C = re.compile(r"[a-z]{2,16}(?:_[a-z]{2,16}){0,3}_[rst](?:_v[0-9])?$")
"""C names of types and of reentrant functions: `size_t`, `getpwnam_r`."""
_FIGURE = re.compile(r"[0-9]")
_IDENTIFIER = re.compile(r"[&*$]{0,2}[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)*(?:\[\])?$")
_SCREAMED = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$")
_JOINT = re.compile(r"[_.:>-]+")
_HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_FIGURES = re.compile(r"[0-9]{2,}$")
_WIDTHS = frozenset(("16", "32", "64", "128", "256", "512", "1024", "2048"))
"""The numbers that names of types and sizes end with, as in `uint32`."""
_LEAST_WORD = 4
_SHARE = 0.3
"""The smallest share of a name's letters that must belong to words of programs."""
_LEAST_KNOWN = 0.5
"""The smallest share in a long word or a word with digits, if it has only one case."""
_LEAST_MEAN = 3
"""The smallest mean length of the words of a name, in letters."""
_VERSION = re.compile(r"v?[0-9]{1,2}$")
_LONGEST = 64
"""A longer text, in characters, is no name."""
_PLAIN = re.compile(r"(?:[a-z]{1,12}|[A-Z]{1,14})[0-9]{0,4}$|[0-9]{1,4}$")
"""A short word that has only one case, and digits only at its end."""
_LONGEST_PART = 12
_ALGORITHM = re.compile(r"(?:ed|x|secp|curve|p)[0-9]{2,5}[a-z]?[0-9]?$", re.IGNORECASE)
_OF_MACRO = re.compile(r"[A-Z][A-Z0-9]{1,20}_[A-Z0-9_]{1,40},[0-9]{1,6}U?L$")
_INDEXED = re.compile(r"[A-Za-z_]\w*,[0-9]{1,6}[uUlL]{0,3}$")
"""The name of a macro and the next item of a list: `OBJ_X509,35L`."""


@remembered(2_048)
def is_program_name(value: str) -> bool:
    """Return whether a value is an identifier with words of programs. A single word counts only with one
    digit, as in `client2`, because other single words may be anything."""
    value = value.rstrip(";")
    if value[-1:] in ("!", "?"):
        if _FIGURE.search(value):
            return False  # A sign after digits belongs to a password.
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
    # A name has at most one number, apart from widths such as 32.
    numbers = sum(hump.isdigit() and len(hump) > 1 and hump not in _WIDTHS for hump in humps)
    if sum(map(len, words)) < _LEAST_MEAN * len(words) or numbers > 1:
        return False
    known = sum(len(word) for word in words if len(word) >= _LEAST_WORD and is_program_word(word))
    return known >= _SHARE * sum(map(len, words))


def is_type_name(value: str) -> bool:
    """Return whether a value after the name of a password looks like the name of a type or function. The
    value then has long words of programs, and ends like the name of a type or a C name."""
    if _OF_C.match(value) or _OF_MACRO.match(value):
        return True
    humps = [hump.lower() for part in _JOINT.split(value) for hump in _HUMP.findall(part)]
    words = [hump for hump in humps if hump.isalpha()]
    if not words or words[-1] not in _OF_TYPES or not is_program_name(value):
        return False
    return len(words) > 2 or _ENCODING.match(value) is not None


def _is_word(part: str) -> bool:
    """Return whether a text between two joints can be part of a name. Machine-made names don't count."""
    if _PLAIN.match(part) or _ALGORITHM.match(part):
        return True
    humps = [hump.lower() for hump in _HUMP.findall(part)]
    known = sum(len(hump) for hump in humps if len(hump) >= _LEAST_WORD and is_program_word(hump))
    if part.lower() == part or part.upper() == part:
        # A long part, or a part with digits, belongs to a name only if it has known words.
        return known >= _LEAST_KNOWN * len(part)
    return len(part) <= _LONGEST_PART or known >= _SHARE * len(part)


def _ends_as_chosen(value: str) -> bool:
    figures = _FIGURES.search(value)
    return figures is not None and figures[0] not in _WIDTHS


def _is_versioned(parts: list[str]) -> bool:
    """Return whether a name has words in small letters, followed by a single letter or a version:
    `getpwnam_r`, `size_t`, `create_user_v2`."""
    if len(parts) < 2 or not (parts[0].isalpha() and parts[0].islower() and len(parts[0]) > 2):
        return False
    short = [part for part in parts[1:] if len(part) == 1 or (part[0] == "v" and _VERSION.match(part))]
    rest = [part for part in parts[1:] if part not in short and not part.isdigit()]
    return any(part.isalnum() and not part.isdigit() for part in short) and all(map(str.islower, rest))


def is_program_word(word: str) -> bool:
    """Return whether programs use a word, or its singular, in names."""
    return word in _WORDS or (word[-1] == "s" and word[:-1] in _WORDS)


class Strength(IntEnum):
    """A `Strength` tells how strongly a name suggests that its value is a secret."""

    NONE = 0
    HINT = 1
    """A word for a secret is before the last word. The value counts if it can't be anything else."""
    WEAK = 2
    """The name often means something else. The value counts if it is neither a word nor an id."""
    STRONG = 3
    """The name belongs to a secret that a machine made."""
    PASSWORD = 4
    """The name belongs to a secret that a person may have chosen."""


@dataclass(frozen=True, slots=True)
class Name:
    strength: Strength
    label: str = ""


_NOTHING = Name(Strength.NONE)
_MISSPELT = ("password", "passwords", "secret")
"""The words that are recognised even with one typing error."""
_WORKING_DIRECTORY = ("$PWD", "$OLDPWD", "OLDPWD")
_ACCENTED = [chr(code) for code in range(0xC0, 0x250) if chr(code).isalpha()]
_CAPITAL = "A-Z" + "".join(filter(str.isupper, _ACCENTED))
_SMALL = "a-z" + "".join(letter for letter in _ACCENTED if not letter.isupper())
_WORD = re.compile(
    rf"[{_CAPITAL}]+(?![{_SMALL}])|[{_CAPITAL}]?[{_SMALL}]+|[0-9]+|[^\x00-\x7f{''.join(_ACCENTED)}]+"
)
"""Latin words may have letters with accents (`contraseña`). Letters of other scripts are a separate word."""


def _words(spec: str) -> frozenset[str]:
    return frozenset(spec.split())


def _spelt(word: str) -> str:
    """Return the correct spelling of a word with at most one typing error. An error is an added, missing or
    wrong letter, or two swapped letters."""
    if word[:1] in ("p", "s") and 5 < len(word) < 11:
        for right in _MISSPELT:
            if abs(len(right) - len(word)) < 2 and _is_slip(word, right):
                return right
    return word


def _is_slip(word: str, right: str) -> bool:
    at = next((at for at, (one, other) in enumerate(zip(word, right, strict=False)) if one != other), None)
    if at is None:
        return True
    rest, ought = word[at:], right[at:]
    changed = rest[1:2] + rest[:1] + rest[2:]
    return ought in (rest[1:], changed) or rest == ought[1:] or rest[1:] == ought[1:]


class Names:
    """A `Names` judges names of values. The words are in `rules/secrets/words/names.yaml`."""

    def __init__(self, spec: dict[str, Any] | None = None) -> None:
        spec = spec or rules.load("secrets/words/names.yaml")
        self._heads = {word: label for label, words in spec["heads"].items() for word in words.split()}
        self._passwords = _words(spec["passwords"])
        self._weak = _words(spec["weak_heads"])
        self._hashes = _words(spec["password_hashes"])
        self._hashed = _words(spec["hashed_passwords"])
        self._keys_with_ids = _words(spec["keys_with_ids"])
        self._articles = _words(spec["articles"])
        self._salted = _words(spec["salted"])
        self._public_ends = _words(spec["public_ends"])
        self._qualifiers = _words(spec["qualifiers"])
        self._key_kinds = _words(spec["key_kinds"])
        self._key_endings = tuple(kind for kind in sorted(self._key_kinds) if len(kind) > 2)
        self._not_before = {head: _words(words) for head, words in spec["not_before"].items()}
        self._endings = tuple(spec["endings"].split())
        self._short_endings = tuple(spec["short_endings"].split())
        self._short_ending_owners = _words(spec["short_ending_owners"])
        self._ending_exceptions = _words(spec["ending_exceptions"])
        self.judge = remembered(8_192)(self._judge)

    def telling_parts(self) -> list[str]:
        """Return texts of small letters. A name of a secret in ASCII, without typing errors, contains one of
        them."""
        words = {"key", *self._heads, *self._endings, *self._short_endings}
        texts = {word for word in words if word.isascii()}
        return sorted(text for text in texts if not any(part in text for part in texts - {text}))

    def spelt_in_other_letters(self) -> list[str]:
        """Return the words for passwords with letters outside of ASCII, in small and capital letters. Each
        word is a pattern for bytes in Latin-1."""
        words = {form(word) for word in self._passwords for form in (str.lower, str.upper, str.capitalize)}
        # The searched texts have their ASCII letters in lower case.
        written = {word.encode().lower().decode("latin-1") for word in words if not word.isascii()}
        return sorted(re.escape(word) for word in written)

    def labels(self) -> frozenset[str]:
        """Return the labels of all secrets that names can announce."""
        return frozenset(self._heads.values()) | {"key", "password-hash", "credential"}

    def of_members(self, name: str) -> tuple[Name, bool]:
        """Return what the name of a list or map means for the members, and whether the name is a plural."""
        plural = name[-1:] in ("s", "S") and name[-2:] not in ("ss", "SS")
        judged = self.judge(name)
        if plural and judged.strength is Strength.NONE:
            judged = self.judge(name[:-1])
        return judged, plural

    def of_key(self, before: str) -> Name:
        """Return the meaning of `key` after another word. An `API key` is a secret, and a `cache key` is
        none."""
        word = before.lower()
        if word in self._keys_with_ids:
            return Name(Strength.WEAK, "key")
        return _NOTHING if word in self._articles else self._key(word)

    def _judge(self, name: str) -> Name:
        if name in _WORKING_DIRECTORY:
            return _NOTHING
        words = [word.lower() for word in _WORD.findall(name)]
        if words[-1:] and words[-1].isdigit() and "".join(words[-2:]) in self._hashes:
            words[-2:] = ["".join(words[-2:])]
        if words[-2:] == ["secret", "id"]:
            return Name(Strength.STRONG, "secret")
        if self._is_hash(words):
            return Name(Strength.STRONG, "password-hash")
        while words and (words[-1].isdigit() or words[-1] in self._qualifiers):
            words.pop()
        if not words:
            return _NOTHING
        if words[-2:] == ["pass", "word"]:
            words[-2:] = ["password"]
        head, before = words[-1], words[-2] if len(words) > 1 else ""
        if head not in self._heads:
            head, before = self._unglue(_spelt(head), before)
        if head == "key":
            return self._key(before)
        if head == "keys" and before in self._key_kinds:
            return Name(Strength.STRONG, "key")
        label = self._heads.get(head)
        if label is None:
            return self._hint(words)
        # `api_key_token` is a secret, but `key_token` alone is a token of a parser.
        is_of_key = words[-2:] == ["key", "token"] and words[-3:-2] != [] and words[-3] in self._key_kinds
        if before in self._not_before.get(head, ()) and not is_of_key:
            return _NOTHING
        if head in self._passwords:
            return Name(Strength.PASSWORD, label)
        is_salt = label == "salt" and (before in self._salted or before in self._key_kinds)
        if head in self._weak and before not in self._heads and not is_salt:
            return Name(Strength.WEAK, label)
        return Name(Strength.STRONG, label)

    def _hint(self, words: list[str]) -> Name:
        """Return the meaning of a name such as `secret_wrapped`, where words follow a word for a secret."""
        if words[-1] in self._public_ends:
            return _NOTHING
        for word, before in zip(words[:-1], ["", *words], strict=False):
            if word == "key" and before in self._not_before["key"]:
                continue
            label = "key" if word == "key" else self._heads.get(word)
            if label is not None and word not in self._weak and before not in self._not_before.get(word, ()):
                return Name(Strength.HINT, label)
        return _NOTHING

    def _is_hash(self, words: list[str]) -> bool:
        """Return whether a name means the hash of a password, which is a secret too: `password_hash`."""
        if len(words) < 2:
            return False
        is_hash = words[-2] in self._passwords and words[-1] in self._hashes
        return is_hash or (words[-1] in self._passwords and words[-2] in self._hashed)

    def _unglue(self, head: str, before: str) -> tuple[str, str]:
        """If a word ends with a word for a secret (`dbpassword`, `apikey`), divide the word; else return both
        unchanged."""
        if head not in self._ending_exceptions:
            for ending in self._endings:
                if head.endswith(ending) and len(head) > len(ending):
                    return ending, head[: -len(ending)]
            for ending in self._short_endings:
                if head.endswith(ending) and head[: -len(ending)] in self._short_ending_owners:
                    return ending, head[: -len(ending)]
        return head, before

    def _key(self, before: str) -> Name:
        if before in self._not_before["key"]:
            return _NOTHING
        if before in self._key_kinds or before.endswith(self._key_endings):
            return Name(Strength.STRONG, "key")
        return Name(Strength.WEAK, "key")


NAMES = Names()
