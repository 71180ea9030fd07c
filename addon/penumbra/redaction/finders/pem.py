"""This module finds private keys. Most are between a BEGIN line and an END line.

The lines of a key may follow line numbers, diff signs or quotes. Escaped newlines may separate the lines. The
BEGIN or END line may be missing, and the whole key may be encoded in base64 again. A BEGIN line without a key
stays.

Other keys are written as numbers: in JSON, in the output of OpenSSL, or in lists of wallets.
"""

from __future__ import annotations

import base64
import re
from bisect import bisect_left
from collections.abc import Iterator
from functools import partial

from penumbra.redaction import shared_patterns
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.short_texts import forgettable

_QUOTE = rb"\\{0,31}[\"']"
_LEAD = rb"(?:" + shared_patterns.LINE_START + rb")?[ \t]{0,40}"
_late = partial(late, _LEAD=_LEAD, _QUOTE=_QUOTE)
_KIND = _late(rb"kty{_QUOTE}\s{0,8}:\s{0,8}{_QUOTE}(?:EC|RSA|OKP|oct|AKP){_QUOTE}")
_MEMBER = _late(rb"{_QUOTE}(?:d|p|q|dp|dq|qi|k|priv){_QUOTE}\s{0,8}:\s{0,8}{_QUOTE}([A-Za-z0-9_=-]{16,4096})")
_REACH = 8_192
"""The greatest distance in bytes between the member `kty` of a JSON key and the braces around the key."""
_NUMBER = _late(
    rb"(?:privateexponent|prime[12]|exponent[12]|coefficient|priv):[ \t]{0,4}{BREAK}{_LEAD}([0-9a-f]{2}:)"
)
_OCTETS = _late(rb"{_LEAD}(?:[0-9a-f]{2}:){0,64}[0-9a-f]{0,2}(?={BREAK}|\Z|\\{0,31}\")")
_LINE_END = late(rb"{BREAK}")
_LEAST_KEY = 12
"""The smallest number of colons in a printed number that is part of a key."""
_LONGEST_KEY = 4_096
_LISTED = _late(rb"{BREAK}{_LEAD}\([0-9]{1,3}\) (?:0x)?([0-9a-fA-F]{64})(?![0-9a-fA-F])")
_RULE = _late(rb"{BREAK}{_LEAD}[=-]{3,80}")
_MOST = 100


def _json_keys(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """Yield the secret members of JSON Web Keys."""
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
    """Yield the secret numbers in the output of `openssl rsa -text`. Each number is a list of hexadecimal
    bytes, separated by colons, on several lines."""
    done = 0
    for place in places:
        number = _NUMBER.match(low, place) if place >= done else None
        if number is None:
            continue
        at = end = number.start(1)
        while at - number.start() < _LONGEST_KEY and (line := _OCTETS.match(low, at)) and line[0].strip():
            end = line.end()
            following = _LINE_END.match(low, end)
            if following is None:
                break
            at = following.end()
        done = end
        if low.count(b":", number.start(1), end) >= _LEAST_KEY:
            yield _span(number.start(1), end)


def _listed_keys(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """Yield the private keys that a blockchain test network prints when it starts."""
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


_NUMBERS = b"privateexponent prime1 prime2 exponent1 exponent2 coefficient priv".split()
KEY_FORMATS = (
    Finder("json-web-key", (b'kty"', b"kty'", b"kty\\"), _json_keys),
    Finder("printed-private-key", tuple(name + b":" for name in _NUMBERS), _printed_numbers),
    Finder("listed-private-keys", (b"private keys",), _listed_keys),
)
_HEADER = rb"(?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_OTHER_ARMOUR = rb"-----%s OpenVPN Static key V1-----|---- %s SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
_BEGIN = late(rb"-----BEGIN " + _HEADER + rb"|" + _OTHER_ARMOUR.replace(b"%s", b"BEGIN"))
_END = late(rb"-----END " + _HEADER + rb"|" + _OTHER_ARMOUR.replace(b"%s", b"END"))
_BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}[nr]|[ ])"
_GAP = late(rb"(?:\s|\\{1,31}[nrt]|[\"'`+,.\\]|<br ?/?>|\x1b\[[0-9;]{0,12}m|>){0,80}")
_ATTRIBUTE = late(rb"[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,100}")
_MATERIAL = late(rb"=?[A-Za-z0-9+/]{1,4096}={0,2}")
_ENDS = late(
    rb"(?:[ \t\"'`+,.\\]{0,16}(?:\r?\n|\Z|\x1b|-----))|[ \t]{0,8}\\{1,31}[nr\"]|[\"'`<]| -----"
    rb"| [A-Za-z0-9+/=]{40}"
)
_HIDDEN = late(rb"\x1b\[[0-9;]{0,12}m")
_TAIL_LINE = late(
    rb"(?:\A|[^A-Za-z0-9+/=])([A-Za-z0-9+/]{1,256}={0,2})[\"'`+,. \t\\]{0,16}(?:\x1b\[[0-9;]{0,12}m)?\Z"
)
_SPLIT = late(rb"\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n")
_NAKED = late(
    rb"b3BlbnNzaC1rZXktdjEA|MII[A-Za-z0-9+/]{2,4}(?:IBAAKCA[QgY]EA|IBAAKBgQ|IBADANBgkqhkiG9w0BAQEFAASC)"
    rb"|MI[A-Za-z0-9+/]{1,4}AgEAMBMGByqGSM49AgEGCCqGSM49AwEHB|MHcCAQEEI|MIGkAgEBBD|MC4CAQAwBQYDK2V[wuv]BCIEI"
    rb"|MII[A-Za-z0-9+/]{3}IBAzCC|/u3\+7QAAAA[IE]|zs7OzgAAAAI"
    rb"|MII[A-Za-z0-9+/]{2,4}(?:BXBgkqhkiG9w0BBQ0w|AbBgkqhkiG9w0BBQMw)"
)
_WRAPPED = late(rb"LS0tLS1CRUdJTi|TFMwdExTMUNSVWRKVG|UHVUVFktVXNlci1LZXktRmls")
_PPK = late(rb"Private-Lines: ?(\d{1,4})")
_LEAST = 24
"""Least number of characters in a key."""
_LONGEST = 65_536
_SHORT = 16
"""Least number of characters in a line of a key, except the last line."""
_ANCHORS = (
    b"private key",
    b"private-lines:",
    b"static key v1",
    *(b"ibazcc", b"/u3+7qaaaa", b"zs7ozgaaaai"),
    *(b"ls0tls1crudjti", b"tfmwdextmunsvwrkvg", b"uhvuvfktvxnlci1lzxktrmls"),
    *(b"b3blbnnzac1rzxktdjea", b"ibaakc", b"ibaakbgq", b"badanbgkqhkig9w0baqefaasc", b"bgkqhkig9w0bbq"),
    *(b"mbmgbyqgsm49ageg", b"mhccaqeei", b"migkagebbd", b"mc4caqawbqydk2v"),
)
"""The lower-case copy of a text with a private key contains one of these strings."""

