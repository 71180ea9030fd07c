"""The facts of lines, rows and hits that no earlier text has: paths, names, ids and numbers.

A rare fact is lost with its line; a frequent one is likely to stand in another line that is kept. So the
worth of a unit is that of its facts which no kept unit shows yet.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from penumbra.compress.result import ShownBefore
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
"""Translation table: characters that stand in no fact become blanks, and line ends stay. A text that is split
at its blanks has each fact and each name in one piece."""
_NAME = re.compile(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]{3,}")
_SHORTEST, _LONG, _LONGEST = 3, 40, 200
"""Bytes of the shortest fact, of one that weighs less since it is long, and of the longest."""
# The weights are chosen by hand: on one half of a set of recorded conversations they kept most of what was
# used later for the same bytes, and on the other half they did as well. `scripts/bench quality` shows what a
# change does.
_WORDS = 5
"""Factor of the value of a unit's words, which grows with the square root of its bytes."""
_WEIGHT = 100
"""The weight of a new fact that stands once."""
_USED = 30
"""Per cent of its weight that a fact keeps if the conversation has used all its names already."""
_SEEN = 20
"""Per cent of its weight that a fact keeps if an earlier result shows it."""
_RARE = 20
"""Units with a name of the conversation up to which these units count as near the wanted ones."""


_Find = Callable[[bytes], tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of each unit of a text: its lines, or rows, or pieces of long lines."""

    units: Sequence[Sequence[bytes]]
    weights: Mapping[bytes, int]
    """The worth of each fact."""
    worth: Sequence[int]
    """The worth of each unit apart from its facts: of its words, and of names of the conversation in it."""

    @classmethod
    def of(
        cls,
        texts: Sequence[bytes],
        mentioned: Mapping[str, float],
        asked: Container[str] = (),
        seen: Container[bytes] = (),
    ) -> Facts:
        """Weigh the facts of units. `mentioned`: the names that the conversation has used before, with their
        weights. `asked`: the names that the call itself searches for, whose places are the answer. `seen`:
        the facts that earlier results show."""
        split = [text.translate(_APART).split() for text in texts]
        pieces = set(chain.from_iterable(split))
        found = _by_piece(pieces, _facts_in)
        units = [[*dict.fromkeys([fact for piece in unit for fact in found[piece]])] for unit in split]
        used = {encode(name): weight for name, weight in mentioned.items()}
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


def facts_of(text: bytes) -> set[bytes]:
    return set(chain.from_iterable(_by_piece(set(text.translate(_APART).split()), _facts_in).values()))


def share_new(text: str, seen: ShownBefore, enough: float = 1.0) -> float:
    """Return the share of a text's characters that stand in lines with something new to the conversation;
    counting ends as soon as the share is `enough`."""
    lines = [line for line in map(str.strip, text.split("\n")) if line]
    whole = sum(map(len, lines)) or 1
    data = encode("\n".join(lines)).translate(_APART)
    facts = {piece: found for piece, found in _by_piece(set(data.split()), _facts_in).items() if found}
    is_seen = seen.facts.__contains__
    unseen = {piece for piece, found in facts.items() if not all(map(is_seen, found))}
    new = 0
    for line, pieces in zip(lines, map(bytes.split, data.split(b"\n")), strict=False):
        # Looking a line up takes longer than looking up its facts, and so comes last.
        has_seen_facts_only = unseen.isdisjoint(pieces) and not facts.keys().isdisjoint(pieces)
        if not (has_seen_facts_only or seen.is_line(line)):
            new += len(line)
            if new >= enough * whole:
                break
    return new / whole


def _by_piece(pieces: Iterable[bytes], of: _Find) -> dict[bytes, tuple[bytes, ...]]:
    """Return a function's result for each piece of a text; of short pieces, which recur in many lines and
    results, the result is cached."""
    cached = _CACHED[of]
    return {piece: cached(piece) if len(piece) <= _LONGEST else of(piece) for piece in pieces}


def _facts_in(piece: bytes) -> tuple[bytes, ...]:
    found = [fact for fact in _FACT.findall(piece) if _SHORTEST <= len(fact) <= _LONGEST]
    return tuple(filter(_TELLING.search, found))


def _names_in(piece: bytes) -> tuple[bytes, ...]:
    return tuple(_NAME.findall(piece))


_CACHED: dict[_Find, _Find] = {of: forgettable(16_384)(of) for of in (_facts_in, _names_in)}


def _weight(fact: bytes, count: int, used: frozenset[bytes]) -> int:
    """Return the weight of a fact: more if frequent in the text, less if long or made of used names."""
    weight = _WEIGHT + _WEIGHT // 2 * (min(count, 16).bit_length() - 1)
    if len(fact) > _LONG:
        weight = weight * 7 // 10
    names = _CACHED[_names_in](fact) if used else ()
    return weight * _USED // 100 if names and used.issuperset(names) else weight


_FEW = 6
"""Most lines with a name in a text where passages around that name are looked for."""
_ABOVE, _BELOW = 6, 14
"""Lines of a passage around the one with the name."""
_LONGEST_FILE = 4_000_000
"""Characters above which no passages are looked for."""


def passages(lines: Sequence[str], mentioned: Mapping[str, float]) -> list[int]:
    """Return the positions of the lines around those with names that the conversation has used (`mentioned`:
    the weight of each), the rarest and heaviest first: the parts of a file that an agent looks for are mostly
    those that it has named."""
    if not mentioned or sum(map(len, lines)) > _LONGEST_FILE:
        return []
    # In the order of the text, so that sums of floats are the same everywhere.
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
