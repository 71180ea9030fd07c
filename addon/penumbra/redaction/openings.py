"""How all that a pattern of RE2 matches begins, as a pattern of Python's `re`.

A short look of `re` costs a fraction of one of RE2, and nearly all places where a rule is tried fail it. RE2
needs no bounds to be linear; `re` does. So an opening ends where its pattern repeats something without a
bound, or for the third time within a wide one, or says what both read differently.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(r"\\(?:[dwDWnrtfv]|[^A-Za-z0-9])")
_CLASS = re.compile(r"\[\^?(?:\\[dwsnrtfv]|\\[^A-Za-z0-9]|[^\\\[\]])+\]")
_LITERAL = re.compile(r"[^\\\[\](){}.*+?|^$]|\.")
_REPEAT = re.compile(r"(?:([?*+])|\{([0-9]+)(,?)([0-9]*)\})(\??)")
_GROUP = re.compile(r"\((?:\?(i?):|(?!\?))")
_ANY_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
_SPACE = r" \t\n\f\r"
"""What `\\s` is to RE2; to `re`, there is one more."""
_IN_CLASS = re.compile(r"\\(.)")
_WIDE, _WIDEST, _MOST_WIDE, _MOST = 8, 128, 2, 8
"""Repeats: how many times more than at least are many, how many are too many, how often either may be."""
_LONGEST = 1_000
"""Characters: to compile what is longer takes more time than it saves."""


def opening(regex: str) -> str:
    """A pattern that matches, with flags of its own, wherever `regex` does, and begins where that does. Empty
    if there is none."""
    if not regex.isascii():
        return ""
    ignore = regex.startswith("(?i)")
    text = _Reading(regex, 4 * ignore).alternatives()[0]
    if len(text) > _LONGEST:
        return ""
    return f"(?i:{text})" if ignore and text else text


class _Reading:
    """One pass over a pattern."""

    def __init__(self, regex: str, at: int) -> None:
        self._regex = regex
        self._at = at
        self._wide = self._repeats = 0

    def alternatives(self) -> tuple[str, bool]:
        """What stands up to the end of a group, and whether it is there whole. Empty if it may be empty."""
        wide = self._wide
        texts: list[str] = []
        whole, most = True, wide
        while True:
            self._wide = wide
            text, complete = self._sequence()
            texts.append(text)
            whole, most = whole and complete, max(most, self._wide)
            if self._regex[self._at : self._at + 1] != "|":
                break
            self._at += 1
        self._wide = most
        if not whole and not all(texts):
            return "", False
        return "|".join(texts), whole

    def _sequence(self) -> tuple[str, bool]:
        pieces: list[str] = []
        while self._at < len(self._regex) and self._regex[self._at] not in "|)":
            piece, goes_on = self._item()
            pieces.append(piece)
            if not goes_on:
                self._skip()
                return "".join(pieces), False
        return "".join(pieces), True

    def _item(self) -> tuple[str, bool]:
        """The next part of a sequence as far as it is taken, and whether what follows may be, too."""
        if self._regex.startswith(("\\b", "\\B"), self._at):
            self._at += 2
            return "", True
        if group := _GROUP.match(self._regex, self._at):
            return self._group(group)
        atom = self._atom()
        if not atom:
            return "", False
        repeat = _REPEAT.match(self._regex, self._at)
        if repeat is None:
            return atom, True
        self._at = repeat.end()
        sign, least, comma, most, lazy = repeat.groups()
        if sign:
            return {"?": (f"{atom}?{lazy}", True), "+": (atom, False), "*": ("", False)}[sign]
        low, high = int(least), int(most or (0 if comma else least))
        self._wide += high - low > _WIDE
        self._repeats += high > low
        if high > _WIDEST or high < low or self._wide > _MOST_WIDE or self._repeats > _MOST:
            return f"{atom}{{{min(low, _WIDEST)}}}", False
        return f"{atom}{{{low},{high}}}{lazy}", True

    def _atom(self) -> str:
        for form in (_ESCAPE, _CLASS, _LITERAL):
            if atom := form.match(self._regex, self._at):
                self._at = atom.end()
                return _IN_CLASS.sub(_without_spaces, atom[0]) if form is _CLASS else atom[0]
        if self._regex[self._at : self._at + 2] in ("\\s", "\\S"):
            self._at += 2
            return f"[{'^' * (self._regex[self._at - 1] == 'S')}{_SPACE}]"
        return ""

    def _group(self, begin: re.Match[str]) -> tuple[str, bool]:
        self._at = begin.end()
        text, whole = self.alternatives()
        self._at += 1
        piece = f"(?{begin[1] or ''}:{text})"
        repeat = _REPEAT.match(self._regex, self._at)
        if repeat is None:
            return (piece, True) if whole else (piece if text else "", False)
        if repeat[1] == "?" and whole:
            self._at = repeat.end()
            return f"{piece}?{repeat[5]}", True
        # Repeated as a whole, it would no longer be bounded.
        return piece if text and repeat[1] not in ("?", "*") and repeat[2] != "0" else "", False

    def _skip(self) -> None:
        """To the end of the alternative."""
        depth = 0
        while piece := _ANY_PIECE.match(self._regex, self._at):
            if not depth and piece[0] in "|)":
                return
            depth += (piece[0] == "(") - (piece[0] == ")")
            self._at = piece.end()


def _without_spaces(escape: re.Match[str]) -> str:
    return _SPACE if escape[1] == "s" else escape[0]
