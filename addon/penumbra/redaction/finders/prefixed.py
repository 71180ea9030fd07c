"""Tokens of services that no rule knows: a short prefix and a long random tail.

Most services of today hand out such tokens, so that scanners may know them. What is no token looks
otherwise: hashes are hexadecimal, names are made of words, and ids have well-known prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import re2

from penumbra import rules
from penumbra.linear import Linear
from penumbra.redaction.program_names import is_program_name
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.values import entropy, is_placeholder, kinds

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
TAIL = Linear(
    rb"[_-][A-Za-z0-9]{28,}|\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}|[0-9a-f]{32}\.[A-Za-z0-9]{16}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}"
    rb"|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|\.[A-Za-z0-9_-]{6}:[A-Za-z0-9_-]{43}",
    _OPTIONS,
)
_DOTTED = (
    # An id of digits in base64, a time, a signature: of bots of Discord.
    re.compile(
        rb"(?<![\w.+/-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,42}(?![\w.+/-])"
    ),
    # An id and a secret: of Zhipu and its like.
    re.compile(rb"(?<![\w.+/-])[0-9a-f]{32}\.(?=[A-Za-z]{0,15}[0-9])[A-Za-z0-9]{16}(?![\w.+/-])"),
    # An application, a key of it and its secret: of Ably.
    re.compile(rb"(?<![\w.+/-])[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{6}:[A-Za-z0-9_-]{43}(?![\w.+/-])"),
    # An id and a digest: of Airtable.
    re.compile(rb"(?<![\w.+/-])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?![\w.+/-])"),
    # Three numbers: of Mailgun.
    re.compile(rb"(?<![\w.+/-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![\w.+/-])"),
)
"""Tokens in parts with points between them that nothing else is written like."""
_AROUND = re.compile(rb"\(\?(?:<!|!|=)[^)]*\)")
_MAY_BE_DOTTED = tuple(Linear(_AROUND.sub(b"", pattern.pattern), _OPTIONS) for pattern in _DOTTED)
"""The same, whatever stands around them: a quick question that most texts fail."""
_PART = rb"(?:[a-z0-9]{1,14}|[A-Z0-9]{1,14}|[A-Z][a-z]{1,14})"
_PREFIX = re.compile(
    rb"(?:[a-z][a-z0-9]{1,14}|[A-Z][A-Z0-9]{1,14}|[A-Z][a-z]{1,14})(?:[_-]" + _PART + rb"){0,3}"
)
_PREFIX_CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_LONGEST_PREFIX = 64
_HEX = re.compile(rb"[0-9a-fA-F]+")
_END = re.compile(rb"[A-Za-z0-9_/+=-]|\.[A-Za-z0-9]")
_DIGEST = re.compile(rb"(?i)(?<![a-z0-9])(?:sha-?[0-9]{1,3}|md5|blake[0-9][a-z]?)[=:-]\Z")
"""In front of what is the digest of something: `sha256=` of a wheel's list of files."""
_BITS = 3.6
_SPEC = rules.load("secrets/words/prefixes.yaml")
_IDS = frozenset(_SPEC["ids"].split())
_TELLING = tuple(_SPEC["telling"].split())


def prefixed_tokens(data: bytes) -> Iterator[Span]:
    """Spans of whole tokens, with their prefixes."""
    dotted = False
    for match in TAIL.finditer(data):
        joint, end = match.span()
        if data[joint] not in b"_-":
            dotted = True
            continue
        low = max(0, joint - _LONGEST_PREFIX)
        start = low + len(data[low:joint].rstrip(_PREFIX_CHARACTERS))
        prefix, tail = data[start:joint], data[joint + 1 : end]
        if not _PREFIX.fullmatch(prefix) or data[start - 1 : start] in (b"/", b"+", b".", b"\\"):
            continue
        if is_program_name(tail.decode("ascii")) or _DIGEST.search(data, max(0, start - 12), start):
            continue
        if _END.match(data, end) or not _is_random(tail, prefix.decode("ascii").lower()):
            continue
        yield Span(start, end, "token", "prefixed-token", Rank.STRUCTURE, sure=True)
    for pattern, may_be in zip(_DOTTED, _MAY_BE_DOTTED, strict=True) if dotted else ():
        for token in pattern.finditer(data) if may_be.search(data) else ():
            if pattern in _DOTTED[-2:] or kinds(token[0].decode("ascii")) == 3:
                yield Span(*token.span(), "token", "dotted-token", Rank.GENERIC, sure=True)


def _is_random(tail: bytes, prefix: str) -> bool:
    if prefix.replace("-", "_").split("_")[0] in _IDS:
        return False
    text = tail.decode("ascii")
    if is_placeholder(text):
        return False
    if _HEX.fullmatch(tail):
        return len(tail) >= 32 and any(word in prefix for word in _TELLING) and entropy(text) >= 3.0
    return sum(map(str.isdigit, text)) >= 3 and entropy(text) >= _BITS
