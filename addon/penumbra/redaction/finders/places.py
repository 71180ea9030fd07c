"""This module finds secrets in cookies, in Secrets of Kubernetes and in lists of logins.

A list of logins (pgbouncer, PPP, JMX, rsync, Jetty, Postfix) has lines with a user and a password. The name
of the file, in the text or in the call, identifies such a list. A comment at the beginning of the file also
identifies the list. A few lines are recognised by their users, or by the quotes around user and password.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from penumbra.compress import time_budget
from penumbra.redaction.finders.value_reading import Pair, Value, before_bar, judged, patterns, secrets
from penumbra.redaction.judgement import judge
from penumbra.redaction.names import Name, Strength
from penumbra.redaction.shared_patterns import late
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style, is_opaque, is_plain_url, kinds

_FORMS = patterns("places")
_STEP = late(rb"{BREAK}")
_BY_FILE = {
    b"userlist.txt": _FORMS["pair"],
    b"chap-secrets": _FORMS["secrets"],
    b"pap-secrets": _FORMS["secrets"],
    b"# client": _FORMS["secrets"],
    b"jmxremote.password": _FORMS["role"],
    b"rsync.secrets": _FORMS["plain_login"],
    b"rsyncd.secrets": _FORMS["plain_login"],
    b"passwd-s3fs": _FORMS["plain_login"],
    b"htpasswd": _FORMS["plain_login"],
    b"realm.properties": _FORMS["realm"],
    b"users.properties": _FORMS["realm"],
    b"sasl_passwd": _FORMS["mail"],
}
_MOST_ODD_LINES = 10
"""The greatest number of consecutive lines without a user in a list. Such lines may be empty."""
_LONGEST_BEGINNING = 128
"""The beginning of a line is looked for in at most this number of bytes before an anchor."""
_ROLES = (b"monitorrole", b"controlrole")
_PASSWORD = Name(Strength.PASSWORD, "password")


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
    grep = _FORMS["in_front"].match(data, at)
    if grep is not None:
        yield from _found(data, form.match(data, grep.end()), Style.ENV)
    rest = _FORMS["rest_of_line"].match(data, at)
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
        line = line or _FORMS["comment"].match(data, at)
        odd = 0 if line else odd + 1
        step = _STEP.match(data, line.end()) if line else None
        step = step or (_STEP.search(data, at) if odd < most_odd else None)
        if step is None:
            return at
        at = step.end()


def _lone(data: bytes, low: bytes, place: int) -> Iterator[Pair]:
    """Yield the password in a line of a list of logins. The name of the file is unknown."""
    quoted = low.startswith((b'" "', b'\\" \\"'), place)
    if quoted and not _FORMS["pair_end"].match(data, place):
        return
    low_end = max(0, place - _LONGEST_BEGINNING)
    ends = list(_STEP.finditer(data, low_end, place))
    if not ends and low_end:
        return
    start = ends[-1].end() if ends else 0
    if low.startswith(_ROLES, place):
        yield from _found(data, _FORMS["role"].match(data, place), Style.PROSE)
    elif quoted:
        line = _FORMS["pair"].match(data, start)
        if line is not None and _is_among_others(data, start, line):
            yield from _found(data, line, Style.ENV)
    elif _FORMS["chap_servers"].match(data, start):
        yield from _found(data, _FORMS["chap"].match(data, start), Style.PROSE)


def _is_user_line(line: re.Match[bytes]) -> bool:
    """Return whether a line begins with a user and has a hash, or a password with capitals, small letters and
    digits."""
    value = line[1].decode("utf-8", "replace")
    distinct = _is_digest(line) or (kinds(value) == 3 and len(value) >= 8)
    return distinct and _FORMS["user"].search(line[0]) is not None


def _is_digest(line: re.Match[bytes]) -> bool:
    return _FORMS["digest"].match(line[1]) is not None


def _is_among_others(data: bytes, start: int, line: re.Match[bytes]) -> bool:
    """Return whether the next or the previous line also has a user. A single line of two quoted words is not
    a list of users."""
    step = _STEP.match(data, line.end())
    other = _FORMS["pair"].match(data, step.end()) if step else None
    if other is None:
        low = max(0, start - _LONGEST_BEGINNING - 2)
        begins = [low, *(step.end() for step in _STEP.finditer(data, low, start))]
        other = _FORMS["pair"].match(data, begins[-2]) if len(begins) > 1 else None
    if other is None or not _is_user_line(other):
        return False
    return _is_user_line(line) or (_is_digest(other) and _FORMS["user"].search(line[0]) is not None)


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
_CRUMB_ATTRIBUTES = frozenset(
    (b"path", b"domain", b"expires", b"max-age", b"samesite", b"version", b"priority", b"lang", b"theme")
)


def _cookies(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    done = 0
    for place in places:
        head = _FORMS["cookie"].match(data, place) if place >= done else None
        at = head.end() if head else 0
        while at:
            crumb = _FORMS["crumb"].match(data, at)
            if crumb is None:
                break
            done = at = crumb.end()
            if crumb[1].lower() not in _CRUMB_ATTRIBUTES and _is_session(crumb[1], crumb[2]):
                yield Span(*crumb.span(2), "cookie", "cookie", Rank.STRUCTURE, sure=len(crumb[2]) >= 16)
            at = at if crumb[3] else 0


def _is_session(name: bytes, value: bytes) -> bool:
    text = value.decode("utf-8", "replace")
    return judge("given", text) and is_opaque(text, 12 if _FORMS["session"].search(name) else 20)


# In a Kubernetes Secret, all values below `data` and `stringData` are secrets.
_REACH = 65_536


def _kubernetes_secrets(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
    done = 0
    for place in places:
        kind = _FORMS["secret"].match(data, place) if place >= done else None
        if kind is None:
            continue
        first = max(done, place - _REACH, data.rfind(b"\n---", 0, place))
        last = data.find(b"\n---", place, place + _REACH)
        last = last if last >= 0 else min(len(data), place + _REACH)
        done = last
        for block in _FORMS["data"].finditer(data, first, last):
            end = _FORMS["data_end"].search(data, block.end(), last)
            yield from _entries(data, block.end(), end.start() if end else last, block[1] == b"data")


def _entries(data: bytes, start: int, end: int, encoded: bool) -> Iterator[Span]:
    for entry in (_FORMS["encoded_entry"] if encoded else _FORMS["entry"]).finditer(data, start, end):
        value = entry[3]
        if (encoded and len(value) % 4) or (entry[1] and not entry[2]):
            continue  # The length is wrong for base64, or the value is a JSON number.
        text = value.decode("utf-8", "replace")
        if not judge("given", text):
            continue
        sure = is_opaque(text, 16)
        yield Span(*entry.span(3), "kubernetes-secret", "kubernetes-secret", Rank.STRUCTURE, sure)


# `chpasswd` reads a list of logins, which is part of a shell script or of a cloud-init file.
_MOST_LOGINS = 100


def _logins(data: bytes, low: bytes, places: list[int]) -> Iterator[Pair]:
    for place in places:
        head = _FORMS["logins"].match(data, place)
        at = head.end() if head else 0
        for _ in range(_MOST_LOGINS if head else 0):
            line = _FORMS["login"].match(data, at)
            if line is None:
                break
            at = line.end()
            yield Pair(Value(*line.span(1), Style.ENV), (_PASSWORD,), "login-list", Rank.STRUCTURE)


def lone_lines(data: bytes) -> Iterator[Span]:
    """Yield the lines that consist of one random word, in a text from a place for secrets. If the line
    consists of a name, `=` and a value, only the value is yielded."""
    for line in _FORMS["lone_line"].finditer(data):
        name = _FORMS["name"].match(line[1])
        start = line.start(1) + (name.end() if name else 0)
        text = data[start : line.end(1)].decode("latin-1")
        if judge("lone", text) and not ("://" in text and is_plain_url(text)):
            yield Span(start, line.end(1), "credential", "lone-credential", Rank.STRUCTURE)


FINDERS = (
    Finder("cookie", (b"cookie",), _cookies),
    Finder("kubernetes-secret", (b"kind",), _kubernetes_secrets),
    Finder("login-list", (b"chpasswd",), judged(_logins)),
)
