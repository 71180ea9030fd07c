"""This module finds the value of a name: in an assignment, an element, an argument, a table, or a pair.

Each of these forms is matched from the end of the name with patterns of limited length. The result has the
range and the style of the value. The style decides which values count as secrets.
"""

from __future__ import annotations

from collections.abc import Iterator

from penumbra import rules
from penumbra.redaction.finders.value_reading import (
    LOOK,
    QUOTE_ENTITY,
    RUN_CODE,
    RUN_CSV,
    RUN_DEFAULT,
    RUN_ELEMENT,
    RUN_LIST,
    RUN_ODD,
    RUN_QUERY,
    Value,
    patterns,
    read,
)
from penumbra.redaction.judgement import judge
from penumbra.redaction.values import Style, has_shape

_WORDS = rules.load("secrets/words/records.yaml")
_FORMS = patterns("forms")
_NAMING = frozenset(f"{_WORDS['names']} {_WORDS['whole_names']}".encode().split())
"""The value of an argument with one of these names is a name: `SqlParameter(name: "password", "…")`."""
_PAIR_REACH = 600
"""The word `value` of a pair is looked for in at most this number of bytes after a name."""
_ARGUMENT_BEGINS = (b'"', b"'", b"`", b"\\", b",", b"(", b"{", b" ")
_QUOTE_BEGINS = (b'"', b"\\")
_APART_BEGINS = (b'"', b"'", b"`", b"\\", b" ", b"\t")
_NESTED_REACH = 48
"""The brace of a nested object is looked for in at most this number of bytes after a name."""
_SMART = (b"\xe2\x80\x9c", b"\xe2\x80\x98")
_QUOTES = (b'"', b"'", b"`")
_CLOSING = {ord("("): b")", ord("["): b"]", ord("{"): b"}"}
_QUERY = (b"?", b"&")
_EMPTY = (b"=\n", b"=\r", b"=")
"""A name has no value if one of these texts follows directly."""


def values_after(data: bytes, begin: int, end: int) -> Iterator[Value]:
    """Yield possible values of the name at `begin` to `end`. The most likely value comes first."""
    value = _assigned(data, begin, end)
    if value is not None:
        yield value
        return
    reach = end + _PAIR_REACH
    may_be_pair = data.find(b"alue", end, reach) >= 0 or data.find(b"ALUE", end, reach) >= 0
    if may_be_pair and (value := _pair(data, begin, end)) is not None:
        yield value
    follows = data[end : end + 1]
    if (value := tagged_value(data, begin, end)) is not None:
        yield value
    if follows in _QUOTE_BEGINS and (part := _FORMS["multipart"].match(data, end)) is not None:
        value = read(data, part.end(), b"", Style.ENV)
        if value is not None:
            yield value
    if follows in _ARGUMENT_BEGINS and (value := _argument(data, begin, end)) is not None:
        yield value
    if glued := _FORMS["glued"].match(data, end):
        yield Value(*glued.span(1), Style.APART)
    if follows in _APART_BEGINS and (value := _apart(data, begin, end)) is not None:
        yield value


def changed_value(data: bytes, value: Value) -> Value | None:
    """Return the new value after an old one, as in `"old" -> "new"`; None if there is none."""
    match = _FORMS["changed"].match(data, value.end)
    return read(data, match.end(), match[1], Style.QUOTED) if match else None


def flag_value(data: bytes, end: int) -> Value | None:
    """Return the argument after a command line flag that ends at `end`; None if there is none."""
    match = _FORMS["flag"].match(data, end)
    if match is None:
        return None
    # A word may name the password's source: "-passin pass:value", "--root-password password:value".
    source = _FORMS["source"].match(data, match.end())
    value = read(data, source.end() if source else match.end(), match[1] or b"", Style.ENV)
    if value and match[1] and b" " in data[value.start : value.end]:
        return value._replace(style=Style.QUOTED)
    return value


