"""This module parses command lines and finds the commands that made the output.

A command line is parsed into pipelines of simple commands and groups. Each pipeline is then reduced to the
command that shaped its output: the last command, apart from filters that only pass, cut or select lines.
Programs that only run another program (sudo, timeout, npx, docker exec, bash -c, ...) are removed. Commands
that print nothing are left out. The time is linear in the length of the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice

from msgspec import Struct, structs

from penumbra import rules
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.family_rules import prints
from penumbra.compress.calls.lexer import Lexer, Token, TokenKind
from penumbra.compress.calls.programs import effect, files, is_brief, is_silent, reading_rule, shell_rules
from penumbra.compress.calls.wrappers import unwrap
from penumbra.short_texts import forgettable

MAX_DEPTH = 8
"""The greatest depth of groups and nested command lines that are parsed."""
_MOST_FED = 16
"""The greatest number of commands in `Part.fed`."""
MAX_TOKENS = 5_000
"""At most this number of a command line's words and operators is parsed."""
_REMEMBERED = 64
"""The number of command lines whose commands are cached."""
_SHORT_LINE = 4_000
"""The length in characters of the longest command line whose commands are cached."""


class Part(Struct, frozen=True):
    """A `Part` is one command that printed something, without wrappers or options before a subcommand."""

    argv: tuple[str, ...]
    """The name of the program without its folder, and the arguments without their quotes."""
    cut: bool = False
    """True if the output shows only a range of the command's lines."""
    selected: bool = False
    """True if the lines passed a filter that omits or reorders lines."""
    echo: bool = False
    """True if the command prints its arguments, such as `echo`. Agents separate outputs in this way."""
    brief: bool = False
    """True if the command prints one or two lines."""
    read: bool = False
    """True if the command shows a file (see `programs.reading_rule`)."""
    numbers: bool = False
    """True if the command prints a line number before each line."""
    path: str = ""
    """The only file that the command reads; empty if the command reads no file or several files."""
    fed: tuple[tuple[str, ...], ...] = ()
    """The commands before this command in a pipe, if this command turns their output into other text."""


@dataclass(slots=True)
class _Simple:
    words: list[str] = field(default_factory=list)
    to_file: str = ""


@dataclass(slots=True)
class _Group:
    pipelines: list[list[_Simple | _Group]] = field(default_factory=list)
    to_file: str = ""


_Node = _Simple | _Group
_OPENERS = {
    "{": "}",
    "if": "fi",
    "for": "done",
    "while": "done",
    "until": "done",
    "select": "done",
    "case": "esac",
}
_SKIPPED = {"then", "else", "elif", "do", "!", "coproc"}
_TERMINALS = {"/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/fd/1", "/dev/fd/2"}


def parse(line: str, depth: int = 0) -> tuple[Part, ...]:
    """Return the commands of `line` whose output is shown, in order. Commands such as `echo` are included.
    `depth` is the number of command lines in which `line` is nested."""
    return _remembered(line) if not depth and len(line) <= _SHORT_LINE else _parse(line, depth)


def _parse(line: str, depth: int = 0) -> tuple[Part, ...]:
    if depth > MAX_DEPTH:
        return ()
    parser = _Parser(list(islice(Lexer(line).tokens(), MAX_TOKENS)))
    return tuple(_Resolver(depth).of_pipelines(parser.pipelines(None, 0)))


_remembered = rules.until_changed(forgettable(_REMEMBERED)(_parse))
"""This function is `_parse` with a cache."""


def parse_argv(argv: Sequence[str]) -> tuple[Part, ...]:
    """Return the parts of an argument vector, which no shell reads."""
    return tuple(_Resolver(0).of_node(_Simple(list(argv))))


