"""This module applies the rules of the YAML files, and finds tokens of services that have no rule.

The pattern of most rules is matched at each anchor, in a window of limited size. A rule without anchors,
or with `whole`, searches the whole text.

A token without a rule has a short prefix and a long random tail, or one of the forms in `_DOTTED`. Hashes,
names made of words, and ids with well-known prefixes are not tokens.

A terminal may break a token into several lines. Lines are joined only if the first line is wide or the next
line is random.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from penumbra import rules
from penumbra.linear import Found, Linear, latin1
from penumbra.redaction import placeholder, shared_patterns
from penumbra.redaction.finders.value_reading import before_bar, between_entities, unframed
from penumbra.redaction.judgement import is_secret, judge
from penumbra.redaction.names import Strength
from penumbra.redaction.rule import Allow, Rule, compile_pattern, without_groups
from penumbra.redaction.span import Finder, Rank, Span
from penumbra.redaction.values import Style, entropy, is_opaque, is_wordy, kinds
from penumbra.redaction.view import flat

_OPTIONS = latin1()
TAIL = Linear(
    rb"[_-][A-Za-z0-9]{28,}|\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}|[0-9a-f]{32}\.[A-Za-z0-9]{16}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}"
    rb"|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|\.[A-Za-z0-9_-]{6}:[A-Za-z0-9_-]{43}",
    _OPTIONS,
)
_DOTTED = (
    # Discord bots: an id in base64, a time, a signature.
    re.compile(
        rb"(?<![\w.+/-])[MNO][A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,42}(?![\w.+/-])"
    ),
    # Zhipu and similar services: an id and a secret.
    re.compile(rb"(?<![\w.+/-])[0-9a-f]{32}\.(?=[A-Za-z]{0,15}[0-9])[A-Za-z0-9]{16}(?![\w.+/-])"),
    # Ably: the ids of an application and of its key, and the key's secret.
    re.compile(rb"(?<![\w.+/-])[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{6}:[A-Za-z0-9_-]{43}(?![\w.+/-])"),
    # Airtable: an id and a digest.
    re.compile(rb"(?<![\w.+/-])pat[A-Za-z0-9]{14}\.[0-9a-f]{64}(?![\w.+/-])"),
    # Mailgun: three numbers.
    re.compile(rb"(?<![\w.+/-])[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![\w.+/-])"),
)
"""Patterns of tokens that consist of several parts, mostly with dots between them."""
_DOTTED_REACH = 64
"""A token of several parts begins and ends at most this number of bytes from a match of `TAIL`."""
_PART = rb"(?:[a-z0-9]{1,14}|[A-Z0-9]{1,14}|[A-Z][a-z]{1,14})"
_PREFIX = re.compile(
    rb"(?:[a-z][a-z0-9]{1,14}|[A-Z][A-Z0-9]{1,14}|[A-Z][a-z]{1,14})(?:[_-]" + _PART + rb"){0,3}"
)
_PREFIX_CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_LONGEST_PREFIX = 64
_HEX = re.compile(rb"[0-9a-fA-F]+")
_END = re.compile(rb"[A-Za-z0-9_/+=-]|\.[A-Za-z0-9]")
_DIGEST = re.compile(rb"(?i)(?<![a-z0-9])(?:sha-?[0-9]{1,3}|md5|blake[0-9][a-z]?)[=:-]\Z")
"""This pattern matches the name of a hash algorithm before a hash, such as `sha256=`."""
_BITS = 3.6
_SPEC = rules.load("secrets/words/prefixes.yaml")
_IDS = frozenset(_SPEC["ids"].split())
_TELLING = tuple(_SPEC["telling"].split())


def prefixed_tokens(data: bytes) -> Iterator[Span]:
    for match in TAIL.finditer(data):
        joint, end = match.span()
        if data[joint] not in b"_-":
            yield from _dotted_tokens(data, joint, end)
            continue
        low = max(0, joint - _LONGEST_PREFIX)
        start = low + len(data[low:joint].rstrip(_PREFIX_CHARACTERS))
        prefix, tail = data[start:joint], data[joint + 1 : end]
        if not _PREFIX.fullmatch(prefix) or data[start - 1 : start] in (b"/", b"+", b".", b"\\"):
            continue
        if judge("program_name", tail.decode("ascii")) or _DIGEST.search(data, max(0, start - 12), start):
            continue
        if _END.match(data, end) or not _is_random_tail(tail, prefix.decode("ascii").lower()):
            continue
        yield Span(start, end, "token", "prefixed-token", Rank.STRUCTURE, sure=True)


def _dotted_tokens(data: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield the tokens of several parts that contain the beginning of a match of `TAIL`."""
    for pattern in _DOTTED:
        for token in pattern.finditer(data, max(0, start - _DOTTED_REACH), end + _DOTTED_REACH):
            is_telling = pattern in _DOTTED[-2:] or kinds(token[0].decode("ascii")) == 3
            if token.start() <= start < token.end() and is_telling:
                yield Span(*token.span(), "token", "dotted-token", Rank.GENERIC, sure=True)


