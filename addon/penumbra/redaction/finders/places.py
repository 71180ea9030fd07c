"""Places where secrets stand that no single pattern describes: cookies, Kubernetes secrets, the
output of a command that prints one."""

from __future__ import annotations

from collections.abc import Iterator

from penumbra.redaction.finders.forms import LEAD
from penumbra.redaction.judgement import is_secret
from penumbra.redaction.late import late
from penumbra.redaction.names import Strength
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import (
    Style,
    has_digit,
    is_address,
    is_opaque,
    is_placeholder,
    is_plain_url,
    is_reference,
)

# Cookies: `Cookie: a=1; b=2`, `Set-Cookie: a=1; Path=/`, `curl --cookie "a=1"`.
_COOKIE = late(rb"(?i)cookie[\"'\\]{0,4}(?:[ \t]{0,3}[:=]|[ \t])[ \t]{0,3}[\"'\\]{0,4}")
_CRUMB = late(rb"[ \t]{0,3}([A-Za-z0-9!#$%&*.^_|~+-]{1,80})=([^;\s\"'\\,\x1b]{0,4096})(;?)")
_CRUMB_ATTRIBUTES = frozenset(
    (b"path", b"domain", b"expires", b"max-age", b"samesite", b"version", b"priority", b"lang", b"theme")
)
_SESSION = late(rb"(?i)sess|sid|token|auth|jwt|login|remember|secret|csrf|xsrf|key")


def _cookies(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    done = 0
    for place in places:
        head = _COOKIE.match(data, place) if place >= done else None
        at = head.end() if head else 0
        while at:
            crumb = _CRUMB.match(data, at)
            if crumb is None:
                break
            done = at = crumb.end()
            if crumb[1].lower() not in _CRUMB_ATTRIBUTES and _is_session(crumb[1], crumb[2]):
                yield Span(*crumb.span(2), "cookie", "cookie", Rank.STRUCTURE, sure=len(crumb[2]) >= 16)
            at = at if crumb[3] else 0


def _is_session(name: bytes, value: bytes) -> bool:
    text = value.decode("utf-8", "replace")
    if is_placeholder(text) or is_reference(text):
        return False
    return is_opaque(text, 12 if _SESSION.search(name) else 20)


# Kubernetes: everything below `data` and `stringData` of a Secret.
_SECRET = late(rb"kind[\\\"']{0,40}[ \t]{0,4}:[ \t]{0,4}[\\\"']{0,40}Secret(?:[\\\"'\s\x1b]|\Z)")
_DATA = late(rb"(stringData|data)[\\\"']{0,40}[ \t]{0,4}:[ \t]{0,4}(\{)?")
_DATA_END = late(
    rb"\}|(?:\n|\\n)[^A-Za-z\n]{0,24}(?:[\w./-]{0,60}[:\t|-][ ]{0,4})?(?:\x1b\[[0-9;]{0,8}m)?"
    rb"(?:apiVersion|kind|metadata|type|immutable|stringData|data|items|---)\b"
)
_KEY = rb"[A-Za-z0-9_.-]([\\\"']{0,40})[ \t]{0,4}:[ \t]{0,4}([\\\"']{0,40})"
_ENTRY = late(_KEY + rb"([^\s\"'\\\x1b{}\[\]|>]{4,65536})")
_BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
_ENCODED_ENTRY = late(
    _KEY
    + rb"(?:[|>][+-]?[ \t]{0,4}"
    + _BREAK
    + LEAD
    + rb"[ \t]{1,40})?([A-Za-z0-9+/]{4,65536}={0,2})(?=[\s\"'\\\x1b]|\Z)"
)
_REACH = 65_536


def _kubernetes_secrets(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    done = 0
    for place in places:
        kind = _SECRET.match(data, place) if place >= done else None
        if kind is None:
            continue
        first = max(done, place - _REACH, data.rfind(b"\n---", 0, place))
        last = data.find(b"\n---", place, place + _REACH)
        last = last if last >= 0 else min(len(data), place + _REACH)
        done = last
        for block in _DATA.finditer(data, first, last):
            end = _DATA_END.search(data, block.end(), last)
            yield from _entries(data, block.end(), end.start() if end else last, block[1] == b"data")


def _entries(data: bytes, start: int, end: int, encoded: bool) -> Iterator[Span]:
    for entry in (_ENCODED_ENTRY if encoded else _ENTRY).finditer(data, start, end):
        value = entry[3]
        if (encoded and len(value) % 4) or (entry[1] and not entry[2]):
            continue  # Where keys have quotes, a value without them is a number.
        text = value.decode("utf-8", "replace")
        if is_placeholder(text) or is_reference(text):
            continue
        sure = is_opaque(text, 16)
        yield Span(*entry.span(3), "kubernetes-secret", "kubernetes-secret", Rank.STRUCTURE, sure)


# Lists of logins that chpasswd is fed, by the shell or by cloud-init.
_LOGINS = late(
    rb"chpasswd(?:[^\n\\]{0,60}<<-?[ ]?\\{0,31}[\"']?\w{1,20}(?:\\{0,31}[\"'])?[^\n\\]{0,40}"
    rb"|:[ \t]{0,4}" + _BREAK + LEAD + rb"(?:[ \t]{1,20}expire:[^\n\\]{0,20}" + _BREAK + LEAD + rb")?"
    rb"[ \t]{1,20}list:[ \t]{0,4}[|>]?[+-]?[ \t]{0,4})(?=" + _BREAK + rb")"
)
_LOGIN = late(
    _BREAK
    + LEAD
    + rb"[ \t]{0,20}(?:- )?[\"']?[a-z_][\w.-]{0,31}:([^\s:\"'\\]{4,128})[\"']?[ \t]{0,8}(?="
    + _BREAK
    + rb"|\Z)"
)
_MOST_LOGINS = 100


def _logins(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    for place in places:
        head = _LOGINS.match(data, place)
        at = head.end() if head else 0
        for _ in range(_MOST_LOGINS if head else 0):
            line = _LOGIN.match(data, at)
            if line is None:
                break
            at = line.end()
            if is_secret(line[1].decode("utf-8", "replace"), Strength.PASSWORD, Style.ENV):
                yield Span(*line.span(1), "password", "login-list", Rank.STRUCTURE)


_LONE_LINE = late(
    rb"(?m)^(?:[ \t]{0,8}[0-9]{1,7}(?:\xe2\x86\x92|\t)|[+> ]{1,3})?"
    rb"([A-Za-z0-9+/=_.~:-]{16,4096})[ \t\r]{0,8}$"
)
_NAME = late(rb"[A-Za-z_][\w.-]{0,80}=(?=[^=])")


def lone_lines(data: bytes) -> Iterator[Span]:
    """Lines that are one random word and nothing else, for texts where secrets are kept.

    Of a name and its value on such a line, the value.
    """
    for line in _LONE_LINE.finditer(data):
        name = _NAME.match(line[1])
        start = line.start(1) + (name.end() if name else 0)
        text = data[start : line.end(1)].decode("latin-1")
        if is_plain_url(text) if "://" in text else is_address(text):
            continue
        if is_opaque(text, 16) and has_digit(text):
            yield Span(start, line.end(1), "credential", "lone-credential", Rank.STRUCTURE)


FINDERS = (
    Finder("cookie", (b"cookie",), _cookies),
    Finder("kubernetes-secret", (b"kind",), _kubernetes_secrets),
    Finder("login-list", (b"chpasswd",), _logins),
)