_BEFORE, _AFTER = 16, 64
"""The beginning of a key without a BEGIN line is in this range of bytes around an anchor."""


def private_keys(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    """Yield the private keys of a text. A key may be incomplete."""
    yield from _armoured(data)
    yield from _naked(data, places)
    yield from _wrapped(data, places)
    yield from _putty(data)


def _armoured(data: bytes) -> Iterator[Span]:
    ends = list(_END.finditer(data))
    starts = [match.start() for match in ends]
    for match in _BEGIN.finditer(data):
        at = bisect_left(starts, match.end())
        end = starts[at] if at < len(starts) else len(data) + _LONGEST
        body = _body(data, match.start(), match.end(), end)
        if body:
            yield _span(*body)
    covered = 0
    for match in ends:
        start = data.rfind(b"-----BEGIN ", covered, match.start())
        if start < 0 or match.start() - start >= _LONGEST:
            tail = _headless(data, covered, match.start())
            if tail:
                yield _span(*tail)
        covered = max(covered, match.end())


def _body(data: bytes, begin: int, start: int, end: int) -> tuple[int, int] | None:
    """Return the range of the key after the BEGIN line from `begin` to `start`; None if there is no key. The
    next END line is at `end`."""
    lines = _lines(data, start, _line_prefix(data, begin))
    if lines is not None:
        return lines
    if end - start > _LONGEST or data.find(b"-----BEGIN", start, end) >= 0:
        return None
    runs = [m.span() for m in re.finditer(rb"[A-Za-z0-9+/=]{16,}", data[start:end])]
    total = sum(stop - first for first, stop in runs)
    if total < _LEAST or total < 0.4 * (end - start):
        return None
    return start + runs[0][0], start + runs[-1][1]


def _line_prefix(data: bytes, at: int) -> re.Pattern[bytes]:
    """Return a pattern for the text before each line of a key. The pattern is the text before the first line,
    with a pattern in place of each number."""
    line = max(data.rfind(b"\n", max(0, at - 200), at) + 1, 0)
    prefix = data[line:at] if line else (data[:at] if at <= 200 else b"")
    return _prefix_pattern(prefix)


@forgettable(256)
def _prefix_pattern(prefix: bytes) -> re.Pattern[bytes]:
    shape = re.sub(rb"(?:\\ )+", b" *", re.sub(rb"[0-9]+", b"[0-9]+", re.escape(_HIDDEN.sub(b"", prefix))))
    shape = shape.replace(b"\\\t", b"[\\t ]*")
    plain = rb"[ \t]{0,16}(?:[0-9]{1,7}(?:\xe2\x86\x92|\t|[:|-]|[ ]{2}))?[ \t]{0,16}[+>|#*/-]{0,2}[ \t]{0,64}"
    return re.compile(rb"(?:\x1b\[[0-9;]{0,12}m){0,2}(?:" + shape + rb"|" + plain + rb")")


def _lines(data: bytes, at: int, prefix: re.Pattern[bytes]) -> tuple[int, int] | None:
    first = last = total = 0
    while at < len(data):
        at = _skip(data, at, prefix)
        match = _MATERIAL.match(data, at)
        if match is None:
            break
        length = len(match[0])
        if length < _SHORT and not (first and (match[0].startswith(b"=") or _is_last(data, match.end()))):
            break
        if not _ENDS.match(data, match.end()):
            break
        first = first or match.start()
        last, total, at = match.end(), total + length, match.end()
        if total > _LONGEST:
            break
    return (first, last) if total >= _LEAST else None


def _is_last(data: bytes, at: int) -> bool:
    """Return whether a line is the last line of a key: an END line is near, or nothing follows."""
    rest = data[at : at + 400]
    return b"-----END" in rest or not rest.strip()


def _skip(data: bytes, at: int, prefix: re.Pattern[bytes]) -> int:
    """Return the offset after line breaks, prefixes, quotes and the attributes of an encrypted key."""
    for _ in range(12):
        start = at
        gap = _GAP.match(data, at)
        at = gap.end() if gap else at
        if data[at - 1 : at] == b"\n" or b"\n" in data[start:at]:
            line = data.rfind(b"\n", start, at) + 1
            lead = prefix.match(data, line)
            if lead and lead.end() > at:
                at = lead.end()
        attribute = _ATTRIBUTE.match(data, at)
        if attribute:
            at = attribute.end()
        if at == start or (_MATERIAL.match(data, at) and not attribute):
            break
    return at


def _headless(data: bytes, low: int, end: int) -> tuple[int, int] | None:
    """Return the range of a key after `low` that has an END line but no BEGIN line; None if there is no
    key."""
    low = max(low, end - _LONGEST)
    window = data[low:end]
    breaks = [(0, 0), *(match.span() for match in _SPLIT.finditer(window))]
    first = last = total = 0
    for (_, start), (until, _) in zip(reversed(breaks[:-1]), reversed(breaks[1:]), strict=True):
        line = _TAIL_LINE.search(window[start:until])
        if line is None or (len(line[1]) < 40 and total and not line[1].startswith(b"=")):
            break
        if total == 0:
            last = start + line.end(1)
        first = start + line.start(1)
        total += len(line[1])
    return (low + first, low + last) if total >= 40 else None


def _near(pattern: re.Pattern[bytes], data: bytes, places: list[int]) -> Iterator[re.Match[bytes]]:
    """Yield the matches of a pattern that contain one of the anchors at `places`."""
    at = 0
    for place in places:
        for match in pattern.finditer(data, max(at, place - _BEFORE), place + _AFTER):
            yield match
            at = match.end()


def _naked(data: bytes, places: list[int]) -> Iterator[Span]:
    """Yield keys without a BEGIN line. The first characters show that the text is a key."""
    done = 0
    for match in _near(_NAKED, data, places):
        if match.start() < done:
            continue
        lines = _lines(data, match.start(), _line_prefix(data, match.start()))
        if lines and lines[1] - lines[0] >= 48:
            done = lines[1]
            yield _span(*lines)


def _wrapped(data: bytes, places: list[int]) -> Iterator[Span]:
    """Yield key files that are encoded in base64 once or twice more."""
    done = 0
    for mark in _near(_WRAPPED, data, places):
        at = mark.start()
        run = _MATERIAL.match(data, at)
        if at < done or run is None or not _hides_key(run[0]):
            continue
        lines = _lines(data, at, _line_prefix(data, at))
        done = lines[1] if lines else run.end()
        yield _span(at, done)


def _hides_key(run: bytes, depth: int = 2) -> bool:
    head = run[:160]
    try:
        text = base64.b64decode(head[: len(head) // 4 * 4])
    except ValueError:
        return False
    if b"PRIVATE KEY" in text or text.startswith(b"PuTTY-User-Key"):
        return True
    return depth > 1 and _hides_key(text, depth - 1)


def _putty(data: bytes) -> Iterator[Span]:
    for match in _PPK.finditer(data):
        lines = _lines(data, match.end(), _line_prefix(data, match.start()))
        if lines:
            yield _span(*lines)


KEYS = Finder("private-key", _ANCHORS, private_keys)
