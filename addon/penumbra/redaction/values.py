"""Whether a value that stands beside a telling name is a secret.

The questions are asked in the order of how much they decide: is it a reference to a secret that is
kept elsewhere, a placeholder, a word of the language; and only then, how random is it. Entropy
decides nothing but doubtful cases: UUIDs, hashes and lock files are as random as any key.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import Enum

import ahocorasick_rs
import re2

from penumbra import rules
from penumbra.redaction.names import Strength
from penumbra.short_texts import remembered


class Style(Enum):
    """How a value is written."""

    QUOTED = "quoted"
    """Between quotes, or between tags."""
    ENV = "env"
    """`NAME=value`, no spaces, no quotes."""
    CONFIG = "config"
    """`name: value` or `name = value` to the end of the line."""
    CODE = "code"
    """Without quotes, with something behind it: an expression as like as not."""
    PROSE = "prose"
    """`the password is value`."""
    APART = "apart"
    """Name and value are only neighbours: a table cell, an argument, two words."""
    SPACED = "spaced"
    """The same, with the value between quotes."""


_SPEC = rules.load("secrets/words/values.yaml")
_STOP = frozenset(word.rstrip("?") for word in _SPEC["stop"].split())
_PARTS = ahocorasick_rs.AhoCorasick(_SPEC["placeholder_parts"].split())
_ENDINGS = tuple(_SPEC["word_endings"].split())

_REFERENCE = re.compile(
    r"[$@#%]?\{|\$[A-Za-z_(]|%\(|%[A-Za-z_]+%|%[sdvqr]$|<[^>]{0,80}>?$|!(?:Ref|Sub|GetAtt|Join|vault|secret|env|ENV|encrypted|Import|sops|reference)\b|&\w+$|\*\w+$|@\w+@|__\w+__$|\[\w+\]$"
    r"|(?:op|vault|ref\+\w+|arn|ssm|secretsmanager|awssm|gcpsm|azurekv|keyvault|file|env|data|projects|kms|sops"
    r"|secretref|secret|bitwarden|akv|chamber|doppler|infisical|keyring)(?::|://|/)"
    r"|ENC\[|(?:os|process|sys|system|config|settings|env|environment|secrets|var|vars|local|module|self|this"
    r"|request|req|params|props|ctx|context|args|options|opts|app|import|std|data|random_password|credentials)\.[A-Za-z_]"
)
_SCOPED = re.compile(r"[A-Za-z_]\w{0,80}::[A-Za-z_<{*]")
"""`module::function` of Rust, C++, Ruby and PHP."""
_CALL = re.compile(r"[A-Za-z_$][\w$.:>-]{0,80}[(\[{]")
_IDENTIFIER = re.compile(r"[&*!-]?[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.|!\.)[A-Za-z_$][\w$]*)*[?!]?$")
_HASH = re.compile(r"(?:sha\d{1,3}|md5|blake\w{1,4}|h1)[-:=]")
_EXAMPLE = re.compile(r"example(?:key|token|secret|password|id|=)?=?$")
_COMPOUND = re2.compile(r"[a-z]{1,14}\d{0,4}(?:[-_./:][a-z]{0,14}\d{0,4}[a-z]{0,5}\d{0,2}){2,}$")
_CHAIN = re.compile(r"[A-Za-z_$][\w$]{0,40}\.[\w$.]{1,80}=")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w.@-]{1,60}/|[A-Za-z]:\\|\\{1,2}[\w.-]{2,60}\\{1,2}[\w.-]{2,60}\\|~/|\.{1,2}/|/[\w.-]+\.\w{2,4}$|(?:https?|ftp|file|s3|gs|wss?)://"
)
_FILE = re.compile(
    r"[\w./-]{1,80}\.(?:pem|key|crt|cer|p12|pfx|jks|json|ya?ml|txt|js|ts|py|go|rb|java|php|env|html?|conf|cfg|ini|xml|md|sh|jpg|png|svg|css)$"
)
_COPY = re.compile(
    r"[\w./-]{1,80}\.(?:json|ya?ml|toml|env|conf|cfg|ini|log|db|sqlite3?)\.(?:bak|old|orig|tmp|swp|gz|\d)[\w.]*$"
)
"""A file's copy: `config.json.bak.20240301`."""
_AT_HOST = re.compile(
    r"[A-Za-z][\w.-]{0,40}@(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z0-9-]{1,40}(?:\.[A-Za-z0-9-]{2,40})+)$"
)
_SEALED = re.compile(r"Ag[A-D][A-Za-z0-9+/]{200}")
"""What `kubeseal` makes: only the cluster can read it."""
_BASE64_KEY = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}$")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+$")
_LETTERS = re.compile(r"[A-Za-z]+$")
_HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}", re.IGNORECASE)
_NUMBERED = re.compile(
    r"(?:oauth|v|utf|sha|md|base|x|ed|p|aes|rs|hs|es|ps|eddsa|http|hmac|rsa|secp|curve|s|ec|k|type|part|step"
    r"|level|tier)[-_]?\d{1,4}\w{0,8}$"
)
_TYPE = re.compile(r"(?:[A-Z][a-z]+)+(?:8|16|32|64|128|256|512)(?:[A-Z][a-z]+)*(?:\[\])*\??$")
"""A type that says how wide its parts are: `Uint8Array`."""
_DOTTED = re.compile(r"[a-z]+(?:[-_./][a-z]+)+$", re.IGNORECASE)
_VERSION = re.compile(r"[v^~<>=]*\d+(?:\.\d+)+(?:[-+.][\w.+-]+)?(?:/go\.mod)?$")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|$)|\d\d:\d\d(?::\d\d)?$")
_NUMBER = re.compile(r"[-+]?\d[\d_,.]*(?:e[-+]?\d+)?[a-zA-Z]{0,2}$")
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_JOINT = re.compile(r"[-./:]")
_LOOK = 256
_STEMS = (
    "passw",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "credential",
    "private",
    "getenv",
    "environ",
)


