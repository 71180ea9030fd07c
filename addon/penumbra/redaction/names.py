"""This module recognises the names of variables, fields, headers and flags whose values are secrets.

A name is split into words (`dbRootPassword` -> db root password). As in English, the last word decides: a
`token_url` is a URL, and a `url_token` is a token. If the last word only qualifies the word before it, the
word before decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from penumbra import rules
from penumbra.short_texts import remembered

PROGRAM_WORDS = frozenset(rules.load("secrets/words/values.yaml")["program_words"].split())


def is_program_word(word: str) -> bool:
    """Return whether programs use a word, or its singular, in names."""
    return word in PROGRAM_WORDS or (word[-1] == "s" and word[:-1] in PROGRAM_WORDS)


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
