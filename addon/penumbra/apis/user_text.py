"""This module finds tool results in texts of the user. The rules are in `rules/user_results.yaml`.

If a text consists only of results, and the model's last message asks for them, they are treated like all
other results. Results in other texts are searched for secrets, but not shortened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, auto
from functools import cache
from typing import Any

import re2
from msgspec import Raw, Struct

from penumbra import rules
from penumbra.linear import LinearText, without_surrogates
from penumbra.wire.document import Document
from penumbra.wire.json_values import NotJson, decode, encode

_ANSWERED = ("assistant", "model")
_TEXTS = (None, "text", "input_text", "output_text")
_MOST_CHARACTERS = 100_000
"""The number of characters at the end of the model's message that are read."""
_COMMAND = "<bash-input>"
"""The text before a command that the user ran."""
_MOST = 64
"""The greatest number of results in one text that are shortened separately."""


class Passage(Struct, frozen=True):
    """A `Passage` is a part of a string that is a result or may contain results."""

    value: Raw
    start: int
    end: int
    """`start` and `end` are offsets in the string."""
    turn: int
    certain: bool
    """True if the text has only results, the call of this result is known, and the model asked for the result
    in the message before."""
    tool: str = ""
    command: str = ""
    written: str = ""
    """The arguments of the call that the result answers, as JSON; empty if unknown."""

    def arguments(self) -> str | None:
        """Return the arguments of the passage's call as JSON; None if unknown."""
        if self.written:
            return self.written
        return encode({"command": self.command}).decode("utf-8") if self.command else None


class _Rule(Struct, frozen=True):
    needs: str
    opens: Any
    closes: Any
    after: str
    calls: Any
    only_next: bool


@cache
def _rules() -> tuple[tuple[_Rule, ...], Any]:
    known = rules.load("user_results.yaml")
    found = tuple(
        _Rule(
            rule["needs"],
            LinearText(rule["opens"]),
            LinearText(rule["closes"]) if "closes" in rule else None,
            rule.get("after", ""),
            LinearText(rule["calls"]) if "calls" in rule else None,
            rule.get("only_next", False),
        )
        for rule in known["results"]
    )
    return found, LinearText(known["commands"])


@cache
def _transcripts() -> tuple[tuple[str, Any], ...]:
    """Return the rules of transcripts. Each rule has a pattern and a literal that every match contains."""
    known = rules.load("user_results.yaml")["transcripts"]
    return tuple((rule["needs"], LinearText(rule["shape"])) for rule in known)


def carries_transcript(texts: Iterable[str]) -> bool:
    """Return whether one of the texts of a message quotes earlier results of tools."""
    return any(need in text and shape.search(text) for text in texts for need, shape in _transcripts())


@cache
def _needed() -> tuple[str, ...]:
    """Return strings. Each text with results contains at least one of these strings."""
    return (_COMMAND, *(rule.needs for rule in _rules()[0]))


class Passages(Struct):
    """`Passages` finds the results in the user's texts of a conversation, message by message."""

    _before: Raw | None = None
    """The model's message directly before the next message; None if there is none."""
    _command: str = ""
    """The last command that the user ran."""

    def copy(self) -> Passages:
        return Passages(self._before, self._command)

    def add(self, document: Document, message: Raw, turn: int) -> list[Passage]:
        """Read the next message, and return the results in it, in order."""
        match _kind_of(document, message):
            case _MessageKind.BY_MODEL:
                self._before = message
            case _MessageKind.WORDS:
                self._before = None
            case _MessageKind.RESULTS:
                texts = [(text, document.text_of(text)) for text in _texts(document, message)]
                reader = _Reader(document, self._before, turn, self._command)
                passages = list(reader.read(texts))
                self._command, self._before = reader.command, None
                return passages
        return []


class _MessageKind(Enum):
    NOTHING = auto()
    BY_MODEL = auto()
    WORDS = auto()
    RESULTS = auto()
    """The user's text may contain results, or a command that the user ran."""


def _kind_of(document: Document, message: Raw) -> _MessageKind:
    role = document.string(document.members(message).get("role"))
    if role in _ANSWERED:
        return _MessageKind.BY_MODEL
    if role not in (None, "user"):
        return _MessageKind.NOTHING
    texts = [document.text_of(one) for one in _texts(document, message)]
    if any(need in text for text in texts for need in _needed()):
        return _MessageKind.RESULTS
    return _MessageKind.WORDS if texts else _MessageKind.NOTHING