def _is_random_tail(tail: bytes, prefix: str) -> bool:
    if prefix.replace("-", "_").split("_")[0] in _IDS:
        return False
    text = tail.decode("ascii")
    if judge("placeholder", text):
        return False
    if _HEX.fullmatch(tail):
        return len(tail) >= 32 and any(word in prefix for word in _TELLING) and entropy(text) >= 3.0
    return sum(map(str.isdigit, text)) >= 3 and entropy(text) >= _BITS


_LINE = re.compile(rb"(?:\r?\n|\\{1,31}n)([A-Za-z0-9+/_.-]{1,4096}={0,2})(?=\r?\n|[\"'\\]|\Z)")
_HEX_END = re.compile(rb"[0-9a-f]*\Z")
_NEAR = 2_000
"""The beginning of a line is looked for in at most this number of bytes before a word."""
_LONGEST_BEGINNING = 64
_LEAST_WIDTH = 40
"""A terminal or mail program has not broken a line with fewer columns."""
_ARMOUR_WIDTHS = (64, 76)
_ARMOUR_REACH = 128
_ARMOURED = re.compile(
    rb"(?:-----|(?:[^A-Za-z0-9+/]|\\n)(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{76}))"
    rb"(?:\r?\n|\\{1,31}n)[ \t]{0,16}\Z"
)
"""This pattern matches the line before a base64 line of a certificate or mail."""


def wrapped_end(data: bytes, start: int, end: int, most: int, begins: tuple[bytes, ...] = ()) -> int:
    """Return the end of a word that begins at `start`. The line of the word ends at `end`. If the next lines
    do not continue the word, return `end`. The word is continued only if the next line has the full width of
    the first and does not make the word longer than `most`, and another line follows. It then ends with a
    shorter line, or with the line on which its length exceeds `most`, or with the last line. A line that
    begins with a string in `begins` (in lower case) starts a new word."""
    width = end - _line_begin(data, start)
    is_hex = _is_hex(data[start:end])
    at = end
    while width >= _LEAST_WIDTH and (line := _LINE.match(data, at, at + 2 * width)):
        piece = line[1]
        if begins_with(piece, begins):
            return end
        if len(piece) > width or (not is_hex and len(piece) == width and _is_hex(piece)):
            return end
        if len(piece) < width or line.end(1) - start > most or not _LINE.match(data, line.end(1)):
            return line.end(1) if at > end else end
        at = line.end(1)
    return end


def begins_with(piece: bytes, begins: tuple[bytes, ...]) -> bool:
    """Return whether the piece begins with one of these strings. `begins` are in lower case."""
    return bool(begins) and piece[:_LONGEST_BEGINNING].lower().startswith(begins)


def _is_hex(piece: bytes) -> bool:
    """Return whether a piece has only lower-case hexadecimal digits after its last `_`, `-` or `.`."""
    return bool(_HEX_END.match(piece, max(piece.rfind(joint) for joint in (b"_", b"-", b".")) + 1))


def _line_begin(data: bytes, at: int) -> int:
    begin = max(0, at - _NEAR)
    # The line break before the line may be real, or escaped in a string.
    ends = ((data.rfind(line_end, begin, at), len(line_end)) for line_end in (b"\n", b"\\n"))
    return max([begin, *(end + length for end, length in ends if end >= 0)])


def is_armour(data: bytes, start: int, end: int) -> bool:
    """Return whether a word is a whole line of base64, as in a certificate or mail."""
    start += data[start - 1 : start + 1] == b"\\n"  # Skip an escaped line break.
    if end - start not in _ARMOUR_WIDTHS:
        return False
    return _ARMOURED.search(data, max(0, start - _ARMOUR_REACH), start) is not None