def _assigned(data: bytes, begin: int, end: int) -> Value | None:
    if data[end : end + 2] in _EMPTY and data.find(b"{", end + 2, end + 5) < 0:
        return None  # The name has no value.
    match = _FORMS["assign"].match(data, end)
    if match is None:
        return None
    close, gap, operator, after, opener = match.groups(b"")
    if opener:
        if _is_empty(data, begin, close, gap + after, opener):
            return None
        opener = opener[len(opener.rstrip(b"\\\"'`")) :]
        below = _FORMS["line_break"].match(data, match.end()) if len(opener) >= 3 else None
        return read(data, below.end() if below else match.end(), opener, Style.QUOTED)
    if operator == b":" and not gap and not after and data[begin - 3 : begin].endswith((b":", b"://")):
        return None  # The name is part of "arn:aws:x:secret:name", or the user in a URL.
    if operator in (b"|", b"\xe2\x94\x82", b"\xe2\x94\x83"):
        piped = operator == b"|" and data[begin : begin + 1] == b"$"
        value = read(data, match.end(), b"", Style.CONFIG) if gap and after and not piped else None
        # In a table, the next cell may be the name of an action and not a password.
        return None if value and _is_called(data[value.start : value.end]) else value
    if data[match.end() : match.end() + 3] in _SMART:
        return read(data, match.end() + 3, b"", Style.QUOTED)
    if operator == b"<<<":
        return read(data, match.end(), b"", Style.ENV)
    if marked := _FORMS["marked_up"].match(data, match.end()):
        return read(data, marked.end(), b"", Style.CONFIG, RUN_ELEMENT)
    nested = _FORMS["nested"].match(data, end) if data.find(b"{", end, end + _NESTED_REACH) >= 0 else None
    if nested:
        return read(data, nested.end(), nested[1], Style.QUOTED)
    further = _FORMS["next_line"].match(data, match.end())
    if operator[:1] in b"=%" and not gap and not after and not (further and operator == b"=>"):
        return _tight(data, begin, end, match.end())
    if further:
        return read(data, further.end(), further[1], Style.QUOTED)
    block = _FORMS["block"].match(data, match.end()) if operator == b":" else None
    if block and (block[1] or _FORMS["alone"].match(data, block.end())):
        return read(data, block.end(), b"", Style.CONFIG if block[1] else Style.CODE)
    if operator in (b":-", b":=") and data[begin - 1 : begin] == b"{":
        return read(data, match.end(), b"", Style.ENV, RUN_DEFAULT)
    if operator in (b":-", b"<-", b"<<-"):
        return None
    tag = _FORMS["yaml_tag"].match(data, match.end()) if operator == b":" else None
    if tag:
        return read(data, tag.end(), tag[1] or b"", Style.QUOTED if tag[1] else Style.CONFIG)
    return _loose(data, begin, match.end(), close, operator)


def _is_empty(data: bytes, begin: int, close: bytes, gap: bytes, opener: bytes) -> bool:
    """Return whether the value is empty, or the quote ends the string of the name, as in `"Password:"`."""
    quote = opener[-1:]
    if opener in (2 * quote, b"\\" + quote + b"\\" + quote):
        return not close.endswith(opener)
    return not close and not gap and opener == quote and data[begin - 1 : begin] == quote


def _loose(data: bytes, begin: int, at: int, close: bytes, operator: bytes) -> Value | None:
    """Return the value in `name: value` or `name = value`, without quotes; None if there is none."""
    end_of_name = at - 1
    value = read(data, at, b"", Style.CODE)
    if value is None:
        return None
    if data[value.start] in b"[{(<":
        return None
    if has_shape(data[value.start : value.end].decode("utf-8", "replace"), "crossed"):
        return read(data, at, b"", Style.QUOTED, RUN_ODD)
    number = _FORMS["number"].match(data, value.start)
    if number and close[-1:] in (b'"', b"'"):
        return Value(value.start, number.end(), Style.QUOTED, _last_quote(close))
    if _ends_line(data, begin, value.end):
        return Value(value.start, value.end, Style.CONFIG)
    if operator == b":" and data[end_of_name] == 0x3A and value.start == end_of_name + 1:
        printed = _printed(data, begin, value)
        if printed:
            return printed
    short = read(data, at, b"", Style.CODE, RUN_CODE)
    if short and short.end == value.end and data[short.end : short.end + 1] == b" " and operator == b":":
        return Value(short.start, short.end, Style.CODE)
    is_closed = short and operator == b":" and data[short.end : short.end + 1] == b")"
    if short and is_closed and data[begin - 2 : begin] == b" (":
        # The value is in a remark in brackets, as in `ssh web1 (password: …)`.
        return short._replace(style=Style.PROSE)
    return short


def _printed(data: bytes, begin: int, value: Value) -> Value | None:
    """Return the value of a member in a printed object without quotes; None for any other value."""
    opened = max(data.rfind(b"{", max(0, begin - 300), begin), data.rfind(b"[", max(0, begin - 300), begin))
    if opened < 0 or b"\n" in data[opened:begin] or data[begin - 1] not in b" {[@":
        return None
    end = value.end
    if any(sign in b"(){}[];,=" for sign in data[value.start : end]):
        return None
    return Value(value.start, end, Style.ENV) if _FORMS["printed"].match(data, end) else None


