"""Rules as data: what a secret looks like, read from YAML and compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import re2

from penumbra import rules
from penumbra.redaction import RuleError
from penumbra.redaction.span import Rank

_OPTIONS = re2.Options()
_OPTIONS.encoding = re2.Options.Encoding.LATIN1
_OPTIONS.log_errors = False
_RANKS = {"token": Rank.TOKEN, "structure": Rank.STRUCTURE}
_FIELDS = frozenset(
    ("id", "label", "regex", "anchors", "kind", "group", "before", "window", "least", "boundary")
) | frozenset(("exact", "mixed", "sure", "entropy", "digits", "value", "examples"))
_VALUES = frozenset(("", "password", "opaque", "certain", "given", "basic"))


@dataclass(frozen=True, slots=True)
class Allow:
    """Values that a rule leaves alone."""

    patterns: tuple[Any, ...]
    """Compiled by re2, over bytes."""
    stopwords: tuple[str, ...] = ()
    """Lower case; a secret that holds one of them is none."""
    target: str = "secret"
    """What the patterns look at: `secret`, `match` or `line`."""
    every: bool = False
    """Patterns and stop words must both apply."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One form of secret."""

    id: str
    label: str
    """Kind of secret, as the placeholder names it."""
    pattern: Any
    """Compiled by re2, over bytes."""
    anchors: tuple[bytes, ...]
    """Lower case; the pattern is tried only around a place where one of them stands. None: it is
    tried on the whole text, which only patterns that begin with a rare literal can afford."""
    whole: bool = False
    """An anchor anywhere makes the pattern be tried on the whole text."""
    rank: Rank = Rank.TOKEN
    group: int = 0
    """Group that holds the secret; 0: the whole match."""
    first_group: bool = False
    """The secret is the first group that took part, or the whole match if none did."""
    before: int = 0
    """Bytes in front of an anchor where the match may begin; 0: it begins with the anchor."""
    window: int = 600
    """Bytes from the anchor's beginning on that the match may use."""
    least: re.Pattern[bytes] | None = None
    """Matches where enough characters without space follow for a match to be possible: a cheap
    question that nearly all false anchors fail."""
    boundary: bool = True
    """The secret must not begin or end within a word."""
    exact: bool = False
    """The secret ends where it must: no word character of its own alphabet follows."""
    mixed: bool = False
    """The secret holds capitals, small letters and digits."""
    sure: bool = True
    """The value may be taken out wherever else it stands."""
    filler: bool = False
    """Secrets that look filled in by hand (`xxxxxx`) count as well."""
    entropy: float = 0.0
    """Least Shannon entropy of the secret, bits per character."""
    digits: int = 0
    """Least number of digits in the secret."""
    value: str = ""
    """What the secret must look like: `password`, `opaque` (random), `certain` (too random to be
    anything else), `given` (no placeholder or
    reference), `basic` (base64 of `user:password`)."""
    allows: tuple[Allow, ...] = ()
    examples: Mapping[str, list[str]] | None = None


def read(folder: str = "secrets") -> list[Rule]:
    """All rules of the folder, in file name order; a later rule replaces an earlier one's id.

    Raises RuleError.
    """
    found: dict[str, Rule] = {}
    for name, content in rules.load_folder(folder):
        for rule in parse(name, content):
            found[rule.id] = rule
    return list(found.values())


def parse(name: str, content: Any) -> Iterator[Rule]:
    """The rules of one file. Raises RuleError."""
    if not isinstance(content, dict) or not isinstance(content.get("rules"), list):
        raise RuleError(f"{name}: no list of rules")
    for entry in content["rules"]:
        identifier = entry.get("id", "?") if isinstance(entry, dict) else "?"
        try:
            yield _rule(entry, content.get("label", ""))
        except (KeyError, TypeError, ValueError, re2.error) as error:
            raise RuleError(f"{name}: rule {identifier}: {_line(error)}") from None


def _line(error: Exception) -> str:
    text = error.args[0] if error.args else type(error).__name__
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return f"missing {text}" if isinstance(error, KeyError) else text.replace("\n", " ")


def _rule(entry: Mapping[str, Any], label: str) -> Rule:
    unknown = set(entry) - _FIELDS
    if unknown:
        raise ValueError(f"unknown field {sorted(unknown)[0]}")
    anchors = tuple(str(anchor).lower().encode() for anchor in entry["anchors"])
    if any(len(anchor) < 3 for anchor in anchors):
        raise ValueError("an anchor needs three characters at least")
    if entry.get("value", "") not in _VALUES:
        raise ValueError(f"unknown value check {entry['value']}")
    pattern = compile_pattern(entry["regex"])
    return Rule(
        id=entry["id"],
        label=entry.get("label", label),
        pattern=pattern,
        anchors=anchors,
        rank=_RANKS[entry.get("kind", "token")],
        group=int(entry.get("group", min(1, pattern.groups))),
        before=int(entry.get("before", 0)),
        window=int(entry.get("window", 600)),
        least=re.compile(rb"[!-~]{%d}" % int(entry["least"])) if "least" in entry else None,
        boundary=bool(entry.get("boundary", True)),
        exact=bool(entry.get("exact", False)),
        mixed=bool(entry.get("mixed", False)),
        sure=bool(entry.get("sure", True)),
        entropy=float(entry.get("entropy", 0.0)),
        digits=int(entry.get("digits", 0)),
        value=entry.get("value", ""),
        examples=entry.get("examples"),
    )


def compile_pattern(regex: str) -> Any:
    """A linear-time pattern over UTF-8 bytes. Raises re2.error."""
    return re2.compile(regex.encode("utf-8"), _OPTIONS)
