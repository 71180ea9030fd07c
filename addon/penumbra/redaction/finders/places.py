"""This module finds secrets in cookies, in Secrets of Kubernetes and in lists of logins.

A list of logins (pgbouncer, PPP, JMX, rsync, Jetty, Postfix) has lines with a user and a password. The name
of the file, in the text or in the call, identifies such a list. A comment at the beginning of the file also
identifies the list. A few lines are recognised by their users, or by the quotes around user and password.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from penumbra.compress import time_budget
from penumbra.redaction.finders.value_reading import Pair, Value, before_bar, judged, secrets
from penumbra.redaction.judgement import judge
from penumbra.redaction.names import Name, Strength
from penumbra.redaction.shared_patterns import BREAK, LEAD, late
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style, is_opaque, is_plain_url, kinds

_END = rb"\\{0,31}[\"']?[ \t]{0,8}(?=" + BREAK + rb"|\\{0,31}\"|\Z)"
_QUOTE = rb"\\{0,31}\""
_ADDRESS = rb"(?:\*|-|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?)"
_QUOTED = (
    LEAD + _QUOTE + rb"[\w.@-]{1,64}" + _QUOTE + rb" " + _QUOTE + rb"(?:md5)?([^\"\\\s]{4,128})" + _QUOTE
)
_PAIR = late(_QUOTED + rb"[ \t]{0,8}(?={BREAK}|\Z)")
_PAIR_END = late(_QUOTE + rb" " + _QUOTE + rb"[^\"\\\s]{4,132}" + _QUOTE + rb"[ \t]{0,8}(?:{BREAK}|\Z)")
"""This pattern matches the end of a line with a quoted user and password. The match is a fast first test."""
_CLIENT = (
    LEAD
    + rb"(?:"
    + _QUOTE
    + rb")?[\w.@\\*-]{1,64}(?:"
    + _QUOTE
    + rb")?[ \t]{1,12}[\w.*-]{1,40}[ \t]{1,12}(?:"
    + _QUOTE
    + rb")?([^\s\"\\]{4,128})(?:"
    + _QUOTE
    + rb")?"
)
_SECRETS = re.compile(_CLIENT + rb"(?:[ \t]{1,12}" + _ADDRESS + rb"){0,4}" + _END)
_CHAP = re.compile(_CLIENT + rb"[ \t]{1,12}" + _ADDRESS + _END)
_ROLE = late(rb"{LEAD}[A-Za-z]\w{0,40}[ \t]{1,12}([^\s\"'\\]{4,128})" + _END)
_PLAIN_LOGIN = late(rb"{LEAD}[A-Za-z_][\w.@-]{0,60}:([^\s:\"'\\]{4,128})" + _END)
_REALM = late(
    rb"{LEAD}[\w.@-]{1,64}[ \t]{0,4}[:=][ \t]{0,4}([^\s,\"'\\]{4,160})(?:[ \t]{0,4},[\w ,.-]{1,160})?" + _END
)
_MAIL = late(rb"{LEAD}[\[\]\w.:@-]{1,120}[ \t]{1,12}[^\s:]{1,80}:([^\s\"'\\]{4,128})" + _END)
_REST_OF_LINE = late(rb"[^\n\\]{0,160}(?:{BREAK})?")
_IN_FRONT = re.compile(rb"\S{0,40}[:-][0-9]{1,7}[:-]")
"""This pattern matches the text that `grep` prints between a file's name and a line of the file."""
_COMMENT = late(rb"{LEAD}[ \t]{0,8}(?:[#;]|(?={BREAK}))[^\n\\]{0,200}")
_STEP = late(rb"{BREAK}")
_BY_FILE = {
    b"userlist.txt": _PAIR,
    b"chap-secrets": _SECRETS,
    b"pap-secrets": _SECRETS,
    b"# client": _SECRETS,
    b"jmxremote.password": _ROLE,
    b"rsync.secrets": _PLAIN_LOGIN,
    b"rsyncd.secrets": _PLAIN_LOGIN,
    b"passwd-s3fs": _PLAIN_LOGIN,
    b"htpasswd": _PLAIN_LOGIN,
    b"realm.properties": _REALM,
    b"users.properties": _REALM,
    b"sasl_passwd": _MAIL,
}
_MOST_ODD_LINES = 10
"""The greatest number of consecutive lines without a user in a list. Such lines may be empty."""
_LONGEST_BEGINNING = 128
"""The beginning of a line is looked for in at most this number of bytes before an anchor."""
_CHAP_SERVERS = re.compile(rb"[\w.@\\\"*-]{1,70}[ \t]{1,12}(?:pptpd|l2tpd|pppoe|xl2tpd|\*)[ \t]")
_ROLES = (b"monitorrole", b"controlrole")
_USER = re.compile(rb"\"[a-z][a-z0-9_.@-]*\\{0,31}\" ")
_PASSWORD = Name(Strength.PASSWORD, "password")
_DIGEST = re.compile(rb"(?:[0-9a-f]{32}$|SCRAM-SHA-256\$)")


