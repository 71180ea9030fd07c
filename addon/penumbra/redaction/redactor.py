"""The redactor finds the secrets in a text and replaces them by placeholders. The call that printed the text
gives hints."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

import ahocorasick_rs

from penumbra import rules
from penumbra.compress import time_budget
from penumbra.compress.result import Redacted
from penumbra.linear import LinearText
from penumbra.redaction import MAX_BYTES, RedactionError, TooLarge, placeholder
from penumbra.redaction.decoders import DECODERS, Sign, signs
from penumbra.redaction.finders import printed
from penumbra.redaction.finders.assignments import assigned
from penumbra.redaction.finders.columns import COLUMNS, SQL_ROWS
from penumbra.redaction.finders.named_apart import RECORDS
from penumbra.redaction.finders.pem import KEY_FORMATS, KEYS
from penumbra.redaction.finders.places import FINDERS, USER_LISTS, file_in, lone_lines, of_file
from penumbra.redaction.finders.printed import TRANSCRIPTS, Printed, printed_by
from penumbra.redaction.finders.tokens import Anchor, around, everywhere, prefixed_tokens
from penumbra.redaction.json_text import inside_strings, is_json
from penumbra.redaction.judgement import judge
from penumbra.redaction.names import Strength
from penumbra.redaction.rule import NOTHING, Allowed, Rule, read
from penumbra.redaction.span import Finder, Rank, Span, elsewhere
from penumbra.redaction.view import FAR, without
from penumbra.short_texts import remembered


@dataclass(frozen=True, slots=True)
class Hint:
    """A `Hint` has facts about a text that follow from the call that printed the text."""

    loud: bool = False
    """True if the text is from a place where secrets are kept. Weak names then count as strong names, and
    lone random lines are secrets."""
    quiet: bool = False
    """True if the text is full of hashes. Only strong names and known forms then count."""
    printed: Printed | None = None
    """The secret that the command of the text prints without a name; None if the command prints none."""
    users: bytes = b""
    """The name of a file whose lines each have a user and a password, such as `htpasswd`; otherwise empty."""


_SPEC = rules.load("secrets/words/hints.yaml")
_LOUD, _QUIET = (LinearText("(?i)" + "|".join(_SPEC[kind])) for kind in ("loud", "quiet"))
_LONGEST = 4096
"""The number of characters of a path or command line that are read."""


def read_hint(text: str) -> Hint:
    """Return the hint in a path or command line. An unreadable command line gives an empty hint."""
    return _hint(text[:_LONGEST])


@remembered(1_024)
def _hint(text: str) -> Hint:
    try:
        loud = _LOUD.search(text) is not None
        secret = printed_by(text) if text else None
        quiet = not loud and secret is None and _QUIET.search(text) is not None
        return Hint(loud, quiet, secret, file_in(text))
    except Exception:
        return Hint()


_PASSES = 6
_DEEPEST = 2
"""The number of nested encodings that are decoded."""
_AROUND = 4 * FAR
"""The number of bytes on each side of a placeholder that are searched again."""
_EDGE = 2_048
"""If only a part of a text is searched, secrets in this number of bytes at its ends don't count, because the
text outside of the part may decide about them."""
_CHECKED = 256
"""The number of anchors between two checks of the time."""
_ESCAPE = re.compile(rb"u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf]")


@dataclass(frozen=True, slots=True)
class Scan:
    """A `Scan` is a redacted text with the secrets that were in it."""

    text: str
    counts: dict[str, int] = field(default_factory=dict)
    """The number of replaced values, by rule id."""
    values: dict[str, str] = field(default_factory=dict)
    """The values, as the text spells them, by placeholder. The values may be kept only in memory."""
    rules: dict[str, str] = field(default_factory=dict)
    """For each placeholder, the id of the rule that first found the value."""
    sure: dict[str, str] = field(default_factory=dict)
    """The values that are secrets in any surroundings, by placeholder."""


_FINDERS = (*FINDERS, KEYS, *KEY_FORMATS, COLUMNS, *RECORDS, SQL_ROWS, TRANSCRIPTS, USER_LISTS)


@lru_cache(maxsize=2)
def _anchors(rules: tuple[Rule, ...]) -> tuple[list[Anchor], ahocorasick_rs.BytesAhoCorasick]:
    """Return the anchors and the automaton that finds them. Redactors with the same rules share both."""
    owners: dict[bytes, list[Rule | Finder]] = {}
    everyone: tuple[Rule | Finder, ...] = (*rules, *_FINDERS)
    for owner in everyone:
        for anchor in owner.anchors:
            owners.setdefault(anchor, []).append(owner)
    # A DFA takes 17 MB instead of 2, and building a DFA takes 30 ms instead of 5. A DFA is 1.5 times as fast
    # on an idle machine, but slower if other work fills the processor's cache.
    kind = ahocorasick_rs.Implementation.ContiguousNFA
    automaton = ahocorasick_rs.BytesAhoCorasick(list(owners), implementation=kind)
    return list(map(Anchor.of, owners.values())), automaton


class Redactor:
    """A `Redactor` removes secrets from texts. Several threads may use a `Redactor`. `key` is the key of the
    fingerprints. `rules` replaces the rules of `rules/secrets`. Texts of more than `limit` UTF-8 bytes are
    refused. The secrets in `allowed` stay."""

    def __init__(
        self,
        key: bytes,
        rules: Iterable[Rule] | None = None,
        *,
        limit: int = MAX_BYTES,
        allowed: Allowed = NOTHING,
    ) -> None:
        self._key = key
        self._limit = limit
        self._allowed = allowed
        rules = tuple(read() if rules is None else rules)
        self._anywhere = tuple(rule for rule in rules if not rule.anchors)
        self._anchors = _anchors(rules)

    def redact(self, text: str, hint: str = "") -> Redacted:
        """Return the text without its secrets, and the number of replaced values by rule id. `hint` is the
        path or command line that the text comes from. Raises RedactionError and Overrun. The
        errors contain no part of the text."""
        scan = self.scan(text, hint)
        return Redacted(scan.text, scan.counts)

    def scan(self, text: str, hint: str = "") -> Scan:
        """Return the result of `redact` and the replaced values. Raises RedactionError and Overrun."""
        try:
            data = text.encode("utf-8", "surrogatepass")
            if len(data) > self._limit:
                raise TooLarge(f"{len(data)} bytes are more than the limit of {self._limit}")
            if self._allowed.whole(hint):
                return Scan(text)
            return self._settle(text, data, read_hint(hint))
        except (RedactionError, time_budget.Overrun):
            raise
        except Exception as error:
            raise RedactionError(f"redaction failed: {type(error).__name__}") from None

    def _settle(self, text: str, data: bytes, hint: Hint) -> Scan:
        """Redact a text until no secret is found, `_PASSES` times at most."""
        counts: Counter[str] = Counter()
        scan = Scan(text)
        for _ in range(_PASSES):
            spans = self._spans(data, hint, again=bool(counts))
            if not spans:
                break
            counts.update(span.rule for span in spans)
            data = self._replace(data, spans, scan)
        if not counts:
            return scan
        return replace(scan, text=data.decode("utf-8", "surrogatepass"), counts=dict(sorted(counts.items())))

    def _spans(self, data: bytes, hint: Hint, *, again: bool) -> list[Span]:
        """Return the secrets in a text. `again` is true after a first search."""
        taken = placeholder.spans(data)
        found = [] if again else self._shown(data, hint)
        # The first search reads the whole text, because a placeholder that came with the text may cut a long
        # secret, or the only name of a column.
        for start, end in _near(data, taken) if again else [(0, len(data))]:
            part = data[start:end]
            beside = self._shown(part, hint) if again else []
            beside += self._hidden(part, hint)
            # At the ends of a part, a secret may be cut, or a name may be separated from its value.
            low, high = start + _EDGE * (start > 0), end - _EDGE * (end < len(data))
            moved = (span.at(span.start + start, span.end + start) for span in beside)
            found += (span for span in moved if low <= span.start and span.end <= high)
        if self._allowed:
            found = self._allowed.without(data, found, self._key)
        if not found:
            return []
        whole = (_whole_characters(data, _after_escape(data, span)) for span in found)
        spans = list(placeholder.around(_merge(list(whole)), taken, data))
        spans = list(placeholder.around(_merge(spans + list(elsewhere(data, spans))), taken, data))
        if is_json(data):
            spans = list(inside_strings(data, spans))
        # A changed span may be an allowed value.
        return self._allowed.without(data, spans, self._key) if self._allowed else spans

    def _shown(self, data: bytes, hint: Hint, depth: int = _DEEPEST) -> list[Span]:
        """Return the secrets in a text: plain, or in one of the forms in which tools print bytes."""
        shown = signs(data)
        found = self._seen(data, hint, shown)
        if not depth:
            return found
        for sign, decoder in DECODERS.items():
            if sign not in shown or (hint.quiet and sign is Sign.ENCODED):
                continue
            for view in decoder.views(data):
                spans = self._shown(view.data, hint, depth - 1)
                found += decoder.back(view, data, self._allowed.without(view.data, spans, self._key))
        return found

    def _hidden(self, data: bytes, hint: Hint) -> list[Span]:
        """Return the secrets that contain or follow placeholders."""
        hidden: list[Span] = []
        # A search for the patterns is slow, and most texts have no placeholder.
        if placeholder.MARK not in data:
            return hidden
        beside = list(placeholder.BESIDE.finditer(data))
        for view in without(data, beside):
            taken = [match.span() for match in beside]
            found = placeholder.cut(self._shown(view.data, hint), taken, view.data)
            hidden += [span.at(*view.origin(span.start, span.end)) for span in found]
        # A word with a placeholder may be far from the secret: it may be a column's head, or in the first
        # line of a key or dump.
        for view in without(data, placeholder.WITHIN_WORD.finditer(data)):
            hidden += [span.at(*view.origin(span.start, span.end)) for span in self._shown(view.data, hint)]
        return hidden

    def _seen(self, data: bytes, hint: Hint, shown: frozenset[Sign]) -> list[Span]:
        low = data.lower()
        found = [span for rule in self._anywhere for span in everywhere(rule, data)]
        found += _cut_at_lines(data, list(self._anchored(data, low)))
        flags, tags = Sign.FLAG in shown, Sign.TAG in shown
        found += assigned(data, low, loud=hint.loud, quiet=hint.quiet, flags=flags, tags=tags)
        if Sign.TAIL in shown and not hint.quiet:
            found += prefixed_tokens(data)
        if hint.loud:
            found += lone_lines(data)
        if hint.printed:
            found += printed.values(data, hint.printed)
        if hint.users:
            found += of_file(data, hint.users)
        return found

    def _anchored(self, data: bytes, low: bytes) -> Iterator[Span]:
        """Yield the secrets that rules and finders find around their anchors."""
        anchors, automaton = self._anchors
        begins: list[tuple[int, int, bool]] = []
        around_places: dict[str, tuple[Rule | Finder, list[int]]] = {}
        for count, (number, start, _) in enumerate(automaton.find_matches_as_indexes(low, overlapping=True)):
            if not count % _CHECKED:
                time_budget.check()
            anchor = anchors[number]
            if anchor.begins:
                may_match, wraps = anchor.may_begin(data, start)
                if may_match:
                    begins.append((start, number, wraps))
            for owner in anchor.around:
                around_places.setdefault(owner.id, (owner, []))[1].append(start)
        # The end of the last secret of each rule, by the rule's id.
        done: dict[str, int] = {}
        for start, number, wraps in sorted(begins):
            time_budget.check()
            yield from anchors[number].secrets(data, start, wraps, done)
        for owner, starts in around_places.values():
            starts.sort()
            if isinstance(owner, Finder):
                yield from owner.find(data, low, starts)
            else:
                yield from everywhere(owner, data) if owner.whole else around(owner, data, starts)

    def _replace(self, data: bytes, spans: list[Span], scan: Scan) -> bytes:
        """Return the text with placeholders in place of the spans. Add the replaced values to `scan`."""
        pieces: list[bytes] = []
        at = 0
        for span in spans:
            value = data[span.start : span.end]
            mark = placeholder.make(span.label, self._key, value)
            spelt = scan.values.setdefault(mark, value.decode("utf-8", "surrogatepass"))
            if span.sure or judge("unmistakable", spelt, Strength.PASSWORD):
                scan.sure[mark] = spelt
            scan.rules.setdefault(mark, span.rule)
            pieces += (data[at : span.start], span.quote, mark.encode("ascii"), span.quote)
            at = span.end
        pieces.append(data[at:])
        return b"".join(pieces)


def _near(data: bytes, taken: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a text that are near placeholders, where new secrets may be found."""
    parts: list[tuple[int, int]] = []
    for start, end in taken:
        low, high = max(0, start - _AROUND), min(len(data), end + _AROUND)
        if parts and low <= parts[-1][1]:
            low = parts.pop()[0]
        parts.append((low, high))
    return parts