def has_digit(value: str) -> bool:
    """Whether a digit is in it."""
    return _DIGIT.search(value) is not None


def has_letter(value: str) -> bool:
    """Whether a letter is in it."""
    return _LETTER.search(value) is not None


def kinds(value: str) -> int:
    """How many of these are in it: digits, capitals, small letters."""
    return has_digit(value) + (value.lower() != value) + (value.upper() != value)


def entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    total = len(value)
    return -sum(n / total * math.log2(n / total) for n in Counter(value).values())


def is_reference(value: str) -> bool:
    """Names a secret that is kept elsewhere, or computes one."""
    found = _REFERENCE.match(value) or _CALL.match(value) or _CHAIN.match(value)
    return bool(found or _SCOPED.match(value)) or "${" in value or "{{" in value


def is_placeholder(value: str) -> bool:
    """Stands for a secret that somebody is to fill in."""
    low = value.lower()
    if low in _STOP or _EXAMPLE.search(low) or (low[:1] in "<[{(" and low[-1:] in ">]})"):
        return True
    if len(set(low)) <= 2 and not low.isalpha():
        return True
    return len(set(low)) <= 1 or bool(_PARTS.find_matches_as_indexes(low))


def is_address(value: str) -> bool:
    """A path, file name, URL, version, date or hash with its algorithm's name."""
    if _PATH.match(value) or _FILE.match(value) or _COPY.match(value) or _AT_HOST.match(value):
        return not _BASE64_KEY.match(value)
    return bool(_HASH.match(value) or _VERSION.match(value) or _DATE.match(value))


def is_wordy(value: str) -> bool:
    """Made of words: letters that can be spoken, humps or separators between them, few digits."""
    humps = _HUMPS.findall(value)
    words = [hump for hump in humps if not hump.isdigit()]
    if not words:
        return False
    digits = sum(len(hump) for hump in humps if hump.isdigit())
    if digits > 4 or len(humps) - len(words) > 2:
        return False
    if sum(map(len, words)) / len(words) < 2.8 or any(_CONSONANTS.search(word) for word in words):
        return False
    vowels = sum(value.lower().count(vowel) for vowel in "aeiouy")
    return vowels >= 0.2 * sum(map(len, words))


def is_opaque(value: str, least: int = 8) -> bool:
    """Made by a machine, at least `least` characters of it."""
    if len(value) < least or is_wordy(value):
        return False
    if _HEX.match(value):
        return len(value) >= max(least, 16) and len(set(value.lower())) >= 6
    if kinds(value) < 2:
        return len(value) >= 20 and entropy(value) >= 3.2
    return entropy(value) >= 2.5


def is_written(value: str) -> bool:
    """Words of another script than Latin: what a form says of a field."""
    letters = [char for char in value if char.isalpha()]
    foreign = sum(not char.isascii() for char in letters)
    return not has_digit(value) and 2 * foreign > len(letters)


def is_slug(value: str) -> bool:
    """Words with joints between them, whatever stands behind: `cache-linux-x64-2951-cc2b503e`."""
    words = [part for part in _JOINT.split(value) if len(part) > 2 and part.isalpha() and is_wordy(part)]
    return len(words) >= 2


def is_unmistakable(value: str, strength: Strength) -> bool:
    """Whether a secret can be nothing else, wherever else it stands."""
    if is_opaque(value, 16):
        return has_digit(value)
    if strength is not Strength.PASSWORD or len(value) < 8 or is_wordy(value):
        return False
    return kinds(value) == 3