_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_BASE62 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_WITHIN_ESCAPE = frozenset(b"\\0123456789abcdefABCDEF[;")
_BACKSLASH = b"\\"
_ESCAPE_BEFORE = re.compile(
    rb"(?:\\[nrtbfv0]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|(?:\\033|\\e)\[[A-Za-z])\Z"
)
_COLOUR_BEFORE = re.compile(rb"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,16}[A-Za-z]\Z")
_RUN = re.compile(rb"[A-Za-z0-9+/_.-]{4,}={0,2}")
_STOPS = b".,:;"
_REST = re.compile(
    rb"(?:\\?\r?\n|=\r?\n|\\{1,31}n)[ \t>|+]{0,12}([A-Za-z0-9+/_.-]{4,600}={0,2})"
    rb"(?=[ \t]*(?:\r?\n|[\"'\\,;)]|\Z))"
)
_WRAPS = re.compile(
    rb"[A-Za-z0-9+/_.-]{4,}+={0,2}(?:\\?\r?\n|=\r?\n|\\{1,31}n)[ \t>|+]{0,12}[A-Za-z0-9+/_.-]{4}"
)
"""This pattern matches the last word of a line and the first word of the next line."""
_LOOSE = re.compile(r"(\\[^bB])|\\[bB]|\{([0-9]+)(?:,([0-9]*))?\}", re.DOTALL)
_MOST_COUNTED = 16
"""The test of an anchor counts no further than this. Large counts make RE2's automata large and slow."""
_LINE_BEGIN = re.compile(r"(?<!\[)\^")
"""This pattern matches a `^` in a regular expression, but not the `^` of `[^…]`."""
_MEMORY = 16 << 20
"""Bytes of memory that RE2 may use for each alternative of a combined pattern."""
_AFTER_WRAP = 64
"""The greatest number of bytes from the end of the first word to the end of a match of `_WRAPS`."""
_JOINTS = tuple(bytes((byte,)) for byte in b"_-")
"""The characters between the parts of a token. A broken token does not begin after such a character."""
_BLOB = re.compile(rb"[A-Za-z0-9+/]{24}")
_NEAR_HOST = re.compile(rb"@(?:127\.|\[::1\]|[A-Za-z0-9_-]{1,63}(?![A-Za-z0-9_.-]))")
"""This pattern matches a loopback address, or a host name without a domain."""
_LOGIN_WORDS = re.compile(
    rb"(?i)(?:(?:my|your|the|some|user(?:name)?|pass(?:word|wd|phrase)?|pwd|pw|secret|token|key|api|foo|bar|baz|qux"
    rb"|login|test|example|sample|aws|db|app|client)[ _.:@-]?)+"
)
_JOINT_OF_WORDS = re.compile(rb"\w[ _.:@-]\w")
_LOGIN_USER = re.compile(rb"://([\w.-]{1,60}):\Z")
_LONGEST_USER = 64
_ANY_USER = (b"user", b"username")
_PERCENT = re.compile(rb"%[0-9A-Fa-f]{2}")
_NOBODYS_HOST = re.compile(
    rb"@(?:[\w-]{1,63}\.){0,4}(?:example(?:\.[a-z]{2,6})?|invalid|test|localhost|127\.0\.0\.1|host(?:name)?|server|(?:your)?domain(?:\.[a-z]{2,6})?)(?![\w-]|\.\w)"
)
"""This pattern matches a host that is reserved for examples, or a placeholder such as `yourdomain`."""
_FILLER = compile_pattern(r"[xX]{6}|[*.]{4}|0{12}|your|YOUR|EXAMPLE\z")
_DIGITS = b"0123456789"
_FRONT = re.compile(shared_patterns.FILE)
"""This pattern matches the file name that `grep` prints before a line."""
_IDENTIFIER = re.compile("[a-z0-9]+(?:[_-]+[a-z0-9]+)+")
_JOINT = re.compile("[_-]+")
_WORDS_OF_IDENTIFIER = 3
_QUOTES = (b'"', b"'", b"`")
_BRACKETS = {b"}": b"{", b"]": b"[", b")": b"("}
_LINE_REACH = 300
"""An opening bracket is looked for in at most this number of bytes before a value."""
_BEGINNING = 600
"""The first bytes after an anchor, up to this number, show whether a long value is random."""
_LOOK = 256
"""The greatest number of tested characters of a value. Without a limit, hostile texts take too long."""


