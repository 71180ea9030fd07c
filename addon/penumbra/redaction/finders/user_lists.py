"""Files that hold users and their passwords, a line each: of pgbouncer, PPP, JMX, rsync, Jetty, Postfix.

A line of such a file says nothing of what it is. The file's name does where it is printed or called for, or
the comment that the file begins with; a few lines can be told by their users, or by the quotes around both.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from penumbra.redaction.finders.forms import LEAD
from penumbra.redaction.judgement import is_secret
from penumbra.redaction.names import Strength
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.value_ends import before_bar
from penumbra.redaction.values import Style, kinds

_BREAK = rb"(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)"
_END = rb"\\{0,31}[\"']?[ \t]{0,8}(?=" + _BREAK + rb"|\\{0,31}\"|\Z)"
_QUOTE = rb"\\{0,31}\""
_ADDRESS = rb"(?:\*|-|[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?)"
_QUOTED = (
    LEAD + _QUOTE + rb"[\w.@-]{1,64}" + _QUOTE + rb" " + _QUOTE + rb"(?:md5)?([^\"\\\s]{4,128})" + _QUOTE
)
_PAIR = re.compile(_QUOTED + rb"[ \t]{0,8}(?=" + _BREAK + rb"|\Z)")
_PAIR_END = re.compile(
    _QUOTE + rb" " + _QUOTE + rb"[^\"\\\s]{4,132}" + _QUOTE + rb"[ \t]{0,8}(?:" + _BREAK + rb"|\Z)"
)
"""The end of such a line: a cheap question that most places of its quotes fail."""
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
_ROLE = re.compile(LEAD + rb"[A-Za-z]\w{0,40}[ \t]{1,12}([^\s\"'\\]{4,128})" + _END)
_LOGIN = re.compile(LEAD + rb"[A-Za-z_][\w.@-]{0,60}:([^\s:\"'\\]{4,128})" + _END)
_REALM = re.compile(
    LEAD + rb"[\w.@-]{1,64}[ \t]{0,4}[:=][ \t]{0,4}([^\s,\"'\\]{4,160})(?:[ \t]{0,4},[\w ,.-]{1,160})?" + _END
)
_MAIL = re.compile(LEAD + rb"[\[\]\w.:@-]{1,120}[ \t]{1,12}[^\s:]{1,80}:([^\s\"'\\]{4,128})" + _END)
_REST_OF_LINE = re.compile(rb"[^\n\\]{0,160}(?:" + _BREAK + rb")?")
_IN_FRONT = re.compile(rb"\S{0,40}[:-][0-9]{1,7}[:-]")
"""What `grep` puts between a file's name and its line."""
_COMMENT = re.compile(LEAD + rb"[ \t]{0,8}(?:[#;]|(?=" + _BREAK + rb"))[^\n\\]{0,200}")
_STEP = re.compile(_BREAK)
_BY_FILE = {
    b"userlist.txt": _PAIR,
    b"chap-secrets": _SECRETS,
    b"pap-secrets": _SECRETS,
    b"# client": _SECRETS,
    b"jmxremote.password": _ROLE,
    b"rsync.secrets": _LOGIN,
    b"rsyncd.secrets": _LOGIN,
    b"passwd-s3fs": _LOGIN,
    b"htpasswd": _LOGIN,
    b"realm.properties": _REALM,
    b"users.properties": _REALM,
    b"sasl_passwd": _MAIL,
}
_MOST_LINES = 200
_LONGEST_BEGINNING = 128
"""Bytes in front of a place in which its line begins."""
_CHAP_SERVERS = re.compile(rb"[\w.@\\\"*-]{1,70}[ \t]{1,12}(?:pptpd|l2tpd|pppoe|xl2tpd|\*)[ \t]")
_ROLES = (b"monitorrole", b"controlrole")
_USER = re.compile(rb"\"[a-z][a-z0-9_.@-]*\\{0,31}\" ")
_DIGEST = re.compile(rb"(?:[0-9a-f]{32}$|SCRAM-SHA-256\$)")


def _lists(data: bytes, low: bytes, places: list[int]) -> Iterator[Span]:
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


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Generator[Span, None, int]:
    """The passwords of the lines behind the name of their file. Returns where they end."""
    grep = _IN_FRONT.match(data, at)
    if grep is not None:
        yield from _found(data, form.match(data, grep.end()), Style.ENV)
    rest = _REST_OF_LINE.match(data, at)
    return (yield from _following(data, rest.end() if rest else at, form))


def file_in(call: str) -> bytes:
    """Return which of these files a path or command line names; empty for none."""
    low = call.lower().encode("utf-8", "replace")
    return next((name for name in _BY_FILE if name in low), b"")


def of_file(data: bytes, name: bytes) -> Iterator[Span]:
    """Yield the passwords of a text that is the file of that name."""
    yield from _following(data, 0, _BY_FILE[name])


def _following(data: bytes, at: int, form: re.Pattern[bytes]) -> Generator[Span, None, int]:
    for _ in range(_MOST_LINES):
        line = form.match(data, at) or _COMMENT.match(data, at)
        if line is None:
            break
        if line.re is form:
            yield from _found(data, line, Style.ENV)
        step = _STEP.match(data, line.end())
        if step is None:
            break
        at = step.end()
    return at


def _lone(data: bytes, low: bytes, place: int) -> Iterator[Span]:
    """The password of a line that tells by itself."""
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
    """Whether a user stands in front, and behind it what is no name of a thing: a digest, or what has
    capitals, small letters and figures."""
    value = line[1].decode("utf-8", "replace")
    distinct = _is_digest(line) or (kinds(value) == 3 and len(value) >= 8)
    return distinct and _USER.search(line[0]) is not None


def _is_digest(line: re.Match[bytes]) -> bool:
    return _DIGEST.match(line[1]) is not None


def _is_among_others(data: bytes, start: int, line: re.Match[bytes]) -> bool:
    """Whether the line behind a user's, or else in front of it, is of a user as well: one line of two texts
    may be anything, but beside a digest it is a password."""
    step = _STEP.match(data, line.end())
    other = _PAIR.match(data, step.end()) if step else None
    if other is None:
        low = max(0, start - _LONGEST_BEGINNING - 2)
        begins = [low, *(step.end() for step in _STEP.finditer(data, low, start))]
        other = _PAIR.match(data, begins[-2]) if len(begins) > 1 else None
    if other is None or not _is_user_line(other):
        return False
    return _is_user_line(line) or (_is_digest(other) and _USER.search(line[0]) is not None)


def _found(data: bytes, line: re.Match[bytes] | None, style: Style) -> Iterator[Span]:
    if line is None:
        return
    start, end = line.span(1)
    if data[start - 1 : start] != b'"':
        end = before_bar(data, start, end)
    if is_secret(data[start:end].decode("utf-8", "replace"), Strength.PASSWORD, style):
        yield Span(start, end, "password", "user-list", Rank.STRUCTURE)


USER_LISTS = Finder(
    "user-list",
    (*_BY_FILE, *_ROLES, b'" "', b'\\" \\"', b"pptpd", b"l2tpd", b"pppoe", b"\t*\n", b'* "', b'*  "'),
    _lists,
)
