"""Rules of secrets, read from YAML and compiled when they are needed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, cached_property
from posixpath import normpath
from typing import Any

import re2

from penumbra import rules
from penumbra.linear import Linear, latin1
from penumbra.redaction import placeholder, shared_patterns
from penumbra.redaction.span import Rank, Span
from penumbra.rule_schemas.schema import RuleError, entries, reason
from penumbra.rule_schemas.secret_rules import SecretRule

_OPTIONS = latin1()
_TELLING = (
    r"key|token|secret|pass(?:w|phrase|code|\b|_)|credential|bearer|authorization|(?:api|auth|pat)(?:\b|_)"
)
"""Words in the name of a secret; `pat` is no part of `patch` or `path`."""
_TELLS = re.compile("(?:key|token|secret|pass|credential|bearer|api|auth|pat)s?$")
"""Matches the name of an issuer that ends in such a word itself."""
_REST = "[A-Za-z0-9_.-]{0,16}"
_REST_OF_HEX = (
    "(?i:s|word)?(?i:[_.-]?(?:key|token|secret))?"
    "(?i:[_.-]?(?:[0-9]{1,3}|prod|production|live|test|dev|staging|value|string))?"
)
"""Matches from the telling word to the end of a name. Commits, checksums and ids are hexadecimal, too:
`key_id` and `token_sha` name no secrets."""
_HEX = re.compile(r"(?:\(\?i?:|\[a-f0-9\]|\{[0-9,]+\}|[-|()])+")
_JOINED = r"""["'`\])>\\]{0,6}[ \t]{0,4}(?:[:=|,]|=>|[:?]=)[ \t]{0,4}["'`\\]{0,6}"""
"""Matches between the name and the value: quotes, an operator, quotes."""
_GROUPS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\((?!\?)|\(\?P<\w+>)", re.DOTALL)
"""Escapes, classes, and the beginnings of groups that capture."""
_EXAMPLES = re.compile(r"^    examples:\n(?:      .*\n|\n)*", re.MULTILINE)
"""Matches the examples in our own files, which only the tests read: without them, a start takes a third
less."""
_CLASSES = re.compile(r"\\[^A-Za-z0-9]|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
"""Escaped signs and classes."""
_UNBOUNDED = re.compile(r"[*+]|,\}")
_FAR = 4_000
"""Bytes of the shortest window in which a value is first judged by its beginning."""
_RANKS = {"token": Rank.TOKEN, "structure": Rank.STRUCTURE}


@dataclass(frozen=True, slots=True)
class Allow:
    """Values that a rule leaves alone."""

    patterns: tuple[Linear, ...]
    """Patterns over bytes."""
    stopwords: tuple[str, ...] = ()
    """Words in lower case; a secret that contains one of them is left alone."""
    target: str = "secret"
    """Text that the patterns are matched with: `secret`, `match` or `line`."""
    every: bool = False
    """True if a pattern and a stop word must both match."""


@dataclass(frozen=True)
class Rule:
    """One form of secret."""

    id: str
    label: str
    """Kind of the secret, as placeholders name it."""
    regex: str
    """Pattern of RE2 over UTF-8 bytes."""
    anchors: tuple[bytes, ...]
    """Texts in lower case; the pattern is tried only around their places. Without any, it is tried on the
    whole text, which only patterns that begin with a rare literal can afford."""
    whole: bool = False
    """True if an anchor anywhere makes the pattern search the whole text."""
    rank: Rank = Rank.TOKEN
    group: int = 0
    """Number of the group that holds the secret; 0 for the whole match."""
    first_group: bool = False
    """True if the secret is the first group that took part in the match, or the whole match if none did."""
    before: int = 0
    """Greatest number of bytes between the beginning of a match and its anchor; 0 if the match begins with
    the anchor."""
    window: int = 600
    """Bytes after the beginning of the anchor that the match may use."""
    boundary: bool = True
    """True if the secret must not begin or end within a word."""
    exact: bool = False
    """True if no word character may follow the secret."""
    mixed: bool = False
    """True if the secret must have capitals, small letters and digits."""
    sure: bool = True
    """True if the value is a secret wherever it stands."""
    filler: bool = False
    """True if secrets that look filled in by hand (`xxxxxx`) count as well."""
    entropy: float = 0.0
    """Least Shannon entropy of the secret, in bits per character."""
    digits: int = 0
    """Least number of digits in the secret."""
    value: str = ""
    """Form that the secret must have: `password`, `told` (within a sentence), `opaque` (random), `certain`
    (too random to be anything else), `given` (no placeholder or reference), `basic` (base64 of
    `user:password`)."""
    checksum: bool = False
    """True if a value with the right checksum needs no other test."""
    allows: tuple[Allow, ...] = ()

    @cached_property
    def pattern(self) -> Linear:
        """The compiled pattern; most texts hold the anchors of few rules."""
        return compile_pattern(self.regex)

    @cached_property
    def shows_early(self) -> bool:
        """True if the secret is the end of the match and its own beginning decides about it."""
        if self.group != 1 or self.value != "opaque" or self.window < _FAR or not self.regex.endswith(")"):
            return False
        begin = next(piece.start() for piece in _GROUPS.finditer(self.regex) if piece[1])
        return _UNBOUNDED.search(_CLASSES.sub("", self.regex[:begin])) is None


@rules.cached
def read() -> tuple[Rule, ...]:
    """Return all rules of rules/secrets; a user's rule takes the place of ours of the same id. Raises
    RuleError."""
    by_id: dict[str, Rule] = {}
    for file in rules.load_folder("secrets", without=_EXAMPLES):
        for rule in parse(file.name, file.content, check=file.is_users):
            by_id.setdefault(rule.id, rule)
    return tuple(by_id.values())


def parse(name: str, content: Any, *, check: bool = True) -> Iterator[Rule]:
    """Yield the rules of one file. `check`: compile their patterns at once. Raises RuleError."""
    listed, problems = entries(SecretRule, content, "rules", "id", name)
    if problems:
        raise RuleError(problems[0])
    for rule in listed:
        try:
            made = of(rule, content.get("label", ""))
            if check:
                compile_pattern(made.regex)
        except re2.error as error:
            raise RuleError(f"{name}: {rule.id}: regex: {reason(error)}") from None
        yield made


def of(rule: SecretRule, label: str) -> Rule:
    """Return one rule. `label` is the file's name for its secrets."""
    regex = rule.regex.replace(_LINE, shared_patterns.LINE_BREAK.decode())
    regex = _beside(rule.beside, regex) if rule.beside else regex
    return Rule(
        id=rule.id,
        label=rule.label or label,
        regex=regex,
        anchors=tuple(anchor.lower().encode() for anchor in rule.anchors or rule.beside),
        rank=Rank.STRUCTURE if rule.beside else _RANKS[rule.kind],
        group=_first_group(regex) if rule.group is None else rule.group,
        first_group=rule.group is None and bool(_first_group(regex)),
        before=rule.before,
        window=rule.window,
        boundary=rule.boundary,
        exact=rule.exact,
        mixed=rule.mixed,
        sure=rule.sure,
        entropy=rule.entropy,
        digits=rule.digits,
        value=rule.value or "",
        checksum=rule.checksum is not None,
        allows=_public() if rule.beside else (),
    )


@cache
def _public() -> tuple[Allow, ...]:
    """Return the exception for keys whose names say that they are public."""
    return (Allow((compile_pattern(r"(?i)publi(?:c|shable)[_.-]?key"),), target="match"),)


_LINE = "{LINE}"
"""Text in a rule's pattern for the end of a line with what stands before the next one."""


def _first_group(regex: str) -> int:
    """Return 1 if the pattern has a group that captures, else 0."""
    return int(any(piece[1] for piece in _GROUPS.finditer(regex)))


def without_groups(regex: str) -> str:
    """Return a pattern that matches as this one does, without groups that capture."""
    return _GROUPS.sub(lambda piece: "(?:" if piece[1] else piece[0], regex)


def _beside(names: tuple[str, ...], regex: str) -> str:
    """Return the pattern of a secret that stands after a name with one of `names` in it."""
    telling = [re.escape(name) for name in names if _TELLS.search(name)]
    others = "|".join(re.escape(name) for name in names if not _TELLS.search(name))
    if others:
        telling.append(f"(?:{others})[a-z0-9_ .-]{{0,24}}?(?:{_TELLING})")
    rest = _REST_OF_HEX if _HEX.fullmatch(regex) else _REST
    return f"(?i:{'|'.join(telling)}){rest}{_JOINED}({regex})"


def compile_pattern(regex: str) -> Linear:
    """Return a linear-time pattern over UTF-8 bytes. Raises re2.error."""
    return Linear(regex.encode("utf-8"), _OPTIONS)


# Exceptions of the operator's (`penumbra_secrets_allow`): single values, rules, files. An entry is one of
#
# - `id:k3f7qa`, the id in a value's placeholder `[REDACTED:label:k3f7qa]`: this value, on this installation;
# - `sha256:<64 hexadecimal digits>`, of a value's UTF-8 bytes: this value, everywhere;
# - `value:<pattern of RE2>`, which the whole value matches;
# - `rule:<id>`, globs allowed: what the rule finds, unless another one finds it too;
# - `path:<glob>`: whole files, where a call reads one by its path, whose end it matches: `path:tests/*.env`.
#   `*` matches within one part of the path, `**` any number of parts.
FORMS = "id:…, sha256:…, value:…, rule:… or path:…"
_ID = re.compile(r"[a-z2-7]{6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ONE_PATH = re.compile(r"[^\s;|&<>\"'`$]+")
"""Matches a path, and no command line, which may read other files as well."""
_PARTS = re.compile(r"[/\\]")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


@dataclass(frozen=True, slots=True)
class Allowed:
    """Exceptions from redaction; false if there are none."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    patterns: tuple[Any, ...] = field(default=(), compare=False)
    rules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Allowed:
        """Return the exceptions of entries. Raises RuleError, which names the allowed forms, for a wrong
        entry."""
        by_kind: dict[str, list[str]] = {"id": [], "sha256": [], "value": [], "rule": [], "path": []}
        for entry in entries:
            kind, _, value = entry.partition(":")
            if kind not in by_kind or not value:
                raise RuleError(FORMS)
            by_kind[kind].append(value)
        hashes = frozenset(value.lower() for value in by_kind["sha256"])
        if not all(map(_SHA256.fullmatch, hashes)):
            raise RuleError("sha256: and 64 hexadecimal digits")
        if not all(map(_ID.fullmatch, by_kind["id"])):
            raise RuleError("id: and the six letters and digits at the end of a placeholder")
        try:
            patterns = tuple(map(compile_pattern, by_kind["value"]))
        except re2.error as error:
            raise RuleError(f"value: and a pattern of RE2 ({reason(error)})") from None
        return cls(frozenset(by_kind["id"]), hashes, patterns, tuple(by_kind["rule"]), tuple(by_kind["path"]))

    def __bool__(self) -> bool:
        return bool(self.ids or self.hashes or self.patterns or self.rules or self.paths)

    def whole(self, hint: str) -> bool:
        """Return whether a text that was read from this place is left alone."""
        if not self.paths or not _ONE_PATH.fullmatch(hint):
            return False
        if _DRIVE.match(hint):
            hint = hint.replace("\\", "/")
        # A path that goes up leaves the folder that the glob names.
        if ".." in _PARTS.split(hint) or normpath(hint) != hint:
            return False
        return any(_is_at(hint.split("/"), glob) for glob in self.paths)

    def rule(self, identifier: str) -> bool:
        """Return whether the secrets of a rule are left alone."""
        return any(self.names(glob, identifier) for glob in self.rules)

    @staticmethod
    def names(glob: str, identifier: str) -> bool:
        """Return whether an entry `rule:glob` means this rule."""
        return fnmatchcase(identifier, glob)

    def value(self, value: bytes, key: bytes) -> bool:
        """Return whether a value is left alone. `key` makes the id in its placeholder."""
        if self.hashes and hashlib.sha256(value).hexdigest() in self.hashes:
            return True
        if self.ids and placeholder.fingerprint(key, value) in self.ids:
            return True
        return any(pattern.fullmatch(value) for pattern in self.patterns)

    def without(self, data: bytes, spans: list[Span], key: bytes) -> list[Span]:
        """Return the spans that are not left alone."""
        return [
            span
            for span in spans
            if not self.rule(span.rule) and not self.value(data[span.start : span.end], key)
        ]


def _is_at(parts: Sequence[str], glob: str) -> bool:
    """Return whether a glob matches a path part by part: all of it, or, if the glob is relative, its end."""
    reached = {0}
    for segment in (glob if glob.startswith("/") else f"**/{glob}").split("/"):
        if segment == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], segment)}
    return len(parts) in reached


NOTHING = Allowed()