def around(rule: Rule, data: bytes, anchors: list[int]) -> Iterator[Span]:
    """Yield the secrets of a rule whose matches may begin before an anchor. `anchors` are sorted offsets. If
    the windows around anchors overlap, they are searched together."""
    start = end = 0
    for anchor in (*anchors, None):
        if anchor is None or anchor - rule.before > end:
            if end:
                yield from _within(rule, data, start, end)
            start = max(0, (anchor or 0) - rule.before)
        end = (anchor or 0) + rule.window


def _within(rule: Rule, data: bytes, start: int, end: int) -> Iterator[Span]:
    for match in rule.pattern.finditer(data, start, end):
        span = _accept(rule, data, match)
        if span:
            yield span


@dataclass(frozen=True)
class Anchor:
    """An `Anchor` has the rules and finders of one anchor."""

    begins: tuple[Rule, ...]
    """Rules with matches that begin with the anchor."""
    around: tuple[Rule | Finder, ...] = ()
    """Finders, and rules with matches that may contain the anchor anywhere."""

    @classmethod
    def of(cls, owners: Iterable[Rule | Finder]) -> Anchor:
        begins: list[Rule] = []
        around: list[Rule | Finder] = []
        for owner in owners:
            if isinstance(owner, Finder) or owner.whole or owner.before:
                around.append(owner)
            else:
                begins.append(owner)
        return cls(tuple(begins), tuple(around))

    @cached_property
    def bounded(self) -> bool:
        """True if the anchor counts only at the beginning of a word."""
        return all(rule.boundary and not rule.group and not rule.checksum for rule in self.begins)

    @cached_property
    def reach(self) -> int:
        """The greatest number of bytes from the beginning of the anchor to the end of a match."""
        return max(rule.window for rule in self.begins) + _AFTER_WRAP

    @cached_property
    def may_wrap(self) -> bool:
        """True if a line break may divide a token of one of the rules."""
        return any(map(_may_be_wrapped, self.begins))

    @cached_property
    def _pattern(self) -> Linear | None:
        """One pattern for all rules in `begins`; None if a rule has no such pattern."""
        looks = [_loosened(rule) for rule in self.begins]
        if not all(looks):
            return None
        # `U` makes repeats lazy, because the shortest match is enough to know that a rule may match.
        return Linear(b"(?U:%b)" % b"|".join(looks), latin1(_MEMORY * len(looks)))

    def may_begin(self, data: bytes, at: int) -> tuple[bool, bool]:
        """Return whether a rule may match from the anchor at `at`, and whether a line break may divide the
        match."""
        # Most anchors are inside longer words, and the first test is faster than `begins_word`.
        if self.bounded and at and _MAY_GO_ON[data[at - 1]] and not begins_word(data, at):
            return False, False
        reach = at + self.reach
        if self.may_wrap and _WRAPS.match(data, at, reach) and self._wraps(data, at):
            return True, True
        pattern = self._pattern
        return pattern is None or pattern.here(data, at, min(reach, len(data)))[0][0] >= 0, False

    def _wraps(self, data: bytes, anchor: int) -> bool:
        """Return whether a line break may divide the token at an anchor where `_WRAPS` matches. The line must
        be wide, or the next line must begin with a random word."""
        if data[anchor - 1 : anchor] in _JOINTS:
            return False
        run = _RUN.match(data, anchor)
        rest = _REST.match(data, run.end()) if run else None
        if run is None or rest is None:
            return False
        is_wide = run.end() - _line_begin(data, anchor) >= _LEAST_WIDTH
        return is_wide or is_opaque(rest[1].decode("ascii"))

    def secrets(self, data: bytes, at: int, wraps: bool, done: dict[str, int]) -> list[Span]:
        """Return the secrets that begin with the anchor at `at`. `wraps` is true if a line break may divide a
        secret. `done` maps the id of a rule to the end of its last secret. The method updates `done`."""
        begun: list[Span] = []
        for rule in self.begins:
            if at >= done.get(rule.id, 0) and (span := at_anchor(rule, data, at, wraps)):
                done[rule.id] = span.end
                begun.append(span)
        # If a rule finds a value within one line, values that contain line breaks don't count.
        return [span for span in begun if b"\n" not in data[span.start : span.end]] or begun


