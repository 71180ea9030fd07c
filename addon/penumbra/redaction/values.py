"""Kinds of values, told by the value alone: a reference, a placeholder, an address, a word, or random."""

from __future__ import annotations

import math
import re
from collections import Counter
from enum import Enum
from functools import lru_cache

import ahocorasick_rs

from penumbra import rules
from penumbra.short_texts import remembered


class Style(Enum):
    """Way in which a value is written."""

    QUOTED = "quoted"
    """Between quotes, or between tags."""
    ENV = "env"
    """`NAME=value`, no spaces, no quotes."""
    CONFIG = "config"
    """`name: value` or `name = value` to the end of the line."""
    CODE = "code"
    """Without quotes, with something after it: an expression as like as not."""
    PROSE = "prose"
    """`the password is value`."""
    APART = "apart"
    """Name and value are only neighbours: a table cell, an argument, two words."""
    SPACED = "spaced"
    """Spaced, with the value between quotes."""
    GIVEN = "given"
    """Between quotes, after its name between quotes as the next argument."""
    LISTED = "listed"
    """Between quotes, after its name in a list that goes on."""


_SPEC = rules.load("secrets/words/values.yaml")
_STOP = frozenset(word.rstrip("?") for word in _SPEC["stop"].split())
_FRAME = "*_`\"'()[]<>"
"""Characters that emphasise a word."""
_PARTS = ahocorasick_rs.AhoCorasick(_SPEC["placeholder_parts"].split())
_ENDINGS = tuple(_SPEC["word_endings"].split())