class _Parser:
    """A `_Parser` builds pipelines from tokens. A `)` without `(` is dropped. Other closing words without an
    opening word count as commands. An open group is closed at the end."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def pipelines(self, closer: str | None, depth: int) -> list[list[_Node]]:
        pipelines: list[list[_Node]] = []
        current: list[_Node] = []
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind is TokenKind.OPERATOR and token.text in ("|", "|&"):
                self._at += 1
                while self._peek("\n"):
                    self._at += 1
                continue
            if self._closes(token, closer):
                self._at += 1
                break
            if token.kind is TokenKind.OPERATOR and token.text != "(":
                self._at += 1
                if not (closer == "esac" and token.text == ")"):
                    pipelines.append(current)
                current = []
                continue
            node = self._command(token, depth)
            if node is not None:
                current.append(node)
        pipelines.append(current)
        return [pipeline for pipeline in pipelines if pipeline]

    def _peek(self, operator: str) -> bool:
        if self._at >= len(self._tokens):
            return False
        token = self._tokens[self._at]
        return token.kind is TokenKind.OPERATOR and token.text == operator

    def _closes(self, token: Token, closer: str | None) -> bool:
        if closer is None or token.text != closer or token.quoted:
            return False
        return token.kind is (TokenKind.OPERATOR if closer == ")" else TokenKind.WORD)

    def _command(self, token: Token, depth: int) -> _Node | None:
        if token.text == "(" and token.kind is TokenKind.OPERATOR:
            return self._group(")", depth)
        if token.kind is TokenKind.WORD and not token.quoted:
            if token.text in _SKIPPED:
                self._at += 1
                return None
            if token.text in _OPENERS:
                if token.text in ("for", "select", "case"):
                    self._skip_head(token.text == "case")
                return self._group(_OPENERS[token.text], depth)
        simple = self._simple()
        if len(simple.words) == 1 and self._peek("("):
            self._at += 1
            if self._peek(")"):
                self._at += 1
                self._skip_function(depth)
                return None
        return simple

    def _group(self, closer: str, depth: int) -> _Group:
        self._at += 1
        group = _Group(self.pipelines(closer, depth + 1) if depth < MAX_DEPTH else [])
        while self._at < len(self._tokens) and self._tokens[self._at].kind is TokenKind.REDIRECT:
            group.to_file = _to_file(self._tokens[self._at]) or group.to_file
            self._at += 1
        return group

    def _skip_head(self, case: bool) -> None:
        """Move to the last token before the body of `for ... do` or `case ... in`."""
        while self._at + 1 < len(self._tokens):
            following = self._tokens[self._at + 1]
            if following.kind is TokenKind.OPERATOR and following.text in (";", "\n"):
                return
            if following.kind is TokenKind.WORD and following.text == "do":
                return
            self._at += 1
            if case and following.text == "in":
                return

    def _skip_function(self, depth: int) -> None:
        while self._peek("\n"):
            self._at += 1
        if self._at < len(self._tokens) and self._tokens[self._at].text == "{":
            self._group("}", depth)

    def _simple(self) -> _Simple:
        simple = _Simple()
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if token.kind is TokenKind.OPERATOR:
                break
            if token.kind is TokenKind.REDIRECT:
                simple.to_file = _to_file(token) or simple.to_file
            else:
                simple.words.append(token.text)
            self._at += 1
        return simple


def _to_file(token: Token) -> str:
    """Return the file that gets the output by a redirect; empty if the agent gets the output."""
    if token.text != "1>" or token.target.startswith("&") or token.target in _TERMINALS:
        return ""
    return token.target or "?"


class _Resolver:
    """A `_Resolver` reduces pipelines to the parts that printed something."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._written: dict[str, Part] = {}
        """The command that wrote a file, by the file. A later command of the same line may show the file."""

    def of_pipelines(self, pipelines: list[list[_Node]]) -> list[Part]:
        """Return the parts of a list of pipelines, in order."""
        return [part for pipeline in pipelines for part in self._of_pipeline(pipeline)]

    def _of_pipeline(self, pipeline: list[_Node]) -> list[Part]:
        parts = self.of_node(pipeline[0])
        for node in pipeline[1:]:
            filtered = _filtered(parts, node) if parts and isinstance(node, _Simple) else None
            parts = _fed(self.of_node(node), parts) if filtered is None else filtered
        last = pipeline[-1]
        if not last.to_file:
            return parts
        if len(parts) == 1:
            self._written[last.to_file] = parts[0]
        return []

    def of_node(self, node: _Node) -> list[Part]:
        """Return the parts of one command or group. The caller handles the node's redirects."""
        if isinstance(node, _Group):
            if self._depth >= MAX_DEPTH:
                return []
            self._depth += 1
            parts = self.of_pipelines(node.pipelines)
            self._depth -= 1
            return parts
        argv, script = unwrap(tuple(node.words))
        inner = _run_for_each(argv)
        if inner:
            return [structs.replace(part, path="") for part in self.of_node(_Simple(inner))]
        if script is not None:
            return list(parse(script, self._depth + 1))
        if not argv or is_silent(argv):
            return []
        if argv[0] in shell_rules().echoes:
            return [Part(argv, echo=True)]
        rule = reading_rule(argv)
        read = [] if rule is None else files(argv, rule)
        written = self._written.get(read[0]) if len(read) == 1 else None
        # If a command wrote names to the file, the part that shows the file is kept. Lines of names may be
        # joined, but lines of files never.
        if rule is not None and written is not None and prints(family_of(written.argv)) != "names":
            return [structs.replace(written, cut=written.cut or not rule.whole)]
        is_fed_names = not set(node.words).isdisjoint(shell_rules().each_line)
        is_read = bool(read) or (rule is not None and (is_fed_names or rule.always))
        path = read[0] if len(read) == 1 else ""
        numbers = rule is not None and rule.numbers
        return [Part(argv, brief=is_brief(argv), read=is_read, numbers=numbers, path=path)]


def _run_for_each(argv: tuple[str, ...]) -> list[str]:
    """Return the command that a search runs for each file; empty if the search runs no command."""
    for option in shell_rules().each_file.get(argv[0], ()) if argv else ():
        if option in argv:
            command = argv[argv.index(option) + 1 :]
            end = next((at for at, word in enumerate(command) if word in (";", "\\;", "+")), len(command))
            return [word for word in command[:end] if word != "{}"] + ["{}"]
    return []


def _fed(parts: list[Part], by: list[Part]) -> list[Part]:
    if len(parts) == 1 and parts[0].numbers and not parts[0].read and by and all(part.read for part in by):
        return [structs.replace(part, numbers=True) for part in by]
    fed = tuple(argv for part in by for argv in (part.argv, *part.fed))[:_MOST_FED]
    return [structs.replace(part, fed=fed) for part in parts] if fed else parts


def _filtered(parts: list[Part], node: _Simple) -> list[Part] | None:
    """Return the parts with the effect of a filter; None if `node` is not only a filter."""
    if not set(node.words).isdisjoint(shell_rules().each_line):
        return None
    does = effect(unwrap(tuple(node.words))[0])
    if does == "through":
        return parts
    if does == "cut":
        return [structs.replace(part, cut=True) for part in parts]
    if does == "select":
        return [structs.replace(part, selected=True) for part in parts]
    return None
