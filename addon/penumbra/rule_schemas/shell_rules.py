"""Schemas of `shell.yaml` and `logs.yaml`, which describe programs, and the files that contain
their output."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from penumbra.rule_schemas.schema import Count, Regex, Share, Size, Strict


class WrapperRule(Strict, frozen=True):
    """A program that runs another command."""

    values: tuple[str, ...] = ()
    """Options that take the next word as their value."""
    operands: Size = 0
    """The number of operands before the command."""
    assignments: bool = False
    """Words like A=1 may stand before the command."""
    script: tuple[str, ...] = ()
    """Options whose value is a command line of its own."""
    rest: bool = False
    """All words after such an option are the command line."""
    joined: bool = False
    """All remaining words together are a command line."""
    module: tuple[str, ...] = ()
    """Options whose value is the name of the program."""
    dashes: bool = False
    """True if a command follows only after `--`."""
    only: bool = False
    """Operands are no command (a script's name, a user)."""


class FilterRule(Strict, frozen=True):
    """The effect of a program after a pipe on its input lines."""

    program: str
    """The program."""
    does: Literal["through", "cut", "select"]
    """`through`: every line as it is; `cut`: some at one end, or a range; `select`: some, or sorted."""
    only: tuple[str, ...] = ()
    """Options of which one must be there."""
    unless: tuple[str, ...] = ()
    """Options of which none may be there."""
    bare: bool = False
    """True if the program has no operand."""


class ReadRule(Strict, frozen=True):
    """A command that prints files as they are."""

    program: str
    """The program, and perhaps its subcommand."""
    only: tuple[str, ...] = ()
    """Options of which one must be there."""
    unless: tuple[str, ...] = ()
    """Options of which none may be there."""
    operand: Regex | None = None
    """The form of the first operand."""
    whole: bool = False
    """True if the command shows all of a file."""
    numbers: bool = False
    """True if the command prints line numbers before the lines."""
    always: bool = False
    """True if the command reads without an operand, too."""
    expression: bool = False
    """True if the first operand is no file but an expression."""
    expression_options: tuple[str, ...] = ()
    """Options whose value is the expression instead."""


class ShellRules(Strict, frozen=True):
    """`shell.yaml`."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Other spellings of a program."""
    wrappers: dict[str, WrapperRule] = field(default_factory=dict)
    """Programs that run another command, by name and subcommand."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options before a subcommand that take the next word as their value."""
    versioned: tuple[str, ...] = ()
    """Programs whose names may end in a version."""
    silent: tuple[str, ...] = ()
    """Commands that print nothing if they succeed."""
    brief: tuple[str, ...] = ()
    """Commands that print a line or two."""
    edits: tuple[str, ...] = ()
    """Programs that change files and say so."""
    each_line: tuple[str, ...] = ()
    """Programs that run a command for each line that they are fed."""
    each_file: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Programs that run a command for each file that they find, by their options before it."""
    coloured: tuple[str, ...] = ()
    """Beginnings of options whose colours carry meaning of their own."""
    echoes: tuple[str, ...] = ()
    """Programs that print their own words."""
    filters: tuple[FilterRule, ...] = ()
    """The effects of programs after a pipe on lines."""
    reads: tuple[ReadRule, ...] = ()
    """Commands that print files as they are."""
    read_values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options of these commands that take the next word as their value."""


class LogExample(Strict, frozen=True):
    """A file, and whether it is a log."""

    path: str
    log: bool
    text: str = ""
    data: bool | None = None
    """True if the file is never edited; None: as for a log."""


class LogRules(Strict, frozen=True):
    """`logs.yaml`."""

    names: tuple[str, ...]
    """Globs of a file's name, or of its path where they contain a slash."""
    data: tuple[str, ...]
    """Other files that are never edited."""
    installed: tuple[str, ...]
    """Code that is never edited."""
    unclear: tuple[str, ...]
    """Extensions (empty: none) of files whose content decides."""
    lines: tuple[Regex, ...]
    """Patterns for the beginning of a line."""
    beginning: Count
    """Characters of that beginning."""
    share: Share
    """Part of the lines that must begin so."""
    examples: tuple[LogExample, ...] = ()
