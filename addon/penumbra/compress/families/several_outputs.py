"""This module splits texts that several commands printed. A text is split at lines that show which command
prints next.

Either a program announces a command (`npm test` writes `> vitest run`), or an `echo` between two commands
prints the line (`a; echo ---; b`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from penumbra import rules
from penumbra.compress.calls.classify import Call, printing_parts
from penumbra.compress.calls.command_match import family_of
from penumbra.compress.calls.shell import Part, parse
from penumbra.compress.families.family import FamilyResult, family
from penumbra.compress.families.patterns import Pattern
from penumbra.compress.text import Text
from penumbra.short_texts import remembered

MAX_ANNOUNCEMENTS = 64
"""The greatest number of commands that a text may announce."""
Shorten = Callable[[Text, str, bool], FamilyResult | None]
"""A function that shortens a text, given the name of the text's family, and whether a filter passed only some
lines. The function returns None if the family changes nothing."""


def by_announcements(lines: Sequence[str], inner: Pattern, shorten: Shorten) -> FamilyResult | None:
    """Shorten the part below each announced command by the command's family. Return None if nothing changes
    or there are too many announcements."""
    starts = [
        (position, announced.group("command"))
        for position, announced in enumerate(inner.matches(lines))
        if announced is not None
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
        shortened = shorten(Text.of_lines(lines[position + 1 : end]), name, selected)
        if shortened is not None:
            pieces += ["\n".join(lines[done : position + 1]), shortened]
            done = end
    return _joined(pieces, lines[done:])


@rules.until_changed
@remembered(512)
def _announced(command: str) -> tuple[str, bool]:
    """Return the family of an announced command, and whether its lines are filtered. The family is empty if
    there is no family or more than one."""
    printing = printing_parts(parse(command))
    names = {family_of(part.argv) for part in printing}
    return names.pop() if len(names) == 1 else "", any(part.selected for part in printing)


def by_seams(lines: Sequence[str], parts: Sequence[Part], shorten: Shorten) -> FamilyResult | None:
    """Shorten the outputs of single commands between echoed words. Return None if nothing changes."""
    pieces: list[FamilyResult | str] = []
    done = 0
    for start, end, producers in _between_seams(lines, parts):
        shortened = _of_one(lines[start:end], producers, shorten)
        if shortened is not None:
            if start > done:
                pieces.append("\n".join(lines[done:start]))
            pieces.append(shortened)
            done = end
    return _joined(pieces, lines[done:])


def without_files(body: str, call: Call) -> tuple[str, str, str, Call] | None:
    """Split off the files at both ends of an output, if echoed words separate them from the other outputs.
    Return (text before, text, text after, the call of the text), or None if nothing can be split off or a
    file is between the other outputs."""
    lines = Text.of(body).lines
    outputs = list(_between_seams(lines, call.parts))
    others = [at for at, (_, _, parts) in enumerate(outputs) if any(not part.read for part in parts)]
    if not others or len(outputs) < 2:
        return None
    middle = outputs[others[0] : others[-1] + 1]
    parts = [part for _, _, producers in middle for part in producers]
    if any(part.read for part in parts):
        return None
    (start, *_), (_, end, _) = middle[0], middle[-1]
    before, after = lines[:start], lines[end:]
    text = "\n".join(lines[start:end])
    return "\n".join([*before, ""]), text, "\n".join(["", *after] if after else []), call.of(parts)


def beside_files(lines: Sequence[str], parts: Sequence[Part], shorten: Shorten) -> FamilyResult | None:
    """Shorten an output of one family that has files before or after it. No echoed words separate the files
    from the output. After a file, the output begins with the first line that only the family writes. Before a
    file, the output ends with the last such line. Return None if nothing changes."""
    printing = printing_parts(parts)
    others = [at for at, part in enumerate(printing) if not part.read]
    inside = printing[others[0] : others[-1] + 1]
    names = {family_of(part.argv) for part in inside}
    known = family(names.pop()) if len(names) == 1 and not any(part.read for part in inside) else None
    if known is None:
        return None
    places = known.known_lines(lines)
    if not places:
        return None
    start = places[0] if others[0] else 0
    end = places[-1] + 1 if others[-1] < len(printing) - 1 else len(lines)
    shortened = shorten(
        Text.of_lines(lines[start:end]), known.rule.name, any(part.selected for part in inside)
    )
    if shortened is None:
        return None
    before = ["\n".join(lines[:start])] if start else []
    return _joined([*before, shortened], lines[end:])


def _between_seams(lines: Sequence[str], parts: Sequence[Part]) -> Iterator[tuple[int, int, list[Part]]]:
    """Yield, for each output between echoed words: (first line, line after the last line, commands)."""
    start = 0
    producers: list[Part] = []
    for part, end in [*_seams(lines, parts), (None, len(lines))]:
        if part is not None and end < 0:
            producers.append(part)
            continue
        yield start, end, producers
        producers, start = [], end + 1


def _of_one(lines: Sequence[str], producers: list[Part], shorten: Shorten) -> FamilyResult | None:
    printing = printing_parts(producers)
    if len(printing) != 1 or printing[0].read or not lines:
        return None
    name = family_of(printing[0].argv)
    return shorten(Text.of_lines(lines), name, printing[0].selected) if name else None


def _seams(lines: Sequence[str], parts: Sequence[Part]) -> list[tuple[Part, int]]:
    """Return each part with the position of the line that it echoes; -1 for a part that echoes none. The list
    is empty if any position is in doubt."""
    wanted = [(part, _echoed(part)) for part in parts]
    literals = [literal for _, literal in wanted if literal is not None]
    places: dict[str, list[int]] = {literal: [] for literal in literals}
    for position, line in enumerate(lines):
        if line.rstrip() in places:
            places[line.rstrip()].append(position)
    if not literals or any(len(echoed) != literals.count(literal) for literal, echoed in places.items()):
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
    """Return the one line that an `echo` prints; None if the command line does not determine it."""
    if not part.echo:
        return None
    words = [word for word in part.argv[1:] if word not in ("-e", "-n", "-E")]
    text = " ".join(words)
    while part.argv[0] == "printf" and text.endswith("\\n"):
        text = text[:-2]
    text = text.removeprefix("\\n").removesuffix("\\n")
    return None if not text.strip() or any(char in text for char in "$`\\\n%") else text.rstrip()


def _joined(pieces: list[FamilyResult | str], rest: Sequence[str]) -> FamilyResult | None:
    shortened = [piece for piece in pieces if isinstance(piece, FamilyResult)]
    if not shortened:
        return None
    texts = [piece.text if isinstance(piece, FamilyResult) else piece for piece in pieces]
    if rest:
        texts.append("\n".join(rest))
    return FamilyResult(
        "\n".join(texts),
        max(piece.loss for piece in shortened),
        "+".join(dict.fromkeys(piece.family for piece in shortened)),
    )
