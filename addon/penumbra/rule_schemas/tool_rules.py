"""Schema of `tools.yaml`, which describes the tools of agents, and the texts that agents write around
results."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from penumbra.rule_schemas.schema import Regex, Strict

Category = Literal[
    "read", "edit", "write", "bash", "glob", "list", "grep", "web", "subagent", "plan", "other"
]


class GlobRule(Strict, frozen=True):
    """Tools of MCP servers by their names."""

    glob: str
    """A glob of the name in small letters."""
    category: Category
    """The category of such tools."""


class VerbRule(Strict, frozen=True):
    """Tools that do several things, which one argument distinguishes."""

    tools: tuple[str, ...]
    """Names of the tools."""
    argument: str
    """The argument."""
    values: dict[str, Category]
    """The category of the call for each value."""


class UnknownToolRule(Strict, frozen=True):
    """The category of an unknown tool, by its arguments."""

    category: Category
    """The category."""
    given: dict[str, Regex]
    """Kinds of arguments (keys of `kinds`) that the call must have, with a pattern for each; an empty pattern
    matches any text."""
    only: tuple[str, ...] = ()
    """Kinds of other arguments that the call may have; if empty, the call may have any."""
    named: Regex = ""
    """A pattern for the tool's name: the words of its last part, in small letters, with a blank between
    them."""
    unless: Regex = ""
    """A pattern for names of tools to which the rule does not apply."""


class UnknownTools(Strict, frozen=True):
    """Categories of unknown tools."""

    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names that agents use for each kind of argument."""
    rules: tuple[UnknownToolRule, ...] = ()
    """The rules in order; the first that fits decides."""


class ToolArguments(Strict, frozen=True):
    """Arguments that hold the command and the file of a call; the first that a call has counts."""

    command: tuple[str, ...] = ()
    """Arguments that hold a command line, of tools of the category bash."""
    command_of_any_tool: tuple[str, ...] = ()
    """Arguments that hold a command line, of any tool."""
    path: tuple[str, ...] = ()
    """Arguments that name a file or folder."""
    written: tuple[str, ...] = ()
    """Arguments of edits that hold the new text of the file."""


class CodeCalls(Strict, frozen=True):
    """Calls of tools in JavaScript that a model writes: `tools.exec_command({cmd: "..."})`."""

    object: str = ""
    """The object that has the tools as members."""
    calls: tuple[str, ...] = ()
    """The tools that run a command line."""
    members: tuple[str, ...] = ()
    """Members of the tool's argument that hold the command line."""


class TrimExample(Strict, frozen=True):
    """A text, and the same text without the needless parts of its envelope."""

    text: str
    gives: str


class JsonEnvelope(Strict, frozen=True):
    """Outputs as members of a JSON object."""

    outputs: tuple[str, ...] = ()
    """Members that hold an output."""
    blocks: str = ""
    """The member that holds a list of blocks with outputs."""
    text: str = ""
    """The member of a block that holds its output."""
    asks: tuple[str, ...] = ()
    """Members that hold the call."""
    needless: Regex = ""
    """A pattern for the whole envelope around one output, without the output, if the envelope carries no
    useful information."""
    tools: tuple[str, ...] = ()
    """Exact names of the tools whose agents write this envelope: results of other tools may be data in this
    form."""
    trim_examples: tuple[TrimExample, ...] = ()
    """Texts with and without the needless envelope, which the tests check."""


class EnvelopeExample(Strict, frozen=True):
    """A text, and the output in it."""

    text: str
    body: str
    failed: bool = False


class NeedlessLine(Strict, frozen=True):
    """A line of an envelope without useful information."""

    line: Regex
    """The line, without its end."""
    unless: Regex = ""
    """The line stays if its envelope matches this pattern."""


class LabelPair(Strict, frozen=True):
    """The labels directly before and after an output."""

    opening: str
    closing: str = ""


class FileEnvelope(Strict, frozen=True):
    """The parts that a tool writes around the numbered lines of a file."""

    opening: str
    """The text before the lines; `{path}` is the path by which the file was asked for."""
    closing: str
    number: Regex
    """The beginning of each line; the first group is its number."""
    tools: tuple[str, ...]
    """Exact names of the tools that write this envelope."""


class FileExample(Strict, frozen=True):
    """A tool's result for a file that was read by its path, and the file alone."""

    text: str
    path: str
    gives: str
    tool: str = "read"
    offset: int | None = None
    """The first line that the call asked for."""


class Envelopes(Strict, frozen=True):
    """The parts that agents write around the output of a command."""

    heads: tuple[Regex, ...] = ()
    """Patterns of the part before the output; each matches whole lines unless the pattern says otherwise."""
    inline_heads: tuple[Regex, ...] = ()
    """Patterns of a part before the output on the output's first line."""
    tails: tuple[Regex, ...] = ()
    """Patterns of the part after the output."""
    failed: Regex = ""
    """A pattern of a head or a tail of a failed command."""
    needless: tuple[NeedlessLine, ...] = ()
    """Lines of heads and tails that are removed."""
    labels: tuple[LabelPair, ...] = ()
    """Labels between the output and the envelope, which are removed when nothing else is left of the
    envelope."""
    files: tuple[FileEnvelope, ...] = ()
    """The parts around a file that was read."""
    file_examples: tuple[FileExample, ...] = ()
    success: Regex = ""
    """A pattern of the line that reports success; the line is removed unless there is no output."""
    cut: tuple[Regex, ...] = ()
    """Patterns of an agent's own cut within an output."""
    json: JsonEnvelope = field(default_factory=JsonEnvelope)
    """Outputs as members of a JSON object."""
    trim_examples: tuple[TrimExample, ...] = ()
    """Texts with and without the parts that are removed, which the tests check."""
    examples: tuple[EnvelopeExample, ...] = ()
    """Texts with their outputs, which the tests check."""


class ToolExample(Strict, frozen=True):
    """A tool, and the category that it must get."""

    tool: str
    """The tool's name, as the agent spells it."""
    category: Category
    """The category."""
    arguments: dict[str, Any] | str | None = None
    """The arguments of the call, where they matter."""


class Tools(Strict, frozen=True):
    """`tools.yaml`."""

    agents: dict[str, dict[Category, tuple[str, ...]]] = field(default_factory=dict)
    """Names of tools, by agent and category. A name has the same meaning for every agent that uses it."""
    mcp_prefixes: tuple[str, ...] = ()
    """Beginnings of names of MCP tools; only those are looked up in `mcp`."""
    mcp: tuple[GlobRule, ...] = ()
    """Tools of MCP servers; the first that matches decides."""
    verbs: tuple[VerbRule, ...] = ()
    """Tools that do several things; the first that names a tool counts."""
    unknown: UnknownTools = field(default_factory=UnknownTools)
    """Categories of other tools, by their arguments."""
    families: dict[Category, str] = field(default_factory=dict)
    """The command family of a category's output where there is no command line."""
    numbered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tools that write a mark after line numbers, by mark; the marks are those that may also occur in
    files."""
    synonyms: dict[str, str] = field(default_factory=dict)
    """Other words for a category in `skip_tools`."""
    arguments: ToolArguments = field(default_factory=ToolArguments)
    """Arguments that hold the command and the file of a call."""
    code: CodeCalls = field(default_factory=CodeCalls)
    """Calls of tools in code that a model writes."""
    envelopes: Envelopes = field(default_factory=Envelopes)
    """The parts that agents write around the output of a command."""
    examples: tuple[ToolExample, ...] = ()
    """Tools with their categories, which the tests check."""