def _texts(document: Document, message: Raw) -> list[Raw]:
    members = document.members(message)
    content = members.get("content", members.get("parts")) if members else message
    if content is not None and document.is_string(content):
        return [content]
    blocks = [document.members(entry) for entry in document.listed(content) if document.is_filled(entry)]
    texts = [block.get("text") for block in blocks if document.string(block.get("type")) in _TEXTS]
    return [text for text in texts if text is not None and document.is_string(text)]


class _Reader(Struct):
    document: Document
    before: Raw | None
    """The model's message before the user's message."""
    turn: int
    command: str
    """The last command that the user ran."""

    def read(self, texts: list[tuple[Raw, str]]) -> Iterator[Passage]:
        known, commands = _rules()
        waiting: tuple[_Rule, Any] | None = None
        for value, text in texts:
            if waiting is not None and text:
                yield self._passage(value, 0, len(text), *waiting, number=(0, 1))
                waiting = None
                continue
            if _COMMAND in text and (ran := commands.search(text)):
                self.command = ran[1]
            fits = ((rule, rule.opens.search(text)) for rule in known if rule.needs in text)
            fitting = next(((rule, head) for rule, head in fits if head), None)
            if fitting is None:
                continue
            rule, head = fitting
            if rule.only_next and head.end() == len(text):
                waiting = (rule, head)
                continue
            yield from self._within(value, text, rule, head)

    def _within(self, value: Raw, text: str, rule: _Rule, head: Any) -> Iterator[Passage]:
        exact = list(_exact(text, rule, head))
        if exact:
            for index, (start, end, one) in enumerate(exact):
                yield self._passage(value, start, end, rule, one, number=(index, len(exact)))
            return
        end = len(text)
        if rule.closes is not None:
            # The last closing mark ends the result, because earlier marks may be part of a tool's output.
            end = max((close.start() for close in rule.closes.finditer(text, head.end())), default=end)
            if rule.opens.search(text, end):
                end = len(text)
        yield self._passage(value, head.end(), end, rule, head)

    def _passage(
        self, value: Raw, start: int, end: int, rule: _Rule, head: Any, number: tuple[int, int] | None = None
    ) -> Passage:
        """Return a passage. If the text has only results, `number` has the index of the result and the number
        of results; otherwise `number` is None."""
        groups = head.groupdict()
        tool, command = groups.get("tool") or "", groups.get("command") or ""
        written = ""
        if number is not None and rule.calls is not None:
            tool, command, written = self._call(rule, *number)
        # Without a known call, the result is not certain: the model may quote it later.
        certain = number is not None and bool(tool or command) and self._asked(rule, tool)
        return Passage(value, start, end, self.turn, certain, tool, command or self.command, written)

    def _asked(self, rule: _Rule, tool: str) -> bool:
        """Return whether the model's message before this one asks for a result of this kind."""
        if not rule.after:
            return False
        pattern = rule.after.replace("{tool}", re2.escape(without_surrogates(tool)))
        return LinearText(pattern).search(self._words_before()) is not None

    def _call(self, rule: _Rule, index: int, count: int) -> tuple[str, str, str]:
        """Return the call that a result answers: tool, command, and arguments as JSON. Unknown values are
        empty."""
        calls = [match[1] for match in rule.calls.finditer(self._words_before())]
        if len(calls) != count:
            return "", "", ""
        try:
            call = decode(calls[index].encode("utf-8", "surrogatepass"))
        except NotJson:
            return "", calls[index], ""
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return "", "", ""
        return call["name"], "", encode(call.get("arguments", {})).decode("utf-8")

    def _words_before(self) -> str:
        if self.before is None:
            return ""
        texts = (self.document.text_of(text) for text in _texts(self.document, self.before))
        return "\n".join(texts)[-_MOST_CHARACTERS:]


def _exact(text: str, rule: _Rule, head: Any) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, head) of each result, if the text has only results."""
    if rule.closes is None or (rule.only_next and not rule.closes.search(text, head.end())):
        if head.start() == 0 and not rule.opens.search(text, head.end()):
            yield head.end(), len(text), head
        return
    found: list[tuple[int, int, Any]] = []
    at = 0
    while (one := rule.opens.match(text, at)) is not None and len(found) < _MOST:
        close = rule.closes.search(text, one.end())
        if close is None:
            break
        found.append((one.end(), close.start(), one))
        at = close.end() + len(text[close.end() :]) - len(text[close.end() :].lstrip())
    if at == len(text):
        yield from found
