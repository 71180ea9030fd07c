"""This module has a lexer of shell source.

The lexer knows the quoting, redirects, here-documents, comments and nested substitutions of POSIX shells and
bash. If a shell would refuse the text (an open quote, a stray parenthesis), the lexer still yields tokens.
The time is linear in the length of the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import NamedTuple


class TokenKind(Enum):
    WORD = auto()
    OPERATOR = auto()
    """`&&`, `||`, `|&`, `;;`, `;&`, `;;&`, `;`, `|`, `&`, `(`, `)` or a newline."""
    REDIRECT = auto()
    """A redirect. `text` is `1>`, `2>` or `<`. `target` is the next word, with `&` before a file descriptor;
    empty without a word."""


class Token(NamedTuple):
    """A `Token` is one token of a command line."""

    kind: TokenKind
    text: str
    target: str = ""
    quoted: bool = False
    """True if the word contains quotes. A quoted word is no reserved word."""


_PLAIN = re.compile(r"[^\s'\"\\$`;&|<>()#]+")
_PLAIN_WORD = re.compile(r"[ \t\r]*+([^\s'\"\\$`;&|<>()#]++)(?=[ \t\n;|&)]|\Z)")
"""A whole word with the blanks before the word. A word directly before `<` or `>` does not match, because the
word may be the number of a file descriptor."""
_BLANK = re.compile(r"[ \t\r]+|\\\r?\n")
_COMMENT = re.compile(r"[^\n]*")
_REDIRECT = re.compile(r"(\d*|&)(<<<|<<-|<<|<>|<&|>>|>\||>&|>|<)")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;|&()\n]")
_SINGLE = re.compile(r"[^']*")
_DOUBLE = re.compile(r"[^\"\\$`]+")
_NESTED = re.compile(r"[^\"'\\$`()<\n#]+")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b"}


class Lexer:
    """A `Lexer` yields the tokens of one command line."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._heredocs: list[tuple[str, bool]] = []

    def tokens(self) -> Iterator[Token]:
        """Yield all tokens in order. Bodies of here-documents are left out."""
        source = self._source
        while self._at < len(source):
            plain = _PLAIN_WORD.match(source, self._at)
            if plain:
                self._at = plain.end()
                yield Token(TokenKind.WORD, plain[1])
                continue
            blank = _BLANK.match(source, self._at)
            if blank:
                self._at = blank.end()
                continue
            if source[self._at] == "#":
                self._at = _end(_COMMENT, source, self._at)
                continue
            redirect = _REDIRECT.match(source, self._at)
            if redirect and not self._process_substitution(redirect):
                yield self._redirect(redirect)
                continue
            operator = _OPERATOR.match(source, self._at)
            if operator:
                self._at = operator.end()
                if operator.group() == "\n":
                    self._skip_heredocs()
                yield Token(TokenKind.OPERATOR, operator.group())
                continue
            yield self._word()

    def _process_substitution(self, redirect: re.Match[str]) -> bool:
        return redirect.group(2) in ("<", ">") and self._source.startswith("(", redirect.end())

    def _redirect(self, match: re.Match[str]) -> Token:
        descriptor, operator = match.group(1), match.group(2)
        self._at = match.end()
        blank = re.compile(r"[ \t]+").match(self._source, self._at)
        if blank:
            self._at = blank.end()
        target = ""
        if self._at < len(self._source) and not _OPERATOR.match(self._source, self._at):
            target = self._word().text
        elif operator == ">&" or operator == "<&" or self._source.startswith("&", self._at):
            target = ""
        if operator in ("<<", "<<-"):
            self._heredocs.append((target, operator == "<<-"))
        if operator.startswith("<") and operator != "<>":
            return Token(TokenKind.REDIRECT, "<", target)
        if operator == ">&" and target.rstrip("-").isdigit():
            target = "&" + target
        return Token(TokenKind.REDIRECT, ("2" if descriptor == "2" else "1") + ">", target)

    def _skip_heredocs(self) -> None:
        for delimiter, tabs in self._heredocs:
            self._at = _after_heredoc(self._source, self._at, delimiter, tabs)
        self._heredocs.clear()

    def _word(self) -> Token:
        source, pieces, quoted = self._source, [], False
        start = self._at
        while self._at < len(source):
            char = source[self._at]
            plain = _PLAIN.match(source, self._at)
            if plain:
                pieces.append(plain.group())
                self._at = plain.end()
            elif char == "#" and self._at > start:
                pieces.append(char)
                self._at += 1
            elif char in "'\"" or source.startswith(("$'", '$"'), self._at):
                quoted = True
                pieces.append(self._quotes())
            elif char == "\\":
                if source[self._at + 1 : self._at + 2] != "\n":
                    pieces.append(source[self._at + 1 : self._at + 2])
                self._at += 2
            elif char in "$`" or source.startswith(("<(", ">("), self._at):
                pieces.append(self._substitution())
            else:
                break
        if self._at == start:
            self._at += 1
        return Token(TokenKind.WORD, "".join(pieces), quoted=quoted)

    def _quotes(self) -> str:
        source = self._source
        if source[self._at] == "'":
            end = _end(_SINGLE, source, self._at + 1)
            text = source[self._at + 1 : end]
            self._at = end + 1
            return text
        if source.startswith("$'", self._at):
            return self._ansi_quotes()
        self._at += 2 if source[self._at] == "$" else 1
        pieces: list[str] = []
        while self._at < len(source):
            char = source[self._at]
            if char == '"':
                self._at += 1
                break
            if char == "\\":
                escaped = source[self._at + 1 : self._at + 2]
                pieces.append(escaped if escaped in '"\\$`' else "" if escaped == "\n" else "\\" + escaped)
                self._at += 2
            elif char in "$`":
                pieces.append(self._substitution())
            else:
                end = _end(_DOUBLE, source, self._at)
                pieces.append(source[self._at : end])
                self._at = end
        return "".join(pieces)

    def _ansi_quotes(self) -> str:
        source, pieces = self._source, []
        self._at += 2
        while self._at < len(source) and source[self._at] != "'":
            if source[self._at] == "\\":
                escaped = source[self._at + 1 : self._at + 2]
                pieces.append(_ESCAPES.get(escaped, escaped))
                self._at += 2
            else:
                pieces.append(source[self._at])
                self._at += 1
        self._at += 1
        return "".join(pieces)

    def _substitution(self) -> str:
        """Return the source of `$(...)`, `${...}`, backticks, `<(...)` or a lone `$`."""
        start, source = self._at, self._source
        if source.startswith(("$(", "<(", ">("), start):
            self._at = after_parenthesis(source, start + 2)
        elif source.startswith("${", start):
            end = source.find("}", start)
            self._at = len(source) if end < 0 else end + 1
        elif source[start] == "`":
            end = source.find("`", start + 1)
            self._at = len(source) if end < 0 else end + 1
        else:
            self._at = start + 1
        return source[start : self._at]


