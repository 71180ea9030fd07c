"""Files of `rules/commands`: what is known about the output of commands."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from penumbra.rule_schemas.schema import AnyRegex, Choice, Count, Regex, Share, Size, Strict

LossName = Literal["none", "reversible", "lossy"]


class Within(Strict, frozen=True):
    """Only lines between lines that match these."""

    begin: AnyRegex = field(name="from")
    """Before the first line."""
    until: AnyRegex | None = None
    """After the last one; without it, the text's end."""


class StepRule(Strict, frozen=True, kw_only=True):
    """Keys of any step."""

    within: Within | None = None
    """The step sees only these lines."""
    unless: AnyRegex | None = None
    """The step does nothing if any line of the text matches."""
    loss: LossName | None = None
    """The loss for a reader; each step has its own default."""


class DropRule(StepRule, frozen=True, kw_only=True):
    """Lines that say nothing go without a word: decoration, advice that is always the same, progress that a
    later line overtakes."""

    drop: AnyRegex
    """The lines."""
    safe: bool = False
    """A match can be no failure, whatever else the line says."""
    ended: AnyRegex | None = None
    """Lines that end a task of dropped ones; the group `of` of both names it. The last line of a task without
    an end stays, as does the last one before a group `at`, a number, falls."""


class RewriteRule(StepRule, frozen=True, kw_only=True):
    """Lines are written anew from their named groups."""

    rewrite: AnyRegex
    """The lines."""
    to: str
    """The new line; `{name}` stands for a group."""
    loss: LossName
    """The loss for a reader."""


class GroupRule(StepRule, frozen=True, kw_only=True):
    """Lines with the same beginning: the beginning once, then the rest of each."""

    group: AnyRegex
    """The lines, with groups `key` and `rest`."""
    also: Regex | None = None
    """A pattern that may follow the key of a neighbour instead, with a group `rest`."""
    through: AnyRegex | None = None
    """Lines that don't end a run."""
    header: str = "{key}"
    """The line before a run."""
    line: str = " {rest}"
    """Each line of a run."""
    least: Count = field(default=2, name="min")
    """Lines that make a run."""


class HoistRule(StepRule, frozen=True, kw_only=True):
    """Columns that say the same in a whole run are said once before it."""

    hoist: AnyRegex
    """The lines, with a group for each column."""
    columns: tuple[str, ...]
    """The groups, in order."""
    fields: dict[str, str]
    """The columns that may be hoisted, and their names."""
    least: Count = field(default=3, name="min")
    """Lines that make a run."""


class SameRule(StepRule, frozen=True, kw_only=True):
    """A line that is the same all over the text is said once."""

    same: AnyRegex
    """The lines."""
    say: str
    """The line instead; `{line}` and `{n}`."""
    least: Count = field(default=3, name="min")
    """Lines that there must be."""


class FoldRule(StepRule, frozen=True, kw_only=True):
    """A run of lines becomes one that counts them."""

    fold: AnyRegex
    """The lines."""
    say: str
    """The line instead; `{n}`, `{group}`, `{first_group}`, `{last_group}`, `{distinct_group}` (how many
    different ones), `{each_group}` (each of them). `{n|line|lines}`: the count with its noun."""
    least: Count = field(default=3, name="min")
    """Lines that make a run."""
    head: Size = 0
    """Lines at the beginning of a run that stay."""
    tail: Size = 0
    """Lines at its end that stay."""
    by: str = ""
    """A group whose value must not change within a run; with `scattered`, one marker for each value."""
    safe: bool = False
    """A match can be no failure, whatever else the line says."""
    blanks: bool = False
    """Blank lines don't end a run."""
    scattered: bool = False
    """One marker for all such lines of the text, where the first one stood."""
    nested: bool = False
    """Not the lines below which others stay that are indented deeper."""
    ended: AnyRegex | None = None
    """A pattern like those of `drop`; lines without the group `of` stand for themselves."""


class BlockRule(StepRule, frozen=True, kw_only=True):
    """From a line that matches up to one that ends the block: its head and a count."""

    block: AnyRegex
    """The first line of a block."""
    say: str
    """The line instead; `{n}`, `{blocks}`, `{group}` of the first line, the names of `counts`, `{first_name}`
    and `{last_name}` of `places`."""
    until: AnyRegex | None = None
    """The line after a block; without it, the next first line."""
    least: Count = field(default=3, name="min")
    """Lines that a block must have."""
    head: Size = 1
    """Lines of a block that stay."""
    safe: bool = False
    """Failures in a block stand below its marker, each kind of line once."""
    scattered: bool = False
    """One marker for all blocks of the text, where the first one stood; what fails stands where it stood."""
    warnings: bool = False
    """With `safe`, warnings also stand below the marker."""
    tells: AnyRegex | None = None
    """With `safe`, lines after a match also stand below the marker, each kind of line once."""
    counts: dict[str, AnyRegex] = field(default_factory=dict)
    """Names, and the omitted lines that each counts; with `scattered`, in all blocks with omitted lines."""
    places: dict[str, AnyRegex] = field(default_factory=dict)
    """Names, and lines with a group of that name, their place in their file; a block without any stays."""


