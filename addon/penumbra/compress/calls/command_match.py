"""The command family of a command: the `match` part of the rules in rules/commands.

A match is written as a command line is: `git diff`, `docker|podman compose logs`,
`cargo build --message-format`. The first word is the program (a glob is allowed), further words
are the first operands in that order, words that begin with `-` are options that must be there.
The most specific match of all families wins; between equals the one that comes first in `families`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penumbra import rules
from penumbra.compress.calls.family_rules import families
from penumbra.compress.calls.programs import has_option


@dataclass(frozen=True, slots=True)
class _Allowed:
    """The operands that a position allows."""

    words: frozenset[str]
    globs: tuple[str, ...]

    @classmethod
    def of(cls, alternatives: Sequence[str]) -> _Allowed:
        """Return the operands that words and globs stand for."""
        globs = tuple(word for word in alternatives if _is_glob(word))
        return cls(frozenset(alternatives).difference(globs), globs)

    def fits(self, word: str) -> bool:
        """True if an operand is one of the alternatives."""
        return word in self.words or any(fnmatchcase(word, glob) for glob in self.globs)


def _is_glob(word: str) -> bool:
    return any(char in word for char in "*?[")


@dataclass(frozen=True, slots=True)
class _Match:
    family: str
    programs: tuple[str, ...]
    operands: tuple[_Allowed, ...]
    options: tuple[str, ...]
    unless: tuple[str, ...]

    @property
    def weight(self) -> int:
        named = sum(1 for allowed in self.operands if "*" not in allowed.globs)
        return len(self.operands) + named + len(self.options)

    def is_program(self, name: str) -> bool:
        """True if one of the programs' globs fits a name."""
        return any(fnmatchcase(name, program) for program in self.programs)

    def fits(self, argv: Sequence[str], operands: Sequence[str]) -> bool:
        """True if options and operands of a command fit; the caller compares the program.

        `operands`: the command's words that are no options.
        """
        if len(operands) < len(self.operands):
            return False
        if not all(allowed.fits(word) for allowed, word in zip(self.operands, operands, strict=False)):
            return False
        if any(has_option(argv, option) for option in self.unless):
            return False
        return all(has_option(argv, option) for option in self.options)


@rules.cached
def _index() -> tuple[dict[str, dict[str, list[_Match]]], tuple[_Match, ...]]:
    """Matches by program name and first operand, and matches whose program is a glob; most specific first."""
    named: dict[str, list[_Match]] = {}
    globs: list[_Match] = []
    for rule, _ in families().values():
        for line in rule.match:
            match = _read(line, rule.name, rule.unless)
            for program in match.programs:
                if _is_glob(program):
                    globs.append(match)
                else:
                    named.setdefault(program, []).append(match)
    ordered = {
        program: _by_operand(sorted(matches, key=lambda m: -m.weight)) for program, matches in named.items()
    }
    return ordered, tuple(sorted(globs, key=lambda m: -m.weight))


def _by_operand(matches: Sequence[_Match]) -> dict[str, list[_Match]]:
    """Matches by each possible first operand, in order; those for any other operand under `""`."""
    words = {word for match in matches for allowed in match.operands[:1] for word in allowed.words}
    return {
        word: [
            match
            for match in matches
            if not match.operands or match.operands[0].globs or word in match.operands[0].words
        ]
        for word in (*words, "")
    }


def _read(line: str, family: str, unless: Sequence[str]) -> _Match:
    words = line.split()
    return _Match(
        family=family,
        programs=tuple(words[0].split("|")),
        operands=tuple(_Allowed.of(word.split("|")) for word in words[1:] if not word.startswith("-")),
        options=tuple(word for word in words[1:] if word.startswith("-")),
        unless=tuple(unless),
    )


class Commands:
    """A set of commands, written as in the rules of families."""

    def __init__(self, lines: Sequence[str], unless: Sequence[str] = ()) -> None:
        self._matches: dict[str, list[_Match]] = {}
        self._globs: list[_Match] = []
        for line in lines:
            match = _read(line, line, unless)
            for program in match.programs:
                (self._globs if _is_glob(program) else self._matches.setdefault(program, [])).append(match)

    def hold(self, argv: Sequence[str]) -> bool:
        """True if a command (without wrappers) fits one of the lines."""
        if not argv:
            return False
        operands = [word for word in argv[1:] if not word.startswith("-")]
        globs = (match for match in self._globs if match.is_program(argv[0]))
        return any(match.fits(argv, operands) for match in (*self._matches.get(argv[0], ()), *globs))


def family_of(argv: Sequence[str]) -> str:
    """The family of a command (without wrappers, see `shell.Part.argv`); empty if it has none."""
    if not argv:
        return ""
    named, globs = _index()
    operands = [word for word in argv[1:] if not word.startswith("-")]
    by_operand = named.get(argv[0], {})
    first = operands[0] if operands and operands[0] in by_operand else ""
    for match in by_operand.get(first, ()):
        if match.fits(argv, operands):
            return match.family
    for match in globs:
        if match.is_program(argv[0]) and match.fits(argv, operands):
            return match.family
    return ""
