"""Schemas of `shell.yaml` and `logs.yaml`, which describe programs and log files."""

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
    """True if words like A=1 may precede the command."""
    script: tuple[str, ...] = ()
    """Options whose value is a command line."""
    rest: bool = False
    """True if all words after a `script` option are the command line."""
    joined: bool = False
    """True if all remaining words together are a command line."""
    module: tuple[str, ...] = ()
    """Options whose value is the name of the program."""
    dashes: bool = False
    """A key without effect, which older rules have."""
    only: bool = False
    """True if operands are not a command, but the name of a script or of a user."""


class FilterRule(Strict, frozen=True):
    """The effect of a program on the lines that it reads from a pipe."""

    program: str
    does: Literal["through", "cut", "select"]
    """`through` passes all lines on, `cut` a range of lines, and `select` some lines or sorted lines."""
    only: tuple[str, ...] = ()
    """The program must have one of these options."""
    unless: tuple[str, ...] = ()
    """The program may have none of these options."""
    bare: bool = False
    """True if the program has no operand."""


class ReadRule(Strict, frozen=True):
    """A command that prints files as they are."""

    program: str
    """The program, and perhaps its subcommand."""
    only: tuple[str, ...] = ()
    """The program must have one of these options."""
    unless: tuple[str, ...] = ()
    """The program may have none of these options."""
    operand: Regex | None = None
    """A pattern that the first operand must match."""
    whole: bool = False
    """True if the command shows all of a file."""
    numbers: bool = False
    """True if the command prints line numbers before the lines."""
    always: bool = False
    """True if the command also reads without an operand."""
    expression: bool = False
    """True if the first operand is an expression and not a file."""
    expression_options: tuple[str, ...] = ()
    """Options whose value is the expression. With one of these options, all operands are files."""


class ShellRules(Strict, frozen=True):
    """`shell.yaml`."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Other names of a program, by its name."""
    wrappers: dict[str, WrapperRule] = field(default_factory=dict)
    """Programs that run another command, by name and subcommand."""
    options: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that precede a subcommand and take the next word as their value."""
    versioned: tuple[str, ...] = ()
    """Programs whose names may end in a version."""
    silent: tuple[str, ...] = ()
    """Commands that print nothing if they succeed."""
    brief: tuple[str, ...] = ()
    """Commands that print one or two lines."""
    edits: tuple[str, ...] = ()
    """Programs that change files and report the changes."""
    each_line: tuple[str, ...] = ()
    """Programs that run a command for each line of their input."""
    each_file: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The options before the command that a program runs for each file that it finds, by program."""
    coloured: tuple[str, ...] = ()
    """Beginnings of options with which the colours of the output have a meaning."""
    echoes: tuple[str, ...] = ()
    """Programs that print their arguments."""
    filters: tuple[FilterRule, ...] = ()
    """The effects of programs after a pipe."""
    reads: tuple[ReadRule, ...] = ()
    """Commands that print files as they are."""
    read_values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that take the next word as their value, in the commands of `reads`."""


class LogExample(Strict, frozen=True):
    """A file with its expected kind."""

    path: str
    log: bool
    text: str = ""
    data: bool | None = None
    """True if the file is never edited. By default, only logs are never edited."""


class LogRules(Strict, frozen=True):
    """`logs.yaml`."""

    names: tuple[str, ...]
    """Globs for the names of log files. A glob with a slash is for the path."""
    data: tuple[str, ...]
    """Globs for other files that are never edited."""
    installed: tuple[str, ...]
    """Globs for installed code, which is never edited."""
    unclear: tuple[str, ...]
    """Extensions of files whose content decides. An empty text stands for names without an extension."""
    lines: tuple[Regex, ...]
    """Patterns for the beginning of a line in a log."""
    beginning: Count
    """The number of characters at the beginning of a line that are matched."""
    share: Share
    """The share of lines that must match one of `lines`."""
    examples: tuple[LogExample, ...] = ()
