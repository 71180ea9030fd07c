"""Schema of the files of `rules/commands`, which describe the output of commands."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec import field

from penumbra.rule_schemas.schema import AnyRegex, Choice, Count, Regex, Share, Size, Strict

LossName = Literal["none", "reversible", "lossy"]


class Within(Strict, frozen=True):
    """The part of a text between lines that match these patterns."""

    begin: AnyRegex = field(name="from")
    """The line before the part."""
    until: AnyRegex | None = None
    """The line after the part. Without this pattern, the part ends with the text."""


class StepRule(Strict, frozen=True, kw_only=True):
    """The keys that all steps have."""

    within: Within | None = None
    """The step sees only these lines; by default, all lines."""
    unless: AnyRegex | None = None
    """The step does nothing if any line of the text matches."""
    loss: LossName | None = None
    """The amount of content that a reader loses. Each kind of step has its own default."""


class DropRule(StepRule, frozen=True, kw_only=True):
    """A `DropRule` removes lines without information and writes no marker: decoration, constant advice, and
    progress that a later line supersedes."""

    drop: AnyRegex
    safe: bool = False
    """True if a line that matches never reports a failure, whatever its words are."""
    ended: AnyRegex | None = None
    """Lines that report the end of a task whose progress the dropped lines show. In both patterns, the group
    `of` matches the name of the task. If the end is missing, the last line of progress stays. If the number
    in a group `at` falls, the task has begun again, and the line before the fall stays, too."""


class RewriteRule(StepRule, frozen=True, kw_only=True):
    """A `RewriteRule` replaces lines by a new text with the values of their named groups."""

    rewrite: AnyRegex
    to: str
    """The new line; `{name}` stands for a group."""
    loss: LossName
    """The amount of content that a reader loses."""


class GroupRule(StepRule, frozen=True, kw_only=True):
    """A `GroupRule` writes the common beginning of consecutive lines once, and below it the other part of
    each line."""

    group: AnyRegex
    """The lines, with groups `key` and `rest`."""
    also: Regex | None = None
    """A pattern for further lines of a run, which don't match `group`. Such a line begins with the `key` of
    the nearest line that matches. The pattern is for the text after the key, and has a group `rest`."""
    through: AnyRegex | None = None
    """Lines that may stand between the lines of a run but don't belong to the run."""
    header: str = "{key}"
    """The line before a run."""
    line: str = " {rest}"
    """Each line of a run."""
    least: Count = field(default=2, name="min")
    """The smallest number of lines in a run."""


class HoistRule(StepRule, frozen=True, kw_only=True):
    """A `HoistRule` writes a value once before a run of lines if a column has this value in all lines."""

    hoist: AnyRegex
    """The lines, with a group for each column."""
    columns: tuple[str, ...]
    """The groups, in order."""
    fields: dict[str, str]
    """The names of the columns that may be written before the run, by column."""
    usual: tuple[str, ...] = ()
    """Columns whose value is written before the run even if only most lines have this value. The other lines
    keep their own values, whose form must show the column."""
    least: Count = field(default=3, name="min")
    """The smallest number of lines in a run."""


class JoinRule(StepRule, frozen=True, kw_only=True):
    """A `JoinRule` writes consecutive lines of one indentation in rows, with a blank between them."""

    join: AnyRegex
    """The lines. A line with a blank stays, even if the pattern matches."""
    width: Count = 160
    """The length in characters of the longest row of several lines."""


class NestRule(StepRule, frozen=True, kw_only=True):
    """A `NestRule` writes the lines of each folder, indented, below the lines of the folder around it."""

    nest: AnyRegex
    """The line above the lines of a folder. The line begins with the group `path`. Only the last part of the
    path is written if the folder around it has a line. If a line matches without the group, lines are
    missing, and the folder of the next lines is unknown."""


class SameRule(StepRule, frozen=True, kw_only=True):
    """A `SameRule` replaces the matching lines of a text by one line if all matching lines are equal."""

    same: AnyRegex
    say: str
    """The new line. `{line}` stands for the repeated line, `{n}` for their number."""
    least: Count = field(default=3, name="min")
    """The smallest number of lines that are replaced."""


class FoldRule(StepRule, frozen=True, kw_only=True):
    """A `FoldRule` replaces a run of lines by one line with their number."""

    fold: AnyRegex
    say: str
    """The new line. `{n}` stands for the number of lines. `{group}`, `{first_group}` and `{last_group}` stand
    for values of a group. `{distinct_group}` is the number of different values, `{each_group}` lists all
    different values. `{n|line|lines}` is the number with its noun."""
    least: Count = field(default=3, name="min")
    """The smallest number of lines that are replaced."""
    head: Size = 0
    """The number of lines that stay at the beginning of a run."""
    tail: Size = 0
    """The number of lines that stay at the end of a run."""
    by: str = ""
    """A group with the same value in all lines of a run. With `scattered`, each value has its own marker."""
    safe: bool = False
    """True if a line that matches never reports a failure, whatever its words are."""
    blanks: bool = False
    """True if blank lines don't end a run."""
    scattered: bool = False
    """True if one marker replaces all matching lines of the text, in the place of the first matching line."""
    nested: bool = False
    """True if a line stays when a more deeply indented line below it stays."""
    ended: AnyRegex | None = None
    """Lines that end a task, as in the key `ended` of a `drop` step. A line in which the group `of` matches
    nothing belongs to no task."""