_REFERENCE = re.compile(
    r"[$@#%]?\{|\$\(|\$[A-Z_][A-Z0-9_]*\b|\$[A-Za-z_]\w*(?:$|->|[.\[:/(])|%\(|%[A-Za-z_]+%|%[sdvqr](?:$|.{0,3}%[sdvqr])|<[^>]{0,80}>?$|!(?:Ref|Sub|GetAtt|Join|vault|secret|env|ENV|encrypted|Import|sops|reference)\b|@\w+@|@[A-Za-z][\w.]*\(|__\w+__$|\[\w+\]$"
    r"|&lt;[^&]{0,80}(?:&gt;?)?$|(?:&(?:quot|apos|#x27|#39|#34);?){2}$|/\^|\[\w+=\w+$"
    r"|(?:op|vault|ref\+\w+|arn|ssm|secretsmanager|awssm|gcpsm|azurekv|keyvault|file|env|data|projects|kms|sops"
    r"|secretref|secret|bitwarden|akv|chamber|doppler|infisical|keyring)(?::|://|/)"
    r"|ENC\[|(?:os|process|sys|system|config|settings|env|environment|secrets|var|vars|local|module|self|this"
    r"|request|req|params|props|ctx|context|args|options|opts|app|import|std|data|random_password|credentials)\.[A-Za-z_]"
)
_POINTER = re.compile(r"[&*][\w.]+$")
"""`&config`, `*alias`: what C and YAML write of a thing that stands elsewhere."""
_SCOPED = re.compile(r"[A-Za-z_]\w{0,80}::[A-Za-z_<{*]")
"""`module::function` of Rust, C++, Ruby and PHP."""
_CALL = re.compile(r"[&*]{0,2}[A-Za-z_$][\w$.:>-]{0,80}!?[(\[{]")
_CROSSED = re.compile(r"\([^()\[\]{}]*[\]}]|\[[^()\[\]{}]*[)}]|\{[^()\[\]{}]*[\])]")
_TEMPLATE = re.compile(
    r"\$\{\s*[A-Za-z_$!@(][\w$]*(?:\s|[}:?/.#%,(\[^|=&*!<>+-]|$)(?!\])|\{\{\s*[\w.$#>|'\"(-][^{}]*(?:\}\}|$)|<%=|#\{\w|\{[A-Za-z_][\w.]{2,40}\}"
)
"""A hole that something else fills in: `${NAME}`, `{{ .Values.name }}`."""
_CHAIN = re.compile(
    r"[A-Za-z_$][A-Za-z_$]{0,40}\.[\w$.]{1,80}=[A-Za-z_$(\[{\"']|[a-z]{2,40}[A-Z][A-Za-z]{2,40}=![01]$"
    r"|[A-Za-z_$][\w$.]{0,40},[A-Za-z_$][\w$]{0,40}:[\w$.]{1,40},"
    r"|[\w$]{1,3}\?[\w$]{1,40}\[[\w$]{1,40}\]\.|[A-Za-z_$]{1,40}(?:\.[A-Za-z_$]{1,40})+(?:&&|\|\|)[(!]"
    r"|[A-Za-z_$][A-Za-z_$.]{0,40}\}(?:get|set|static|async|var|let|const|function|return)$"
)
"""An assignment of a value that is one itself: `e.token=t.token`, `isDone=!0`. A member that others follow:
`a.key,host:a.host,`. The last one before a word of the language: `value}get`.
Conditions on members: `a?b[c].d`, `a.b&&(`."""
_BETWEEN_TEXTS = re.compile(r"[+,)](?=.{0,255}[+=(,]$).{0,200}?[A-Za-z_$]{3}\(")
"""Text that stands between the end of a text and the beginning of the next one, with a call: `+e+get(n)+`."""
_OBJECT = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+@[0-9a-f]{1,8}$")
"""An object as Java prints it."""
_IDENTIFIER = re.compile(
    r"[&*!-]?[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.|!\.)[A-Za-z_$][\w$]*)*(?:\?|(?<!\d)!)?$"
)
_HASH = re.compile(
    r"(?:sha\d{1,3}|md5|blake\w{1,4}|h1)[-:=]|(?:s?cram|hmac|digest|pbkdf2|r?dsa|ecdsa)[-_](?:sha|md)-?\d{1,3}$"
    r"|(?:S?CRAM|HMAC|DIGEST|PBKDF2|R?DSA|ECDSA)[-_](?:SHA|MD)-?\d{1,3}$"
)
"""A hash with its algorithm in front, or the algorithm alone by its whole name."""
_EXAMPLE = re.compile(r"example(?:key|token|secret|password|id|=)?=?$")
_LEFT_FOR = re.compile(r"[_-]here[\W_]*$")
"""`key-here`: where something is to be put. Words may stand after a `here` of a person's own."""
_SHORTENED = re.compile(r"[A-Za-z0-9_-]{1,12}(?:\.{3}|…)[A-Za-z0-9_=-]{0,8}$")
"""A secret as programs shorten it: `AIzaS...xSFh8`."""
_COUNTED_LIST = re.compile(r"([a-z][a-z-]{1,16})\d{1,4}(?:,\1\d{1,4})+$")
"""`key1,key12,key100`."""
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w.@-]{1,60}/|[A-Za-z]:\\|\\{1,2}[\w.-]{2,60}\\{1,2}[\w.-]{2,60}\\|~/|\.{1,2}/|/[\w.-]+\.\w{2,4}$|(?:https?|ftp|file|s3|gs|wss?)://"
)
_FILE = re.compile(
    r"[\w./-]{1,80}\.(?:pem|key|crt|cer|p12|pfx|jks|json|ya?ml|txt|js|ts|py|go|rb|java|php|env|html?|conf|cfg|ini|xml|md|sh|jpg|png|svg|css|bin|der|csr|pub|asc|gpg|jwk|dat|toml|lock|csv|cpp|hpp|cs|kt|tsx|jsx|vue|scss|ps1|bat|tf|sql)$"
)
_COPY = re.compile(
    r"[\w./-]{1,80}\.(?:json|ya?ml|toml|env|conf|cfg|ini|log|db|sqlite3?)\.(?:bak|old|orig|tmp|swp|gz|\d)[\w.]*$"
)
"""A file's copy: `config.json.bak.20240301`."""
_AT_HOST = re.compile(
    r"[A-Za-z][\w.-]{0,40}@(?:\d{1,3}(?:\.\d{1,3}){3}|[A-Za-z0-9-]{1,40}(?:\.[A-Za-z0-9-]{2,40})+)$"
    r"|@[A-Za-z0-9-]{1,40}(?:\.[A-Za-z0-9-]{1,40}){1,6}(?::\d{1,5})?/"
)
_STANDARD = re.compile(
    r"(?:[A-Za-z_]{2,8}\.)?(?:RFC|ISO|IEC|IEEE|CVE|CWE|CAPEC|FIPS|ECMA|PEP|ANSI|UTF|CP)[-_]?\d[\d.:-]*[a-z]?$"
    r"|(?:[A-Za-z]{2,10}[-_])?(?:sha|SHA|md|MD|hmac|HMAC)[-_]?\d{1,3}(?:[-_][A-Za-z]{2,8})?$"
    r"|localhost:\d{1,5}$|[A-Z]\d+(?:\.\d+)+(?:[-+.][\w.+-]+)?$"
)
"""Names of standards, and of what they define: `RFC4519`, `sk_SK.ISO8859-2`, `scram-sha-256`,
`T1098.001`; and where a server is while somebody tries it out. A person may choose such a thing."""
_PORT = re.compile(r"\d{1,5}/(?:tcp|udp|sctp)$")
_MEMBER = re.compile(
    r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*\.(?:pass(?:word|wd|phrase)?|pwd|secret|token|credentials?|(?:api|private|secret)_?key)$",
    re.IGNORECASE,
)
"""`parsedURL.password`: a member that is called as what it holds."""
_WRITTEN_CODE = re.compile(
    r"(?<![\w)\]])(?:(?![A-Za-z_])[\w)\]])*+[A-Za-z_][\w)\]]*+(?:&&|\|\||!==?)[A-Za-z_!(]"
    r"|[\w)]=![01]\b|(?<!\w)(?:(?![A-Za-z_])\w)*+[A-Za-z_]\w*+!==?$|\)\}\w?|\)\{"
    r"|^[\w$]{1,3}\?[\w$]+[\[.(]"
)
"""Signs between the words of programs without spaces: operators, members, ends of functions."""
_CHARACTERS = re.compile(r"\[[^\]]{0,40}(?:A-Z|a-z|0-9).{0,8}(?:A-Z|a-z|0-9)|\(\?[:=!<P]|\\%\(")
"""A class of characters with ranges in it, or a group that is not kept, as a pattern has them."""
_ACCESS_SCOPE = re.compile(r"[A-Z0-9]{8,}/\d{8}/")
"""Credential in a signature of AWS: an id, a date, a region."""
_SITE = re.compile(
    r"[a-z0-9-]{2,40}(?:\.[a-z0-9-]{1,40})*\.(?:io|com|org|net|dev|app|in|de|co|ai|sh|internal|local)/[\w./@-]*$"
)
"""A place on the web without its scheme: `k8s.io/client-go`."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}$")
_SHORT_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,8}[uUlL]{0,3}$")
_BASE64_KEY = re.compile(r"[A-Za-z0-9+/]{40,}={0,2}$")
_HEX = re.compile(r"(?:0x)?[0-9a-fA-F]+$")
_LETTERS = re.compile(r"[A-Za-z]+$")
_HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}", re.IGNORECASE)
_VERSION = re.compile(r"[v^~<>=]*(?:\d{1,3}:)?\d+(?:\.\d+)+(?:[-+.~][\w.+~-]+)?(?:/go\.mod)?$")
"""With the epoch of Debian and RPM in front: `1:4.13+dfsg1-1+b1`."""
_MEDIA_TYPE = re.compile(
    r"(?:application|audio|font|image|message|model|multipart|text|video)/[a-z0-9][\w.+-]{1,80}"
    r"(?:; ?charset=[\w-]{3,20})?$"
)
_TRACE = re.compile(
    r"(?:[0-9a-f]{2}-)?[0-9a-f]{32}-[0-9a-f]{16}(?:-[0-9a-f]{1,2})?$|eyJ2IjpbMCwx[A-Za-z0-9+/]*={0,2}$"
)
"""A trace and a span of it, `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`, or both as New Relic
sends them: base64 of `{"v":[0,1…`."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]|$)|\d\d:\d\d(?::\d\d)?$")
_NUMBER = re.compile(r"[-+]?\d[\d_,.]*(?:e[-+]?\d+)?[a-zA-Z]{0,2}$")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}")
"""Letters of scripts that write no spaces, or sentences within words."""
_DIGIT = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_JOINT = re.compile(r"[-./:]")
_SHORT = 256


