"""Secrets that stand beside a telling name, whatever the language of the file.

One linear regular expression finds the names that have something like an operator behind them;
for each of them the tail is read with bounded patterns: which operator, which quotes, where the
value ends. Names and values are judged in `names` and `values`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import re2

from penumbra.redaction.names import Names, Strength
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.values import Style, is_opaque, is_secret

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.max_mem = 64 << 20

_STEM = (
    r"(?:passw(?:or[dt]|r?d)s?|passphrase|passcode|pwd|pswd|secrets?|tokens?|keys?|credentials?|creds"
    r"|kennwort|contrase(?:n|\xc3\xb1)a|wachtwoord|motdepasse"
    r"|(?:^|[^a-z])(?:pass|psw|pw|auth|authorization|cookie|jwt|pat|bearer|otp|pin|mnemonic|senha|clave|has(?:l|\xc5\x82)o|heslo|salasana|parola)"
    r"|[a-z](?:pass|pw))"
)
_FOLLOWERS = (
    r"(?:[\\\"'`\])>*]{0,8}[ \t]{0,40}(?:[=:|]|%3[ad]|->|<-)"  # assignment
    r"|[\\\"'`]{1,6}[ \t]{0,4},"  # argument, list
    r"|[\\\"'`]{1,6}[ \t]{0,4}(?:value|content)="  # XML attributes
    r"|,[^\s,]{8}"  # CSV
    r"|[^\s<>]{0,2}>[^\s<>]{4}"  # element
    r"|\([^\s()]{6}"
    r"|(?:[ ]{2,60}|\t{1,8} {0,40})[!-~]{6}"  # table
    r"| is [!-~]{4}"
    r"| [\\\"']{0,3}[a-z0-9+/_.=\-]{0,24}[0-9][a-z0-9+/_.=\-]{6}"  # opaque neighbour
    r"|[\\\"']{0,4},?(?:\s|\\{1,4}[nrt]|[0-9:\t|+>-]|\xe2\x86\x92){1,40}[\\\"'-]{0,4}value[\\\"']{0,4}\s{0,3}:)"  # name/value pair
)
_NAMES = re2.compile((_STEM + r"[a-z0-9_.\-]{0,40}" + _FOLLOWERS).encode("latin-1"), _OPTIONS)
_FLAGS = re2.compile(
    rb"--?[a-z\-]{0,30}(?:pass(?:word|wd|phrase)?|pwd|pw|secret|token|key|auth|credentials?)[ ]+[!-~]{4}",
    _OPTIONS,
)

_NAME_BYTES = re.compile(rb"[A-Za-z0-9_.\-$]*")
_NAME_BEFORE = re.compile(rb"[A-Za-z0-9_.\-$]{0,48}\Z")
_ASSIGN = re.compile(
    rb"([\\\"'`\])>*]{0,8})([ \t]{0,40})(={1,3}>?|:{1,3}=?|=>|\|{1,2}|%3[aAdD]|->|<-)([ \t]{0,40})((?:\\{0,7}[\"'`]){1,3}|@\"|b['\"]|r['\"]|[uf]['\"])?"
)
_ELEMENT = re.compile(rb"([^\s<>]{0,2})>()()([^\S\n]{0,4})()")
_ARGUMENT = re.compile(rb"((?:\\{0,7}[\"'`]))([ \t]{0,4})(,)([ \t]{0,4})((?:\\{0,7}[\"'`])|b['\"])")
_CSV = re.compile(rb"()()(,)()(\")?")
_CALL = re.compile(rb"()()(\()()((?:\\{0,7}[\"'`]))?")
_ATTRIBUTE = re.compile(rb"(\\{0,7}[\"'])([ \t]{0,4})((?:value|content)=)()(\\{0,7}[\"'])")
_PAIR = re.compile(
    rb"([\\\"']{0,6}),?(?:\s|\\{1,4}[nrt]|[0-9:|+>-]|\xe2\x86\x92){1,40}[\\\"'-]{0,4}()(?:value|Value|VALUE)[\\\"']{0,6}(\s{0,3}[:=])(\s{0,3})((?:\\{0,7}[\"']))?"
)
_NESTED = re.compile(
    rb"[\\\"']{0,6}\s{0,3}():\s{0,3}\{[^{}]{0,240}?[\"']value\\{0,7}[\"'](\s{0,3}:)(\s{0,3})(\\{0,7}[\"'])"
)
_APART = re.compile(rb"()([ \t]{1,60}(?:is |was |: ?)?)()()((?:\\{0,7}[\"'`]))?")

_RUN = re.compile(rb"[^\s\"'`<>\\\x1b]{1,4096}")
_RUN_CODE = re.compile(rb"[^\s\"'`<>\\\x1b,;&|(){}\[\]]{1,4096}")
_RUN_QUERY = re.compile(rb"[^\s\"'`<>\\\x1b&#,;)]{1,4096}")
_RUN_ELEMENT = re.compile(rb"[^\s<>\\\x1b\"']{1,4096}")
_PERCENT_END = re.compile(rb"%(?:26|0[aAdD]|22|20|3[bB]|2[cC])|&amp;")
_QUOTED = {
    quote: re.compile(rb"(?:[^" + quote + rb"\\\r\n]|\\[^\r\n]){0,4096}") for quote in (b'"', b"'", b"`")
}
_QUOTED_ESCAPED = re.compile(rb"[^\\\"\r\n]{0,4096}")
_END_OF_LINE = re.compile(rb"[ \t]*(?:\r?\n|\Z|\\[nr]|\x1b\[|\"|\\\"|#|//)")
_UPPER = re.compile(rb"[A-Z][A-Z0-9_]*\Z")
_TRIM = b".,;:!?"


@dataclass(frozen=True, slots=True)
class _Value:
    start: int
    end: int
    style: Style
    quote: bytes = b""


class Assignments:
    """Finds values beside telling names."""

    def __init__(self) -> None:
        self._names = Names()

    def find(self, data: bytes, low: bytes, *, loud: bool = False, quiet: bool = False) -> Iterator[Span]:
        """Spans of secrets; `low` is `data` in lower case.

        `loud` texts are known to hold secrets: weak names count as strong ones. `quiet` ones are
        known to hold hashes: weak names don't count.
        """
        for match in _NAMES.finditer(low):
            span = self._at(data, match.start(), loud, quiet)
            if span:
                yield span
        for match in _FLAGS.finditer(low):
            span = self._flag(data, match.start())
            if span:
                yield span

    def _at(self, data: bytes, start: int, loud: bool, quiet: bool) -> Span | None:
        if not chr(data[start]).isalpha():
            start += 1
        end = _end_of_name(data, start)
        begin = _start_of_name(data, start)
        name = self._names.judge(data[begin:end].decode("latin-1"))
        strength = name.strength
        if strength is Strength.WEAK:
            strength = Strength.STRONG if loud else Strength.NONE if quiet else strength
        if strength is Strength.NONE:
            return None
        value = _value_after(data, begin, end)
        if value is None:
            return None
        text = data[value.start : value.end].decode("utf-8", "replace")
        if not is_secret(text, strength, value.style):
            return None
        sure = strength > Strength.WEAK and is_opaque(text, 12) and any(map(str.isdigit, text))
        return Span(value.start, value.end, name.label, f"name-{name.label}", Rank.GENERIC, sure, value.quote)

    def _flag(self, data: bytes, start: int) -> Span | None:
        end = _end_of_name(data, start)
        name = self._names.judge(data[start:end].decode("latin-1"))
        match = _APART.match(data, end)
        if name.strength is Strength.NONE or match is None:
            return None
        value = _read(data, match.end(), match[5] or b"", Style.ENV, _RUN)
        if value is None:
            return None
        text = data[value.start : value.end].decode("utf-8", "replace")
        if text.startswith("-") or not is_secret(text, name.strength, value.style):
            return None
        sure = is_opaque(text, 12) and any(map(str.isdigit, text))
        return Span(value.start, value.end, name.label, f"name-{name.label}", Rank.GENERIC, sure)


def _end_of_name(data: bytes, start: int) -> int:
    match = _NAME_BYTES.match(data, start)
    return match.end() if match else start


def _start_of_name(data: bytes, start: int) -> int:
    """Where the identifier begins that has its telling part at `start`."""
    low = max(0, start - 48)
    match = _NAME_BEFORE.search(data[low:start])
    begin = low + match.start() if match else start
    # "\nDB_PASSWORD" in a JSON string, "\x1b[32mDB_PASSWORD", "%0ADB_PASSWORD".
    while begin < start and data[begin - 1 : begin] == b"\\" and data[begin] in b"nrt":
        begin += 1
    return begin


def _value_after(data: bytes, begin: int, end: int) -> _Value | None:
    for form in (_assigned, _element, _argument, _pair, _apart):
        value = form(data, begin, end)
        if value is not None:
            return value
    return None


def _assigned(data: bytes, begin: int, end: int) -> _Value | None:
    match = _ASSIGN.match(data, end)
    if match is None:
        return None
    close, gap, operator, after, opener = match.groups(b"")
    if operator == b"|" and not (gap and after):
        return None
    if not opener and operator == b":" and close and close[-1:] in b"\"'":
        nested = _NESTED.match(data, end)
        if nested:
            return _read(data, nested.end(), nested[4], Style.QUOTED, _RUN)
    if opener:
        return _read(data, match.end(), opener, Style.QUOTED, _RUN)
    if operator == b"|":
        return _read(data, match.end(), b"", Style.CONFIG, _RUN)
    if operator[:1] in b"=%" and not gap and not after:
        return _tight(data, begin, end, match.end())
    value = _read(data, match.end(), b"", Style.CODE, _RUN)
    if value is None:
        return None
    if _END_OF_LINE.match(data, value.end):
        number = close and data[value.start : value.end].isdigit()
        return _Value(value.start, value.end, Style.CONFIG)
    quote = close if close[-1:] in (b'"', b"'") else b""
    if quote and data[value.start : value.end].rstrip(b",}]").isdigit():
        return None
    short = _read(data, match.end(), b"", Style.CODE, _RUN_CODE)
    if short and operator[:1] == b":" and data[short.end : short.end + 1] in (b" ", b",", b";", b")", b"/"):
        return _Value(short.start, short.end, Style.CODE)
    return short


def _tight(data: bytes, begin: int, end: int, at: int) -> _Value | None:
    """`NAME=value` without spaces and quotes: where it ends depends on what it stands in."""
    before = data[begin - 1 : begin]
    if before in (b"?", b"&", b";") or data[begin - 3 : begin] in (b"%3F", b"%26", b"%3f"):
        return _read(data, at, b"", Style.ENV, _RUN_QUERY)
    if _UPPER.match(data[begin:end]) or data[begin : begin + 2] == b"--":
        return _read(data, at, b"", Style.ENV, _RUN)
    value = _read(data, at, b"", Style.ENV, _RUN_QUERY)
    if value and data[value.end : value.end + 1] in b"),":
        return _read(data, at, b"", Style.CODE, _RUN_CODE)
    return value


def _element(data: bytes, begin: int, end: int) -> _Value | None:
    match = _ELEMENT.match(data, end)
    if match is None or data[begin - 1 : begin] == b"/":
        return None
    value = _read(data, match.end(), b"", Style.QUOTED, _RUN_ELEMENT)
    return value if value and data[value.end : value.end + 1] == b"<" else None


def _argument(data: bytes, begin: int, end: int) -> _Value | None:
    for pattern, style in ((_ATTRIBUTE, Style.QUOTED), (_ARGUMENT, Style.QUOTED)):
        match = pattern.match(data, end)
        if match:
            return _read(data, match.end(), match[5], style, _RUN)
    match = _CSV.match(data, end)
    if match:
        return _read(data, match.end(), match[5] or b"", Style.APART, _RUN_CODE)
    match = _CALL.match(data, end)
    if match:
        return _read(data, match.end(), match[5] or b"", Style.QUOTED if match[5] else Style.APART, _RUN_CODE)
    return None


def _pair(data: bytes, begin: int, end: int) -> _Value | None:
    match = _PAIR.match(data, end)
    if match is None:
        return None
    return _read(data, match.end(), match[5] or b"", Style.QUOTED if match[5] else Style.CONFIG, _RUN)


def _apart(data: bytes, begin: int, end: int) -> _Value | None:
    match = _APART.match(data, end)
    if match is None:
        return None
    gap = match[2]
    style = Style.CONFIG if len(gap) >= 2 and gap.isspace() else Style.APART
    value = _read(data, match.end(), match[5] or b"", Style.APART, _RUN)
    if value and style is Style.CONFIG and _END_OF_LINE.match(data, value.end):
        return _Value(value.start, value.end, style)
    return value


def _read(data: bytes, at: int, opener: bytes, style: Style, run: re.Pattern[bytes]) -> _Value | None:
    """The value that begins at `at`, behind `opener`."""
    if not opener:
        match = run.match(data, at)
        if match is None:
            return None
        end = match.end()
        cut = _PERCENT_END.search(data, at, end)
        end = cut.start() if cut else end
        while end > at and data[end - 1] in _TRIM:
            end -= 1
        return _Value(at, end, style) if end > at else None
    quote = opener[-1:]
    if opener.startswith(b"\\"):
        match = _QUOTED_ESCAPED.match(data, at)
    else:
        match = _QUOTED[quote].match(data, at)
    if match is None or match.end() == at:
        return None
    return _Value(at, match.end(), style)
