"""The facts of lines, rows and hits that no earlier text has: paths, names, ids and numbers.

A rare fact is lost with its line; a frequent one is likely to stand in another line that is kept. So the
worth of a unit is that of its facts which no kept unit shows yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from penumbra.compress.result import Told
from penumbra.compress.size import encode
from penumbra.short_texts import forgettable

NAME = re.compile(r"[^\W\d]\w{3,}")
"""A name that a conversation uses. Short words are too frequent to count."""
LONGEST = 200_000
"""Bytes of a text above which its lines are not compared."""
_FACT = re.compile(rb"[\w$@~\x80-\xff]+(?:[./:\\-]+[\w$@\x80-\xff]+)*|[/~][\w./-]+")
_TELLING = re.compile(rb"[0-9_$./\\:-]|[a-z][A-Z]|[A-Z]{3}")
"""Signs of a path, a name of a program or a number, and not of a word of a language."""
_APART = bytes(
    byte if byte > 0x7F or chr(byte).isalnum() or byte in b"_$@~./:\\-\n" else 0x20 for byte in range(256)
)
"""Translation table: characters that stand in no fact become blanks, and line ends stay. A text cut at its
blanks has each fact in one piece."""
_NAME = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]{3,}")
_SHORTEST, _LONG, _LONGEST = 3, 40, 200
"""Characters of the shortest fact, of one that weighs less since it is long, and of the longest."""
# The weights are chosen by hand: on one half of a set of recorded conversations they kept most of what was
# used later for the same bytes, and on the other half they did as well. `scripts/bench quality` shows what a
# change does.
_WORDS = 5
"""Factor of the value of a unit's words, which grows with the square root of its bytes."""
_WEIGHT = 100
"""The weight of a new fact that stands once."""
_SAID = 30
"""Per cent of its weight that a fact keeps if the conversation has all its names already."""
_TOLD = 20
"""The weight of a fact that an earlier result shows."""
_RARE = 20
"""Lines with a name of the conversation up to which these lines count as near the wanted ones."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of each unit of a text: its lines, or rows, or pieces of long lines."""

    units: Sequence[Sequence[bytes]]
    weights: Mapping[bytes, int]
    """The worth of each fact."""
    worth: Sequence[int]
    """The worth of each unit apart from its facts: of its words, and of names of the conversation near it."""

    @classmethod
    def of(
        cls,
        texts: Sequence[bytes],
        mentioned: Mapping[str, float],
        asked: Container[str] = (),
        told: Container[bytes] = (),
    ) -> Facts:
        """The facts of units. `mentioned`: the names used in the conversation before, with their weights.
        `asked`: the names that the call itself searches for, whose places are the answer. `told`: the facts
        that earlier results show."""
        units = _facts_in(texts)
        counts = Counter(chain.from_iterable(units))
        said = {name.encode("utf-8", "surrogatepass"): weight for name, weight in mentioned.items()}
        names = (
            [[name for name in dict.fromkeys(_NAME.findall(text)) if name in said] for text in texts]
            if said
            else []
        )
        lines = Counter(chain.from_iterable(names))
        worth = [int(len(text) ** 0.5 * _WORDS) for text in texts]
        for unit, near in enumerate(names):
            worth[unit] += _near(near, said, lines) if near else 0
        if asked:
            said = {
                name: weight for name, weight in said.items() if name.decode("utf-8", "replace") not in asked
            }
        weights = {
            fact: _weight(fact, count, said) * (_TOLD if fact in told else 100) // 100
            for fact, count in counts.items()
        }
        return cls(units, weights, worth)


def _facts_in(texts: Iterable[bytes]) -> list[list[bytes]]:
    """The facts of each text, each of them once."""
    units = [text.translate(_APART).split() for text in texts]
    facts = _facts_by_words({words for unit in units for words in unit})
    return [[*dict.fromkeys([fact for words in unit for fact in facts[words]])] for unit in units]


def share_new(text: str, told: Told, enough: float = 1.0) -> float:
    """The share of a text's characters that stand in lines with something new to the conversation; counting
    ends as soon as the share is `enough`."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    whole = sum(map(len, lines)) or 1
    data = encode("\n".join(lines)).translate(_APART)
    facts_of_words = _facts_by_words(set(data.split()))
    telling = {words for words, facts in facts_of_words.items() if facts}
    is_told = told.facts.__contains__
    untold = {words for words in telling if not all(map(is_told, facts_of_words[words]))}
    new = 0
    for line, line_words in zip(lines, map(bytes.split, data.split(b"\n")), strict=False):
        # Looking a line up takes longer than looking up its facts, and so comes last.
        tells_told = untold.isdisjoint(line_words) and not telling.isdisjoint(line_words)
        if not (tells_told or told.is_line(line)):
            new += len(line)
            if new >= enough * whole:
                break
    return new / whole


def facts_of(text: bytes) -> set[bytes]:
    """The facts in a text."""
    return set().union(*_facts_by_words(set(text.translate(_APART).split())).values())


def _facts_by_words(cut: set[bytes]) -> dict[bytes, tuple[bytes, ...]]:
    """The facts in each piece of a text that was cut at its blanks, in order."""
    return {words: _remembered(words) if len(words) <= _LONGEST else _facts_of(words) for words in cut}


def _facts_of(words: bytes) -> tuple[bytes, ...]:
    # A list comprehension is faster here than a generator, which is called for each word.
    long = [word for word in _FACT.findall(words) if _SHORTEST <= len(word) <= _LONGEST]
    return tuple(filter(_TELLING.search, long))


_remembered = forgettable(16_384)(_facts_of)
"""`_facts_of` with a cache, since words recur in many lines and results."""


def _weight(fact: bytes, count: int, said: Mapping[bytes, float]) -> int:
    """The weight of a fact: more if frequent in the text, less if long or in the conversation already."""
    weight = _WEIGHT + _WEIGHT // 2 * (min(count, 16).bit_length() - 1)
    if len(fact) > _LONG:
        weight = weight * 7 // 10
    if not said or not (names := _NAME.findall(fact)):
        return weight
    return weight * _SAID // 100 if said.keys() >= {*names} else weight


def _near(names: Iterable[bytes], said: Mapping[bytes, float], lines: Mapping[bytes, int]) -> int:
    near = sum(
        int(_WEIGHT * said[name]) // lines[name] for name in names if name in said and lines[name] <= _RARE
    )
    return min(2 * _WEIGHT, near)


_FEW = 6
"""Most lines with a name in a text where passages around that name are looked for."""
_ABOVE, _BELOW = 6, 14
"""Lines of a passage around the one with the name."""
_LONGEST_FILE = 4_000_000
"""Characters above which no passages are looked for."""


def passages(lines: Sequence[str], mentioned: Mapping[str, float]) -> list[int]:
    """Return the positions of the lines around those with names that the conversation has used (and how much
    each weighs), the rarest and heaviest first: what an agent looks for in a file it has mostly named."""
    if not mentioned or sum(map(len, lines)) > _LONGEST_FILE:
        return []
    # In the order of the text, so that sums of floats are the same everywhere.
    named = [
        [name for name in dict.fromkeys(NAME.findall(line)) if name in mentioned] if line else []
        for line in lines
    ]
    counts = Counter(name for names in named for name in names)
    weights = [
        sum(mentioned[name] / counts[name] for name in names if counts[name] <= _FEW) for names in named
    ]
    telling = sorted((at for at, weight in enumerate(weights) if weight), key=lambda at: -weights[at])
    return [near for at in telling for near in range(max(0, at - _ABOVE), min(len(lines), at + _BELOW + 1))]