def has_digit(value: str) -> bool:
    return _DIGIT.search(value) is not None


def has_letter(value: str) -> bool:
    return _LETTER.search(value) is not None


def kinds(value: str) -> int:
    """Return how many of these are in it: digits, capitals, small letters."""
    return has_digit(value) + (value.lower() != value) + (value.upper() != value)


@remembered(2_048)
def entropy(value: str) -> float:
    """Shannon entropy in bits per character."""
    total = len(value)
    if total > _SHORT:
        return -sum([_bits(count, total) for count in Counter(value).values()])
    # A short text is faster to count character by character.
    bits = _bits_by_count(total)
    return -sum([bits[value.count(char)] for char in dict.fromkeys(value)])


@lru_cache(maxsize=_SHORT + 1)
def _bits_by_count(total: int) -> tuple[float, ...]:
    return (0.0, *(_bits(count, total) for count in range(1, total + 1)))


def _bits(count: int, total: int) -> float:
    """Return what a character that is so many of all adds to their entropy, below zero."""
    return count / total * math.log2(count / total)


def is_reference(value: str, *, quoted: bool = False) -> bool:
    """Names a secret that is kept elsewhere, or computes one. Between quotes, only a bracket at the end makes
    a call."""
    match = _REFERENCE.match(value) or _CHAIN.match(value) or _BETWEEN_TEXTS.match(value)
    if match is None and (not quoted or value[-1:] in "()[]") and not is_crossed(value):
        match = _CALL.match(value)
    if match is None and not quoted and _POINTER.match(value):
        return len(value) < 10 or not is_opaque(value[1:])
    return bool(match or _SCOPED.match(value) or _TEMPLATE.search(value) or _CHARACTERS.search(value))


