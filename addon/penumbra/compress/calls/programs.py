"""What is known about programs: their names, whether they print, what they do behind a pipe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import re2

from penumbra import rules

_SUFFIX = re.compile(r"\.(?:exe|cmd|bat|ps1)$", re.IGNORECASE)
_VERSION = re.compile(r"^(python|pip|gcc|g\+\+|clang|clang\+\+|node|ruby|php|java|pypy)-?\d[\d.]*$")


@cache
def knowledge() -> dict[str, Any]:
    """The content of rules/shell.yaml."""
    loaded: dict[str, Any] = rules.load("shell.yaml")
    return loaded


def program_name(word: str) -> str:
    """The plain name of a program: no folder, no `.exe`, no version, one spelling."""
    name = word.replace("\\", "/").rstrip("/").rpartition("/")[2] or word
    name = _SUFFIX.sub("", name)
    versioned = _VERSION.match(name)
    if versioned:
        name = versioned.group(1)
    return _spellings().get(name, name)


@cache
def _spellings() -> dict[str, str]:
    return {spelling: name for name, spellings in knowledge()["names"].items() for spelling in spellings}


@cache
def _commands(key: str) -> frozenset[tuple[str, ...]]:
    return frozenset(tuple(entry.split()) for entry in knowledge()[key])


def _begins(argv: Sequence[str], key: str) -> bool:
    return any(tuple(argv[:length]) in _commands(key) for length in (1, 2, 3))


def is_silent(argv: Sequence[str]) -> bool:
    """True for commands that print nothing when all is well (`cd x`, `git add .`)."""
    return _begins(argv, "silent")


def is_brief(argv: Sequence[str]) -> bool:
    """True for commands that print a line or two (`pwd`)."""
    return _begins(argv, "brief")


@cache
def _by_program(key: str) -> dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]]:
    """Rules with the words of their command, by the first of these, in their order."""
    found: dict[str, list[tuple[tuple[str, ...], dict[str, Any]]]] = {}
    for rule in knowledge()[key]:
        words = tuple(rule["program"].split())
        found.setdefault(words[0], []).append((words, rule))
    return found


def effect(argv: tuple[str, ...]) -> str:
    """What a filter does to its lines: `through`, `cut` or `select`; empty for all other programs."""
    for _, rule in _by_program("filters").get(argv[0], ()) if argv else ():
        if _options_fit(argv, rule):
            if rule.get("bare") and any(not word.startswith("-") for word in argv[1:]):
                continue
            return str(rule["does"])
    return ""


def _options_fit(argv: Sequence[str], rule: dict[str, Any]) -> bool:
    only, unless = rule.get("only"), rule.get("unless")
    if only and not any(has_option(argv, option) for option in only):
        return False
    return not (unless and any(has_option(argv, option) for option in unless))


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


def reading_rule(argv: tuple[str, ...]) -> dict[str, Any] | None:
    """The rule of a command that prints files as they are; None for other commands."""
    for program, rule in _by_program("reads").get(argv[0], ()) if argv else ():
        if argv[: len(program)] == program and _options_fit(argv, rule):
            return rule
    return None


def files(argv: tuple[str, ...], rule: dict[str, Any]) -> list[str]:
    """The files among the operands of a reading command."""
    program: list[str] = rule["program"].split()
    takes: list[str] = knowledge()["read_values"].get(program[0], [])
    operands: list[str] = []
    words = iter(argv[len(program) :])
    expression = program[0] in ("sed", "awk")
    for word in words:
        if word in takes:
            next(words, None)
            expression = expression and word != "-e"
        elif not word.startswith("-") or word == "-":
            operands.append(word)
    if "operand" in rule:
        return _matching(operands, rule["operand"], expression)
    return operands[1:] if expression else operands


def _matching(operands: list[str], pattern: str, expression: bool) -> list[str]:
    if not operands or not re2.search(pattern, operands[0][:1000]):
        return []
    return operands[1:] if expression else operands
