"""This module finds the family of a command by the `match` patterns in rules/commands.

A pattern is written like a command line: `git diff`, `docker|podman compose logs`, `cargo build
--message-format`. The first word names programs and may have globs. The pattern's next words are the
command's first operands, in that order. Words that begin with `-` are options that the command must have. A
pattern with the program's exact name comes before a glob, and a more specific pattern before a less specific
one. Of equally specific patterns, the first in `families` counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import translate

from penumbra import rules
from penumbra.compress.calls.family_rules import families
from penumbra.compress.calls.programs import options_of


@dataclass(frozen=True, slots=True)
class _Match:
    """A `_Match` is one command pattern of a rule."""

    name: str
    """The family's name, or the pattern itself for commands without a family."""
    programs: tuple[str, ...]
    operands: tuple[tuple[str, ...], ...]
    """The allowed words and globs for each operand."""
    patterns: tuple[re.Pattern[str], ...]
    """A pattern for each item of `operands`."""
    options: frozenset[str]
    unless: frozenset[str]

    @classmethod
    def of(cls, line: str, name: str, unless: Sequence[str]) -> _Match:
        """Return the match for one line of a rule. `unless` has the options that exclude a command."""
        words = line.split()
        operands = tuple(tuple(word.split("|")) for word in words[1:] if not word.startswith("-"))
        options = frozenset(word for word in words[1:] if word.startswith("-"))
        return cls(
            name, tuple(words[0].split("|")), operands, tuple(map(_any, operands)), options, frozenset(unless)
        )

    @property
    def weight(self) -> int:
        """The specificity of the pattern: 1 for each operand and option, 2 for an operand without `*`."""
        named = sum("*" not in words for words in self.operands)
        return len(self.operands) + named + len(self.options)

    def fits(self, operands: Sequence[str], options: frozenset[str]) -> bool:
        """True if the operands and options of a command fit. The program is not compared."""
        if len(operands) < len(self.patterns) or not self.options <= options:
            return False
        if not self.unless.isdisjoint(options):
            return False
        fitting = [pattern.match(word) for pattern, word in zip(self.patterns, operands, strict=False)]
        return None not in fitting


def _any(words: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, words)))


def _is_glob(word: str) -> bool:
    return not {*"*?["}.isdisjoint(word)


class Commands:
    """`Commands` is a set of commands, written as in the rules of families."""

    def __init__(self, matches: Iterable[_Match]) -> None:
        named: dict[str, list[_Match]] = {}
        self._globs: list[tuple[re.Pattern[str], _Match]] = []
        for match in sorted(matches, key=lambda match: -match.weight):
            globs = [program for program in match.programs if _is_glob(program)]
            if globs:
                self._globs.append((_any(globs), match))
            for program in match.programs:
                named.setdefault(program, []).append(match)
        self._named = {program: _by_operand(listed) for program, listed in named.items()}

    @classmethod
    def of(cls, lines: Iterable[str], unless: Sequence[str] = ()) -> Commands:
        """Return the commands that the patterns in `lines` describe."""
        return cls(_Match.of(line, line, unless) for line in lines)

    def name_of(self, argv: Sequence[str]) -> str:
        """Return the name of the best match for a command without wrappers; empty if no match fits."""
        if not argv:
            return ""
        operands = [word for word in argv[1:] if not word.startswith("-")]
        options = options_of(argv)
        by_operand = self._named.get(argv[0], {})
        first = operands[0] if operands and operands[0] in by_operand else ""
        for match in by_operand.get(first, ()):
            if match.fits(operands, options):
                return match.name
        for pattern, match in self._globs:
            if pattern.match(argv[0]) and match.fits(operands, options):
                return match.name
        return ""


def _by_operand(matches: Sequence[_Match]) -> dict[str, list[_Match]]:
    """Return the matches for each first operand, in order. The key `""` stands for all other first
    operands."""
    words = {word for match in matches for allowed in match.operands[:1] for word in allowed}
    by_operand = {
        word: [match for match in matches if not match.operands or match.patterns[0].match(word)]
        for word in words
        if not _is_glob(word)
    }
    others = [match for match in matches if not match.operands or any(map(_is_glob, match.operands[0]))]
    return {**by_operand, "": others}


@rules.cached
def _families() -> Commands:
    return Commands(
        _Match.of(line, rule.name, rule.unless) for rule, _ in families().values() for line in rule.match
    )


def family_of(argv: Sequence[str]) -> str:
    """Return the family of a command without wrappers (see `shell.Part.argv`); empty if there is none."""
    return _families().name_of(argv)
