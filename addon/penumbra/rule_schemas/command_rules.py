"""Schema of the files of `rules/commands`, which describe the output of commands."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from penumbra.rule_schemas.schema import AnyRegex, Choice, Count, Regex, Share, Size, Strict

LossName = Literal["none", "reversible", "lossy"]


class Within(Strict, frozen=True):
    """Part of a text, between lines that match these patterns."""

    begin: AnyRegex = field(name="from")
    """Line before the first line of the part."""
    until: AnyRegex | None = None
    """Line after the last line of the part; without it, the part ends with the text."""


class StepRule(Strict, frozen=True, kw_only=True):
    """Keys of any step."""

    within: Within | None = None
    """The step sees only these lines."""
    unless: AnyRegex | None = None
    """The step does nothing if any line of the text matches."""
    loss: LossName | None = None
    """The loss for a reader; each step has its own default."""


class DropRule(StepRule, frozen=True, kw_only=True):
    """A `DropRule` removes lines that say nothing, without a marker: decoration, advice that is always the
    same, progress that a later line overtakes."""

    drop: AnyRegex
    """The lines."""
    safe: bool = False
    """A match reports no failure, whatever else the line says."""
    ended: AnyRegex | None = None
    """Lines that end a task of dropped lines; the group `of` of both names the task. The last line of a task
    without an end stays, as does the last line before the number of a group `at` falls."""


class RewriteRule(StepRule, frozen=True, kw_only=True):
    """A `RewriteRule` writes lines anew from their named groups."""

    rewrite: AnyRegex
    """The lines."""
    to: str
    """The new line; `{name}` stands for a group."""
    loss: LossName
    """The loss for a reader."""


class GroupRule(StepRule, frozen=True, kw_only=True):
    """A `GroupRule` writes the common beginning of lines once, followed by the other part of each."""

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
    """A `HoistRule` writes columns that have the same value in a whole run once before it."""

    hoist: AnyRegex
    """The lines, with a group for each column."""
    columns: tuple[str, ...]
    """The groups, in order."""
    fields: dict[str, str]
    """The columns that may be hoisted, and their names."""
    least: Count = field(default=3, name="min")
    """Lines that make a run."""


class SameRule(StepRule, frozen=True, kw_only=True):
    """A `SameRule` writes a line that is repeated all over the text once."""

    same: AnyRegex
    """The lines."""
    say: str
    """The line instead; `{line}` and `{n}`."""
    least: Count = field(default=3, name="min")
    """Lines that there must be."""


class FoldRule(StepRule, frozen=True, kw_only=True):
    """A `FoldRule` replaces a run of lines by one that counts them."""

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
    """A group whose value must not change within a run; with `scattered`, there is one marker for
    each value."""
    safe: bool = False
    """A match reports no failure, whatever else the line says."""
    blanks: bool = False
    """Blank lines don't end a run."""
    scattered: bool = False
    """One marker for all such lines of the text, in place of the first."""
    nested: bool = False
    """Leaves lines alone that are followed by more deeply indented lines that stay."""
    ended: AnyRegex | None = None
    """A pattern like that of `drop`; a line without the group `of` is its own task."""


class BlockRule(StepRule, frozen=True, kw_only=True):
    """A `BlockRule` replaces the lines from a first line up to the end of its block by its head and a
    count."""

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
    """Failures in a block stay below its marker, each kind of line once."""
    scattered: bool = False
    """One marker for all blocks of the text, in place of the first; failures stay in their places."""
    warnings: bool = False
    """With `safe`, warnings stay below the marker, too."""
    tells: AnyRegex | None = None
    """With `safe`, lines after a match stay below the marker, too, each kind of line once."""
    counts: dict[str, AnyRegex] = field(default_factory=dict)
    """Names, and the omitted lines that each counts; with `scattered`, in all blocks with omitted lines."""
    places: dict[str, AnyRegex] = field(default_factory=dict)
    """Names, and lines with a group of that name, their place in their file; a block without any stays."""


class MemberRule(StepRule, frozen=True, kw_only=True):
    """A `MemberRule` replaces lines that are JSON objects by one of their texts."""

    member: AnyRegex
    """The lines."""
    path: str
    """The members that lead to the text, joined by dots."""
    say: str
    """The line before the first; `{n}`."""
    least: Count = field(default=1, name="min")
    """Lines that there must be."""


class ContextRule(StepRule, frozen=True, kw_only=True):
    """A `ContextRule` removes lines that only surround others, except for the nearest."""

    context: AnyRegex
    """The lines."""
    near: AnyRegex
    """Lines whose neighbours stay."""
    within: Within
    """The step sees only these lines."""
    say: str
    """The line in place of the first; `{n}`."""
    keep: Size = 1
    """Lines on each side that stay."""
    least: Count = field(default=3, name="min")
    """Lines that must go."""


class AnyStep(Choice):
    """A step, whose kind is the key that names the lines."""

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
    """Unique; a family of this name in the user's folder replaces Penumbra's."""
    what: str
    """One sentence for the reader of the file."""
    match: tuple[str, ...] = ()
    """Command lines that belong to it."""
    unless: tuple[str, ...] = ()
    """Options with which the output has another form, so that the family does not match."""
    selected: bool = False
    """True if the steps also run on lines that passed a filter (`| grep x`)."""
    min_bytes: Size = 0
    """Size below which texts are left alone."""
    excerpt_bytes: Count | None = None
    """Least bytes of an excerpt of its output."""
    prints: Literal["run", "names", "texts", "states"] = "run"
    """Kind of the output: the course of a run, names of files, texts of people, or states of things. No line
    of texts reports a failure, and of states only one in the wording of programs."""
    shape: ShapeRule = field(default_factory=ShapeRule)
    """The form that the text must have."""
    inner: AnyRegex | None = None
    """Lines that announce the command which prints next, with a group `command`."""
    distinct: bool = False
    """Files that a command line prints, too, have no lines like `shape.any` or `inner`: the output ends where
    they begin."""
    hides_blocks: bool = False
    """True if the steps leave out whole blocks that others wrote: generated files, output of passing
    tests."""
    fallback: tuple[str, ...] = ()
    """Families that are tried, by shape, where this one does not fit or has no steps."""
    steps: tuple[AnyStep, ...] = ()
    """The steps, in order."""


class CommandExample(Strict, frozen=True):
    """A command's output, and the form that it must get."""

    family: str
    """The family of the call."""
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
    """The family that shortens the text, if it is another one."""


class CommandFile(Strict, frozen=True):
    """A file of `rules/commands`."""

    families: tuple[FamilyRule, ...] = ()
    """The families."""
    calls: dict[str, str | None] = field(default_factory=dict)
    """Command lines, and the family of each; null: none."""
    examples: tuple[CommandExample, ...] = ()
    """The tests of all of them."""
