"""This module finds the facts in a text's units: paths, names, ids and numbers. A unit is a line, a row or a
search hit.

The worth of a unit is the worth of its words, and the weights of its facts that no shown unit has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from penumbra.compress.result import ShownBefore
from penumbra.linear import utf8
from penumbra.short_texts import forgettable

NAME = re.compile(r"[^\W\d]\w{3,}")
"""A name of at least four characters, in the texts of a conversation."""
LONGEST = 200_000
"""The largest text, in bytes, whose lines are compared."""
_FACT = re.compile(rb"[\w$@~\x80-\xff]+(?:[./:\\-]+[\w$@\x80-\xff]+)*|[/~][\w./-]+")
_TELLING = re.compile(rb"[0-9_$./\\:-]|[a-z][A-Z]|[A-Z]{3}")
"""The signs of a path, an identifier or a number."""
_APART = bytes(
    byte if byte > 0x7F or chr(byte).isalnum() or byte in b"_$@~./:\\-\n" else 0x20 for byte in range(256)
)
"""A translation table that makes blanks of all bytes that can't be part of a fact, except line ends."""
_NAME = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]{3,}")
_SHORTEST, _LONG, _LONGEST = 3, 40, 200
"""Lengths in bytes: of the shortest fact, of the longest fact with full weight, of the longest fact."""
# The weights were chosen by hand on half of the recorded conversations, to keep the text that was used later.
# On the other half, they work as well. `scripts/bench quality` shows the effect of a change.
_WORDS = 5
"""The worth of a unit's words is this number times the square root of the unit's bytes."""
_WEIGHT = 100
"""The weight of a new fact that occurs once in the text."""
_USED = 30
"""A fact keeps this percentage of its weight if the conversation has used all of its names."""
_SEEN = 20
"""A fact keeps this percentage of its weight if an earlier result has the fact."""
_RARE = 20
"""A used name adds to the worth of its units if no more than this number of units have the name."""
_Find = Callable[[bytes], tuple[bytes, ...]]