def _loosened(rule: Rule) -> bytes:
    """Return a pattern without groups that matches at least where the rule matches; empty if there is
    none."""
    if rule.checksum:
        return b""
    regex = _LOOSE.sub(_loose, rule.regex)
    return b"" if _LINE_BEGIN.search(regex) else without_groups(regex).encode()


def _loose(part: re.Match[str]) -> str:
    """Return a part of a pattern without the ends of words and without large counts."""
    if not part[2]:
        return part[1] or ""
    least, most = int(part[2]), int(part[3] or 0) if part[3] is not None else int(part[2])
    return part[0] if max(least, most) <= _MOST_COUNTED else f"{{{min(least, _MOST_COUNTED)},}}"


def _may_be_wrapped(rule: Rule) -> bool:
    return rule.rank is Rank.TOKEN and not rule.group


def at_anchor(rule: Rule, data: bytes, anchor: int, wraps: bool) -> Span | None:
    """Return the rule's secret at `anchor`; None if there is none. `wraps` is true if a line break may
    divide a secret."""
    if rule.checksum and (end := _checked_end(data, anchor)):
        return Span(anchor, end, rule.label, rule.id, rule.rank)
    # Nearly all anchors are inside longer words, and this test is faster than the pattern.
    if rule.boundary and not rule.group and not begins_word(data, anchor):
        return None
    harmless = rule.shows_early and _begins_harmlessly(rule, data, anchor)
    match = None if harmless else rule.pattern.match(data, anchor, anchor + rule.window)
    if match:
        span = _accept(rule, data, match)
        return _continued(rule, data, span) if span and not rule.group else span
    return _wrapped(rule, data, anchor) if wraps and _may_be_wrapped(rule) else None


def _begins_harmlessly(rule: Rule, data: bytes, anchor: int) -> bool:
    """Return whether a long value does not begin like a random value."""
    stop = anchor + _BEGINNING
    match = rule.pattern.match(data, anchor, stop)
    if match is None or match.end(1) < stop:
        return False
    start = match.start(1)
    text, rest = data[start : start + _LOOK], data[start + _LOOK : stop]
    # Later steps may shorten the value, but they must not shorten the part that is tested here.
    return (
        text.isascii()
        and b"&" not in text
        and bool(rest.strip(_STOPS))
        and not judge("random", text.decode())
    )


def _checked_end(data: bytes, start: int) -> int:
    """Return the end of a token that begins at `start` and has a valid checksum; 0 if there is none."""
    begin = data.find(b"_", start, start + 12) + 1
    token = data[begin : begin + 36] if begin else b""
    if len(token) < 36 or not token.isalnum():
        return 0
    rest, digits = zlib.crc32(token[:30]), bytearray()
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits.append(_BASE62[digit])
    return begin + 36 if digits[::-1] == token[30:] else 0


def _continued(rule: Rule, data: bytes, span: Span) -> Span:
    """Return the span. If a line break divides the token, the span is extended to the token's end."""
    rest = _REST.match(data, span.end)
    if rest is None or rule.pattern.match(rest[1]):
        return span
    end = wrapped_end(data, span.start, span.end, rule.window, rule.anchors)
    # A token that is alone in its line may belong to a list of tokens.
    alone = not data[data.rfind(b"\n", max(0, span.start - rule.window), span.start) + 1 : span.start].strip()
    if end == span.end and not alone and _is_rest(rest[1]):
        end = rest.end(1)
    return span._replace(end=end) if end > span.end and _joined(rule, data, span.start, end) else span


def _wrapped(rule: Rule, data: bytes, anchor: int) -> Span | None:
    """Return the secret at `anchor` if a line break divides it; otherwise None."""
    run = _RUN.match(data, anchor, anchor + rule.window)
    rest = _REST.match(data, run.end()) if run is not None else None
    if run is None or rest is None or begins_with(rest[1], rule.anchors):
        return None  # The next line begins another token.
    end = wrapped_end(data, anchor, run.end(), rule.window, rule.anchors)
    if end == run.end():
        end = rest.end(1) if is_opaque(rest[1].decode("ascii")) else end
    secret = _joined(rule, data, anchor, end)
    if not secret or not _fits(rule, secret):
        return None
    return Span(anchor, end, rule.label, rule.id, rule.rank)


