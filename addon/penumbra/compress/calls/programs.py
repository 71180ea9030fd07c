"""Knowledge about programs: their names, whether they print, their effect after a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from penumbra import rules
from penumbra.linear import LinearText
from penumbra.rule_schemas.shell_rules import FilterRule, ReadRule, ShellRules

_SUFFIX = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_Rule = TypeVar("_Rule", FilterRule, ReadRule)


@rules.cached
def shell_rules() -> ShellRules:
    """The content of rules/shell.yaml."""
    return rules.load_as("shell.yaml", ShellRules)


def program_name(word: str) -> str:
    """The plain name of a program: no folder, no `.exe`, no version, one spelling."""
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2] or word
    name = _SUFFIX.sub("", name)
    bare = name.rstrip("0123456789.")
    if name[len(bare) : len(bare) + 1].isdigit() and bare.removesuffix("-") in shell_rules().versioned:
        name = bare.removesuffix("-")
    return _spellings().get(name, name)


@rules.cached
def _spellings() -> dict[str, str]:
    return {spelling: name for name, spellings in shell_rules().names.items() for spelling in spellings}


@rules.cached
def _silent() -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(command.split()) for command in shell_rules().silent)


@rules.cached
def _brief() -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(command.split()) for command in shell_rules().brief)


def is_silent(argv: Sequence[str]) -> bool:
    """True for commands that print nothing when all is well (`cd x`, `git add .`)."""
    return any(tuple(argv[:length]) in _silent() for length in (1, 2, 3))


def is_brief(argv: Sequence[str]) -> bool:
    """True for commands that print a line or two (`pwd`)."""
    return any(tuple(argv[:length]) in _brief() for length in (1, 2, 3))


@rules.cached
def _filters() -> dict[str, list[FilterRule]]:
    return _by_program(shell_rules().filters)


@rules.cached
def _reads() -> dict[str, list[ReadRule]]:
    return _by_program(shell_rules().reads)


def _by_program(listed: Iterable[_Rule]) -> dict[str, list[_Rule]]:
    """Rules by the first word of their command, in their order."""
    by_program: dict[str, list[_Rule]] = {}
    for rule in listed:
        by_program.setdefault(rule.program.split()[0], []).append(rule)
    return by_program


def effect(argv: tuple[str, ...]) -> str:
    """The effect of a filter on its lines: `through`, `cut` or `select`; empty for all other programs."""
    for rule in _filters().get(argv[0], ()) if argv else ():
        if _options_fit(argv, rule):
            if rule.bare and any(not word.startswith("-") for word in argv[1:]):
                continue
            return rule.does
    return ""


def _options_fit(argv: Sequence[str], rule: FilterRule | ReadRule) -> bool:
    if rule.only and not any(has_option(argv, option) for option in rule.only):
        return False
    return not any(has_option(argv, option) for option in rule.unless)


def has_option(argv: Sequence[str], option: str) -> bool:
    """True if `option` stands among the arguments before `--`: exactly, with `=value`, or in a
    cluster of one-letter options (`-l` in `-la`). `--name=value` also stands there as two words, and
    `-n=value` as `-nvalue`."""
    name, _, value = option.partition("=")
    if value:
        words = pairwise([*argv[1:], ""])
        return any(word in (option, name + value) or (word, after) == (name, value) for word, after in words)
    letter = option[1] if len(option) == 2 and option[0] == "-" and option[1].isalpha() else ""
    for word in argv[1:]:
        if word == "--":
            return False
        if word.startswith(option) and word[len(option) : len(option) + 1] in ("", "="):
            return True
        if letter and letter in word and word[0] == "-" and word[1:].isalnum():
            return True
    return False


def reading_rule(argv: tuple[str, ...]) -> ReadRule | None:
    """The rule of a command that prints files as they are; None for other commands."""
    for rule in _reads().get(argv[0], ()) if argv else ():
        program = tuple(rule.program.split())
        if argv[: len(program)] == program and _options_fit(argv, rule) and _operand_fits(argv, rule):
            return rule
    return None


def _operand_fits(argv: Sequence[str], rule: ReadRule) -> bool:
    if rule.operand is None:
        return True
    operands = _operands(argv, rule)[0]
    return bool(operands) and LinearText(rule.operand).search(operands[0][:1000]) is not None


def files(argv: tuple[str, ...], rule: ReadRule) -> list[str]:
    """The files among the operands of a reading command."""
    operands, expression = _operands(argv, rule)
    return operands[1:] if expression else operands


def _operands(argv: Sequence[str], rule: ReadRule) -> tuple[list[str], bool]:
    """The operands of a reading command, and whether the first one says what to do."""
    program = rule.program.split()
    takes = shell_rules().read_values.get(program[0], ())
    operands: list[str] = []
    words = iter(argv[len(program) :])
    expression = rule.expression
    for word in words:
        if word in takes:
            next(words, None)
            expression = expression and word not in rule.expression_options
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    return operands, expression