def is_code(value: str) -> bool:
    """Return whether signs of programs stand between its words. Random values have the same signs between
    theirs."""
    if is_member(value):
        return True
    return _WRITTEN_CODE.search(value) is not None and not (has_digit(value) and is_opaque(value, 12))


def is_member(value: str) -> bool:
    """Return whether it is a member of something, called as what it holds."""
    return _MEMBER.match(value) is not None


def is_crossed(value: str) -> bool:
    """Return whether a bracket in it is closed by one of another kind: no program, and no template, does
    that."""
    return _CROSSED.search(value) is not None


@remembered(2_048)
def is_placeholder(value: str) -> bool:
    """Stands for a secret that somebody is to fill in."""
    low = value.lower()
    if (
        low in _STOP
        or low.strip(_FRAME) in _STOP
        or _EXAMPLE.search(low)
        or _LEFT_FOR.search(low)
        or _SHORTENED.match(value)
        or (low[:1] in "<[{(" and low[-1:] in ">]})")
    ):
        return True
    if len(set(low)) <= 2 and not low.isalpha():
        return True
    return len(set(low)) <= 1 or bool(_PARTS.find_matches_as_indexes(low))


def is_uuid(value: str) -> bool:
    """Eight, four, four, four and twelve hexadecimal digits."""
    return _UUID.match(value) is not None


def is_number(value: str) -> bool:
    """Digits and what numbers hold besides."""
    return _NUMBER.match(value) is not None


def is_identifier(value: str) -> bool:
    """Return what programs call things: one name, or several with points or arrows between them."""
    return _IDENTIFIER.match(value) is not None


def is_hex(value: str) -> bool:
    """Hexadecimal digits and nothing else."""
    return _HEX.match(value) is not None


def ends_as_word(value: str) -> bool:
    """Ends as words of the language, or of programs, do."""
    return value.lower().endswith(_ENDINGS)


def is_address(value: str) -> bool:
    """A path, file name, URL, version, date, media type, trace or hash with its algorithm's name."""
    if _PATH.match(value) or _FILE.match(value) or _COPY.match(value) or _AT_HOST.match(value):
        return not _BASE64_KEY.match(value)
    if _OBJECT.match(value) or _SITE.match(value) or _ACCESS_SCOPE.match(value) or _SHORT_HEX.match(value):
        return True
    if _PORT.match(value) or _TRACE.match(value) or _MEDIA_TYPE.match(value):
        return True
    return bool(_HASH.match(value) or _VERSION.match(value) or _DATE.match(value))


def is_standard(value: str) -> bool:
    """A standard, an algorithm, a version with a letter in front, a port of this machine, numbered things."""
    return _STANDARD.match(value) is not None or _COUNTED_LIST.match(value) is not None


def is_plain_url(value: str) -> bool:
    """A URL without a user, a query or a part that could be a token."""
    scheme, sign, rest = value.partition("://")
    if not sign or not _SCHEME.match(scheme) or "@" in rest or "?" in rest:
        return False
    return not any(is_opaque(part, 16) and has_digit(part) for part in rest.split("/"))


@remembered(2_048)
def is_wordy(value: str) -> bool:
    """Made of words: letters that can be spoken, humps or separators between them, few digits."""
    humps = _HUMPS.findall(value)
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
    if 2 * foreign <= len(letters):
        return False
    # Where no spaces part words, a sentence is one of them, and has figures as well.
    return not has_digit(value) or _UNSPACED.search(value) is not None


def is_slug(value: str) -> bool:
    """Words with joints between them, whatever stands behind: `cache-linux-x64-2951-cc2b503e`."""
    words = [part for part in _JOINT.split(value) if len(part) > 2 and part.isalpha() and is_wordy(part)]
    return len(words) >= 2