def _joined(rule: Rule, data: bytes, start: int, end: int) -> bytes:
    """Return the text without line breaks if the rule matches this whole text; otherwise an empty text."""
    text = flat(data[start:end])
    match = rule.pattern.match(text)
    return text if match and match.end() == len(text) else b""


def _is_rest(piece: bytes) -> bool:
    """Return whether a line looks like the end of a token: random, with digits, capitals and small
    letters."""
    text = piece.decode("ascii")
    return is_opaque(text, 16) and kinds(text) == 3


def everywhere(rule: Rule, data: bytes) -> Iterator[Span]:
    """Yield the rule's secrets in the whole text."""
    for match in rule.pattern.finditer(data):
        span = _accept(rule, data, match)
        if span:
            yield span


_BEGINS, _GOES_ON, _DEPENDS = range(3)
_AFTER = bytes(_GOES_ON if byte in _WORD else _DEPENDS if byte == 0x5D else _BEGINS for byte in range(256))
"""For each byte, whether a word may continue after it. After `]` (0x5D), the text decides, because a
placeholder may end there."""
_MAY_GO_ON = bytes(after != _BEGINS for after in _AFTER)
"""For each byte, 1 if a word may continue after it, otherwise 0."""
_TRACED = re.compile(
    rb"(?i)(?:(?:trace|span|parent|request|transaction)(?:[_-]?(?:id|parent|state|context))?|x-[a-z]{2,20}-id)"
    rb"[\"']{0,2}[:=][ \"']{0,3}\Z"
)
"""This pattern matches the name before an id that traces a request."""


def begins_word(data: bytes, start: int) -> bool:
    """Return whether a word begins at `start`. A word also begins after an escape such as `\\n`. No word
    begins after a placeholder, because the replaced value is usually part of the word."""
    if start == 0:
        return True
    after = _AFTER[data[start - 1]]
    if after != _GOES_ON:
        return after == _BEGINS or not placeholder.ends(data, start)
    # The byte before the last shows whether an escape may end here.
    if start == 1 or data[start - 2] not in _WITHIN_ESCAPE:
        return False
    before = data[max(0, start - 6) : start]
    if (_BACKSLASH in before or b"%" in before) and _ESCAPE_BEFORE.search(before):
        return True
    return data[start - 1] in b"mKGH" and bool(_COLOUR_BEFORE.search(data[max(0, start - 24) : start]))


def _accept(rule: Rule, data: bytes, match: Found) -> Span | None:
    start, end = _place(rule, match)
    if rule.group and rule.value:
        start, end = unframed(data, *between_entities(data, start, end))
        if data[start - 1 : start] not in _QUOTES:
            end = before_bar(data, start, end)
    while end > start and data[end - 1] in _STOPS:
        end -= 1
    if rule.value and _closes_earlier(data, start, end):
        end -= 1
    if end <= start:
        return None
    if rule.boundary and not begins_word(data, start):
        return None
    if rule.value == "certain" and _TRACED.search(data[max(0, start - 60) : start]):
        return None
    if rule.exact and end < len(data) and data[end] in _WORD:
        return None
    if rule.value and data[start - 1 : start] == b"\n" and _FRONT.match(data, start):
        return None
    if not _fits(rule, data[start:end]) or (rule.boundary and _is_in_blob(data, start, end)):
        return None
    if rule.value == "login" and (_repeats_user(data, start, end) or _is_documented(data, start, end)):
        return None
    if rule.allows and any(_is_allowed(allow, data, match, start, end) for allow in rule.allows):
        return None
    return Span(start, end, rule.label, rule.id, rule.rank, rule.sure)


def _closes_earlier(data: bytes, start: int, end: int) -> bool:
    """Return whether a value ends with a closing bracket whose opening bracket is on the line, before the
    value."""
    bracket = data[end - 1 : end]
    opening = _BRACKETS.get(bracket)
    if opening is None or opening in data[start:end]:
        return False
    line = data[max(data.rfind(b"\n", max(0, start - _LINE_REACH), start) + 1, start - _LINE_REACH) : start]
    return line.count(opening) > line.count(bracket)


def _repeats_user(data: bytes, start: int, end: int) -> bool:
    """Return whether user and password are equal and the host is local, as in `guest:guest@localhost`."""
    value = data[start:end]
    return data[max(0, start - len(value) - 4) : start] == b"://" + value + b":" and bool(
        _NEAR_HOST.match(data, end)
    )