def _last_quote(close: bytes) -> bytes:
    """Return the last quote after a name, with the backslashes that escape this quote. Escaped quotes before
    this quote belong to the name, and so do their backslashes."""
    length = len(close) - len(close[:-1].rstrip(b"\\"))
    return close[-(length & -length) :]


def _ends_line(data: bytes, begin: int, at: int) -> bool:
    """Return whether the line ends at `at`. The closing quote of a string with the name may come first."""
    if _FORMS["end_of_line"].match(data, at):
        return True
    return data[at : at + 1] in _QUOTES and data[begin - 1 : begin] in (data[at : at + 1], b" ")


def _tight(data: bytes, begin: int, end: int, at: int) -> Value | None:
    """Return the value in `NAME=value`, without spaces and quotes; None if there is none."""
    if data[begin - 1 : begin] in _QUERY or data[begin - 3 : begin] in (b"%3F", b"%26", b"%3f"):
        value = read(data, at, b"", Style.ENV, RUN_QUERY)
        goes_on = _FORMS["no_fragment"].match(data, value.end) if value else None
        return value._replace(end=goes_on.end()) if value and goes_on else value
    if _FORMS["upper"].match(data[begin:end]) or data[begin : begin + 2] == b"--":
        return read(data, at, b"", Style.ENV)
    at += data[at : at + 1] == b"("
    value = read(data, at, b"", Style.ENV, RUN_LIST)
    if (
        value
        and data[value.end : value.end + 1] == b","
        and _FORMS["assignments"].search(data, max(0, begin - 200), begin)
    ):
        return value
    if value and not _ends_line(data, begin, value.end) and _is_called(data[value.start : value.end]):
        return value._replace(style=Style.CODE)
    if value and data[value.end : value.end + 1] == b"," and (printed := _in_braces(data, begin, value)):
        return printed
    if value and data[value.end : value.end + 1] in (b")", b",", b":"):
        return read(data, at, b"", Style.CODE, RUN_CODE)
    return value


def _is_called(value: bytes) -> bool:
    """Return whether a value looks like a name in source code."""
    return judge("called", value.decode("utf-8", "replace"))


def _in_braces(data: bytes, begin: int, value: Value) -> Value | None:
    """Return the value of a member in an object that Java printed, `{host=db1, password=value, port=1}`; None
    for any other value."""
    if not _FORMS["printed"].match(data, value.end) or data[begin - 2 : begin] not in (b", ", b"{", b"["):
        return None
    low = max(0, begin - 300)
    opened = max(data.rfind(b"{", low, begin), data.rfind(b"[", low, begin))
    if opened <= data.rfind(b"(", low, begin) or opened < data.rfind(b"\n", low, begin):
        return None
    return value


def tagged_value(data: bytes, begin: int, end: int) -> Value | None:
    """Return the value after the tag that contains the name at `begin` to `end`; None if there is none."""
    if data.rfind(b"<", max(0, begin - 60), begin) < 0:
        return None
    if field := _FORMS["input"].match(data, end):
        return read(data, field.end(), field[1], Style.QUOTED)
    match = _FORMS["tagged"].match(data, end) or _FORMS["element"].match(data, end)
    if match is None or data[begin - 1 : begin] == b"/":
        return None
    if match[1]:
        stop = data.find(b"]]>", match.end(), match.end() + LOOK)
        return Value(match.end(), stop, Style.QUOTED) if stop > match.end() else None
    run = RUN_ELEMENT.match(data, match.end())
    if run is None or not data[run.end() : run.end() + 40].lstrip().startswith((b"</", b"<\\/")):
        return None
    quote = QUOTE_ENTITY.search(data, *run.span())
    return Value(run.start(), quote.start() if quote else run.end(), Style.QUOTED)


