"""This module removes wrappers, such as `sudo`, `timeout 60` and `bash -lc '...'`. A wrapper only runs
another command."""

from __future__ import annotations

import re
from itertools import dropwhile

from penumbra import rules
from penumbra.compress.calls.programs import program_name, shell_rules
from penumbra.rule_schemas.shell_rules import WrapperRule

MAX_WRAPPERS = 16
"""The greatest number of nested wrappers that are removed."""
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SCRIPT_CLUSTER = re.compile(r"-[a-z]*c$")
_Command = tuple[tuple[str, ...], str | None]
"""Words and a command line. If a wrapper's shell runs a command line, the words are those of the wrapper, or
empty. Otherwise the words are the command, and the command line is None."""


def unwrap(argv: tuple[str, ...]) -> _Command:
    """Return (command, None), or (wrapper, command line) if a wrapper such as `bash -c` runs a command line.
    The command begins with the name of a program without its folder, and has no options before its
    subcommand. The command is empty if `argv` has only assignments."""
    for _ in range(MAX_WRAPPERS):
        argv = tuple(dropwhile(_ASSIGNMENT.match, argv))
        if not argv:
            return (), None
        argv = (program_name(argv[0]), *argv[1:])
        argv = _without_global_options(argv)
        rule, length = _wrapper(argv)
        inner = None if rule is None else _inside(argv[length:], rule)
        if inner is None or not inner[0]:
            return argv, None if inner is None else inner[1]
        argv = inner[0]
    return argv, None


@rules.cached
def _wrappers() -> dict[tuple[str, ...], WrapperRule]:
    return {tuple(command.split()): rule for command, rule in shell_rules().wrappers.items()}


@rules.cached
def _options() -> dict[tuple[str, ...], frozenset[str]]:
    return {tuple(command.split()): frozenset(names) for command, names in shell_rules().options.items()}


def _wrapper(argv: tuple[str, ...]) -> tuple[WrapperRule | None, int]:
    for length in (3, 2, 1):
        rule = _wrappers().get(argv[:length])
        if rule is not None and len(argv) >= length:
            return rule, length
    return None, 0


def _without_global_options(argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return `git -C x --no-pager diff` as `git diff`, `docker compose -f x up` as `docker compose up`."""
    for length in (1, 2):
        takes = _options().get(argv[:length])
        if takes is None:
            continue
        at = length
        while at < len(argv) and argv[at][:1] in ("-", "+") and argv[at] != "--":
            at += 2 if argv[at] in takes else 1
        if at < len(argv):
            argv = (*argv[:length], *argv[at:])
    return argv


def _inside(words: tuple[str, ...], rule: WrapperRule) -> _Command | None:
    """Return the command after a wrapper's name and options; None if there is none."""
    at = skipped = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            at += 1
            break
        if word in rule.script or ("-c" in rule.script and _SCRIPT_CLUSTER.match(word)):
            script = words[at + 1 :]
            return (), " ".join(script) if rule.rest else "".join(script[:1])
        if word in rule.module:
            return words[at + 1 :], None
        if rule.assignments and _ASSIGNMENT.match(word):
            at += 1
        elif word[:1] == "-" and len(word) > 1:
            at += 2 if word in rule.values else 1
        elif skipped < rule.operands:
            at, skipped = at + 1, skipped + 1
        else:
            break
    words = words[at:]
    if rule.only or not words:
        return None
    return ((), " ".join(words)) if rule.joined else (words, None)
