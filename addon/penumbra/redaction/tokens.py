"""Secrets that are known by their own form, or by the place they stand in: the rules of YAML.

All anchors are looked for in one pass; a rule's pattern is then tried in a bounded window around
its anchor, so that a text costs the same whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import ahocorasick_rs

from penumbra.redaction.names import Strength
from penumbra.redaction.rule import Rule
from penumbra.redaction.span import Rank, Span
from penumbra.redaction.values import Style, entropy, is_opaque, is_placeholder, is_reference, is_secret

_WORD = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_ESCAPE_BEFORE = re.compile(
    rb"(?:\\[nrtbfv0]|%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}"
    rb"|(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[0-9;]{0,16}[A-Za-z])\Z"
)


_REPEATED = re.compile(rb"[xX]{6}|[*.]{4}|0{12}|your|YOUR|EXAMPLE\Z")


class Tokens:
    """Finds what the rules describe."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)
        owners: dict[bytes, list[Rule]] = {}
        for rule in self._rules:
            for anchor in rule.anchors:
                owners.setdefault(anchor, []).append(rule)
        self._owners = list(owners.values())
        self._automaton = ahocorasick_rs.BytesAhoCorasick(
            list(owners) or [b"\x00nothing\x00"], implementation=ahocorasick_rs.Implementation.DFA
        )

    def find(self, data: bytes, low: bytes) -> Iterator[Span]:
        """Spans of secrets; `low` is `data` in lower case."""
        done: dict[str, int] = {}
        for index, start, _ in self._automaton.find_matches_as_indexes(low, overlapping=True):
            for rule in self._owners[index]:
                if start < done.get(rule.id, 0):
                    continue
                span = _verify(rule, data, start)
                if span:
                    done[rule.id] = span.end
                    yield span


def _verify(rule: Rule, data: bytes, anchor: int) -> Span | None:
    if rule.before:
        match = rule.pattern.search(data, max(0, anchor - rule.before), anchor + rule.window)
    else:
        match = rule.pattern.match(data, anchor, anchor + rule.window)
    if match is None:
        return None
    start, end = match.span(rule.group)
    if start < 0 or end <= start:
        return None
    if rule.boundary and not _begins(data, start):
        return None
    if rule.exact and not _ends(data, end):
        return None
    if not _fits(rule, data[start:end]):
        return None
    return Span(start, end, rule.label, rule.id, rule.rank, rule.sure)


def _fits(rule: Rule, secret: bytes) -> bool:
    text = secret.decode("utf-8", "replace")
    if rule.rank is Rank.TOKEN and _REPEATED.search(secret):
        return False
    if rule.mixed and not _is_mixed(text):
        return False
    if sum(map(str.isdigit, text)) < rule.digits or (rule.entropy and entropy(text) < rule.entropy):
        return False
    if rule.value == "password":
        return is_secret(text, Strength.PASSWORD, Style.ENV)
    if rule.value == "opaque":
        return not is_placeholder(text) and is_opaque(text, 12)
    if rule.value == "given":
        return not (is_placeholder(text) or is_reference(text))
    return True


def _is_mixed(text: str) -> bool:
    return any(map(str.isdigit, text)) and any(map(str.isupper, text)) and any(map(str.islower, text))


def _begins(data: bytes, start: int) -> bool:
    """No word runs into the secret; an escape in front of it is no word."""
    if start == 0 or data[start - 1] not in _WORD:
        return True
    return bool(_ESCAPE_BEFORE.search(data[max(0, start - 24) : start]))


def _ends(data: bytes, end: int) -> bool:
    return end >= len(data) or data[end] not in _WORD or data[end - 1] not in _WORD
