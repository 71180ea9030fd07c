"""What a command printed, shortened by what is known about that command.

The call says which family a text belongs to; the family's shape must not contradict. Then the
family's steps run over the lines: first those that lose nothing, then, where allowed, those that
leave lines out and say how many. Knowledge is in rules/commands, its language in the README there.

Lines that a step may leave out are checked against `critical.is_critical` here, one by one, unless
the rule knows better (`safe`: a passing test may be called "reports an error"). So the result needs
no second check of that kind: what is missing from it is either said or was decoration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import re2

from penumbra.compress import time_budget
from penumbra.compress.calls.classify import Call, printing_parts
from penumbra.compress.calls.envelope import split_envelope
from penumbra.compress.calls.match import families, family_of
from penumbra.compress.calls.shell import Part, parse
from penumbra.compress.families.patterns import Pattern
from penumbra.compress.families.steps import Step, step
from penumbra.compress.result import Loss
from penumbra.compress.size import encode, size
from penumbra.short_texts import remembered

MIN_LOSSY_LINES = 12
MIN_LOSSY_BYTES = 2_500
"""Texts with fewer lines and fewer bytes get no lossy steps."""
MIN_LOSSY_GAIN = 300
"""Bytes that lossy steps must save beyond what the others do, or the others' result is taken."""
MAX_ANNOUNCEMENTS = 64
"""Announced commands in one text; a text with more is no output of scripts."""
SCRIPT_LIMIT = 4
"""How deep commands that announce other commands are followed (`npm test` runs `vitest`)."""


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """A text that its family shortened."""

    text: str
    loss: Loss
    family: str


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a text must look like to belong to a family."""

    some: Any
    most: Pattern | None
    share: float
    none: Any

    def confirms(self, body: str) -> bool:
        data = encode(body)
        if self.none is not None and self.none.search(data):
            return False
        if self.some is not None and not self.some.search(data):
            return False
        if self.most is None:
            return True
        lines = [line for line in body.split("\n") if line.strip()]
        return bool(lines) and len(self.most.places(lines)) >= self.share * len(lines)


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    shape: _Shape
    steps: tuple[Step, ...]
    selected: bool
    min_bytes: int
    inner: Pattern | None
    fallback: tuple[str, ...]


def apply(text: str, call: Call, *, lossy: bool) -> FamilyResult | None:
    """The text as the call's family shortens it; None if it has none, or nothing is to be gained.

    `lossy`: steps that leave something out may run. The result is never larger than the text, in
    UTF-8 bytes. A text whose shape contradicts the call is left alone. Never raises.
    """
    head, body, tail = split_envelope(text)
    if call.mixed:
        shortened = _by_seams(body, call.parts, lossy)
    elif call.family:
        shortened = _shortened(body, call.family, call.selected, lossy, 0)
    else:
        return None
    if shortened is None:
        return None
    whole = head + shortened.text + tail
    if size(whole) >= size(text):
        return None
    return FamilyResult(whole, shortened.loss, shortened.family)


@cache
def _all() -> dict[str, _Family]:
    return {rule["name"]: _family(rule) for rule in families()}


def _family(rule: Mapping[str, Any]) -> _Family:
    shape = rule.get("shape", {})
    return _Family(
        name=rule["name"],
        shape=_Shape(
            some=_lines_pattern(shape["any"]) if "any" in shape else None,
            most=Pattern(shape["most"]) if "most" in shape else None,
            share=shape.get("share", 0.8),
            none=_lines_pattern(shape["none"]) if "none" in shape else None,
        ),
        steps=tuple(step(entry) for entry in rule.get("steps", ())),
        selected=rule.get("selected", False),
        min_bytes=rule.get("min_bytes", 0),
        inner=Pattern(rule["inner"]) if "inner" in rule else None,
        fallback=tuple(rule.get("fallback", ())),
    )


def _lines_pattern(sources: Sequence[str]) -> Any:
    """One linear-time pattern that finds any of these lines in a text."""
    ended = (source[:-1] + r"\r?$" if source.endswith("$") else source for source in sources)
    return re2.compile(("(?m)^(?:" + "|".join(f"(?:{source})" for source in ended) + ")").encode())


def _shortened(body: str, name: str, selected: bool, lossy: bool, depth: int) -> FamilyResult | None:
    family = _all()[name]
    if selected and not family.selected:
        return None
    if family.inner is not None and depth < SCRIPT_LIMIT:
        announced = _by_announcements(body, family.inner, lossy, depth)
        if announced is not None:
            return announced
    if family.shape.confirms(body):
        found = _best(body, family, lossy)
        if found is not None or not family.fallback:
            return found
    for other in family.fallback:
        if _all()[other].shape.confirms(body):
            return _best(body, _all()[other], lossy)
    return None


def _best(body: str, family: _Family, lossy: bool) -> FamilyResult | None:
    """What the steps make of it: with loss only where that is worth it."""
    if size(body) < family.min_bytes:
        return None
    lines = body.split("\n")
    is_long = len(lines) >= MIN_LOSSY_LINES or size(body) >= MIN_LOSSY_BYTES
    kept, loss, fewer = _run(lines, family.steps, lossy and is_long)
    shortened = "\n".join(kept)
    if fewer is not kept:
        shortest = "\n".join(fewer)
        if size(shortened) - size(shortest) >= MIN_LOSSY_GAIN:
            shortened, loss = shortest, Loss.LOSSY
    return None if shortened == body else FamilyResult(shortened, loss, family.name)


def _run(lines: list[str], steps: Sequence[Step], lossy: bool) -> tuple[list[str], Loss, list[str]]:
    """(lines without loss, the loss, lines with it): the same list as long as nothing was left out."""
    kept = fewer = lines
    loss = Loss.NONE
    for entry in steps:
        if len(lines) > time_budget.PIECE:
            time_budget.check()
        if entry.loss is Loss.LOSSY:
            after = entry.apply(fewer) if lossy else fewer
            fewer = fewer if after == fewer else after
            continue
        # What both have in common is done once.
        is_same = fewer is kept
        after = entry.apply(kept)
        if after != kept:
            loss = max(loss, entry.loss)
            kept = after
        fewer = kept if is_same else entry.apply(fewer)
    return kept, loss, fewer


def _by_announcements(body: str, inner: Pattern, lossy: bool, depth: int) -> FamilyResult | None:
    """Parts behind lines that name the command which prints next, each by that command's family."""
    lines = body.split("\n")
    starts = [
        (position, found.group("command"))
        for position, found in enumerate(inner.matches(lines))
        if found is not None
    ]
    if len(starts) > MAX_ANNOUNCEMENTS:
        return None
    pieces: list[FamilyResult | str] = []
    done = 0
    for number, (position, command) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else len(lines)
        name, selected = _announced(command)
        if not name:
            continue
        shortened = _shortened("\n".join(lines[position + 1 : end]), name, selected, lossy, depth + 1)
        if shortened is not None:
            pieces += ["\n".join(lines[done : position + 1]), shortened]
            done = end
    return _joined(pieces, lines[done:])


