"""This module classifies tool calls: category, command, family and path."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct

from penumbra import rules
from penumbra.compress.calls import log_files, unknown_tools
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.programs import shell_rules
from penumbra.compress.calls.shell import Part, parse, parse_argv
from penumbra.compress.calls.tools import category, first_of, tool_rules, verb
from penumbra.short_texts import forgettable

MAX_LINE = 200_000
"""A command line with more characters is not parsed. A command that is a list of words may be longer."""
_REMEMBERED = 512
"""The greatest number of command lines whose calls are cached."""
_QUOTED = frozenset({"read", "edit", "write"})
_NUMBER = re.compile(r"[0-9]{1,8}")
_FROM = re.compile(r"([0-9]{1,8})(?:,[0-9$]{1,8})?p|\+([0-9]{1,8})")
"""The argument of `sed` or `tail` that has the first line, such as `20,40p` or `+20`."""
_SHORT_NUMBERS = 40
"""An argument with fewer characters may name lines, such as `120-180`."""
_STRING = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_SHORT_LINE = 4_000
"""The length in characters of the longest command line whose call is cached."""
_EXIT_CODES = ("$?", "PIPESTATUS", "pipestatus", "LASTEXITCODE", "ERRORLEVEL", "errorlevel")
"""The variables in which shells have the exit code of the last command."""


class Call(Struct, frozen=True, dict=True):
    """A `Call` is the classification of one tool call."""

    category: str = "other"
    """A category of `tools.CATEGORIES`. Shell calls that show or edit files are `read` or `edit`."""
    command: tuple[str, ...] = ()
    """Program and arguments of the last of the `printing_parts`, without wrappers; empty if unknown."""
    family: str = ""
    """The command family (rules/commands); empty if there is none, or several, or the call shows files."""
    path: str = ""
    """The file that the call read or edited, or the folder that it searched; empty if unknown."""
    mixed: bool = False
    """True if several commands without a common family wrote the output, and not all of them show files."""
    shell: bool = False
    """True if the call ran a command line."""
    cut: bool = False
    """True if the output has only a range of a command's lines (`| tail -50`)."""
    selected: bool = False
    """True if a command's lines passed a filter (`| grep x`, `| sort`)."""
    parts: tuple[Part, ...] = ()
    """The commands that print something, in order, including `echo`."""
    numbers: frozenset[int] = frozenset()
    """The whole numbers among the arguments of a read. One of them may be the first line's number."""
    signs: frozenset[str] = frozenset()
    """The signs that the tool writes after line numbers."""
    line: str = ""
    """The command line, for display."""

    @cached_property
    def is_quoted(self) -> bool:
        """True for reads, edits and writes, except for reads of files that nobody edits."""
        return self.category in _QUOTED and not self._shows(log_files.is_unedited)

    @cached_property
    def may_show_json(self) -> bool:
        """True if the call may show a file, and a name of these files does not exclude that it is JSON."""
        documents = _json_documents()
        return (self.category == "read" or (self.category == "other" and bool(self.path))) and any(
            not path or documents.search(path) is not None for path in self._paths
        )

    @cached_property
    def shows_data(self) -> bool:
        """True if the call reads only files that programs write, such as logs and data."""
        return self._shows(log_files.is_data)

    def _shows(self, is_one: Callable[[str], bool]) -> bool:
        """True if the call reads files and `is_one` returns True for each path."""
        return self.category == "read" and all(map(is_one, self._paths))

    @property
    def _paths(self) -> list[str]:
        """The paths of the files that the call shows; an empty path for an unknown one."""
        return [part.path for part in printing_parts(self.parts) if part.read] or [self.path]

    @cached_property
    def shows_files(self) -> bool:
        """True if `is_quoted`, and all `printing_parts` show files."""
        return self.is_quoted and all(part.read for part in printing_parts(self.parts))

    @cached_property
    def is_beside_files(self) -> bool:
        """True if `is_quoted`, but not `shows_files`."""
        return self.is_quoted and not self.shows_files

    def of(self, parts: Iterable[Part]) -> Call:
        """Return the classification of a shell call with only these parts."""
        return _call("bash", tuple(parts), self.line)

    @cached_property
    def first_line(self) -> int:
        """The number in its file of the first line that a command shows; 0 if unknown."""
        printing = printing_parts(self.parts)
        if len(printing) != 1 or not printing[0].read or not printing[0].path:
            return 0
        part = printing[0]
        if part.cut or part.selected:
            return 0
        if part.argv[0] in ("cat", "head"):
            return 1
        asked = [match for word in part.argv[1:] if (match := _FROM.fullmatch(word))]
        return int(asked[0][1] or asked[0][2]) if len(asked) == 1 else 0

    @cached_property
    def asks_exit_code(self) -> bool:
        """True if the command line contains a variable with an exit code, which it may print."""
        return any(name in self.line for name in _EXIT_CODES)

    @cached_property
    def is_coloured(self) -> bool:
        """True if an option, such as `--color-words`, makes colours say what the text does not."""
        options = shell_rules().coloured
        return any(word.startswith(options) for part in self.parts for word in part.argv[1:])

    @cached_property
    def is_numbered(self) -> bool:
        """True if numbers before the result's lines count as line numbers."""
        if self.shell:
            return self.category == "edit" or any(part.numbers for part in self.parts)
        return self.category in _QUOTED


@rules.cached
def _json_documents() -> re.Pattern[str]:
    return re.compile(tool_rules().envelopes.json.documents or r"(?!)")


