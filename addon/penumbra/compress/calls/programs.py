"""This module reads rules/shell.yaml: the names of programs, how much they print, and what filters do."""

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
    """Return the content of rules/shell.yaml."""
    return rules.load_as("shell.yaml", ShellRules)


def program_name(word: str) -> str:
    """Return the name of a program as the rules spell it: without folder and `.exe`. If the program is in
    `versioned`, the version is left out, too."""
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
    """Return True for commands that print nothing on success, such as `cd x`."""
    return not _silent().isdisjoint([tuple(argv[:length]) for length in (1, 2, 3)])


def is_brief(argv: Sequence[str]) -> bool:
    """Return True for commands that print one or two lines, such as `pwd`."""
    return not _brief().isdisjoint([tuple(argv[:length]) for length in (1, 2, 3)])


@rules.cached
def _filters() -> dict[str, list[FilterRule]]:
    return _by_program(shell_rules().filters)


@rules.cached
def _reads() -> dict[str, list[ReadRule]]:
    return _by_program(shell_rules().reads)


def _by_program(listed: Iterable[_Rule]) -> dict[str, list[_Rule]]:
    by_program: dict[str, list[_Rule]] = {}
    for rule in listed:
        by_program.setdefault(rule.program.split()[0], []).append(rule)
    return by_program


def effect(argv: tuple[str, ...]) -> str:
    """Return what a filter does with its lines: `through`, `cut` or `select`; empty for other programs."""
    listed = _filters().get(argv[0], ()) if argv else ()
    options = options_of(argv) if listed else frozenset[str]()
    for rule in listed:
        if _options_fit(options, rule):
            if rule.bare and any(not word.startswith("-") for word in argv[1:]):
                continue
            return rule.does
    return ""


def _options_fit(options: frozenset[str], rule: FilterRule | ReadRule) -> bool:
    return options.isdisjoint(rule.unless) and not (rule.only and options.isdisjoint(rule.only))


def options_of(argv: Sequence[str]) -> frozenset[str]:
    """Return the arguments before `--`, each in all spellings that rules may use. For example, `--name
    value` also gives `--name=value`, and `-la` also gives `-l` and `-a`."""
    words = argv[1 : argv.index("--")] if "--" in argv else argv[1:]
    spelled = {*words}
    for word, value in pairwise([*words, ""]):
        if word[:1] != "-":
            continue
        spelled.update((word.partition("=")[0], f"{word}={value}"))
        if len(word) > 2 and word[1] != "-":
            spelled.add(f"{word[:2]}={word[2:]}")
            if word[1:].isalnum():
                spelled.update([f"-{letter}" for letter in word[1:] if letter.isalpha()])
    return frozenset(spelled)


def reading_rule(argv: tuple[str, ...]) -> ReadRule | None:
    """Return the rule of a command that shows files, or parts of files; None for other commands."""
    listed = _reads().get(argv[0], ()) if argv else ()
    options = options_of(argv) if listed else frozenset[str]()
    for rule in listed:
        program = tuple(rule.program.split())
        if argv[: len(program)] == program and _options_fit(options, rule) and _operand_fits(argv, rule):
            return rule
    return None


def _operand_fits(argv: Sequence[str], rule: ReadRule) -> bool:
    if rule.operand is None:
        return True
    operands = _operands(argv, rule)[0]
    return bool(operands) and LinearText(rule.operand).search(operands[0][:1000]) is not None


def files(argv: tuple[str, ...], rule: ReadRule) -> list[str]:
    """Return the files among the operands of a command that reads files."""
    operands, expression = _operands(argv, rule)
    return operands[1:] if expression else operands


def _operands(argv: Sequence[str], rule: ReadRule) -> tuple[list[str], bool]:
    """Return the operands of a command that reads files. Also return whether the first operand is an
    expression, as for `sed`."""
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