def _lists(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    done = 0
    for place in places:
        if place < done:
            continue
        for name, form in _BY_FILE.items():
            if low.startswith(name, place):
                done = yield from _lines(data, place + len(name), form)
                break
        else:
            yield from _lone(data, low, place)


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Generator[Pair, None, int]:
    """Yield the passwords in the lines below the name of a file. Return the end of the lines."""
    grep = _IN_FRONT.match(data, at)
    if grep is not None:
        yield from _found(data, form.match(data, grep.end()), Style.ENV)
    rest = _REST_OF_LINE.match(data, at)
    return (yield from _following(data, rest.end() if rest else at, form))


def file_in(call: str) -> bytes:
    """Return the first key of `_BY_FILE` that occurs in a path or command line; empty if none occurs."""
    low = call.lower().encode("utf-8", "replace")
    return next((name for name in _BY_FILE if name in low), b"")


def of_file(data: bytes, name: bytes) -> Iterator[Span]:
    """Return the passwords in the text of a file. `name` is the file's key in `_BY_FILE`."""
    return secrets(data, _following(data, 0, _BY_FILE[name], _MOST_ODD_LINES))


def _following(
    data: bytes, at: int, form: re.Pattern[bytes], most_odd: int = 0
) -> Generator[Pair, None, int]:
    odd = 0
    while True:
        time_budget.check()
        line = form.match(data, at)
        yield from _found(data, line, Style.ENV)
        line = line or _COMMENT.match(data, at)
        odd = 0 if line else odd + 1
        step = _STEP.match(data, line.end()) if line else None
        step = step or (_STEP.search(data, at) if odd < most_odd else None)
        if step is None:
            return at
        at = step.end()


def _lone(data: bytes, low: bytes, place: int) -> Iterator[Pair]:
    """Yield the password in a line of a list of logins. The name of the file is unknown."""
    quoted = low.startswith((b'" "', b'\\" \\"'), place)
    if quoted and not _PAIR_END.match(data, place):
        return
    low_end = max(0, place - _LONGEST_BEGINNING)
    ends = list(_STEP.finditer(data, low_end, place))
    if not ends and low_end:
        return
    start = ends[-1].end() if ends else 0
    if low.startswith(_ROLES, place):
        yield from _found(data, _ROLE.match(data, place), Style.PROSE)
    elif quoted:
        line = _PAIR.match(data, start)
        if line is not None and _is_among_others(data, start, line):
            yield from _found(data, line, Style.ENV)
    elif _CHAP_SERVERS.match(data, start):
        yield from _found(data, _CHAP.match(data, start), Style.PROSE)


def _is_user_line(line: re.Match[bytes]) -> bool:
    """Return whether a line begins with a user and has a hash, or a password with capitals, small letters and
    digits."""
    value = line[1].decode("utf-8", "replace")
    distinct = _is_digest(line) or (kinds(value) == 3 and len(value) >= 8)
    return distinct and _USER.search(line[0]) is not None


def _is_digest(line: re.Match[bytes]) -> bool:
    return _DIGEST.match(line[1]) is not None


def _is_among_others(data: bytes, start: int, line: re.Match[bytes]) -> bool:
    """Return whether the next or the previous line also has a user. A single line of two quoted words is not
    a list of users."""
    step = _STEP.match(data, line.end())
    other = _PAIR.match(data, step.end()) if step else None
    if other is None:
        low = max(0, start - _LONGEST_BEGINNING - 2)
        begins = [low, *(step.end() for step in _STEP.finditer(data, low, start))]
        other = _PAIR.match(data, begins[-2]) if len(begins) > 1 else None
    if other is None or not _is_user_line(other):
        return False
    return _is_user_line(line) or (_is_digest(other) and _USER.search(line[0]) is not None)


def _found(data: bytes, line: re.Match[bytes] | None, style: Style) -> Iterator[Pair]:
    if line is None:
        return
    start, end = line.span(1)
    if data[start - 1 : start] != b'"':
        end = before_bar(data, start, end)
    yield Pair(Value(start, end, style), (_PASSWORD,), "user-list", Rank.STRUCTURE)


USER_LISTS = Finder(
    "user-list",
    (*_BY_FILE, *_ROLES, b'" "', b'\\" \\"', b"pptpd", b"l2tpd", b"pppoe", b"\t*\n", b'* "', b'*  "'),
    judged(_lists),
)


# Cookies are written as `Cookie: a=1; b=2`, `Set-Cookie: a=1; Path=/` or `curl --cookie "a=1"`.
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
    return judge("given", text) and is_opaque(text, 12 if _SESSION.search(name) else 20)


# In a Kubernetes Secret, all values below `data` and `stringData` are secrets.
_SECRET = late(rb"kind[\\\"']{0,40}[ \t]{0,4}:[ \t]{0,4}[\\\"']{0,40}Secret(?:[\\\"'\s\x1b]|\Z)")
_DATA = late(rb"(stringData|data)[\\\"']{0,40}[ \t]{0,4}:[ \t]{0,4}(\{)?")
_DATA_END = late(
    rb"\}|(?:\n|\\n)[^A-Za-z\n]{0,24}(?:[\w./-]{0,60}[:\t|-][ ]{0,4})?(?:\x1b\[[0-9;]{0,8}m)?"
    rb"(?:apiVersion|kind|metadata|type|immutable|stringData|data|items|---)\b"
)
_KEY = rb"[A-Za-z0-9_.-]([\\\"']{0,40})[ \t]{0,4}:[ \t]{0,4}([\\\"']{0,40})"
_ENTRY = late(_KEY + rb"([^\s\"'\\\x1b{}\[\]|>]{4,65536})")
_ENCODED_ENTRY = late(
    _KEY
    + rb"(?:[|>][+-]?[ \t]{0,4}{BREAK}{LEAD}[ \t]{1,40})?([A-Za-z0-9+/]{4,65536}={0,2})(?=[\s\"'\\\x1b]|\Z)"
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
            continue  # The length is wrong for base64, or the value is a JSON number.
        text = value.decode("utf-8", "replace")
        if not judge("given", text):
            continue
        sure = is_opaque(text, 16)
        yield Span(*entry.span(3), "kubernetes-secret", "kubernetes-secret", Rank.STRUCTURE, sure)


# `chpasswd` reads a list of logins, which is part of a shell script or of a cloud-init file.
_LOGINS = late(
    rb"chpasswd(?:[^\n\\]{0,60}<<-?[ ]?\\{0,31}[\"']?\w{1,20}(?:\\{0,31}[\"'])?[^\n\\]{0,40}"
    rb"|:[ \t]{0,4}{BREAK}{LEAD}(?:[ \t]{1,20}expire:[^\n\\]{0,20}{BREAK}{LEAD})?[ \t]{1,20}list:[ \t]{0,4}"
    rb"[|>]?[+-]?[ \t]{0,4})(?={BREAK})"
)
_LOGIN = late(
    rb"{BREAK}{LEAD}[ \t]{0,20}(?:- )?[\"']?[a-z_][\w.-]{0,31}:([^\s:\"'\\]{4,128})[\"']?[ \t]{0,8}(?="
    rb"{BREAK}|\Z)"
)
_MOST_LOGINS = 100


def _logins(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places:
        head = _LOGINS.match(data, place)
        at = head.end() if head else 0
        for _ in range(_MOST_LOGINS if head else 0):
            line = _LOGIN.match(data, at)
            if line is None:
                break
            at = line.end()
            yield Pair(Value(*line.span(1), Style.ENV), (_PASSWORD,), "login-list", Rank.STRUCTURE)


_LONE_LINE = late(
    rb"(?m)^(?:[ \t]{0,8}[0-9]{1,7}(?:\xe2\x86\x92|\t)|[+> ]{1,3})?"
    rb"([A-Za-z0-9+/=_.~:-]{16,4096})[ \t\r]{0,8}$"
)
_NAME = late(rb"[A-Za-z_][\w.-]{0,80}=(?=[^=])")


def lone_lines(data: bytes) -> Iterator[Span]:
    """Yield the lines that consist of one random word, in a text from a place for secrets. If the line
    consists of a name, `=` and a value, only the value is yielded."""
    for line in _LONE_LINE.finditer(data):
        name = _NAME.match(line[1])
        start = line.start(1) + (name.end() if name else 0)
        text = data[start : line.end(1)].decode("latin-1")
        if judge("lone", text) and not ("://" in text and is_plain_url(text)):
            yield Span(start, line.end(1), "credential", "lone-credential", Rank.STRUCTURE)


FINDERS = (
    Finder("cookie", (b"cookie",), _cookies),
    Finder("kubernetes-secret", (b"kind",), _kubernetes_secrets),
    Finder("login-list", (b"chpasswd",), judged(_logins)),
)