def after_parenthesis(source: str, at: int) -> int:
    """Return the position after a command substitution. Its content starts at `at`."""
    stack, heredocs = ["("], list[tuple[str, bool]]()
    while at < len(source) and stack:
        char, inside = source[at], stack[-1]
        if char == "\\":
            at += 2
        elif char == '"':
            at += 1
            if inside == '"':
                stack.pop()
            else:
                stack.append('"')
        elif source.startswith("$(", at):
            stack.append("(")
            at += 2
        elif inside == '"':
            at = max(_end(_DOUBLE, source, at), at + 1)
        elif char == "'":
            at = _end(_SINGLE, source, at + 1) + 1
        elif char in "()":
            at += 1
            if char == ")":
                stack.pop()
            else:
                stack.append("(")
        elif char == "#" and source[at - 1] in " \t\n;":
            at = _end(_COMMENT, source, at)
        elif char == "\n":
            at += 1
            for delimiter, tabs in heredocs:
                at = _after_heredoc(source, at, delimiter, tabs)
            heredocs.clear()
        elif source.startswith("<<", at) and not source.startswith("<<<", at):
            at = _heredoc_start(source, at, heredocs)
        else:
            at = max(_end(_NESTED, source, at), at + 1)
    return min(at, len(source))


_DELIMITER = re.compile(r"<<(-?)[ \t]*\\?(?:'([^'\n]*)'|\"([^\"\n]*)\"|([\w.-]+))")


def _heredoc_start(source: str, at: int, heredocs: list[tuple[str, bool]]) -> int:
    match = _DELIMITER.match(source, at)
    if not match:
        return at + 2
    heredocs.append((match.group(2) or match.group(3) or match.group(4) or "", bool(match.group(1))))
    return match.end()


def _after_heredoc(source: str, at: int, delimiter: str, tabs: bool) -> int:
    while at < len(source):
        end = source.find("\n", at)
        end = len(source) if end < 0 else end
        line = source[at:end].rstrip("\r")
        at = min(end + 1, len(source))
        if (line.lstrip("\t") if tabs else line) == delimiter:
            break
    return at


def _end(pattern: re.Pattern[str], source: str, at: int) -> int:
    match = pattern.match(source, at)
    return match.end() if match else at