def _cut_at_lines(data: bytes, spans: list[Span]) -> list[Span]:
    """Return the spans, with tokens shortened: a token ends before a line that begins with another secret."""
    starts = {span.start for span in spans if data[span.start - 1 : span.start] == b"\n"}
    if not starts:
        return spans
    cut = []
    for span in spans:
        at = data.find(b"\n", span.start, span.end) if span.rank is Rank.TOKEN else -1
        while at >= 0 and at + 1 not in starts:
            at = data.find(b"\n", at + 1, span.end)
        end = at - (data[at - 1 : at] == b"\r") if at >= 0 else span.end
        cut.append(span if end == span.end else span.at(span.start, end))
    return cut


def _after_escape(data: bytes, span: Span) -> Span:
    """Return the span without the letters of an escape. The backslash of the escape is before the span."""
    if data[span.start - 1 : span.start] != b"\\":
        return span
    escape = _ESCAPE.match(data, span.start, span.end)
    return span.at(escape.end(), span.end) if escape and escape.end() < span.end else span


def _whole_characters(data: bytes, span: Span) -> Span:
    """Return the span. If one of its ends is within a UTF-8 character, the span is widened."""
    start, end = span.start, span.end
    while start > 0 and data[start] & 0xC0 == 0x80:
        start -= 1
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end += 1
    return span if (start, end) == (span.start, span.end) else span.at(start, end)


def _merge(spans: list[Span]) -> list[Span]:
    """Return the spans. Overlapping spans are joined under the rule of the highest rank."""
    spans.sort(key=lambda span: (span.start, -span.end, -span.rank, span.rule))
    merged: list[Span] = []
    for span in spans:
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            best = span if span.rank > last.rank else last
            sure = last.sure if last.end >= span.end else span.sure and span.start == last.start
            end = max(last.end, span.end)
            quote = last.quote or span.quote
            merged[-1] = Span(last.start, end, best.label, best.rule, best.rank, sure, quote)
        else:
            merged.append(span)
    return merged
