"""This module finds secrets after a name such as `password`, in files of any language.

A regular expression finds names that an operator or a similar text follows. `forms` finds the value, `names`
judges the name, and `judgement` judges the value.

The value may also be alone in the next line, as after a prompt. The name may also be the name of a list or
map. Then the items of the list may be secrets, and the values of the map if the name is a plural.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from penumbra.compress import time_budget
from penumbra.linear import Linear, latin1
from penumbra.redaction import placeholder
from penumbra.redaction.finders.forms import changed_value, flag_value, tagged_value, values_after
from penumbra.redaction.finders.value_reading import LOOK, Pair, Value, read, secrets
from penumbra.redaction.judgement import is_secret
from penumbra.redaction.names import NAMES, Name, Strength, is_program_word
from penumbra.redaction.shared_patterns import BREAK, LEAD, QUOTE, late
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.values import Style, is_opaque, kinds
from penumbra.short_texts import forgettable

_BEGINS = (b"", b" ", b"\n", b"n", b"\\", b'"')
_TYPED = re.compile(
    rb"(?::|\xef\xbc\x9a)[ \t]{0,4}(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)(?![a-z0-9]{0,60}_[a-z0-9_]{0,60}\b)"
    rb"([^\s\"'`<>\\:=]{4,128})(?=[ \t]{0,8}(?:\r?\n|\\{1,31}[nr]|\\{0,31}\"|\Z))"
)
_BELOW = re.compile(
    rb"[\"']?[ \t]{0,4}(?:\r?\n|\\{1,31}r\\{1,31}n|\\{1,31}n)[ \t]{0,12}[\"']?([^\s\"'`<>\\:=]{6,512}={0,2})"
    rb"(?=[\"']?[ \t]{0,8}(?:\r?\n|\\{1,31}[nr]|\\{0,31}\"|\Z))"
)
_FIGURES = b"0123456789"
_NAME_OF_SEVERAL = re.compile(rb"([A-Za-z]{2,20})[_.:-][A-Za-z0-9_.:-]{1,80}")
_HUMPS = re.compile(rb"([a-z]{2,8})(?:[A-Z][a-z]+){2,}[A-Z0-9]{0,6}")
_CONSTANT = re.compile(rb"[A-Z]{1,14}[0-9]?(?:_[A-Z]{1,14}[0-9]?)+")
_COMMIT = re.compile(rb"[0-9a-f]{40}")
_ALONE = re.compile(rb"(?:\A|\n|\\n|\\{0,31}\"|m)[ \t]{0,12}[\"']?\Z")


def typed(data: bytes, begin: int, end: int) -> Iterator[Value]:
    """Yield the value in the line below a prompt. The last word of the prompt, such as `Password`, is at
    `begin` to `end`."""
    if data[begin - 1 : begin] in _BEGINS and b"_" not in data[begin:end]:
        line = _TYPED.match(data, end)
        if line is not None:
            yield Value(*line.span(1), Style.PROSE)
    if data[begin:end] == b"pass":
        return  # This `pass` is the Python statement.
    below = _BELOW.match(data, end)
    if below is None or _COMMIT.fullmatch(below[1]) or not _ALONE.search(data, max(0, begin - 16), begin):
        return
    if _is_next_name(data[begin:end], below[1]):
        return
    # A line such as `Login42` is the next name in a list of names.
    if not is_program_word(below[1].rstrip(_FIGURES).decode("utf-8", "replace").lower() or " "):
        yield Value(*below.span(1), Style.PROSE)


def _is_next_name(name: bytes, below: bytes) -> bool:
    """Return whether two lines, one below the other, are names in a list. The names must begin with the same
    word or be written as constants."""
    for form in (_NAME_OF_SEVERAL, _HUMPS):
        first, second = form.fullmatch(name), form.fullmatch(below)
        if first and second and first[1] == second[1]:
            return True
    return name.isupper() and _CONSTANT.fullmatch(below) is not None


_CHECKED = 16
"""The number of names between two checks of the time budget."""
_MOST = 200
"""The greatest number of members that are read in one list or map."""
_GAP = rb"(?:\s|\\{1,31}[nrt]){0,60}+"
_LINE_BREAK = BREAK + LEAD
_OPEN = late(
    rb"[\\\"'`\])]{0,40}(?:[ \t]{0,8}:[ \t]{0,4}[A-Za-z][\w<>\[\], .]{0,40}(?==))?"
    rb"[ \t]{0,8}(?:[:=]=?|=>)[ \t]{0,8}"
    rb"((?:new |&)?(?:\[[0-9]{0,4}\])?[A-Za-z_][\w.:]{0,40}+!?(?:<[\w, ]{0,40}>)?(?:\[\])?[ ]?|%w)?"
    rb"([\[({])"
)
_OPEN_REACH = 256
"""A bracket is looked for in at most this number of bytes after a name."""
_WORDS_FOLLOW = (b"=(", b"%w[", b"%w(")
"""In the shell and in Ruby, a list with one of these beginnings has strings without quotes."""
_QUOTED = late(_GAP + rb"[bruf]?({QUOTE})")
_BARE = late(_GAP + rb"([^\s\"'`,\[\](){}<>\\:=]{4,512})(?=[\s,\])])")
_NEXT = late(rb"{QUOTE}?" + _GAP + rb",")
_BLANKS = late(rb"{QUOTE}?(?=[ \t\r\n])")
_KEY = late(_GAP + rb"(?:{QUOTE})?:?[\w.@-]{1,80}(?:{QUOTE})?" + _GAP + rb"(?::|=>?)" + _GAP + rb"({QUOTE})")
_MEMBERS_BELOW = late(rb"[\\\"']{0,4}:[ \t]{0,8}(?=\r?\n|\\{1,31}[nr])")
_BELOW_REACH = 5
"""The colon is looked for in at most this number of bytes after a name."""
_END_OF_LINE = (
    rb"(?=[ \t]{0,8}(?:" + QUOTE + rb")?[ \t]{0,8}(?:#[^\r\n]*|)(?:\r?\n|\\{1,31}[nr]|" + QUOTE + rb"|\Z))"
)
_ITEM = late(
    _LINE_BREAK
    + rb"[ \t]{0,40}-[ \t]{1,8}(?:({QUOTE})|([^\s\"'`\\:#\[\]{}][^\s\"'`\\]{3,512})"
    + _END_OF_LINE
    + rb")"
)
_ENTRY = late(
    _LINE_BREAK
    + rb"[ \t]{1,40}[\w.@-]{1,80}:[ \t]{1,8}(?:({QUOTE})|([^\s\"'`\\:#\[\]{}][^\s\"'`\\]{3,512})"
    + _END_OF_LINE
    + rb")"
)


def _opens(data: bytes, end: int) -> bool:
    """Return whether an opening bracket is near the end of a name."""
    last = end + _OPEN_REACH
    return (
        data.find(b"[", end, last) >= 0 or data.find(b"(", end, last) >= 0 or data.find(b"{", end, last) >= 0
    )


def contained(data: bytes, end: int, *, plural: bool) -> Iterator[Value]:
    """Return the items of a list after a name that ends at `end`. After a plural, also return the values of a
    map."""
    if _opens(data, end) and (opening := _OPEN.match(data, end)):
        bare = Style.LISTED if opening[0].endswith(_WORDS_FOLLOW) else None if opening[1] else Style.CODE
        return _bracketed(data, opening.end(), opening[2], bare, plural=plural)
    if data.find(b":", end, end + _BELOW_REACH) >= 0 and (below := _MEMBERS_BELOW.match(data, end)):
        items = _lines(data, below.end(), _ITEM)
        return chain(items, _lines(data, below.end(), _ENTRY)) if plural else items
    return iter(())


def _bracketed(data: bytes, at: int, bracket: bytes, bare: Style | None, *, plural: bool) -> Iterator[Value]:
    for _ in range(_MOST):
        opener = _KEY.match(data, at) if plural and bracket != b"[" else None
        opener = opener or _QUOTED.match(data, at)
        if opener:
            value = read(data, opener.end(), opener[1], Style.LISTED)
        else:
            value = _bare(data, at, bare) if bare and bracket != b"{" else None
        if value is None:
            return
        yield value
        following = _NEXT.match(data, value.end) or (None if opener else _BLANKS.match(data, value.end))
        if following is None:
            return
        at = following.end()


def _bare(data: bytes, at: int, style: Style) -> Value | None:
    """Return an item without quotes in a list of YAML, the shell or Ruby; None if there is none."""
    word = _BARE.match(data, at)
    return Value(*word.span(1), style) if word else None


def _lines(data: bytes, at: int, form: re.Pattern[bytes]) -> Iterator[Value]:
    for _ in range(_MOST):
        line = form.match(data, at)
        if line is None:
            return
        value = (
            read(data, line.end(1), line[1], Style.LISTED) if line[1] else Value(*line.span(2), Style.LISTED)
        )
        if value is None or data[value.end - 1] == 0x3A:
            return
        yield value
        at = value.end + (len(line[1]) if line[1] else 0)


_OPTIONS = latin1(64 << 20)
_OTHER_SCRIPTS = "|".join(NAMES.spelt_in_other_letters())
_STEM = (
    r"(?:(?:pa?ss?w(?:or[dt]|r?d)s?|passw|pwrd|passphrase|passcode|pwd|secrets?|credentials?|creds"
    r"|kennwort|contrasena|wachtwoord|adgangskode|motdepasse|mot de passe"
    r"|(?:^|[^a-z])(?:pass|psw|pw|mnemonic|psk|senha|clave|haslo|heslo|salasana|parola|p/w)|[a-z](?:pass|pw)"
    r"|" + _OTHER_SCRIPTS + r")[a-z0-9_.\-]*"
    r"|(?:keys?|tokens?|tkn|tok|private|(?:^|[^a-z])(?:auth|authorization|authentication|jwt|pat|bearer|otp|pin|api|salt|pepper"
    r"|sk|seed|kek|dek)"
    r"|(?:hash|token|session|cookie|auth)(?:salt|pepper))"
    r"(?:(?:[_.\-0-9]|val|str|b64|base64|hex|prod|dev|test|live|staging|backup|old|material|bytes)[a-z0-9_.\-]*)?)"
)
# The pattern has no counted repeats such as `{0,8}`, because each would multiply the states of the automaton.
_FOLLOWERS = (
    r"(?:(?: ?\[[0-9a-z_*]*\])?[\\\"'`\])>*}]*(?:\xe2\x80[\x99\x9d])?(?: [0-9]+)?[ \t]*"
    r"(?:\??[=:|]|[.?+&!]+=|<<?-|\xe2\x94[\x82\x83]|\xef\xbc[\x9a\x9d]|uff1[ad]"  # assignment
    r"|%(?:25)?(?:22%(?:25)?)?3[ad])"
    r"|[: ](?:as |: ?)?[&*]?(?:'static )?(?:optional\[)?(?:string|str|text|char|varchar|any|bytes)\b"
    r"[\[\]<>?!*&|: ]*(?:[a-z0-9_]+[\[\]<>?!*&|: ]*)?="  # name with a type
    r"|[\\\"'`]?[ \t]*(?:\r|\\+r)?(?:\n|\\+n)[ \t]*[\"']?[!#-&*-9;?-\[\]-~]*[0-9]"
    r"[!#-&*-9;?-\[\]-~=]*[\"'\\]?[\r\n\\]"  # alone in the next line
    r"|[\"'][a-z0-9+/]{8}"  # value directly after a quote
    r"|[\\\"'`]+(?:\)?[ \t]*,|(?:\n|\\+n)[ \t]*[0-9]+\) )"  # argument, list, reply of Redis
    r"|[\\\"]+(?:(?:\r|\\+r)?(?:\n|\\+n)[+>-]?){2}[!-~]{4}"  # multipart form
    r"|[\\\"'`]+[ \t]*(?:value|content|data-value)="  # XML attributes
    r"|,[^\s,]{6}|, *(?:<<)?[\\]*[\"'][!-~]{4}"  # CSV, arguments after a bare name
    r"|[\\\"'`]+ [\\\"'`]+[!-~]{6}"  # two texts side by side
    r"| ?\{ ?[\\\"'`]|[ ]\{ (?:get|set|init);|[ ]<<< "  # initializers, properties, what a command reads
    r"|>\s*(?:<value>\s*)?(?:<!\[cdata\[)?[^\s<>]{4}"  # element
    r"|[ ]?</[a-z]"  # element that a sibling follows
    r"|\([^\s()]{6}"
    r"|(?:  +|\t+ *|\\+t)[!-~]{6}"  # table
    r"| (?:is|was):? (?:now |set to )?[!-~]{4}| to [!-~]*[0-9]"
    r"|\\*[`\"'] (?:is (?:now |set to )?|was |to |as )[!-~]{4}"
    r"| [!-~]*[0-9@!#$^&*~+]| [a-z]+[-_][a-z]+[-_][a-z]"  # next word
    r"| @?[\\]*[\"'][!-~]{6}"
    r"|[\\\"']*,?(?:\s|\\+[nrt]|[0-9:|+>-]|\xe2\x86\x92|\x1b\[[0-9;]*m|[\nn][a-z0-9_./-]+:[0-9]+[:-])*"
    r"[\\\"'-]*(?:[a-z]+_?)?value[\\\"']*\s*[:=]| --value )"  # members for name and value
)
_NAMES = Linear((_STEM + _FOLLOWERS).encode("latin-1"), _OPTIONS)
# This pattern matches a whole tag with a name, and the beginning of the text after the tag. A search for the
# end of the tag from every name would take quadratic time.
_TAGS = Linear((r"<[^<>\n]*?" + _STEM + r"[^<>\n]*>\s*(?:<value>\s*)?[^\s<>]{4}").encode("latin-1"), _OPTIONS)
_STEMS = Linear(_STEM.encode("latin-1"), _OPTIONS)
FLAGS = Linear(
    rb"-[a-z.\-]*(?:pass(?:word|wd|phrase)?|pwd|pw|psk|secret|token|key|auth|credentials?)"
    rb"(?:[ ]+|[\\\"']+,\s*[\\\"']+|[\\\"']*(?:\n|\\+n)[ \t]*- [\\\"']*)(?:[!-~]{4}|[\"'][!-~]+ [!-~])",
    _OPTIONS,
)
TAG_ENDS = rb"<\\?/"
"""This pattern matches in every text that contains a closing tag."""
_NAME_BYTES = re.compile(
    rb"(?:[A-Za-z0-9_.\-$\x80-\xe1\xe3-\xee\xf0-\xff]|\xe2(?!\x80[\x98-\x9f])|\xef(?!\xbc[\x9a\x9d])){0,80}"
)
"""This pattern matches a name. Typographic quotes, full-width colons and full-width equals signs end the
name."""
_ASCII_NAME = re.compile(rb"[A-Za-z0-9_.\-$]{0,80}")
_NO_NAME = bytes(byte for byte in range(0x80) if not chr(byte).isalnum())
_NAME_CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$"
REST = re.compile(rb"[A-Za-z0-9+/=_.~%-]*")
_LONGEST_REST = 65536
_RANDOM = re.compile(rb"[A-Za-z0-9+/=_-]{16}")
_REPLACED = re.compile(placeholder.ALONE)
_NAME_ENDS = (b'"', b"'", b"\\", b" ", b"\t", b">")
"""The bytes that may follow a name in a tag."""
_NO_NAME_BEFORE = (b"/", b"#", b"?", b"&")
"""A word in a tag that follows one of these bytes is a part of a URL, and no name."""
_WORD_BEFORE = re.compile(rb"([A-Za-z]{1,24})[ ]\Z")
_DECLARES_TYPE = late(rb"(?<![\w.-])(?:class|struct|interface|enum|trait|protocol|namespace|module) \Z")
"""This pattern matches the keyword before the name of a type, such as `class`."""
_NEW_LINE = re.compile(rb"\n|\\n")
_CODE_FILE = late(rb"\.(?:[cm]?[jt]sx?|vue|svelte|py|rb|go|rs|php|t|spec)$")
_TEST_NAME = late(rb"[A-Za-z_]\w*(?:[/.:\[-][^\s\"']*)?(?=[\s\"'(\\]|\Z)")
_SLUG = re.compile(rb"[a-z]+(?:-[a-z]+)*")
_JOINTS = re.compile(rb"[-_.]")
_USER = re.compile(rb"(?i)user(?:[_-]?name)?[^\w\n]{1,12}\Z")
_SHA1 = re.compile(rb"[0-9a-f]{40}")
_LONGEST_SLOGAN = 80
_USER_REACH = 160
"""The user is looked for in at most this number of bytes before a password."""
_NAMED_AGAIN = re.compile(rb"[(\[{]{0,4}([A-Za-z_][\w.-]{1,40})[=:]")
_BETWEEN_QUOTES = (Style.QUOTED, Style.ARGUMENT)
_USER_OF_LOGIN = re.compile(rb"([a-z][a-z0-9_]{2,31})[:/]")
_LEAST_PASSWORD = 6
_OPTION = re.compile(r"[a-z_]+:|--?[a-z]|.*passw", re.IGNORECASE)
"""This pattern matches items of a list after `password` that are no passwords: `min:8`, `--stdin`,
`password_confirmation`."""
_LINE_NUMBER = re.compile(rb"[:-][0-9]{1,6}[:-](?=[^\s:-])")
_DIGEST_OF = late(
    rb"(?i)\b(?:md[45]|rmd160|(?:sha|shake|blake|sm|tiger|whirlpool|crc)[0-9a-z/-]{0,10}) ?\(\Z"
)
_LONGEST_DIGEST = 24
"""The greatest number of bytes that `_DIGEST_OF` matches."""
_LONGEST_PATH = 120
_PATH_CHARACTERS = _NAME_CHARACTERS + b"/"
_DASHES = re.compile(rb"--?[A-Za-z0-9.-]{2,60}")


class _LongValues:
    """A `_LongValues` finds the ends of long values in one text. The last end is remembered, because a long
    value may contain many names."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._start = self._stop = -1

    def end(self, at: int) -> int:
        """Return the end of the long value that continues at `at`."""
        if not self._start <= at <= self._stop:
            rest = REST.match(self._data, at)
            self._start, self._stop = at, rest.end() if rest else at
        return min(self._stop, at + _LONGEST_REST)


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A `_Meaning` says how a name is judged without the text around the name."""

    written: str
    name: Name
    members: Name
    """The meaning of the name for the members of a list or map."""
    plural: bool
    bare_key: bool
    """True if the name is `key` or `keys`. The word before the name then decides."""


@forgettable(8_192)
def _meaning(identifier: bytes) -> _Meaning:
    written = identifier.decode("utf-8", "replace")
    name = NAMES.judge(written)
    bare_key = name.label == "key" and identifier.lower() in (b"key", b"keys")
    return _Meaning(written, name, *NAMES.of_members(written), bare_key)


def assigned(
    data: bytes, low: bytes, *, loud: bool = False, quiet: bool = False, flags: bool = True, tags: bool = True
) -> Iterator[Span]:
    """Yield the secrets. `low` is `data` in lower case. Weak names count as strong if the text comes from a
    place for secrets (`loud`), and don't count if the text has many hashes (`quiet`). `flags` and `tags` are
    true if `FLAGS` and `TAG_ENDS` match in the text."""
    long_values = _LongValues(data)
    read_to = 0
    is_marked = placeholder.MARK in data
    for count, (start, end) in enumerate(_telling_names(data, low)):
        if not count % _CHECKED:
            time_budget.check()
        if is_marked and (_REPLACED.match(data, end) or placeholder.has_name(data, start)):
            continue
        meaning = _meaning(data[start:end])
        secrets: list[Span] = []
        if meaning.members.strength > Strength.HINT and start >= read_to:
            members = list(contained(data, end, plural=meaning.plural))
            read_to = members[-1].end if members else read_to
            judged = (_judged_member(data, value, meaning.members, meaning.plural) for value in members)
            secrets = [span for span in judged if span]
            yield from secrets
        name = _in_context(data, start) if meaning.bare_key else None
        name = name or meaning.name
        if name.strength is Strength.WEAK and (loud or quiet):
            name = Name(Strength.STRONG if loud else Strength.NONE, name.label)
        if secrets or name.strength is Strength.NONE or (name.strength is Strength.HINT and quiet):
            continue
        if name.strength <= Strength.WEAK and not _RANDOM.search(data, end, end + 160):
            continue
        yield from _values(data, start, end, meaning.written, name, long_values)
    if flags:
        yield from _flagged(data, low, long_values)
    if tags:
        yield from _tagged(data, low, long_values)


def _in_context(data: bytes, start: int) -> Name | None:
    """Return the meaning of a name that is only `key`. The word before the name decides; without a word, the
    result is None."""
    before = _WORD_BEFORE.search(data, max(0, start - 24), start)
    return NAMES.of_key(before[1].decode("ascii")) if before else None


def _tagged(data: bytes, low: bytes, long_values: _LongValues) -> Iterator[Span]:
    """Yield secrets between tags, as in `<string name="password">value</string>`."""
    for tag in _TAGS.finditer(low):
        for stem in _STEMS.finditer(low, *tag.span()):
            start, end = _name(data, stem.start())
            if data[end : end + 1] not in _NAME_ENDS or data[start - 1 : start] in _NO_NAME_BEFORE:
                continue
            name = NAMES.judge(data[start:end].decode("utf-8", "replace"))
            value = tagged_value(data, start, end) if name.strength > Strength.HINT else None
            span = value and _judged(data, value, name, long_values)
            if span:
                yield span
                break


def _flagged(data: bytes, low: bytes, long_values: _LongValues) -> Iterator[Span]:
    """Yield the secrets after options, as in `--password value` and `["--password", "value"]`."""
    for match in FLAGS.finditer(low):
        flag = _DASHES.match(data, match.start())
        at = match.start()
        # An option must be at the beginning of a word.
        if flag is None or (at and data[at - 1] not in b" \t\n\"'[,="):
            continue
        name = NAMES.judge(flag[0].decode("latin-1"))
        value = flag_value(data, flag.end())
        if value and data[value.start : value.start + 1] != b"-":
            span = _judged(data, value, name, long_values)
            if span:
                yield span


def _values(
    data: bytes, start: int, end: int, written: str, name: Name, long_values: _LongValues
) -> Iterator[Span]:
    for value in chain(values_after(data, start, end), typed(data, start, end)):
        span = _judged(data, value, name, long_values)
        if span and (
            _means_passing(data, start, end, value)
            or _repeats(data, value, written)
            or _is_below_type(data, start, end, value)
            or _is_content_key(data, start, end, value)
        ):
            span = None  # A value of this form is no secret.
        if span and name.label == "auth":
            span = _without_user(data, span)
        if span:
            yield span
        changed = changed_value(data, value)
        if changed and (later := _judged(data, changed, name, long_values)):
            yield later
        if span:
            break


def _telling_names(data: bytes, low: bytes) -> Iterator[tuple[int, int]]:
    """Yield the range of each name that may have a secret after it."""
    length = len(low)
    found, stop = _NAMES.place(low, 0, length)
    while found >= 0:
        start, end = _name(data, found)
        other = start and data[start - 1] in b":/" and _is_other_name(data, start)
        if not other and not _is_file(data, start, end):
            yield start, end
        # The text after a name may be another name, so it is searched again, but not if the match is long.
        goes_on = max(end, found + 1) if stop < end + 256 else stop
        found, stop = _NAMES.place(low, goes_on, length) if goes_on < length else (-1, -1)


def _is_other_name(data: bytes, start: int) -> bool:
    """Return whether a name is the end of a longer name for something else. `AWS::IAM::AccessKey` is a type,
    and `checksum/secret` is the name of a hash."""
    if data[start - 2 : start] == b"::" and data[start - 3 : start - 2].isalpha():
        return not data[start : start + 1].islower()
    return data[start - 9 : start] == b"checksum/"


def _is_file(data: bytes, start: int, end: int) -> bool:
    """Return whether a name is that of a file, as in lines of `grep` (`.pgpass:3:`) and of checksums (`SHA256
    (password.txt) = `)."""
    if data[end : end + 1] != b")" and not _LINE_NUMBER.match(data, end):
        return False
    before = data[max(0, start - _LONGEST_PATH) : start].rstrip(_PATH_CHARACTERS)
    if data[end : end + 1] == b")":
        return before[-1:] == b"(" and _DIGEST_OF.search(before[-_LONGEST_DIGEST:]) is not None
    return not before or before[-1:] in b"\n\"'"


def _means_passing(data: bytes, start: int, end: int, value: Value) -> bool:
    """Return whether `pass` is a verb: `PASS: TestName/with_part`, `PASS event-api`, "files pass `lint`"."""
    if data[start:end].lower() != b"pass":
        return False
    if data[end : end + 1] in (b'"', b"'") and data[start - 2 : start] in (b"; ", b": "):
        return True  # This `pass` is the Python statement, as in `python -c 'import a; pass' '…'`.
    if data[start:end] == b"PASS" and data[end : end + 1] == b":":
        return bool(_TEST_NAME.match(data, value.start))
    if data[start:end] == b"PASS" and data[end : end + 1] in b" \t":
        # A path of a test may contain brackets: `PASS app/(shop)/[id]/page.test.tsx`.
        text = data[value.start : value.end]
        if b"/" in text and _CODE_FILE.search(text.split(b"::", 1)[0]):
            return True
    is_verb = (
        data[start - 3 : start] == b"to " or data[end : end + 4] == b" to " or data[start:end] == b"Pass"
    )
    if is_verb or data[value.start - 1 : value.start] == b"`":
        return value.style in (Style.SPACED, Style.APART)
    if value.style is Style.PROSE and _SLUG.fullmatch(data, value.start, value.end):
        return True
    return value.style is Style.SPACED and _WORD_BEFORE.search(data, max(0, start - 24), start) is not None


def _repeats(data: bytes, value: Value, written: str) -> bool:
    """Return whether a value repeats words of its name or the name of its user. Tests use such values:
    `POSTGRES_PASSWORD=postgres`, `LOCAL_PROXY_KEY=local-proxy`."""
    text = data[value.start : value.end]
    name = _JOINTS.sub(b"", written.lower().encode())
    words = _JOINTS.split(text[:_LONGEST_SLOGAN].lower())
    own = [len(word) > 3 and word.isalpha() and word in name for word in words]
    if len(words) > 2 and (sum(own) > 1 or (own[0] and all(word.isalpha() for word in words))):
        return True
    if len(text) > len(name) + 1:
        return False
    if text == written.encode():
        return True
    if all(len(word) > 1 and word.isalpha() and word in name for word in words):
        return True
    if not text.isalpha():
        return False
    before = data[max(0, value.start - _USER_REACH) : value.start]
    at = before.rfind(text)
    return at >= 0 and not before[at + len(text) :][:1].isalnum() and _USER.search(before[:at]) is not None


def _is_below_type(data: bytes, start: int, end: int, value: Value) -> bool:
    """Return whether the value is on a line below the name of a type, as in `class ApiKey:`. In `interface
    password: …`, the value is on the same line."""
    return (
        data[start : start + 1].isupper()
        and _DECLARES_TYPE.search(data, max(0, start - 11), start) is not None
        and _NEW_LINE.search(data, end, value.start) is not None
    )


def _is_content_key(data: bytes, start: int, end: int, value: Value) -> bool:
    """Return whether the value of a member `key` is a SHA-1, such as the key of a cache."""
    bare = data[start:end] == b"key" and data[end : end + 1] in (b'"', b"\\")
    return bare and value.style is Style.QUOTED and _SHA1.fullmatch(data, value.start, value.end) is not None


def _judged(data: bytes, value: Value, name: Name, long_values: _LongValues) -> Span | None:
    """Return the span of a value if the value is a secret, otherwise None. The span has the whole value, even
    if it is long."""
    if value.style not in _BETWEEN_QUOTES and _is_named_again(data, value):
        return None
    span = next(secrets(data, (Pair(value, (name,), "name"),), Strength.HINT), None)
    return span._replace(end=long_values.end(span.end)) if span and span.end - span.start >= LOOK else span


def _is_named_again(data: bytes, value: Value) -> bool:
    """Return whether a value begins with a name and its own value, as in `--root-password password:…`."""
    named = _NAMED_AGAIN.match(data, value.start, value.end)
    return named is not None and NAMES.judge(named[1].decode("ascii")).strength is Strength.PASSWORD


def _without_user(data: bytes, span: Span) -> Span:
    """Return the span without a user before the password, such as `neo4j/` in `NEO4J_AUTH=neo4j/…`."""
    user = _USER_OF_LOGIN.match(data, span.start, span.end)
    if user is None or span.end - user.end() < _LEAST_PASSWORD or is_opaque(user[1].decode("ascii"), 5):
        return span
    return span.at(user.end(), span.end)


def _judged_member(data: bytes, value: Value, name: Name, plural: bool) -> Span | None:
    """Return the span of an item of a list if the item is a secret, otherwise None. Options, rules and names
    are no secrets."""
    text = data[value.start : value.end].decode("utf-8", "replace")
    mixed = kinds(text) == 3
    style = value.style
    if name.strength is Strength.PASSWORD:
        fits = (plural or mixed or is_opaque(text)) and not _OPTION.match(text)
    elif name.strength is Strength.STRONG:
        fits, style = True, Style.CODE
    else:
        fits, style = mixed, Style.QUOTED
    if not fits or not is_secret(text[:256], name.strength, style):
        return None
    sure = mixed and is_opaque(text, 16)
    return Span(value.start, value.end, name.label, f"member-{name.label}", Rank.GENERIC, sure)


def _name(data: bytes, at: int) -> tuple[int, int]:
    """Return the range of the whole name. A word in it, such as `password`, begins at `at`."""
    if data[at] in _NO_NAME:
        at += 1
    match = _ASCII_NAME.match(data, at)
    end = match.end() if match else at
    if end < len(data) and data[end] >= 0x80:
        match = _NAME_BYTES.match(data, at)
        end = match.end() if match else at
    start = at - 48 if at > 48 else 0
    start += len(data[start:at].rstrip(_NAME_CHARACTERS))
    # Skip the end of an escape, as in "\nDB_PASSWORD" or "\x1b[32mDB_PASSWORD".
    if data[start] in (b"nrtm" if start < at else b"nr") and data[start - 1 : start] in (b"\\", b"\x1b"):
        start += 1
    return start, end