@remembered(4_096)
def is_secret(value: str, strength: Strength, style: Style) -> bool:
    """Whether the value beside a name of that strength is to be taken out."""
    # What a value is shows in its beginning; a longer look would make hostile texts slow.
    value = value[:_LOOK]
    if len(value) < 4 or is_placeholder(value) or is_reference(value):
        return False
    if " " in value or "\t" in value or is_address(value) or _COMPOUND.match(value):
        return False
    if style is Style.SPACED:
        # `the token "transparent"` speaks of a word.
        if strength is not Strength.PASSWORD and not has_digit(value):
            return False
        style = Style.QUOTED
    if _SEALED.match(value) or (not value.isascii() and is_written(value)):
        return False
    if strength is Strength.PASSWORD:
        return _is_password(value, style)
    if strength is Strength.STRONG:
        return _is_machine_made(value, style)
    return style not in (Style.CODE, Style.APART, Style.PROSE) and _is_certain(value)


def _is_password(value: str, style: Style) -> bool:
    low = value.lower()
    letters = bool(_LETTERS.match(value))
    in_code = style in (Style.CODE, Style.APART)
    if any(stem in low for stem in _STEMS) and (letters or in_code or is_wordy(value)):
        return False
    if style is Style.PROSE:
        signs = any(char in "!@#$%&*_" for char in value)
        return has_digit(value) and (signs or not is_wordy(value))
    if in_code:
        return _is_password_in_code(value, style)
    if letters:
        return _is_letter_password(value, style)
    if _NUMBER.match(value):
        return len(value) >= (6 if style in (Style.ENV, Style.QUOTED) else 8)
    if style is Style.CONFIG and _IDENTIFIER.match(value) and not has_digit(value):
        return False
    if has_digit(value):
        return True
    separators = sum(not char.isalnum() for char in value)
    if set(value) <= set("abcdefghijklmnopqrstuvwxyz_-.") and style is not Style.ENV:
        return False
    return separators < len(value) / 2 and len(value) >= 6


def _is_letter_password(value: str, style: Style) -> bool:
    low = value.lower()
    if low.endswith(_ENDINGS) or len(value) < 8:
        return False
    if style is Style.QUOTED:
        return len(value) >= 8 and (value.islower() or not is_wordy(value))
    if style is Style.ENV:
        return True
    return len(value) >= 10 and (value.islower() or not is_wordy(value))


def _is_password_in_code(value: str, style: Style) -> bool:
    if _IDENTIFIER.match(value) and (is_wordy(value) or "." in value or "->" in value or "::" in value):
        return False
    if not has_digit(value) or not has_letter(value):
        return False
    if style is Style.APART and not is_opaque(value, 8):
        return any(not char.isalnum() for char in value) and len(value) >= 8 and not _IDENTIFIER.match(value)
    return len(value) >= 6


def _is_machine_made(value: str, style: Style) -> bool:
    if len(value) < 8:
        return False
    if _NUMBER.match(value):
        return value.isdigit() and len(value) >= 12 and style in (Style.QUOTED, Style.ENV)
    if style in (Style.CODE, Style.APART, Style.PROSE):
        return has_digit(value) and is_opaque(value, 12)
    if has_digit(value):
        return not _is_name_like(value)
    if is_opaque(value, 12):
        return True
    return _is_chosen(value, style)


def _is_name_like(value: str) -> bool:
    """`oauth2`, `v1beta1`, `token_v2`, `projects/1/secrets`: words with a number in them."""
    low = value.lower()
    if any(stem in low for stem in _STEMS) and is_wordy(value):
        return True
    return bool(_NUMBERED.match(low) or (_TYPE.match(value) and is_wordy(value)))


def _is_chosen(value: str, style: Style) -> bool:
    """Of letters and signs, and yet nothing that one writes into a program."""
    low = value.lower()
    if low.endswith(_ENDINGS) or any(stem in low for stem in _STEMS):
        return False
    if _LETTERS.match(value):
        return len(value) >= 11 and value.islower()
    if _DOTTED.match(value):
        return style is Style.ENV and len(value) >= 10
    signs = any(char in "!@#$%^&*+=?~" for char in value)
    return signs and len(value) >= 8 and value[0].isalnum() and style is not Style.CONFIG


def _is_certain(value: str) -> bool:
    """Random enough to be a secret beside a name that says little."""
    if len(value) < 16 or _UUID.match(value) or not is_opaque(value, 16) or is_slug(value):
        return False
    if not has_digit(value) or not has_letter(value):
        return False
    if _HEX.match(value):
        return len(value) in (32, 40, 48, 56, 64, 96, 128)
    return entropy(value) >= 3.5 and not any(char in value for char in ",;:()[]{}<>|\\ ")