@remembered(512)
def _announced(command: str) -> tuple[str, bool]:
    """The family of an announced command, empty if it has none or several, and whether it is filtered."""
    printing = printing_parts(parse(command))
    names = {family_of(part.argv) for part in printing}
    return names.pop() if len(names) == 1 else "", any(part.selected for part in printing)


def _by_seams(body: str, parts: Sequence[Part], lossy: bool) -> FamilyResult | None:
    """Outputs of several commands between the words that the command line echoes, each by itself."""
    lines = body.split("\n")
    pieces: list[FamilyResult | str] = []
    done = start = 0
    producers: list[Part] = []
    for part, end in [*_seams(lines, parts), (None, len(lines))]:
        if part is not None and end < 0:
            producers.append(part)
            continue
        found = _of_one(lines[start:end], producers, lossy)
        if found is not None:
            if start > done:
                pieces.append("\n".join(lines[done:start]))
            pieces.append(found)
            done = end
        producers, start = [], end + 1
    return _joined(pieces, lines[done:])


def _of_one(lines: list[str], producers: list[Part], lossy: bool) -> FamilyResult | None:
    printing = printing_parts(producers)
    if len(printing) != 1 or printing[0].read or not lines:
        return None
    name = family_of(printing[0].argv)
    return _shortened("\n".join(lines), name, printing[0].selected, lossy, 0) if name else None


def _seams(lines: Sequence[str], parts: Sequence[Part]) -> list[tuple[Part, int]]:
    """Every part with the line at which it is echoed (-1 for commands); empty if that is unclear."""
    wanted = [(part, _echoed(part)) for part in parts]
    literals = [literal for _, literal in wanted if literal is not None]
    places: dict[str, list[int]] = {literal: [] for literal in literals}
    for position, line in enumerate(lines):
        if line.rstrip() in places:
            places[line.rstrip()].append(position)
    if not literals or any(len(found) != literals.count(literal) for literal, found in places.items()):
        return []
    used = dict.fromkeys(places, 0)
    seams: list[tuple[Part, int]] = []
    for part, literal in wanted:
        if literal is None:
            if part.echo:
                return []
            seams.append((part, -1))
            continue
        seams.append((part, places[literal][used[literal]]))
        used[literal] += 1
    order = [position for _, position in seams if position >= 0]
    return seams if order == sorted(order) else []


def _echoed(part: Part) -> str | None:
    """The one line that an `echo` prints; None if that can't be told from the command line."""
    if not part.echo:
        return None
    words = [word for word in part.argv[1:] if word not in ("-e", "-n", "-E")]
    text = " ".join(words)
    while part.argv[0] == "printf" and text.endswith("\\n"):
        text = text[:-2]
    text = text.removeprefix("\\n").removesuffix("\\n")
    return None if not text.strip() or any(char in text for char in "$`\\\n%") else text.rstrip()


def _joined(pieces: list[FamilyResult | str], rest: list[str]) -> FamilyResult | None:
    found = [piece for piece in pieces if isinstance(piece, FamilyResult)]
    if not found:
        return None
    texts = [piece.text if isinstance(piece, FamilyResult) else piece for piece in pieces]
    if rest:
        texts.append("\n".join(rest))
    return FamilyResult(
        "\n".join(texts),
        max(piece.loss for piece in found),
        "+".join(dict.fromkeys(piece.family for piece in found)),
    )
