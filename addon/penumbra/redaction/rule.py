"""This module reads the rules for secrets from YAML files. Patterns are compiled at their first use."""

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
"""This pattern matches words that mark the name of a secret. The `\\b` keeps `pat` from matching `path`."""
_TELLS = re.compile("(?:key|token|secret|pass|credential|bearer|api|auth|pat)s?$")
"""This pattern matches a name in `beside` that ends with a word for a secret."""
_REST = "[A-Za-z0-9_.-]{0,16}"
_REST_OF_HEX = (
    "(?i:s|word)?(?i:[_.-]?(?:key|token|secret))?"
    "(?i:[_.-]?(?:[0-9]{1,3}|prod|production|live|test|dev|staging|value|string))?"
)
"""This pattern matches the few endings that a name of a hexadecimal secret may have. Names such as `key_id`
and `token_sha` are those of ids, commits and checksums, which are also hexadecimal."""
_HEX = re.compile(r"(?:\(\?i?:|\[a-f0-9\]|\{[0-9,]+\}|[-|()])+")
_JOINED = r"""["'`\])>\\]{0,6}[ \t]{0,4}(?:[:=|,]|=>|[:?]=)[ \t]{0,4}["'`\\]{0,6}"""
"""This pattern matches the text between a name and its value: an operator, and quotes around the operator."""
_GROUPS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\((?!\?)|\(\?P<\w+>)", re.DOTALL)
"""This pattern matches escapes, character classes, and the beginnings of capturing groups."""
_EXAMPLES = re.compile(r"^    examples:\n(?:      .*\n|\n)*", re.MULTILINE)
"""This pattern matches the examples in Penumbra's own rule files. Examples are not read."""
_CLASSES = re.compile(r"\\[^A-Za-z0-9]|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
"""This pattern matches escaped punctuation and character classes."""
_UNBOUNDED = re.compile(r"[*+]|,\}")
_FAR = 4_000
"""In rules with at least this `window`, the beginning of a value is tested before the whole value."""
_RANKS = {"token": Rank.TOKEN, "structure": Rank.STRUCTURE}


@dataclass(frozen=True, slots=True)
class Allow:
    """An `Allow` describes values that a rule does not redact."""

    patterns: tuple[Linear, ...]
    stopwords: tuple[str, ...] = ()
    """Words in lower case. A secret that contains one of these words is not redacted."""
    target: str = "secret"
    """The text in which the patterns are searched: `secret`, `match` or `line`."""
    every: bool = False
    """True if a pattern and a stop word must both match."""


@dataclass(frozen=True)
class Rule:
    """A `Rule` describes one kind of secret by a regular expression and further conditions."""

    id: str
    label: str
    """The kind of secret. Placeholders contain it."""
    regex: str
    """A regular expression of RE2 over UTF-8 bytes."""
    anchors: tuple[bytes, ...]
    """Strings in lower case. The pattern is only tried near these strings; without anchors, in the whole
    text."""
    whole: bool = False
    """True if the pattern searches the whole text as soon as the text has an anchor."""
    rank: Rank = Rank.TOKEN
    group: int = 0
    """The number of the group that matches the secret; 0 for the whole match."""
    first_group: bool = False
    """True if the secret is the first group that has a match. If no group has a match, the secret is the
    whole match."""
    before: int = 0
    """The greatest number of bytes between the beginning of a match and its anchor."""
    window: int = 600
    """The greatest number of bytes from the beginning of the anchor to the end of the match."""
    boundary: bool = True
    """True if the secret may not begin within a word or be part of longer base64 data."""
    exact: bool = False
    """True if no word character may follow the secret."""
    mixed: bool = False
    """True if the secret must have capitals, small letters and digits."""
    sure: bool = True
    """True if the value is a secret wherever it occurs in the text."""
    filler: bool = False
    """True if a dummy value such as `xxxxxx` also counts as a secret."""
    entropy: float = 0.0
    """The smallest Shannon entropy of the secret, in bits per character."""
    digits: int = 0
    """The smallest number of digits in the secret."""
    value: str = ""
    """The test that the secret must pass. `SecretRule.value` describes the tests."""
    checksum: bool = False
    """True if a value with a valid checksum is a secret without further tests."""
    allows: tuple[Allow, ...] = ()

    @cached_property
    def pattern(self) -> Linear:
        """The pattern, compiled at its first use."""
        return compile_pattern(self.regex)

    @cached_property
    def shows_early(self) -> bool:
        """True if the secret is at the end of the match and its first bytes show whether it is random."""
        if self.group != 1 or self.value != "opaque" or self.window < _FAR or not self.regex.endswith(")"):
            return False
        begin = next(piece.start() for piece in _GROUPS.finditer(self.regex) if piece[1])
        return _UNBOUNDED.search(_CLASSES.sub("", self.regex[:begin])) is None


@rules.cached
def read() -> tuple[Rule, ...]:
    """Return all rules of rules/secrets. A user's rule replaces a rule with the same id. Raises RuleError."""
    by_id: dict[str, Rule] = {}
    for file in rules.load_folder("secrets", without=_EXAMPLES):
        for rule in parse(file.name, file.content, check=file.is_users):
            by_id.setdefault(rule.id, rule)
    return tuple(by_id.values())


def parse(name: str, content: Any, *, check: bool = True) -> Iterator[Rule]:
    """Yield the rules of one file. If `check` is true, their patterns are compiled now. Raises RuleError."""
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
    """Return the rule for an entry of a file. `label` is the default label of the file."""
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
    """Return the exception for keys with `public` or `publishable` in their names."""
    return (Allow((compile_pattern(r"(?i)publi(?:c|shable)[_.-]?key"),), target="match"),)


_LINE = "{LINE}"
"""In the pattern of a rule, this text means a line break and any prefix of the next line."""


def _first_group(regex: str) -> int:
    """Return 1 if the pattern has a capturing group, and 0 otherwise."""
    return int(any(piece[1] for piece in _GROUPS.finditer(regex)))


def without_groups(regex: str) -> str:
    """Return the pattern with non-capturing groups in place of capturing ones."""
    return _GROUPS.sub(lambda piece: "(?:" if piece[1] else piece[0], regex)


def _beside(names: tuple[str, ...], regex: str) -> str:
    """Return a pattern for a name and its value. The name contains one of `names`, and the value matches
    `regex`."""
    telling = [re.escape(name) for name in names if _TELLS.search(name)]
    others = "|".join(re.escape(name) for name in names if not _TELLS.search(name))
    if others:
        telling.append(f"(?:{others})[a-z0-9_ .-]{{0,24}}?(?:{_TELLING})")
    rest = _REST_OF_HEX if _HEX.fullmatch(regex) else _REST
    return f"(?i:{'|'.join(telling)}){rest}{_JOINED}({regex})"


def compile_pattern(regex: str) -> Linear:
    """Return a linear-time pattern over UTF-8 bytes. Raises re2.error."""
    return Linear(regex.encode("utf-8"), _OPTIONS)


# With `penumbra_secrets_allow`, the operator exempts values, rules and files from redaction:
#   id:k3f7qa             the value of `[REDACTED:label:k3f7qa]`, on this installation only
#   sha256:<64 hex>       the value whose UTF-8 bytes have this hash
#   value:<RE2 pattern>   each value that the pattern matches as a whole
#   rule:<id or glob>     values that only this rule finds
#   path:<glob>           files that a call reads, if the glob matches the end of the path, such as
#                         `tests/*.env`; `*` matches within one part of the path, `**` any number of parts
FORMS = "id:…, sha256:…, value:…, rule:… or path:…"
_ID = re.compile(r"[a-z2-7]{6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ONE_PATH = re.compile(r"[^\s;|&<>\"'`$]+")
"""This pattern matches a path. A command line does not match, because it may read several files."""
_PARTS = re.compile(r"[/\\]")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


@dataclass(frozen=True, slots=True)
class Allowed:
    """An `Allowed` contains the operator's exceptions from redaction. An empty `Allowed` is false."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    patterns: tuple[Any, ...] = field(default=(), compare=False)
    rules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Allowed:
        """Return the exceptions that the entries describe. Raises RuleError for an invalid entry."""
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
        """Return whether a text is exempt as a whole. `hint` is the path of the file that was read."""
        if not self.paths or not _ONE_PATH.fullmatch(hint):
            return False
        if _DRIVE.match(hint):
            hint = hint.replace("\\", "/")
        # A path with `..` may lead out of the folder in the glob.
        if ".." in _PARTS.split(hint) or normpath(hint) != hint:
            return False
        return any(_is_at(hint.split("/"), glob) for glob in self.paths)

    def rule(self, identifier: str) -> bool:
        """Return whether the secrets that a rule finds are exempt."""
        return any(self.names(glob, identifier) for glob in self.rules)

    @staticmethod
    def names(glob: str, identifier: str) -> bool:
        """Return whether the glob of a `rule:` entry matches this rule's id."""
        return fnmatchcase(identifier, glob)

    def value(self, value: bytes, key: bytes) -> bool:
        """Return whether a value is exempt. `key` is the key of the fingerprints in placeholders."""
        if self.hashes and hashlib.sha256(value).hexdigest() in self.hashes:
            return True
        if self.ids and placeholder.fingerprint(key, value) in self.ids:
            return True
        return any(pattern.fullmatch(value) for pattern in self.patterns)

    def without(self, data: bytes, spans: list[Span], key: bytes) -> list[Span]:
        """Return the spans that are not exempt."""
        return [
            span
            for span in spans
            if not self.rule(span.rule) and not self.value(data[span.start : span.end], key)
        ]


def _is_at(parts: Sequence[str], glob: str) -> bool:
    """Return whether a glob matches the parts of a path. A relative glob may match the end of the path."""
    reached = {0}
    for segment in (glob if glob.startswith("/") else f"**/{glob}").split("/"):
        if segment == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], segment)}
    return len(parts) in reached


NOTHING = Allowed()
