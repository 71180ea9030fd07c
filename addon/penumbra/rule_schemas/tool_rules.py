"""Schema of `tools.yaml`, which describes the tools of agents and the texts that agents write around
results."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from penumbra.rule_schemas.schema import Regex, Strict

Category = Literal[
    "read", "edit", "write", "bash", "glob", "list", "grep", "web", "subagent", "plan", "other"
]


class GlobRule(Strict, frozen=True):
    """A rule for tools of MCP servers."""

    glob: str
    """A glob for names in small letters."""
    category: Category
    """The category of these tools."""


class VerbRule(Strict, frozen=True):
    """A `VerbRule` describes tools with several functions. One argument names the function."""

    tools: tuple[str, ...]
    argument: str
    values: dict[str, Category]
    """The category of the call for each value."""


class UnknownToolRule(Strict, frozen=True):
    """A rule for the category of an unknown tool."""

    category: Category
    given: dict[str, Regex]
    """Arguments that the call must have: kinds (keys of `kinds`) with patterns for the values. An empty
    pattern matches any text."""
    only: tuple[str, ...] = ()
    """Kinds of further arguments that the call may have; without this key, any further arguments."""
    named: Regex = ""
    """A pattern for the words in the last part of the tool's name, in small letters, with blanks between
    them."""
    unless: Regex = ""
    """A pattern for names of tools to which the rule does not apply."""


class UnknownTools(Strict, frozen=True):
    """An `UnknownTools` has the rules for the categories of unknown tools."""

    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names that agents use for each kind of argument."""
    actions: Regex = ""
    """A pattern for names of tools that do not show a file, although they have a path and print code."""
    rules: tuple[UnknownToolRule, ...] = ()
    """The rules. The first rule that fits decides."""


class ToolArguments(Strict, frozen=True):
    """Names of arguments with the command or file of a call. The first name that the call has counts."""

    command: tuple[str, ...] = ()
    """Arguments with a command line, for tools of the category `bash`."""
    command_of_any_tool: tuple[str, ...] = ()
    """Arguments with a command line, for all tools."""
    path: tuple[str, ...] = ()
    """Arguments that name a file or folder."""


class CodeCalls(Strict, frozen=True):
    """A `CodeCalls` describes calls in JavaScript that a model writes: `tools.exec_command({cmd: "..."})`."""

    object: str = ""
    """The object that has the tools as members."""
    calls: tuple[str, ...] = ()
    """The tools that run a command line."""
    members: tuple[str, ...] = ()
    """Members with the command line, in the object that is the tool's argument."""


class TrimExample(Strict, frozen=True):
    """A text with and without the needless parts of its envelope."""

    text: str
    gives: str


class JsonEnvelope(Strict, frozen=True):
    """Envelopes that are JSON objects with outputs in them."""

    outputs: tuple[str, ...] = ()
    """Members that contain an output."""
    blocks: str = ""
    """The member that contains a list of blocks with outputs."""
    text: str = ""
    """The member of a block that contains its output."""
    asks: tuple[str, ...] = ()
    """Members that contain the call."""
    needless: Regex = ""
    """A pattern that matches a whole envelope, without its single output, if the envelope is needless."""
    tools: tuple[str, ...] = ()
    """Exact names of the tools with such envelopes. Results of other tools may be data of the same form."""
    documents: Regex = ""
    """A pattern for paths of files that may themselves be JSON with an output in it."""
    trim_examples: tuple[TrimExample, ...] = ()
    """Texts with and without needless envelopes, which the tests check."""


class EnvelopeExample(Strict, frozen=True):
    """A text and the output in it."""

    text: str
    body: str
    failed: bool = False


class NeedlessLine(Strict, frozen=True):
    """A line of an envelope without useful information."""

    line: Regex
    """A pattern for the line without its line break."""
    unless: Regex = ""
    """The line stays if its envelope matches this pattern."""


class LabelPair(Strict, frozen=True):
    """The texts directly before and after an output."""

    opening: str
    closing: str = ""
    needs: str = ""
    """A text that follows below the output. Without this text, the opening may be the output's own."""


class FileExample(Strict, frozen=True):
    """A tool's result for a file, and the content of the file."""

    text: str
    path: str
    gives: str
    offset: int | None = None
    """The call's argument with the number of the first line; null if the call has no such argument."""


class Envelopes(Strict, frozen=True):
    """The texts that agents write around the output of a command."""

    heads: tuple[Regex, ...] = ()
    """Patterns for the text before the output. Each pattern matches whole lines unless it says otherwise."""
    inline_heads: tuple[Regex, ...] = ()
    """Patterns for a text before the output in the first line of the output."""
    tails: tuple[Regex, ...] = ()
    """Patterns for the text after the output."""
    failed: Regex = ""
    """A pattern for the head or tail of a failed command."""
    needless: tuple[NeedlessLine, ...] = ()
    """Lines of heads and tails that are removed."""
    labels: tuple[LabelPair, ...] = ()
    """Labels around the output. The labels are removed if the envelope has nothing else."""
    file_examples: tuple[FileExample, ...] = ()
    """Results of reads with tags around the file, which the tests check."""
    success: Regex = ""
    """A pattern for a line that reports success. The line is removed if there is an output."""
    cut: tuple[Regex, ...] = ()
    """Patterns for the marks with which agents replace a part of an output."""
    json: JsonEnvelope = field(default_factory=JsonEnvelope)
    """Envelopes that are JSON objects with outputs in them."""
    trim_examples: tuple[TrimExample, ...] = ()
    """Texts before and after the removal of needless parts, which the tests check."""
    examples: tuple[EnvelopeExample, ...] = ()
    """Texts with their outputs, which the tests check."""


class ToolExample(Strict, frozen=True):
    """A tool with its expected category."""

    tool: str
    """The name of the tool, as the agent spells it."""
    category: Category
    arguments: dict[str, Any] | str | None = None
    """The arguments of the call, if the category depends on them."""


class ToolRules(Strict, frozen=True):
    """`tools.yaml`."""

    agents: dict[str, dict[Category, tuple[str, ...]]] = field(default_factory=dict)
    """Names of tools, by agent and category. A name has the same meaning for every agent that uses it."""
    mcp_prefixes: tuple[str, ...] = ()
    """Beginnings of the names of MCP tools. `mcp` is only for tools with such names."""
    mcp: tuple[GlobRule, ...] = ()
    """Rules for tools of MCP servers. The first rule that matches decides."""
    verbs: tuple[VerbRule, ...] = ()
    """Rules for tools that do several things. The first rule with a tool's name counts."""
    unknown: UnknownTools = field(default_factory=UnknownTools)
    """Rules for the categories of unknown tools, by their arguments."""
    families: dict[Category, str] = field(default_factory=dict)
    """The command families of outputs without a command line, by category."""
    numbered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The tools that write a mark after line numbers, by mark. Files may contain the same marks."""
    synonyms: dict[str, str] = field(default_factory=dict)
    """Other names for categories in `skip_tools`."""
    arguments: ToolArguments = field(default_factory=ToolArguments)
    """Arguments with the command and the file of a call."""
    code: CodeCalls = field(default_factory=CodeCalls)
    """Calls of tools in code that a model writes."""
    envelopes: Envelopes = field(default_factory=Envelopes)
    """The texts that agents write around the output of a command."""
    examples: tuple[ToolExample, ...] = ()
    """Tools with their categories, which the tests check."""