def _argument(data: bytes, begin: int, end: int) -> Value | None:
    if match := _FORMS["attribute"].match(data, end):
        return _no_name(data, read(data, match.end(), match[1], Style.QUOTED))
    if match := _FORMS["argument"].match(data, end):
        owner = _FORMS["is_value"].search(data, max(0, begin - 48), begin)
        if owner and owner[1].lower() not in _NAMING:
            return None  # In `check(kind="token", "…")`, the name is the value of an argument.
        # A list in backticks consists of names of a program.
        style = Style.APART if match[1] == b"`" else Style.ARGUMENT
        value = _no_name(data, read(data, match.end(), match[1], style))
        return value and value._replace(style=Style.LISTED) if _is_listed(data, begin, value) else value
    match = _FORMS["csv"].match(data, end)
    if match and (match[2] or not match[1]):
        style = Style.ENV if _FORMS["upper"].match(data[begin:end]) else Style.APART
        if match[2]:
            # In `hasattr(pwd, "getpwall")`, the word is more likely the name of a member than a value.
            style = Style.QUOTED if style is Style.ENV or match.group()[-1:] == b"\\" else Style.LISTED
        return _no_name(data, read(data, match.end(), match[2] or b"", style, RUN_CSV))
    match = _FORMS["call"].match(data, end)
    if match and (match[1] or not _FORMS["keyword"].match(data, match.end())):
        value = read(data, match.end(), match[1] or b"", Style.APART, RUN_CODE)
        # In `string password("…")`, the brackets contain the value of the name.
        is_declared = _FORMS["declared"].search(data, max(0, begin - 24), begin) is not None
        is_value = match[1] and (is_declared or _is_setter(data, begin, end))
        if value and is_value and _FORMS["only_argument"].match(data, value.end):
            return value._replace(style=Style.QUOTED)
        return value
    return None


def _is_listed(data: bytes, begin: int, value: Value | None) -> bool:
    """Return whether name and value are items of a list of names, as in `["user", "password", "name"]`."""
    if value is None or _FORMS["pair_begins"].search(data, max(0, begin - 40), begin):
        return False
    return _FORMS["list_goes_on"].match(data, value.end) is not None or (
        _FORMS["is_last"].match(data, value.end) is not None
        and _FORMS["list_began"].search(data, max(0, begin - 80), begin) is not None
    )


def _is_setter(data: bytes, begin: int, end: int) -> bool:
    """Return whether the name is a method for secrets: `.password("value")`, `pwd.equals("value")`."""
    name = data[begin:end]
    if _FORMS["compared"].search(name):
        return True
    method = name.rpartition(b".")[2]
    if b"." not in name and data[begin - 1 : begin] != b".":
        return False
    return _FORMS["setter"].match(method) is not None and _FORMS["no_setter"].match(method) is None


def _no_name(data: bytes, value: Value | None) -> Value | None:
    """Return the value; None if it is the name of another value, as in `"verdict":"pass","assertions":`."""
    if value is None or _FORMS["names_next"].match(data, value.end):
        return None
    # In `passwd, is_authenticated=False`, the value is the name of a keyword argument.
    return None if value.style is Style.APART and data[value.end : value.end + 1] == b"=" else value


def _pair(data: bytes, begin: int, end: int) -> Value | None:
    match = _FORMS["pair"].match(data, end)
    if match is None:
        return None
    return read(data, match.end(), match[1] or b"", Style.QUOTED if match[1] else Style.CONFIG)


def _apart(data: bytes, begin: int, end: int) -> Value | None:
    match = _FORMS["apart"].match(data, end)
    if match is None:
        return None
    value = read(data, match.end(), match[2] or b"", Style.APART)
    if value is None:
        return None
    gap = match[1]
    if not match[2] and _begins_code(data, value, gap):
        return None
    if data[value.start : value.start + 2] == b"--" and not match[2]:
        return None  # In "pass --verbose", `pass` is a verb in an instruction for the reader.
    if data[begin - 1 : begin] == b"/":
        return None  # The name is the last part of a path, as in "~/.ssh/deploy-key user@host".
    style = Style.APART
    if match[2]:
        style = Style.SPACED if not gap.strip() else Style.QUOTED
    elif gap.rstrip(b": ").endswith((b" is", b" was")):
        style = Style.PROSE
    elif _ends_line(data, begin, value.end):
        if _FORMS["put"].search(data[max(0, begin - 20) : begin]):
            return Value(value.start, value.end, Style.ENV)
        table = len(gap) >= 2 or gap == b"\t"
        if table or b"_" in data[begin:end]:
            style = Style.CONFIG
        elif _FORMS["begins_line"].search(data, max(0, begin - 60), begin):
            style = Style.PROSE
    return Value(value.start, value.end, style)


def _begins_code(data: bytes, value: Value, gap: bytes) -> bool:
    """Return whether the value begins with a bracket that stays open, or is a list, map or type."""
    closing = _CLOSING.get(data[value.start])
    if closing is None:
        return False
    return gap.rstrip(b" ")[-1:] in (b":", b"=") or closing not in data[value.start : value.end]