class MemberRule(StepRule, frozen=True, kw_only=True):
    """Lines that are JSON objects become one of their texts."""

    member: AnyRegex
    """The lines."""
    path: str
    """The members that lead to the text, joined by dots."""
    say: str
    """The line before the first; `{n}`."""
    least: Count = field(default=1, name="min")
    """Lines that there must be."""


class ContextRule(StepRule, frozen=True, kw_only=True):
    """Lines that only surround others go, but for the nearest."""

    context: AnyRegex
    """The lines."""
    near: AnyRegex
    """Lines whose neighbours stay."""
    within: Within
    """The step sees only these lines."""
    say: str
    """The line instead, where the first one stood; `{n}`."""
    keep: Size = 1
    """Lines on each side that stay."""
    least: Count = field(default=3, name="min")
    """Lines that must go."""


class AnyStep(Choice):
    """A step, told by the key that names what it does."""

    kinds: ClassVar[dict[str, type[Strict]]] = {
        "drop": DropRule,
        "rewrite": RewriteRule,
        "group": GroupRule,
        "hoist": HoistRule,
        "same": SameRule,
        "fold": FoldRule,
        "block": BlockRule,
        "member": MemberRule,
        "context": ContextRule,
    }


class ShapeRule(Strict, frozen=True):
    """The form that a text must have to belong to a family."""

    some: tuple[Regex, ...] = field(default=(), name="any")
    """A line of the text must match one of these."""
    none: tuple[Regex, ...] = ()
    """No line may match any of these."""
    most: AnyRegex | None = None
    """Most lines that are not blank must match this."""
    share: Share = 0.8
    """The share of such lines."""


class FamilyRule(Strict, frozen=True):
    """A command family."""

    name: str
    """Unique; a family of this name in the user's folder takes the place of ours."""
    what: str
    """One sentence for the reader of the file."""
    match: tuple[str, ...] = ()
    """Command lines that belong to it."""
    unless: tuple[str, ...] = ()
    """Options with which the output has another form; then it does not match."""
    selected: bool = False
    """The steps also run on lines that passed a filter (`| grep x`)."""
    min_bytes: Size = 0
    """Texts below this size are left alone."""
    excerpt_bytes: Count | None = None
    """Least bytes of an excerpt of its output."""
    prints: Literal["run", "names", "texts", "states"] = "run"
    """The kind of output: the course of a run, names of files, people's texts, or the states of things. In
    texts no line reports a failure; in states only one in programs' wording."""
    shape: ShapeRule = field(default_factory=ShapeRule)
    """The form that the text must have."""
    inner: AnyRegex | None = None
    """Lines that announce the command which prints next, with a group `command`."""
    distinct: bool = False
    """Files that a command line also shows have no lines as `shape.any` or `inner`: its output ends there."""
    hides_blocks: bool = False
    """The steps leave out whole blocks that others wrote: generated files, output of passing tests."""
    fallback: tuple[str, ...] = ()
    """Families that are tried, by shape, where this one does not fit or has no steps."""
    steps: tuple[AnyStep, ...] = ()
    """The steps, in order."""


class CommandExample(Strict, frozen=True):
    """A command's output, and what must become of it."""

    family: str
    """The family that the call falls to."""
    call: str
    """A command line, or the name of a search tool."""
    text: str
    """The output."""
    gives: str | None
    """The expected output; null: unchanged."""
    loss: LossName = "none"
    """The loss that the output has."""
    lossy: bool = False
    """Steps that leave something out may run."""
    shortened_by: str = field(default="", name="as")
    """The family that did it, if it is another one."""


class CommandFile(Strict, frozen=True):
    """A file of `rules/commands`."""

    families: tuple[FamilyRule, ...] = ()
    """The families."""
    calls: dict[str, str | None] = field(default_factory=dict)
    """Command lines, and the family that each must fall to; null: none."""
    examples: tuple[CommandExample, ...] = ()
    """The tests of all of them."""