def _is_documented(data: bytes, start: int, end: int) -> bool:
    """Return whether a login is only an example. The password consists only of words such as `pass`.
    Besides, either the host is reserved for examples (`foo:mypass@example.com`), or the password joins
    several such words and the user does so, too, or is `user` or `username` (`aws_key:aws_secret@`,
    `user:my_pass@`)."""
    text = _PERCENT.sub(b" ", data[start:end])
    if not _LOGIN_WORDS.fullmatch(text):
        return False
    if _NOBODYS_HOST.match(data, end):
        return True
    user = _LOGIN_USER.search(data, max(0, start - _LONGEST_USER), start)
    if user is None or not _JOINT_OF_WORDS.search(text):
        return False
    if user[1].lower() in _ANY_USER:
        return True
    return bool(_LOGIN_WORDS.fullmatch(user[1]) and _JOINT_OF_WORDS.search(user[1]))


def _place(rule: Rule, match: Found) -> tuple[int, int]:
    groups = range(1, rule.pattern.groups + 1) if rule.first_group else (rule.group,)
    for group in groups:
        start, end = match.span(group)
        if end > start:
            return start, end
    return match.span()


def _is_allowed(allow: Allow, data: bytes, match: Found, start: int, end: int) -> bool:
    target = data[start:end]
    if allow.target == "match":
        target = match[0]
    elif allow.target == "line":
        stop = data.find(b"\n", end)
        target = data[data.rfind(b"\n", 0, start) + 1 : stop if stop >= 0 else len(data)]
    by_pattern = any(pattern.search(target) for pattern in allow.patterns)
    secret = data[start:end].decode("utf-8", "replace").lower()
    by_word = any(word in secret for word in allow.stopwords)
    if allow.every and allow.patterns and allow.stopwords:
        return by_pattern and by_word
    return by_pattern or by_word


def _is_in_blob(data: bytes, start: int, end: int) -> bool:
    """Return whether a match is a part of longer base64, such as a certificate."""
    if is_armour(data, start, end):
        return True
    if data[start - 1 : start] not in (b"/", b"+") or any(sign in data[start:end] for sign in b"_-.:"):
        return False
    return bool(_BLOB.match(data, max(0, start - 24), start))


def _fits(rule: Rule, secret: bytes) -> bool:
    if rule.digits and len(secret.translate(None, _DIGITS)) > len(secret) - rule.digits:
        return False
    text = secret.decode("utf-8", "replace")
    if rule.rank is Rank.TOKEN and not rule.filler and (_FILLER.search(secret) or _is_identifier(rule, text)):
        return False
    if rule.mixed and kinds(text) < 3:
        return False
    if rule.entropy and entropy(text) < rule.entropy:
        return False
    if rule.value == "certain" and judge("program_name", text):
        return False
    check = _CHECKS.get(rule.value)
    return check is None or check(text)


def _is_identifier(rule: Rule, text: str) -> bool:
    """Return whether a value is an identifier such as `acme_migration_20240101_create_users_table`. An
    identifier has at least three words that no anchor of the rule contains."""
    if not _IDENTIFIER.fullmatch(text):
        return False
    words = [part for part in _JOINT.split(text) if len(part) > 3 and part.isalpha() and is_wordy(part)]
    if len(words) < _WORDS_OF_IDENTIFIER:
        return False
    own = b" ".join(rule.anchors).decode("utf-8", "replace")
    return sum(word not in own for word in words) >= _WORDS_OF_IDENTIFIER


def _is_basic(text: str) -> bool:
    """Return whether a value is base64 of `user:password`."""
    try:
        pair = base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
    except ValueError:
        return False
    user, colon, password = pair.partition(b":")
    if not colon or (password and judge("placeholder", password.decode("utf-8", "replace"))):
        return False
    return bool(user or password) and all(32 <= byte < 127 or byte >= 160 for byte in pair)


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "password": lambda text: is_secret(text, Strength.PASSWORD, Style.ENV),
    "told": lambda text: is_secret(text, Strength.PASSWORD, Style.PROSE),
    "certain": lambda text: is_secret(text, Strength.WEAK, Style.QUOTED),
    "opaque": partial(judge, "random"),
    "given": partial(judge, "literal"),
    "login": partial(judge, "literal"),
    "basic": _is_basic,
}