class BlockRule(StepRule, frozen=True, kw_only=True):
    """A `BlockRule` keeps the first lines of a block and replaces its other lines by a line with their
    number."""

    block: AnyRegex
    """The first line of a block."""
    say: str
    """The new line. `{n}` stands for the number of lines, `{blocks}` for the number of blocks, and `{group}`
    for a group of the first line. Each name in `counts` stands for its count. For each name in `places`,
    `{first_name}` and `{last_name}` stand for the first and the last place."""
    until: AnyRegex | None = None
    """The line after a block. Without this pattern, a block ends at the first line of the next block."""
    least: Count = field(default=3, name="min")
    """The smallest number of lines that are replaced in a block."""
    head: Size = 1
    """The number of lines that stay at the beginning of a block."""
    safe: bool = False
    """True if lines with failures stay, below the marker of their block. Of several lines of one kind, only
    one is written."""
    scattered: bool = False
    """True if one marker replaces all blocks of the text, in the place of the first block. Failures stay in
    their places."""
    warnings: bool = False
    """True if warnings, too, stay below the marker of a `safe` rule."""
    tells: AnyRegex | None = None
    """With `safe`, a line directly after a matching line is treated like a failure."""
    counts: dict[str, AnyRegex] = field(default_factory=dict)
    """Patterns for the omitted lines that are counted, by the name of the count. With `scattered`, a count is
    for all shortened blocks."""
    places: dict[str, AnyRegex] = field(default_factory=dict)
    """Patterns for lines with a place in a file, by the name of the group that matches the place. A block
    without these lines stays."""


class MemberRule(StepRule, frozen=True, kw_only=True):
    """A `MemberRule` replaces each line that is a JSON object by one text in the object."""

    member: AnyRegex
    path: str
    """The path to the text in the object, with dots between the names of members."""
    say: str
    """The line before the texts. `{n}` stands for their number."""
    least: Count = field(default=1, name="min")
    """The smallest number of lines that are replaced."""


class ContextRule(StepRule, frozen=True, kw_only=True):
    """A `ContextRule` removes the lines around other lines, except for the nearest."""

    context: AnyRegex
    near: AnyRegex
    """The lines whose neighbours stay."""
    within: Within
    """The step sees only these lines."""
    say: str
    """The line in the place of the first removed line. `{n}` stands for the number of removed lines."""
    keep: Size = 1
    """The number of lines on each side that stay."""
    least: Count = field(default=3, name="min")
    """The smallest number of lines that the step removes."""


class AnyStep(Choice):
    """A step of any kind. The key with the pattern of the lines tells the kind."""

    kinds: ClassVar[dict[str, type[Strict]]] = {
        "drop": DropRule,
        "rewrite": RewriteRule,
        "group": GroupRule,
        "hoist": HoistRule,
        "join": JoinRule,
        "nest": NestRule,
        "same": SameRule,
        "fold": FoldRule,
        "block": BlockRule,
        "member": MemberRule,
        "context": ContextRule,
    }


class ShapeRule(Strict, frozen=True):
    """The shape that a text must have to belong to a family."""

    some: tuple[Regex, ...] = field(default=(), name="any")
    """A line of the text must match one of these patterns."""
    none: tuple[Regex, ...] = ()
    """No line may match one of these patterns."""
    most: AnyRegex | None = None
    """Most lines that are not blank must match this pattern."""
    share: Share = 0.8
    """The share of these lines that must match `most`."""


class FamilyRule(Strict, frozen=True):
    """A family of commands whose outputs have the same form."""

    name: str
    """A unique name. A family in the user's folder replaces Penumbra's family of the same name."""
    what: str
    """One sentence about the family for readers of the file."""
    match: tuple[str, ...] = ()
    """Command lines that belong to the family."""
    unless: tuple[str, ...] = ()
    """Options with which the output has another form. A command with one of these options does not belong to
    the family."""
    selected: bool = False
    """True if the steps also run on filtered lines (`| grep x`)."""
    alone: bool = False
    """True if, as a fallback, the family is tried only on the whole output of a single command."""
    min_bytes: Size = 0
    """The size in bytes below which texts stay unchanged."""
    excerpt_bytes: Count | None = None
    """The limit in bytes for an excerpt of the output is at least this number."""
    prints: Literal["run", "names", "texts", "states"] = "run"
    """Kind of the output: the progress of a run, names of files, texts that people wrote, or states of
    things. A line of `texts` never counts as a failure. A line of `states` counts as a failure only if it has
    the form in which programs report failures."""
    shape: ShapeRule = field(default_factory=ShapeRule)
    """The shape that the text must have."""
    inner: AnyRegex | None = None
    """Lines that announce the command whose output follows, with a group `command`."""
    distinct: bool = False
    """True if only this family writes lines that match `shape.any` or `inner`. If the same command line also
    prints files, the first and the last of these lines show where the output begins and ends."""
    hides_blocks: bool = False
    """True if the steps leave out whole blocks of other programs, such as generated files or output of
    passing tests."""
    fallback: tuple[str, ...] = ()
    """Families that are tried, by their shapes, if this family has no steps or its shape does not fit."""
    steps: tuple[AnyStep, ...] = ()


class CommandExample(Strict, frozen=True):
    """The output of a command, and the expected result."""

    family: str
    """The family to which the call belongs."""
    call: str
    """A command line, or the name of a search tool."""
    text: str
    gives: str | None
    """The expected result; null if the output stays unchanged."""
    loss: LossName = "none"
    """The amount of content that a reader of the result loses."""
    lossy: bool = False
    """True if steps that leave something out may run."""
    shortened_by: str = field(default="", name="as")
    """The family that shortens the output, if it is not `family`."""


class CommandFile(Strict, frozen=True):
    """A file of `rules/commands`."""

    families: tuple[FamilyRule, ...] = ()
    calls: dict[str, str | None] = field(default_factory=dict)
    """The family of each command line; null for no family."""
    examples: tuple[CommandExample, ...] = ()
    """Outputs with their results, which the tests check."""