def classify(tool: str, arguments: Any) -> Call:
    """Return the classification of a call. `arguments` are a dict, a str for freeform tools, or None."""
    members: Mapping[str, Any] = arguments if isinstance(arguments, Mapping) else {}
    if isinstance(members.get("action"), Mapping):
        members = members["action"]
    kind = verb(tool, members) or category(tool)
    if kind == "other":
        kind = unknown_tools.category(tool, members)
    keys = tool_rules().arguments
    command = first_of(members, keys.command)
    if isinstance(arguments, str) and kind == "bash":
        command = arguments
    runs = kind == "bash" or (kind == "other" and first_of(members, keys.command_of_any_tool) is not None)
    if runs and command is not None:
        call = _shell_call(kind, command)
        if call is not None:
            return call
    path = first_of(members, keys.path)
    if isinstance(path, list):
        path = path[0] if len(path) == 1 and isinstance(path[0], str) else ""
    if path is None and kind in ("read", "other"):
        path = _only_file(members)
    numbers = frozenset(_numbers(members)) if kind == "read" else frozenset[int]()
    signs = frozenset(sign for sign, tools in tool_rules().numbered.items() if tool in tools)
    family = tool_rules().families.get(kind, "")
    return Call(category=kind, family=family, path=path or "", numbers=numbers, signs=signs)


_FILE = re.compile(
    r"(?![^/\\]*@[^/\\]*\Z)(?:file://)?((?:[A-Za-z]:)?[^:?*\s]{0,400}[^/\\:?*\s]\.[A-Za-z]\w{0,9})"
)


def _only_file(members: Mapping[str, Any]) -> str:
    """Return the path of the only argument that looks like a file; empty without such an argument."""
    files = [
        found[1] for text in members.values() if isinstance(text, str) and (found := _FILE.fullmatch(text))
    ]
    return files[0] if len(files) == 1 else ""


def _numbers(members: Mapping[str, Any]) -> Iterator[int]:
    for value in members.values():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, int | str) and len(str(part)) < _SHORT_NUMBERS:
                yield from map(int, _NUMBER.findall(str(part)))


def _shell_call(kind: str, command: str | list[Any]) -> Call | None:
    if isinstance(command, list):
        words = [word for word in command if isinstance(word, str)]
        if not words:
            return None
        line = "\n".join(words) if _are_lines(words) else ""
        parts = parse(line) if line else parse_argv(words)
        return _call(kind, parts, line or " ".join(words))
    if len(command) > MAX_LINE:
        return Call(category=kind, shell=True, line=command)
    return _remembered(kind, command) if len(command) <= _SHORT_LINE else _line_call(kind, command)


def _line_call(kind: str, command: str) -> Call:
    code = _command_lines(command)
    if code:
        return _call(kind, tuple(part for line in code for part in parse(line)), "\n".join(code))
    return _call(kind, parse(command), command)


_remembered = rules.until_changed(forgettable(_REMEMBERED)(_line_call))


@rules.cached
def _code_patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return two patterns: for a call that runs a command line, and for its member with that line."""
    code = tool_rules().code
    calls, members = ("|".join(map(re.escape, names)) for names in (code.calls, code.members))
    return (re.compile(rf"\b(?:{calls})\s*\("), re.compile(rf"[\"']?\b(?:{members})[\"']?\s*:\s*(?=[\"'`])"))


def _command_lines(source: str) -> list[str]:
    """Return the command lines in JavaScript that calls `tools.exec_command({cmd: "..."})`; empty for other
    texts."""
    call, member = _code_patterns()
    if f"{tool_rules().code.object}." not in source or not call.search(source):
        return []
    return list(_string_values(source, member.finditer(source)))


def _string_values(source: str, members: Iterable[re.Match[str]]) -> Iterator[str]:
    end = 0
    for member in members:
        if member.start() < end:
            continue
        literal = _STRING.match(source, member.end())
        if literal:
            end = literal.end()
            text = next(group for group in literal.groups() if group is not None)
            yield _ESCAPE.sub(lambda escape: _CONTROLS.get(escape.group(1), escape.group(1)), text)


def _are_lines(words: list[str]) -> bool:
    """Return True for a list of command lines, and False for an argument vector."""
    return " " in words[0].strip() or (len(words) == 1 and "\n" in words[0])


def printing_parts(parts: Iterable[Part]) -> list[Part]:
    """Return the parts without echoes. If any other part is not brief, leave out the brief parts, too."""
    own = [part for part in parts if not part.echo]
    return [part for part in own if not part.brief] or own


def _call(kind: str, parts: tuple[Part, ...], line: str) -> Call:
    printing = printing_parts(parts) or list(parts[:1])
    if not printing:
        return Call(category=kind, shell=True, line=line)
    names = [family_of(part.argv) for part in printing]
    same = len(printing) == 1 or (len(set(names)) == 1 and names[0] != "")
    read = [part.read for part in printing]
    reads, last = all(read), printing[-1]
    if any(read):
        kind = "read"
    elif printing[0].argv[0] in shell_rules().edits:
        kind = "edit"
    return Call(
        category=kind,
        command=last.argv,
        family=names[0] if same and not reads else "",
        path=last.path if len(printing) == 1 else "",
        mixed=not same and not reads,
        shell=True,
        cut=any(part.cut for part in printing),
        selected=any(part.selected for part in printing),
        parts=parts,
        line=line,
    )
