"""What the operator says is no secret: single values, rules, files.

An entry is one of

- `id:k3f7qa`, the id in a value's placeholder `[REDACTED:label:k3f7qa]`: this value, on this installation;
- `sha256:<64 hexadecimal digits>`, of a value's UTF-8 bytes: this value, everywhere;
- `value:<pattern of RE2>`, which the whole value matches;
- `rule:<id>`, globs allowed: what the rule finds, unless another one finds it too;
- `path:<glob>`: whole files, where a call reads one by its path, whose end it matches: `path:tests/*.env`.
  `*` matches within one part of the path, `**` any number of parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import Any

import re2

from penumbra.redaction import RuleError, placeholder
from penumbra.redaction.rule import compile_pattern
from penumbra.redaction.span import Span
from penumbra.rule_schemas.schema import reason

FORMS = "id:…, sha256:…, value:…, rule:… or path:…"
_ID = re.compile(r"[a-z2-7]{6}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ONE_PATH = re.compile(r"[^\s;|&<>\"'`$]+")
"""A path, and no command line: that one may read other files as well."""
_PARTS = re.compile(r"[/\\]")
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is left alone. Falsy if that is nothing."""

    ids: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()
    patterns: tuple[Any, ...] = field(default=(), compare=False)
    rules: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str]) -> Allowed:
        """Raises RuleError with what is allowed in the place of a wrong entry."""
        by_kind: dict[str, list[str]] = {"id": [], "sha256": [], "value": [], "rule": [], "path": []}
        for entry in entries:
            kind, _, said = entry.partition(":")
            if kind not in by_kind or not said:
                raise RuleError(FORMS)
            by_kind[kind].append(said)
        hashes = frozenset(said.lower() for said in by_kind["sha256"])
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
        """Whether a text that was read from there is left alone."""
        if not self.paths or not _ONE_PATH.fullmatch(hint):
            return False
        if _DRIVE.match(hint):
            hint = hint.replace("\\", "/")
        # What goes up leads out of the folder that the glob names.
        if ".." in _PARTS.split(hint) or normpath(hint) != hint:
            return False
        return any(_is_at(hint.split("/"), glob) for glob in self.paths)

    def rule(self, identifier: str) -> bool:
        """Whether what this rule finds is left alone."""
        return any(self.names(glob, identifier) for glob in self.rules)

    @staticmethod
    def names(glob: str, identifier: str) -> bool:
        """Whether an entry `rule:glob` means this rule."""
        return fnmatchcase(identifier, glob)

    def value(self, value: bytes, key: bytes) -> bool:
        """Whether this value is left alone; `key` makes its placeholder's id."""
        if self.hashes and hashlib.sha256(value).hexdigest() in self.hashes:
            return True
        if self.ids and placeholder.fingerprint(key, value) in self.ids:
            return True
        return any(pattern.fullmatch(value) for pattern in self.patterns)

    def without(self, data: bytes, spans: list[Span], key: bytes) -> list[Span]:
        """The spans that are not left alone."""
        return [
            span
            for span in spans
            if not self.rule(span.rule) and not self.value(data[span.start : span.end], key)
        ]


def _is_at(parts: Sequence[str], glob: str) -> bool:
    """Whether a glob matches a path part by part: all of it, or, if the glob is relative, its end."""
    reached = {0}
    for said in (glob if glob.startswith("/") else f"**/{glob}").split("/"):
        if said == "**":
            reached = set(range(min(reached, default=len(parts) + 1), len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], said)}
    return len(parts) in reached


NOTHING = Allowed()