class TextFacts(Struct, frozen=True):
    """A `TextFacts` has the facts of each unit of a text."""

    units: Sequence[Sequence[bytes]]
    weights: Mapping[bytes, int]
    """The worth of each fact."""
    worth: Sequence[int]
    """The worth of each unit without its facts: of its words, and of names that the conversation uses."""

    @classmethod
    def of(
        cls,
        texts: Sequence[bytes],
        mentioned: Mapping[str, float],
        asked: Container[str] = (),
        seen: Container[bytes] = (),
    ) -> TextFacts:
        """Return the facts of units, with their weights. `mentioned` has the weight of each name that the
        conversation has used before. Names in `asked` keep their full weight, because the call searches for
        them. `seen` has the facts that earlier results show."""
        split = [text.translate(_APART).split() for text in texts]
        pieces = set(chain.from_iterable(split))
        found = _by_piece(pieces, _facts_in)
        units = [
            [*dict.fromkeys([fact for piece in unit if piece in found for fact in found[piece]])]
            for unit in split
        ]
        used = {utf8(name): weight for name, weight in mentioned.items()}
        worth = [int(len(text) ** 0.5 * _WORDS) for text in texts]
        if used:
            names = {
                piece: known
                for piece, all_names in _by_piece(pieces, _names_in).items()
                if (known := [name for name in all_names if name in used])
            }
            near = [{name for piece in unit if piece in names for name in names[piece]} for unit in split]
            counts = Counter(chain.from_iterable(near))
            rare = {name for name, count in counts.items() if count <= _RARE}
            for at, unit in enumerate(near):
                of_rare = sum([int(_WEIGHT * used[name]) // counts[name] for name in unit & rare])
                worth[at] += min(2 * _WEIGHT, of_rare)
        common = frozenset(name for name in used if name.decode("utf-8", "replace") not in asked)
        counts = Counter(chain.from_iterable(units))
        weights = {
            fact: _weight(fact, count, common) * (_SEEN if fact in seen else 100) // 100
            for fact, count in counts.items()
        }
        return cls(units, weights, worth)


def facts_of(text: bytes, known: set[bytes] | None = None) -> set[bytes]:
    """Return the facts in a text, except in its `known` words. Afterwards, all its words are known."""
    words = set(text.translate(_APART).split())
    if known is not None:
        words -= known
        known |= words
    return set(chain.from_iterable(_by_piece(words, _facts_in).values()))


def share_new(text: str, seen: ShownBefore, enough: float = 1.0) -> float:
    """Return the share of a text's characters in new lines. A line is new unless the line, or all its facts,
    were shown before. Counting ends when the share reaches `enough`."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    whole = sum(map(len, lines)) or 1
    data = utf8("\n".join(lines)).translate(_APART)
    facts = _by_piece(set(data.split()), _facts_in)
    is_seen = seen.facts.__contains__
    unseen = {piece for piece, found in facts.items() if not all(map(is_seen, found))}
    new = 0
    for line, pieces in zip(lines, map(bytes.split, data.split(b"\n")), strict=False):
        # The line is looked up last, because this takes longer than to look up a fact.
        has_seen_facts_only = unseen.isdisjoint(pieces) and not facts.keys().isdisjoint(pieces)
        if not (has_seen_facts_only or seen.is_line(line)):
            new += len(line)
            if new >= enough * whole:
                break
    return new / whole


def _by_piece(pieces: Iterable[bytes], of: _Find) -> dict[bytes, tuple[bytes, ...]]:
    """Return, for each piece in which `of` finds something, what `of` finds. Findings in short pieces are
    cached."""
    cached = _CACHED[of]
    return {
        piece: found for piece in pieces if (found := cached(piece) if len(piece) <= _LONGEST else of(piece))
    }


def _facts_in(piece: bytes) -> tuple[bytes, ...]:
    found = [piece] if piece.isalnum() else _FACT.findall(piece)
    return tuple([fact for fact in found if _SHORTEST <= len(fact) <= _LONGEST and _TELLING.search(fact)])


def _names_in(piece: bytes) -> tuple[bytes, ...]:
    return tuple(_NAME.findall(piece))


_CACHED: dict[_Find, _Find] = {of: forgettable(16_384)(of) for of in (_facts_in, _names_in)}


def _weight(fact: bytes, count: int, used: frozenset[bytes]) -> int:
    """Return the weight of a fact. The weight grows with the number of occurrences. A long fact, and a fact
    whose names are all used, has less weight."""
    weight = _WEIGHT + _WEIGHT // 2 * (min(count, 16).bit_length() - 1)
    if len(fact) > _LONG:
        weight = weight * 7 // 10
    names = _CACHED[_names_in](fact) if used else ()
    return weight * _USED // 100 if names and used.issuperset(names) else weight


_FEW = 6
"""Only names in at most this number of lines have passages."""
_ABOVE, _BELOW = 6, 14
"""A passage has this number of lines above, and this number below, the line with the name."""
_LONGEST_FILE = 4_000_000
"""The largest text, in characters, in which passages are looked for."""


def passages(lines: Sequence[str], mentioned: Mapping[str, float]) -> list[int]:
    """Return the positions of the lines around names in `mentioned`, which has the weights of used names.
    Lines around the rarest and heaviest names come first."""
    if not mentioned or sum(map(len, lines)) > _LONGEST_FILE:
        return []
    # Names keep their order in the text, so that sums of floats are the same in every run.
    named = [
        [name for name in dict.fromkeys(NAME.findall(line)) if name in mentioned] if line else []
        for line in lines
    ]
    counts = Counter(chain.from_iterable(named))
    weights = [
        sum(mentioned[name] / counts[name] for name in names if counts[name] <= _FEW) for names in named
    ]
    telling = sorted((at for at, weight in enumerate(weights) if weight), key=lambda at: -weights[at])
    return [near for at in telling for near in range(max(0, at - _ABOVE), min(len(lines), at + _BELOW + 1))]
