"""Private keys that are written number by number: as JSON, as OpenSSL prints them, as lists of wallets."""

from __future__ import annotations

from collections.abc import Iterator

from penumbra.redaction import fronts
from penumbra.redaction.late import late
from penumbra.redaction.span import Finder, Rank, Span

_QUOTE = rb"\\{0,31}[\"']"
_KIND = late(rb"kty" + _QUOTE + rb"\s{0,8}:\s{0,8}" + _QUOTE + rb"(?:EC|RSA|OKP|oct|AKP)" + _QUOTE)
_MEMBER = late(
    _QUOTE
    + rb"(?:d|p|q|dp|dq|qi|k|priv)"
    + _QUOTE
    + rb"\s{0,8}:\s{0,8}"
    + _QUOTE
    + rb"([A-Za-z0-9_=-]{16,4096})"
)
_REACH = 8_192
"""Bytes on either side of a key's kind in which its members stand."""
_BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
_LEAD = rb"(?:" + fronts.ANY + rb")?[ \t]{0,40}"
_NUMBER = late(
    rb"(?:privateexponent|prime[12]|exponent[12]|coefficient|priv):[ \t]{0,4}"
    + _BREAK
    + _LEAD
    + rb"([0-9a-f]{2}:)"
)
_OCTETS = late(_LEAD + rb"(?:[0-9a-f]{2}:){0,64}[0-9a-f]{0,2}(?=" + _BREAK + rb"|\Z|\\{0,31}\")")
_LINE_END = late(_BREAK)
_LEAST = 12
"""Octets of a number that is part of a key."""
_LONGEST = 4_096
_LISTED = late(_BREAK + _LEAD + rb"\([0-9]{1,3}\) (?:0x)?([0-9a-fA-F]{64})(?![0-9a-fA-F])")
_RULE = late(_BREAK + _LEAD + rb"[=-]{3,80}")
_MOST = 100


def _json_keys(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """The secret members of a JSON Web Key."""
    done = 0
    for place in places:
        if place < done or not _KIND.match(data, place):
            continue
        start = max(done, data.rfind(b"{", max(0, place - _REACH), place))
        end = data.find(b"}", place, place + _REACH)
        done = end if end >= 0 else min(len(data), place + _REACH)
        for member in _MEMBER.finditer(data, start, done):
            yield _span(*member.span(1))


def _printed_numbers(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """`openssl rsa -text`: octets with colons between them, line after line."""
    done = 0
    for place in places:
        number = _NUMBER.match(low, place) if place >= done else None
        if number is None:
            continue
        at = end = number.start(1)
        while at - number.start() < _LONGEST and (line := _OCTETS.match(low, at)) and line[0].strip():
            end = line.end()
            following = _LINE_END.match(low, end)
            if following is None:
                break
            at = following.end()
        done = end
        if low.count(b":", number.start(1), end) >= _LEAST:
            yield _span(number.start(1), end)


def _listed_keys(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """The private keys that a test network lists at its start."""
    for place in places:
        at = place + len(b"private keys")
        rule = _RULE.match(data, at)
        at = rule.end() if rule else at
        for _ in range(_MOST):
            key = _LISTED.match(data, at)
            if key is None:
                break
            yield _span(*key.span(1))
            at = key.end()


def _span(start: int, end: int) -> Span:
    return Span(start, end, "private-key", "private-key", Rank.BLOCK)


KEY_FORMATS = (
    Finder("json-web-key", (b'kty"', b"kty'", b"kty\\"), _json_keys),
    Finder(
        "printed-private-key",
        (
            b"privateexponent:",
            b"prime1:",
            b"prime2:",
            b"exponent1:",
            b"exponent2:",
            b"coefficient:",
            b"priv:",
        ),
        _printed_numbers,
    ),
    Finder("listed-private-keys", (b"private keys",), _listed_keys),
)
